"""Every place that shows words, reads kept ones, or keeps what was made of them, has its check: a new one fails.

The list in docs/security.md ("Where words leave") is the same in short.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from bots.bluesky.client import BlueskyClient
from bots.common.judged_client import WORDLESS
from bots.discord.adapter import load_client
from bots.forges.client import ForgeClient
from bots.http.client import CallbackClient
from bots.mastodon.client import MastodonClient
from bots.slack.client import SlackClient
from bots.telegram.client import TelegramClient
from core.storage.answer_cache import AnswerCache
from core.storage.chat_history import ChatHistory
from core.storage.drafts import DraftRepository
from core.storage.feedback import FeedbackRepository
from core.storage.labelling import LabellingRepository
from core.storage.lessons import TaughtAnswerRepository
from core.storage.message_lookup import MessageLookup
from core.storage.messages import Journal
from core.storage.overrides import Audit
from core.storage.reports import ReportRepository

ROOT = Path(__file__).parents[2]

# The sink's client asks before each call whether its words may be shown (`bots.common.judged_client`).
EACH_TRY = "each try"
# They were judged a moment ago, and are shown now or not at all: whoever waits is a person before a menu or a page.
AT_ONCE = "at once"
# Nothing that was stored or gathered is in it.
NO_WORDS = "no words"

CLIENTS: Mapping[str, type] = {
    "telegram": TelegramClient,
    "discord": load_client(),
    "slack": SlackClient,
    "mastodon": MastodonClient,
    "bluesky": BlueskyClient,
    "forges": ForgeClient,
    "http": CallbackClient,
}

# Who brings words to a platform, and when they were judged.
WRITERS: Mapping[str, Mapping[str, str]] = {
    "telegram": {
        "adapter.py:TelegramAdapter._set_up": NO_WORDS,
        "feedback.py:TelegramRatingSink._show": AT_ONCE,
        "settings_menu.py:show_menu": AT_ONCE,
        "settings_menu.py:TelegramMenuSink._show": EACH_TRY,
        "settings_menu.py:TelegramMenuSink._mark_value": EACH_TRY,
        "sink.py:TelegramSink._try_draft": EACH_TRY,
        "sink.py:TelegramSink._edit": EACH_TRY,
        "sink.py:TelegramSink._edit_rich": EACH_TRY,
        "sink.py:TelegramSink._send": EACH_TRY,
    },
    "discord": {
        "adapter.py:DiscordAdapter._set_up": NO_WORDS,
        "feedback.py:DiscordRatingSink._show": AT_ONCE,
        "interactions.py:InteractionHandler._autocomplete": AT_ONCE,
        "settings_menu.py:show_menu": AT_ONCE,
        "settings_menu.py:DiscordMenuSink._show": EACH_TRY,
        "sink.py:ChannelTarget.edit": EACH_TRY,
        "sink.py:ChannelTarget.send_followup": EACH_TRY,
        "sink.py:ChannelTarget._send": EACH_TRY,
        "sink.py:InteractionTarget.post": EACH_TRY,
        "sink.py:InteractionTarget.edit": EACH_TRY,
        "sink.py:InteractionTarget.send_followup": EACH_TRY,
    },
    "slack": {
        "adapter.py:SlackAdapter.show_form": AT_ONCE,
        "adapter.py:SlackAdapter.show_prompts": AT_ONCE,
        "agent_view.py:StopSink._show": AT_ONCE,
        # The asker's own words, in a conversation of theirs.
        "agent_view.py:AgentSession._try": AT_ONCE,
        "app_home.py:HomeSink._show": EACH_TRY,
        "commands.py:CommandSink._respond": EACH_TRY,
        "commands.py:CommandSink._send": EACH_TRY,
        "commands.py:AskerSink._send": EACH_TRY,
        "feedback.py:SlackRatingSink._show": EACH_TRY,
        "settings_modal.py:FieldSink._show": EACH_TRY,
        "sink.py:SlackSink._extend_stream": EACH_TRY,
        "sink.py:SlackSink._open_stream": EACH_TRY,
        "sink.py:SlackSink._edit.update": EACH_TRY,
        "sink.py:SlackSink._post_message.post": EACH_TRY,
        "status.py:StatusIndicator.clear": NO_WORDS,
        "status.py:StatusIndicator._try_show": NO_WORDS,
    },
    "mastodon": {
        "sink.py:MastodonSink._show_first_part": EACH_TRY,
        "sink.py:MastodonSink._post_in_language": EACH_TRY,
    },
    "bluesky": {"sink.py:BlueskySink._post": EACH_TRY},
    "forges": {
        "sink.py:ForgeSink._show_first_part": EACH_TRY,
        "sink.py:ForgeSink._send_part": EACH_TRY,
    },
    "http": {
        "sink.py:HttpSink._run_preview": NO_WORDS,
        "sink.py:HttpSink._send_partial": EACH_TRY,
        "sink.py:HttpSink._send_state": EACH_TRY,
        "sink.py:HttpSink._post": EACH_TRY,
        "sink.py:HttpRatingSink._show": EACH_TRY,
    },
}

# What is checked where kept words are read.
LABELS = "what the answer could be made from is seen there now (`may_be_shown`)"
LESSON = "what a lesson may tell of is seen there now (`may_read_lesson`, `accepts_lesson`); lists: as `CHAT`"
CHAT = "words that people wrote in the same chat, in no closed thread and at no private time (`is_readable_from`)"
OWN = "the message that is being answered"
NOTICE = "judged again before each try to show it (`Drafts.find_block`, `Handler._require_...`)"
CACHED = "what was made from the same configuration, for who sees the same, from what is still so"
OPERATOR = "whoever runs the bot sees everything"
OWNER = "an owner in private, or a team that reads the question with it"
TOLD_NOBODY = "nothing of it is shown: it is counted, compared or fitted to"

# Who reads words that are kept, by the method that returns them.
READERS: Mapping[str, Mapping[str, str]] = {
    "ChatHistory.get_recent_messages": {
        "core/messaging/drafts.py:Drafts._note_replies": TOLD_NOBODY,
        "core/messaging/gate/follow_up.py:follow_up_bot": TOLD_NOBODY,
        "core/messaging/gate/follow_up.py:is_spoken_follow_up": TOLD_NOBODY,
        "core/messaging/gate/gate.py:Gate._get_recent_messages": CHAT,
    },
    "ChatHistory.get_earlier_answers": {"core/messaging/gate/gate.py:Gate._score": LABELS},
    "ChatHistory.get_duplicates": {"core/messaging/gate/follow_up.py:other_bot_reason": TOLD_NOBODY},
    "DraftRepository.get_waiting": {"core/messaging/drafts.py:Drafts.sweep": NOTICE},
    "DraftRepository.find_of": {"core/messaging/drafts.py:Drafts._keep": NOTICE},
    "DraftRepository.get_lost": {
        "core/messaging/drafts.py:Drafts.require_notice": NOTICE,
        "core/messaging/drafts.py:Drafts.sweep": NOTICE,
    },
    "FeedbackRepository.find_answer": {
        "bots/cli/chat.py:SessionFeedback.find_answer": OPERATOR,
        "bots/cli/chat.py:SessionFeedback.rate": OPERATOR,
        "core/messaging/feedback/handler.py:FeedbackHandler._apply_press": TOLD_NOBODY,
        "core/messaging/feedback/handler.py:FeedbackHandler.is_about_answer": TOLD_NOBODY,
        "core/messaging/feedback/handler.py:FeedbackHandler.with_retry_context": LABELS,
    },
    "FeedbackRepository.get_labelled_questions": {
        "bots/cli/records.py:feedback": OPERATOR,
        "bots/evaluation/gate.py:_read_gate_cases": OPERATOR,
        "core/messaging/commands/chat_commands.py:calibrate_for_chat": TOLD_NOBODY,
    },
    "LabellingRepository.get_liked_answers": {"bots/evaluation/proposals.py:propose_from_journal": OPERATOR},
    "LabellingRepository.get_unanswered_questions": {"bots/evaluation/proposals.py:propose_from_journal": OPERATOR},
    "LabellingRepository.get_messages": {"bots/evaluation/proposals.py:propose_gate_lines": OPERATOR},
    "LabellingRepository.get_routed_questions": {"bots/evaluation/export.py:export": OPERATOR},
    "TaughtAnswerRepository.list_answers": {
        "bots/cli/records.py:_read_taught_answers": OPERATOR,
        "bots/cli/records.py:release_answers": OPERATOR,
        "bots/cli/records.py:review_answer": OPERATOR,
        "bots/operator_page/teaching.py:review_answer": OPERATOR,
        "bots/operator_page/teaching.py:show_taught": OPERATOR,
        "core/messaging/commands/answer_commands.py:_list_readable": LESSON,
        "knowledge/sources/taught.py:TaughtAnswers._load_approved": LESSON,
    },
    "MessageLookup.get_message": {
        "core/messaging/feedback/handoff_handler.py:HandoffHandler._find_open_question": CHAT,
    },
    "MessageLookup.get_readable_message": {
        "core/messaging/feedback/handoff_handler.py:HandoffHandler._find_answered_question": CHAT,
        "core/messaging/feedback/handoff_handler.py:HandoffHandler._learn": CHAT,
    },
    "MessageLookup.find_replied_to": {
        "core/messaging/drafts.py:Drafts.to_command": CHAT,
        "core/messaging/feedback/handoff_handler.py:HandoffHandler._find_open_question": CHAT,
    },
    "MessageLookup.find_question": {
        "core/messaging/feedback/handoff_handler.py:HandoffHandler._hand_off": CHAT,
    },
    "MessageLookup.get_outcome": {"core/messaging/commands/answer_commands.py:_explain": LABELS},
    "MessageLookup.get_last_outcome": {"core/messaging/commands/answer_commands.py:_explain": LABELS},
    "Journal.get_history": {
        "bots/daemon/adapters.py:_make_slack_adapter.has_answered_in": TOLD_NOBODY,
        "core/messaging/quotations.py:with_history": LABELS,
    },
    "Journal.get_recent_questions": {"bots/cli/language_check.py:_read_samples": OPERATOR},
    "Journal.get_answer_by_reply": {"core/messaging/quotations.py:_get_answer": LABELS},
    "Journal.get_pending": {
        "bots/cli/group.py:GroupJournal.complete_deleted": OPERATOR,
        "bots/cli/group.py:run_group_chat": OPERATOR,
        "core/messaging/journaling.py:recover_pending": OWN,
    },
    "Journal.get_delivery": {"core/messaging/journaling.py:JournaledDelivery.open": LABELS},
    "Journal.get_attachments": {"core/messaging/voices.py:find_speech": OWN},
    "Journal.begin_answer": {
        "core/messaging/auto_comment/commenter.py:Commenter._write_comment": OWN,
        "core/messaging/handler.py:Handler._reply": OWN,
    },
    "Audit.get_newest": {
        "bots/cli/records.py:audit": OPERATOR,
        "core/messaging/commands/status_commands.py:show_audit": "no names of sources that are not seen there",
    },
    "DraftRepository.find_waiting": {
        "core/messaging/drafts.py:Drafts.decide": OWNER,
        "core/messaging/drafts.py:Drafts.require_notice": NOTICE,
    },
    "AnswerCache.find_replies": {"core/answering/cache.py:_look_up": CACHED},
    "ReportRepository.list_questions": {
        "bots/operator_page/views.py:show_questions": OPERATOR,
        "core/messaging/gaps.py:_list_asking": "what people wrote in the same chat; of other chats `may_show` decides",
    },
    "ReportRepository.get_question": {
        "bots/operator_page/teaching.py:_require_question": OPERATOR,
        "bots/operator_page/views.py:show_question": OPERATOR,
    },
    "ReportRepository.get_chat_titles": {
        "bots/operator_page/server.py:_make_guard.guard": OPERATOR,
        "core/messaging/commands/status_commands.py:show_audit": OWNER,
    },
    "ReportRepository.get_chat_title": {"core/messaging/drafts.py:Drafts._announce": OWNER},
    "ReportRepository.list_ratings": {"bots/operator_page/views.py:show_feedback": OPERATOR},
}
# Who writes words into the journal that were made of kept ones, which takes a while, and what is checked with it: that
# nobody was forgotten meanwhile.
FROM_OUTSIDE = "it came just now"
WITH_QUESTION = "the question that it repeats is still there, in the same transaction"
WITH_WORDS = "those who wrote its words are still there, in the same transaction"
WITH_RECORD = "what was recorded before it was shown, where erasure finds it, is still there, in the same transaction"
WITH_DRAFT = "it is not posted unless its draft waits (`Drafts.require_notice`)"
OWN_ROW = "the message was not dropped with its author"
KEEPERS: Mapping[str, Mapping[str, str]] = {
    "record_message": {
        "bots/cli/chat.py:SessionFeedback.rate": OPERATOR,
        "core/messaging/drafts.py:Drafts._tell": WITH_DRAFT,
        "core/messaging/feedback/handler.py:FeedbackHandler._retry": WITH_QUESTION,
        "core/messaging/feedback/handoff_handler.py:HandoffHandler._send_handoff": WITH_QUESTION,
        "core/messaging/inbox.py:Inbox._accept": FROM_OUTSIDE,
    },
    "submit": {
        "bots/operator_page/teaching.py:teach": WITH_WORDS,
        "core/messaging/feedback/handoff_handler.py:HandoffHandler._learn": WITH_WORDS,
        "core/messaging/feedback/handoff_handler.py:HandoffHandler.capture_expert_answer": WITH_WORDS,
    },
    "edit": {"core/messaging/commands/answer_commands.py:_apply_decision": WITH_WORDS},
    "approve": {"core/messaging/drafts.py:Drafts.decide": WITH_RECORD},
    "mark_answered": {"bots/cli/chat.py:SessionFeedback.rate": OPERATOR},
    "mark_delivered": {
        "core/messaging/auto_comment/commenter.py:Commenter._comment": WITH_RECORD,
        "core/messaging/handler.py:Handler._finish_answer": WITH_RECORD,
    },
    "mark_parts": {"core/messaging/journaling.py:JournaledDelivery.mark_part": WITH_RECORD},
    "mark_delivery": {"core/messaging/journaling.py:JournaledDelivery.mark_final": OWN_ROW},
    "mark_drafted": {"core/messaging/drafts.py:Drafts._keep": OWN_ROW},
    "mark_transcribed": {"core/messaging/voices.py:with_speech.record": OWN_ROW},
    "record_answered": {"bots/api/page/ratings.py:VisitorRatings.rate": OPERATOR},
}

# Which words go to models and services, by the method that sends them: the objects that have it, and who calls it.
SENDERS = {
    "stream": "model",
    "complete": "model",
    "transcribe": "transcriber",
    "judge": "moderator",
    "embed": "embedder",
    "fetch": "_client",
    "send_request": "session",
}
RESTRICTED = "made from settings, passages and turns that its asker sees; asked again when it leaves (`require_leave`)"
STORED = "no words of an answer: passages for the one endpoint that gets all of them, or where they are read"
EVALUATED = "whoever runs the bot has it measured"
PROMPTS: Mapping[str, Mapping[str, str]] = {
    "stream": {
        "bots/cli/model_trial.py:ModelTrial._write": EVALUATED,
        "bots/evaluation/comparison/run.py:ErrorRecordingModel.stream": EVALUATED,
        "core/answering/agents/context_manager.py:complete_question": RESTRICTED,
        "core/answering/agents/history_selection.py:HistorySelector._read_reply": RESTRICTED,
        "core/answering/agents/summarizer.py:stream_answer": RESTRICTED,
        "core/answering/head_start.py:HeadStart._run": RESTRICTED,
    },
    "complete": {
        "bots/cli/model_trial.py:ModelTrial._choose": EVALUATED,
        "bots/cli/model_trial.py:ModelTrial.run": EVALUATED,
        "bots/evaluation/comparison/run.py:ErrorRecordingModel.__init__": EVALUATED,
        "bots/evaluation/judge.py:Judge.ask": EVALUATED,
        "bots/evaluation/proposals.py:_write_question": EVALUATED,
        "core/answering/agents/compression.py:_summarize_passages": RESTRICTED,
        "core/answering/agents/look_back.py:find_support": RESTRICTED,
        "core/answering/agents/vision.py:_describe": RESTRICTED,
        # Rewrites, routers, rankings, and whether to speak.
        "core/llm/structured_output.py:_request_decision": RESTRICTED,
    },
    "transcribe": {"core/answering/hearing.py:_fetch_and_transcribe": RESTRICTED},
    "judge": {
        "bots/cli/probes.py:_probe_moderation": EVALUATED,
        "core/answering/withholding.py:OutgoingJudge._find_moderated_reason": RESTRICTED,
    },
    "embed": {
        "bots/daemon/bootstrap.py:_open_store": STORED,
        "bots/evaluation/retrieval.py:_search_candidates": EVALUATED,
        "bots/evaluation/tuning_routing.py:compare_agents": EVALUATED,
        "knowledge/embedding/centring.py:CentredEmbedder._find_centres": STORED,
        "knowledge/embedding/centring.py:CentredEmbedder.embed": RESTRICTED,
        "knowledge/ingestion/filling.py:embed_rows": STORED,
        "knowledge/retrieval/agent_index.py:embed_mix_in": STORED,
        "knowledge/retrieval/grouping.py:TextGrouper._embed": RESTRICTED,
        "knowledge/retrieval/library.py:KnowledgeLibrary.route": RESTRICTED,
        "knowledge/retrieval/library.py:KnowledgeLibrary.search": RESTRICTED,
        "knowledge/retrieval/library.py:KnowledgeLibrary.similarity": RESTRICTED,
        "knowledge/retrieval/query_embedder.py:QueryEmbedder._embed_query": RESTRICTED,
        "knowledge/retrieval/score_explanation.py:explain_routing": EVALUATED,
        "knowledge/retrieval/unfilled.py:UnfilledPassages._embed": STORED,
    },
    "fetch": {
        "knowledge/live/retriever.py:LiveRetriever._send": RESTRICTED,
        "knowledge/reranking/api.py:ApiReranker._ask": RESTRICTED,
        "knowledge/sources/forge/api.py:ForgeApi._send": STORED,
        "knowledge/sources/website/rendering.py:_RequestGuard._fetch": STORED,
    },
    "send_request": {"knowledge/live/mcp/connection.py:Connection.call": RESTRICTED},
}
JUDGED = "judged right before (`RunningAnswer.require_rights`)"
AFTERWARDS = (
    "compared with what the client sees afterwards (`_run_tool`), and right before its bytes (`_Exchange._judge`)"
)
HANDLERS: Mapping[str, str] = {
    "bots/api/mcp/server.py:": NO_WORDS,
    "bots/api/mcp/server.py:_ask": AFTERWARDS,
    "bots/api/mcp/server.py:_run_tool": AFTERWARDS,
    "bots/api/mcp/server.py:_search": AFTERWARDS,
    "bots/api/mcp/server.py:make_server.call_tool": AFTERWARDS,
    "bots/api/mcp/server.py:make_server.list_resources": AFTERWARDS,
    "bots/api/mcp/server.py:make_server.read_resource": AFTERWARDS,
    "bots/api/page/server.py:PageServer._answer": JUDGED,
    "bots/api/page/server.py:PageServer._rate": NO_WORDS,
    "bots/api/server.py:ApiServer._ask": JUDGED,
    "bots/api/server.py:ApiServer._complete": JUDGED,
    "bots/api/server.py:ApiServer._list_models": NO_WORDS,
    "bots/api/server.py:ApiServer._show_model": NO_WORDS,
    "bots/api/server.py:_send_end": JUDGED,
    "bots/api/server.py:_to_response": NO_WORDS,
    "bots/api/streaming.py:send": JUDGED,
    "bots/api/streaming.py:send_words": JUDGED,
    "bots/api/streaming.py:stream_text": JUDGED,
}

REPOSITORIES = (
    AnswerCache,
    ChatHistory,
    DraftRepository,
    FeedbackRepository,
    LabellingRepository,
    TaughtAnswerRepository,
    MessageLookup,
    Journal,
    Audit,
    ReportRepository,
)
# What begins otherwise writes, counts or says yes or no.
READING = ("get_", "find_", "list_", "begin_answer")
# They return ids, numbers, times or labels.
WORDLESS_READERS = {
    "TaughtAnswerRepository.list_document_names",
    "ChatHistory.get_bot_answers",
    "ChatHistory.get_posting_bot",
    "ChatHistory.get_replied_author",
    "DraftRepository.get_notices",
    "FeedbackRepository.get_daily_ratings",
    "FeedbackRepository.get_rating",
    "MessageLookup.find_labels",
    "MessageLookup.get_language",
    "ReportRepository.find_told",
    "Journal.find_unfinished",
    "Journal.find_forgotten",
    "Journal.get_told_labels",
    "Journal.get_cursor",
}


@pytest.mark.parametrize("platform", CLIENTS)
def test_words_reach_a_platform_only_where_they_are_judged(platform: str) -> None:
    names = [name for name, _ in inspect.getmembers(CLIENTS[platform], inspect.isfunction)]
    writing = {name for name in names if not name.startswith(("_", *WORDLESS))}
    assert writing
    used = {
        function.removeprefix(f"bots/{platform}/")
        for function, receiver, name in list_calls(f"bots/{platform}")
        if name in writing and receiver.endswith(("client", "_get_client()"))
    }
    assert used == {*WRITERS[platform]}, "say when its words are judged, here and in docs/security.md"


@pytest.mark.parametrize("platform", CLIENTS)
def test_what_is_judged_before_each_try_is_judged_by_the_client_of_the_sink(platform: str) -> None:
    judging = {
        file.name for file in (ROOT / "bots" / platform).glob("*.py") if "judge_calls(" in file.read_text("utf-8")
    }
    files = {place.partition(":")[0] for place, check in WRITERS[platform].items() if check == EACH_TRY}
    # Where a reply is posted on Discord is chosen by the adapter, which makes its client.
    assert judging == ({"adapter.py"} if platform == "discord" else files)


def test_words_reach_a_model_or_a_service_only_where_it_is_known_who_sees_them() -> None:
    used = {
        (function, name)
        for package in ("bots", "core", "knowledge")
        for function, receiver, name in list_calls(package)
        if name in SENDERS and receiver.endswith(SENDERS[name])
    }
    assert used == {(function, name) for name in PROMPTS for function in PROMPTS[name]}, "say who sees what it sends"


def test_each_request_of_an_answer_asks_whether_its_words_may_leave() -> None:
    gates = {function for package in ("core", "knowledge") for function in list_names(package, "require_leave")}
    assert gates == {
        "core/llm/client.py:OpenAIClient._send",
        "knowledge/live/mcp/connection.py:Connection.call",
        "knowledge/live/retriever.py:LiveRetriever._send",
        "knowledge/live/retriever.py:LiveRetriever.search",
        "knowledge/reranking/api.py:ApiReranker._ask",
        "knowledge/retrieval/query_embedder.py:QueryEmbedder.embed",
    }
    # Every other way of theirs to the network has no words of an answer.
    posts = {function for function, receiver, name in list_calls("core/llm") if (receiver, name) == ("client", "post")}
    assert posts == {"core/llm/client.py:OpenAIClient._send"}


def test_programs_are_told_only_what_is_judged() -> None:
    calls = {
        function
        for function, receiver, name in list_calls("bots/api")
        if (receiver, name) in (("web", "json_response"), ("response", "write"), ("types", "TextContent"))
        or name in ("CallToolResult", "ListResourcesResult", "ReadResourceResult")
    }
    assert calls | {*list_names("bots/api", "send"), *list_names("bots/api", "send_words")} == {*HANDLERS}


def test_who_reads_is_said_by_every_reader() -> None:
    """Whoever forgets it would read all."""
    parameters = [
        (repository.__name__, name, parameter)
        for repository in REPOSITORIES
        for name, method in inspect.getmembers(repository, inspect.iscoroutinefunction)
        if name.startswith(READING)
        for parameter in inspect.signature(method).parameters.values()
        if parameter.name in ("visible_labels", "reader", "chat", "is_private")
    ]
    assert parameters
    assert [each for each in parameters if each[2].default is not inspect.Parameter.empty] == []


def test_kept_words_are_read_only_where_it_is_checked_who_may_see_them() -> None:
    methods = {
        f"{repository.__name__}.{name}": name
        for repository in REPOSITORIES
        for name, _ in inspect.getmembers(repository, inspect.iscoroutinefunction)
        if name.startswith(READING)
    }
    assert methods.keys() - WORDLESS_READERS == READERS.keys(), "say who reads what it returns, and what is checked"
    known = {(function, methods[method]) for method, functions in READERS.items() for function in functions}
    names = {methods[method] for method in READERS}
    used = {
        (function, name)
        for package in ("bots", "core", "knowledge")
        for function, receiver, name in list_calls(package)
        if name in names and "client" not in receiver and not (receiver == "self" and "/discord/" in function)
    }
    assert used == known, "say what is checked there, here and in docs/security.md"


def test_words_are_kept_only_where_it_is_checked_who_was_forgotten_meanwhile() -> None:
    used = {
        (function, name)
        for package in ("bots", "core")
        for function, receiver, name in list_calls(package)
        if name in KEEPERS and receiver.endswith(("journal", "taught_answers", "repository"))
    }
    known = {(function, name) for name, functions in KEEPERS.items() for function in functions}
    assert used == known, "say what is checked there, here and in docs/security.md"


def test_who_brings_words_of_others_says_whose_they_are() -> None:
    """Otherwise nobody could forget them: the bot may have seen them nowhere else."""
    silent = set[str]()
    for file in sorted((ROOT / "bots").rglob("*.py")):
        for function, node in _walk(ast.parse(file.read_text("utf-8"))):
            names = {keyword.arg for keyword in node.keywords} if isinstance(node, ast.Call) else set()
            if "quoted" in names and "quoted_authors" not in names:
                silent.add(f"{file.relative_to(ROOT).as_posix()}:{function}")
    assert silent == {
        # In a simulated group.
        "bots/console/convert.py:to_message",
        # Forges say of no quotation whose it is.
        "bots/forges/convert.py:to_message",
    }


def list_calls(folder: str) -> Iterator[tuple[str, str, str]]:
    """Yield the attributes that code uses: in which function, as file:function, of what, and the name."""
    for path, uses in _read_folder(folder):
        for function, receiver, name in uses.attributes:
            yield f"{path}:{function}", receiver, name


def list_names(folder: str, name: str) -> Iterator[str]:
    """Yield the functions that use a name, as file:function."""
    for path, uses in _read_folder(folder):
        for function, used_name in uses.names:
            if used_name == name:
                yield f"{path}:{function}"


@dataclass(frozen=True, slots=True)
class Uses:
    """What the functions of a file use."""

    attributes: list[tuple[str, str, str]]
    names: list[tuple[str, str]]


def _read_folder(folder: str) -> Iterator[tuple[str, Uses]]:
    for file in sorted((ROOT / folder).rglob("*.py")):
        yield file.relative_to(ROOT).as_posix(), _read_file(file)


@cache
def _read_file(file: Path) -> Uses:
    """Read a file once for all tests: that takes longer than they do."""
    uses = Uses([], [])
    for function, node in _walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            uses.attributes.append((function, ast.unparse(node.value), node.attr))
        elif isinstance(node, ast.Name):
            uses.names.append((function, node.id))
    return uses


def _walk(node: ast.AST, function: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield all that is in a node, each with the function that it is in."""
    for child in ast.iter_child_nodes(node):
        is_named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        inner = f"{function}.{child.name}".removeprefix(".") if is_named else function
        yield function, child
        yield from _walk(child, inner)
