"""Every place that shows words, reads kept ones, or keeps what was made of them, has its check: a new one fails.

The list in docs/security.md ("Where words leave") is the same in short.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bots.bluesky.client import BlueskyClient
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

# Before each try to show them, `DeliveryRetry.run` or `LivePreview.run_updates` asks whether the words may be shown.
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
# How the calls begin that bring no words to a platform.
WORDLESS = ("get_", "list_", "find_", "is_", "read_", "download", "stream", "listen", "close", "delete", "remove_")
WORDLESS += ("send_typing", "add_reaction", "defer", "try_empty", "forget_", "at", "parse_", "connect", "create")
WORDLESS += ("check", "web", "session", "wait_")

# Who brings words to a platform, and when they were judged.
WRITERS: Mapping[str, Mapping[str, str]] = {
    "telegram": {
        "adapter.py:TelegramAdapter._set_up": NO_WORDS,
        "feedback.py:TelegramRatingSink._show": AT_ONCE,
        "settings_menu.py:show_menu": AT_ONCE,
        "settings_menu.py:TelegramMenuSink._show": AT_ONCE,
        "settings_menu.py:TelegramMenuSink._mark_value": AT_ONCE,
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
        "settings_menu.py:DiscordMenuSink._show": AT_ONCE,
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
        "app_home.py:HomeSink._show": AT_ONCE,
        "commands.py:CommandSink._respond": EACH_TRY,
        "commands.py:CommandSink._send": EACH_TRY,
        "commands.py:AskerSink._send": EACH_TRY,
        "feedback.py:SlackRatingSink._show": EACH_TRY,
        "settings_modal.py:FieldSink._show": AT_ONCE,
        "sink.py:SlackSink._extend_stream": EACH_TRY,
        "sink.py:SlackSink._open_stream": EACH_TRY,
        "sink.py:SlackSink._edit.update": EACH_TRY,
        "sink.py:SlackSink._stop_stream": NO_WORDS,
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
        "sink.py:ForgeSink.finish": NO_WORDS,
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
LESSON = "what a lesson may tell of is seen there now (`may_read_lesson`, `accepts_lesson`)"
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
    "MessageLookup.get_outcome": {"core/messaging/commands/answer_commands.py:explain_command": LABELS},
    "MessageLookup.get_last_outcome": {"core/messaging/commands/answer_commands.py:explain_command": LABELS},
    "Journal.get_history": {
        "bots/daemon/adapters.py:_make_slack_adapter.has_answered_in": TOLD_NOBODY,
        "core/messaging/quotations.py:with_history": LABELS,
    },
    "Journal.get_recent_questions": {"bots/cli/language_check.py:_read_samples": OPERATOR},
    "Journal.get_answer_by_reply": {"core/messaging/quotations.py:_get_answer_turns": LABELS},
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
    "ChatHistory.get_bot_answers",
    "ChatHistory.get_numbers",
    "ChatHistory.get_posting_bot",
    "ChatHistory.get_replied_author",
    "DraftRepository.get_notices",
    "FeedbackRepository.get_daily_ratings",
    "FeedbackRepository.get_rating",
    "MessageLookup.find_labels",
    "MessageLookup.get_language",
    "ReportRepository.find_remembered",
    "Journal.find_unfinished",
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
        if name in KEEPERS and receiver.endswith(("journal", "taught_answers"))
    }
    known = {(function, name) for name, functions in KEEPERS.items() for function in functions}
    assert used == known, "say what is checked there, here and in docs/security.md"


def list_calls(folder: str) -> Iterator[tuple[str, str, str]]:
    """Yield the attributes that code uses: in which function, as file:function, of what, and the name."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        for function, node in _walk(ast.parse(file.read_text("utf-8"))):
            yield f"{path}:{function}", ast.unparse(node.value), node.attr


def _walk(node: ast.AST, function: str = "") -> Iterator[tuple[str, ast.Attribute]]:
    for child in ast.iter_child_nodes(node):
        is_named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        inner = f"{function}.{child.name}".removeprefix(".") if is_named else function
        if isinstance(child, ast.Attribute):
            yield function, child
        yield from _walk(child, inner)
