"""The English texts, by their occasion: what every other language has to say, too.

A new language is one file, `core/catalogue/CODE.py`: derive a class from `English` as `zh.py` does, and translate.
The names in braces are placeholders, the same in every language. A test of the catalogue names what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.catalogue.en_platforms import PlatformTexts
from core.catalogue.en_silence import SKIP_PHRASES
from core.types.messages import DROP, POST, RETRY
from core.types.skips import SkipReason


class English(PlatformTexts):
    """The texts. Markdown, where a chat shows it."""

    language = "en"

    # Answers and what came of them
    extractive = "*Quoted from the sources; no language model is configured.*"
    fallback = "*The language model could not answer. This is quoted from the sources.*"
    answer_interrupted = "*The answer was cut short: the language model stopped.*"
    answer_too_late = "*The answer was cut short: I ran out of time.*"
    answer_too_long = "*The answer was cut short: it reached the length limit of the language model.*"
    answer_filtered = "*The answer was cut short: the language model's filter stopped it.*"
    answer_stopped = "*Stopped on request.*"
    search_timed_out = "The sources did not answer in time. Please ask again in a moment."
    not_read_yet = "I have not read my sources yet ({sources}), so I know nothing about this. Please ask again later."
    no_evidence = (
        "I found nothing about this in the sources I know ({sources}). If it belongs there, please ask in other words: "
        "what you want to do, the command or the setting, the text of the error."
    )
    no_evidence_foreign = (
        "I found nothing about this in the sources I know ({sources}). They are in {language}, and I have no language "
        "model that could translate your question: please ask in {language}."
    )
    foreign_sources = (
        "*The sources are in {language}, and I have no language model that could translate your question: this may be "
        "beside the point, so please ask in {language}.*"
    )
    # What was streamed cannot be taken back.
    checked_answer = "*A citation above did not hold up. This is the answer with its sources checked:*"
    uncited = "*This answer names no source, so please check it.*"
    unknown_names = "*Not in the code that I know, so please check: {names}*"
    nearest_pages = "I found no direct answer in the sources I know. These pages come closest:\n\n{pages}"
    see_also = "See also: {pages}"
    no_sources = "none are configured"
    llm_failed = "The language model could not answer. Please try again in a moment."
    llm_failed_pages = (
        "The language model could not answer. Please try again in a moment. These pages come closest:\n\n{pages}"
    )
    answer_failed = "Sorry, I could not answer this. {reason}"
    service_unavailable = "Something I depend on is not available right now. Please ask again in a few minutes."
    rights_changed = "While I was answering, somebody changed what I may say here. Please ask again."
    answer_withheld = "I am not allowed to answer this."
    internal_error = "Something went wrong on my side. The people who run me can find the reason in the log."
    posted_again = "Slack did not say whether this arrived, so here it is again."
    answer_cut = "*The answer is too long to show in full: this is its beginning.*"
    images_unsupported = "*I cannot see pictures, so I answered only your text.*"
    image_failed_text_only = "*I could not look at the picture, so I answered only your text.*"
    image_failed = "I could not look at the picture. Please write what it shows, or try again in a moment."
    images_left_out = "*I looked at the first {count} of {total} pictures.*"
    images_exhausted = "I have looked at enough of your pictures for now. I can look at more in {wait}."
    attachment_unsupported = "*I cannot read the attachment, so I answered only your text.*"
    file_unread = "*I did not read {name}: it {problem}.*"
    file_problems: Mapping[str, str] = {
        "too_large": "is larger than 4 MB",
        "locked": "is protected by a password",
        "no_text": "holds no text, such as a scan",
        "binary": "is no text and no PDF",
        "no_model": "takes a language model to read it",
        "failed": "could not be fetched or read",
    }
    file_read_partly = "*Of {name} I read {count} of {total} lines: errors, what you ask about, both ends.*"
    files_left_out = "*I read the first {count} of {total} files.*"
    picture = "I cannot see pictures. Please write what it shows, for example the text of the error."
    voice = "I cannot listen to voice messages. Please write your question."
    heard = "I heard: “{words}”"
    speech_unclear = "I did not understand your voice message: it {problem}. Please write your question."
    speech_problems: Mapping[str, str] = {
        "too_long": "is longer than three minutes",
        "too_large": "is larger than 10 MB",
        "not_audio": "is in no format that I know",
        "not_fetched": "could not be fetched",
        "failed": "could not be written down now",
        "late": "took too long to write down",
        "empty": "has no words that I can make out",
    }
    video = "I cannot watch videos. Please write your question."
    file = "I cannot read attached files. Please write your question, with the lines that matter."
    other = "I can only read text. Please write your question."
    quota_exceeded = (
        "Today's limit{whose} is used up ({allowed}). Please ask again after midnight ({midnight}), in {wait}."
    )
    quota_reserved = (
        "The rest of today's limit{whose} ({allowed}) is reserved for answers in progress. "
        "Please ask again in a moment."
    )
    everybody = ""
    this_chat = " for this chat"
    you = " for you"
    tokens = "{amount} tokens"
    hours = "{hours} h {minutes} min"
    minutes = "{minutes} min"

    # Feedback, another try, calling people, learning
    rated_up = "Thank you, noted: 👍 {up} · 👎 {down}. The same again takes it back."
    rated_down = "Noted, thank you: 👍 {up} · 👎 {down}. The same again takes it back."
    rating_removed = "Taken back: 👍 {up} · 👎 {down}."
    ask_reason = "What was wrong?"
    reason_noted = "Noted, thank you."
    unknown_answer = "I can't tell which of my answers you mean. Nothing was changed."
    retrying = "I am trying once more, and taking more time."
    already_retried = "I have already answered this question a second time; I do that only once."
    only_asker = "Only the person who asked can have it answered again."
    question_erased = "I no longer have this question. Please ask it again."
    answer_unfinished = "This answer is still being written."
    stop_button = "⏹ Stop"
    stopping = "I am stopping this answer."
    only_asker_stops = "Only the person who asked can stop this answer."
    nothing_to_stop = "There is nothing to stop: this answer is finished."
    retry_disabled = "Trying again is switched off here."
    calling_people = "I am calling somebody who can help."
    handoff = "{author} could use your help here."
    nobody_configured = "I have nobody to call here."
    ask_by_command = "In this chat, answers are for the asker alone. Please ask with the command `/ask`."
    private_chat = "Nobody else reads this chat. Please ask in a group."
    already_handed_off = "Somebody has already been called for this question."
    handoff_cooldown = "Somebody was called here a moment ago. Please give them some minutes."
    question_unclear = "I do not know which question you mean. Reply to it, or write it after the command."
    answer_submitted = "Thank you. Saved as answer {number}; it needs a review."
    answer_known = "I have this answer already. `/faq` lists those that wait for a review."
    learn_own_words = "Those are my own words. Reply with `/learn` to what a person wrote."
    first_answer_stands = "I tried again and found nothing better: my first answer stands."
    not_trusted = "Only trusted people may teach me."
    learn_usage = (
        "Reply to the answer with `/learn`, or give its link. If the answer replies to no question, add the question."
    )
    learn_question_missing = (
        "I cannot tell which question that answers. Write the question, too: "
        "`/learn QUESTION` in reply to the answer, or `/learn LINK QUESTION`."
    )
    buttons: Mapping[str, str] = {
        "wrong": "Wrong",
        "outdated": "Outdated",
        "other": "Not what I asked",
        "unclear": "Unclear",
        RETRY: "🔁 Try harder",
    }
    # Drafts, and what a team decides about them
    draft = (
        "**Draft {number}** for {author} in {chat} (message {message}):\n\n{question}\n\n---\n\n{answer}\n\n---\n\n"
        "{post} posts it, {drop} drops it. To post other words, reply with them."
    )
    draft_note = "Draft {number}: {note}."
    draft_lost = "it was not posted: {reason}"
    draft_question_edited = "the question is now {question}"
    draft_unknown = "No draft {number} is waiting for a decision here."
    draft_blocked = "Draft {number} cannot be posted: {reason}."
    mode_for_asker = (
        "Answers in this chat are for the asker alone (`chats.<chat>.answers`), so nobody is answered unasked."
    )
    mode_draft_impossible = (
        "Drafts are not possible here. They go to a team's chat, which the configuration names in `gate.drafts_to` or, "
        "for one chat, in `chats.<chat>.drafts_to`. Give `/mode draft` in any other group."
    )
    draft_platform_away = "that platform is not connected now"
    draft_decisions: Mapping[str, str] = {
        POST: "Draft {number} is being posted.",
        "edit": "Draft {number} is being posted in your words.",
        DROP: "Draft {number} is dropped: nobody is answered.",
    }
    draft_buttons: Mapping[str, str] = {POST: "✅ Post", DROP: "🗑 Drop"}
    complaints: Mapping[str, str] = {
        "": "That answer did not help me.",
        "wrong": "That answer is wrong.",
        "outdated": "That answer is outdated.",
        "other": "That is not what I asked.",
        "unclear": "I do not understand that answer.",
    }

    # Offers and notices of the gate
    answer_limit = "That makes {count} answers to you in ten minutes, so I pause here. Ask again in a few minutes."
    offer = "I may know something about this{topic}. Reply to this message or mention me, and I will answer."
    offer_topic = " ({topic})"
    clarifying_question = (
        "Is this about {topic}? Reply with a few details (the version, the error message, "
        "what you want to do), and I will answer."
    )
    unnamed_topic = "something I know about"
    answered_before = (
        "This was answered here {elapsed} ago:\n\n> {excerpt}\n\nReply to this message or mention me to hear more."
    )

    # Amounts, times, and placeholders for nothing
    moment = "{weekday}, {date} {time}"
    weekdays = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
    days_short = "{amount} d"
    hours_short = "{amount} h"
    minutes_short = "{amount} min"
    seconds_short = "{amount} s"
    ago = "{duration} ago"
    just_now = "just now"
    ahead = "in {duration}"
    until = "until {moment} UTC"
    until_resumed = "until resumed"
    no_text = "(nothing)"
    no_cost = "none recorded"
    nothing = "nothing"
    nobody = "nobody"
    none = "none"

    # What cannot be done, and why
    question_empty = "The question is empty. Write a few words, for example: How do I install it?"
    question_too_long = (
        "The question has {length} characters; {allowed} are allowed. "
        "Shorten it, and keep the error message and what you tried."
    )
    only_owners = "Only the owners of this bot may do that."
    only_admins = "Only this bot's admins in this chat can do that."
    only_reviewers = "Only the owners of this bot, and people they have named for this chat, may decide that."
    unknown_command = "I do not know `/{name}`. I understand: {commands}."
    near_command = "I do not know `{name}`. Did you mean {command}? If it is a question, write {ask}."
    argument_missing = "`{name}` is missing. Write it as {usage}."
    too_many_arguments = "Too many words after the command. Write it as {usage}."
    choice_expected = "`{name}` must be one of {choices}. Write it as {usage}."
    number_expected = "`{name}` must be a number{bounds}{choices}. Write it as {usage}."
    whole_number_expected = "`{name}` must be a whole number{bounds}{choices}. Write it as {usage}."
    bounds = " from {min} to {max}"
    or_choice = " or `{choice}`"
    unknown_source = "No source has that name. The sources are: {sources}."
    no_sources_configured = "none are configured"
    source_missing = "Which source? Write it as `/sources {action} NAME`."
    factor_missing = "How much? Write it as `/sources scale NAME X`; 1 is the normal weight."
    limit_missing = "How much? Write it as `/quota {name} NUMBER`, or `none`, or `default`."
    limit_invalid = "A limit must be above 0, and a whole number for tokens. `none` removes it."
    refresh_unavailable = "I cannot refresh sources here. Use `kimas run`, or `kimas ingest` by hand."
    refresh_too_soon = "A refresh was requested {elapsed} ago. Try again in {wait}."
    pause_unavailable = "I do not refresh sources here. `kimas sources pause NAME` and `resume NAME` do the same."
    reload_unavailable = "I cannot reload my configuration here; restart me."
    search_unavailable = (
        "I cannot search my knowledge here. On the command line, `kimas feedback --calibrate` fits the threshold."
    )
    admins_in_private = "Do that in the group: administrators belong to one chat."
    user_id_expected = (
        "Give me the user's id (a number or a code; on Mastodon the name with its server, on GitHub and GitLab the "
        "login), because somebody else can take over a name."
    )
    form_failed = (
        "I could not open the form: {error}. Nothing was changed. Give the command again, or use "
        "`/mode`, `/threshold` and `/sources` instead."
    )

    # Courtesies, what the bot is, /help, /forget
    greeting = "Hello! I am {name}. Ask me a question. I answer from these sources:\n\n{sources}"
    you_are_welcome = "You are welcome!"
    goodbye = "Goodbye!"
    self_description = "{intro}\n\n{sources}\n\n{how_to_ask} {help} lists my commands."
    help_intro = "I am {name}. I answer questions from these sources and say where each statement comes from:"
    help_no_sources = "- no sources are configured yet"
    help_how_to_ask = (
        "Ask me in a private chat; in a group mention me, reply to one of my messages, or write {ask} with a question."
    )
    help_commands = "I also understand:"
    nothing_to_forget = "Nothing to forget: I keep nothing of yours in this chat."
    forgotten = (
        "Forgotten: {count} of yours in this chat, with my answers to them. "
        "What the platform itself shows stays until you delete it there."
    )
    message_count_one = "1 message"
    message_count = "{count} messages"
    # /pause, /resume, /mode, /threshold, /admins
    paused = "I am silent in this chat {until}. Commands still work; `/resume` ends it."
    not_paused = "I was not paused in this chat."
    resumed = "I am speaking in this chat again."
    mode_shown = "The mode of this chat is `{mode}`; in the configuration it is `{configured}`."
    mode_changed = "The mode of this chat is now `{mode}`; it was `{before}`."
    threshold_shown = "The threshold of this chat is {threshold}; in the configuration it is {configured}."
    threshold_changed = "The threshold of this chat is now {threshold}; it was {before}."
    already_admin = "{user} is already an admin of this bot in this chat."
    admin_added = "{user} is now an admin of this bot in this chat."
    no_admin = "{user} is not an admin of this bot in this chat."
    admin_removed = "{user} is no longer an admin of this bot in this chat."
    admin_removed_everywhere = "{user} is no longer an admin of this bot in any chat."
    no_admin_anywhere = "{user} is not an admin of this bot in any chat."
    admins_listed = "- Named for this chat: {names}\n- {platform_admins}\n- Owners in the configuration: {owners}"
    platform_admins_allowed = "The chat's own administrators count as admins"
    platform_admins_denied = "The chat's own administrators do not count as admins (administration.platform_admins)"

    # /threshold auto
    threshold_fitted = "The threshold of this chat is now {fitted}; it was {current}."
    threshold_proposed = "The threshold of this chat would be {fitted}; it is {current}."
    threshold_best = "The threshold of this chat stays {current}: it suits the rated questions best."
    threshold_no_better = (
        "The threshold of this chat stays {current}. {fitted} suits the rated questions best, but "
        "does no better on questions that it was not fitted to."
    )
    rated_questions = "- Rated questions: {answer} to answer, {ignore} to leave alone{by_words}"
    decided_by_words = ", {count} of them decided by their wording alone"
    scores_current = "- With {threshold}: {scores}"
    scores_fitted = "- Fitted, on questions not fitted to: {scores}"
    scores = "precision {precision}, recall {recall}"
    interval = "{value} ({low} to {high})"

    # /why
    nothing_answered = "I do not remember answering anything here."
    message_unknown = "I know nothing about that message: it never reached me, or it was deleted."
    message_received = "That message is waiting for its answer."
    message_answering = "That message is being answered."
    message_sending = "The answer to that message is being posted."
    message_drafted = "The answer to that message waits for the team to decide about it."
    silent_because = "Why I was silent: {reason}."
    skip_reasons: Mapping[str, str] = {reason.name: reason.text for reason in SkipReason}
    skip_phrases: Mapping[str, str] = {phrase: phrase for phrase in SKIP_PHRASES}
    no_reason = "no reason is recorded"
    message_failed = "The answer to that message failed: {reason}."
    reason_in_log = "the people who run me can find the reason in the log"
    answer_forgotten = "That was answered, but the answer has been deleted."
    no_search = "I answered that without a search."
    trace_strategy = "- How I searched: {strategy}"
    trace_agents = "- Asked: {agents}"
    trace_saved = "; not asked: {count}"
    trace_no_agent = "no agent"
    trace_query = "- With the query: {query}"
    trace_cited = "- Cited: {sources}"
    trace_time = "- Time: {times}"
    trace_no_time = "not recorded"
    trace_total = "{total}: "
    trace_searched = "- Searched: {queries}; the evidence was {quality}{reason}"
    trace_reason = ", for: {reason}"
    trace_cut = "- Cut short, because time or a service was lacking: {stages}"
    cut_late = " (too late)"
    cut_failed = " (it failed)"
    cut_unreadable = " (its reply made no sense)"
    cut_stopped = " (stopped on request)"
    trace_usage = "- Tokens: {read} read, {written} written{cost}"
    trace_cost = ", cost {cost}"
    trace_dropped = "- Citations removed, because their passage did not support them: {count}"
    trace_moved = "- Citations that name a better passage than the model did: {count}"
    trace_opinion = "- Nobody addressed me; the model judged that I can help: {reason}"
    trace_cached = "- I reused an earlier answer to the same question"

    # /faq
    no_pending_answers = "No answers are waiting for a review."
    pending_answers = "These answers are waiting for a review:"
    pending_answer = "- **{number}** {question}, by {teacher}: {answer}"
    somebody = "somebody"
    more_answers = "And {count} more. "
    show_whole_answer = "`/faq list NUMBER` shows one in full."
    no_such_answer = "There is no answer {number} here. `/faq list` shows those that wait for a review."
    new_answer_missing = "Write the new answer after the number."
    answer_edited = "Edited. It is waiting for a review."
    answer_approved = "Approved."
    answer_rejected = "Rejected."
    no_learned_source = (
        " It is not used yet: no source of the kind `learned` takes answers from where it was taught "
        "(docs/feedback.md)."
    )
    pending = "pending"
    approved = "approved"
    rejected = "rejected"
    # /sources, /refresh, /pause SOURCE, /quota, /reload
    all_sources = "all sources"
    refreshing = "I am refreshing {source} now. `/sources` shows the progress."
    source_paused = "From now on, {source} is refreshed only on request: `/refresh {name}`. `/resume {name}` ends that."
    source_paused_already = (
        "{source} is already refreshed only on request: `/refresh {name}`. `/resume {name}` ends that."
    )
    source_not_paused = "{source} was not paused."
    source_resumed = "{source} is refreshed on schedule again, and catches up now."
    source_weighs = "The weight of {source} is now {factor}."
    source_off = "{source} is no longer used for answers."
    source_on = "{source} is used for answers from now on."
    sources_none = "No sources are configured yet."
    sources_listed = "I answer from these sources:"
    source_unknown_state = "queried live, or kept elsewhere"
    source_amount = "{passages} in {documents}"
    source_unfilled = "{count} of them found by words only so far"
    source_unfilled_because = "{count} of them found by words only, because the embedding model fails: {error}"
    passage_count_one = "1 passage"
    passage_count = "{count} passages"
    document_count_one = "1 document"
    document_count = "{count} documents"
    source_refreshed = "refreshed {age}"
    source_never_refreshed = "not refreshed yet"
    source_refreshing = "being refreshed now"
    source_reading = "being refreshed now: {done} of {total} documents read"
    time_left = "{duration} left"
    source_failed = "the last refresh failed"
    source_failed_because = "the last refresh failed: {error}"
    source_on_request = "refreshed only on request"
    source_switched_off = ", **switched off**"
    source_weight = ", weight {factor}"
    limits_listed = "Daily limits, and today's usage:"
    no_limit = "no limit"
    set_by_command = " (set by a command)"
    default_for_paid_model = " (the default for a paid model)"
    used_overall = ", {amount} used"
    used_in_chat = ", {amount} used in this chat"
    used_by_you = ", {amount} used by you"
    configuration_invalid = "Nothing was changed, because the configuration has errors:"
    configuration_unchanged = "The configuration has not changed. Settings made by commands still override it."
    configuration_reloaded = "The configuration has been reloaded."
    reloaded_elsewhere = (
        "The other daemons read their files again within seconds. Their logs say what they could not use."
    )
    changed_now = "- changed now: {names}"
    restart_needed = "- restart needed: {names}"
    sources_added = "- reading now, in the background: {names}; `/sources` shows the progress"
    sources_missing = "- folder or file not found, so the refresh fails: {names}"
    restart_replaced = "- restart needed, because another source had the name before: {names}"
    restart_secrets = "- restart needed for a new secret, to keep it out of the log: {names}"
    kept_for_owners = "- for owners alone until a restart: {names}"
    restart_unnamed = "- restart needed for more, which I name only in private: give `/reload` there"
    kept_closed = "- closed to some people until a restart: {names}"

    # /status, /stats, /audit
    in_all_chats = " in all chats"
    in_this_chat = " in this chat"
    status_version = "- Version {version}, running for {duration}"
    status_platforms = "- Platforms: {platforms}"
    status_platform = "{platform} (last message: {age})"
    status_not_heard = "none yet"
    status_today = "- Today{chat}: {answered} answered, {silent} silent, {failed} failed, {pending} pending"
    status_cost = "- Tokens today: {tokens}, cost: {cost}"
    source_hits = "- Answers since {day} that cite a source, of those that had it: {sources}"
    status_moderation = "- Moderation: answers on {platforms} are judged before they are shown"
    status_moderation_failed = (
        "- Moderation: the last answer could not be judged: {error}; "
        "such answers are withheld on {withheld}, and shown on {passed}"
    )
    status_chat = "- This chat: mode `{mode}`"
    status_paused = ", paused {until}"
    status_sources = "- Sources: {count} configured"
    status_sources_well = "- Sources: {count}, all working, {passages}"
    status_unfilled = "- Meaning: {count} passages are found by words only so far"
    status_unfilled_because = (
        "- Meaning: {count} passages are found by words only, because the embedding model fails: {error}"
    )
    status_sources_failed = "- Sources: the last refresh failed for {failed} of {count}: {errors}"
    digest_messages = "- Messages: {messages}, of which {answered} answered, {silent} ignored, {failed} failed"
    digest_ratings = "- Ratings: 👍 {up}, 👎 {down}"
    digest_cost = "- Tokens: {tokens}, cost: {cost}"
    digest_unanswered = "**Questions without a good answer: {count}**, by meaning. `/learn` and `/faq` teach me."
    digest_all_answered = "Every question got a good answer."
    gap_earlier = "before: {count}"
    gap_page = "; nearest page: {page}"
    gap_answered = "✅ {question}: answered since, {count}×"
    gap_quiet = "💤 {question}: not asked since {day}"
    statistics_none = "No messages{chat} since {day}."
    statistics_since = "Since {day}{chat}:"
    statistics_header = "| day | messages | answered | silent | failed | tokens | cost |"
    audit_empty = "The audit log is empty."
    audit_chat = " in {chat}"
    audit_outcomes: Mapping[str, str] = {"changed": "changed", "refused": "refused", "failed": "failed"}

    # What the menus and /help say about the commands and their arguments
    command_summaries: Mapping[str, str] = {
        "ask": "Ask a question, such as: How do I install it?",
        "help": "What this bot knows and how to ask",
        "sources": "My sources, their size and age; owners can switch a source on or off, or change its weight",
        "why": "Explain my last answer here, or the message that you reply to",
        "forget": "Forget what you said to me and what I answered, in this chat",
        "escalate": "Call somebody who can help: use it in reply to the question, or write the question after it",
        "start": "Who I am, and how to ask",
        "status": "My state: platforms, sources, today's answers and their cost",
        "refresh": "Refresh a source now, or all",
        "pause": "Be silent in this chat for a while; with a source, refresh that only on request",
        "resume": "Speak again in this chat; with a source, refresh that on schedule again",
        "mode": "When I speak in this chat: off, when mentioned, unprompted (auto), or once a team agreed (draft)",
        "threshold": "For the mode auto: how sure I must be to speak in this chat",
        "stats": "Questions, answers, tokens and cost by day",
        "digest": "The last week in short: answers, ratings, cost, and the questions without a good answer",
        "quota": "Show the daily limits; owners can change them",
        "admins": "Who may give these commands in this chat; owners can add and remove people",
        "learn": "Save the message that you reply to or link to, as an answer to be reviewed, if you are trusted",
        "faq": "Answers that people gave: list those that wait for a review, approve, reject or edit one",
        "post": "Post a draft where it was asked",
        "edit": "Post your words in place of a draft",
        "drop": "Drop a draft: nobody is answered",
        "settings": "A menu of the settings that you can change in this chat",
        "reload": "Reload the configuration",
        "audit": "Who changed what, and who was refused",
    }
    argument_summaries: Mapping[str, str] = {
        "ask question": "Your question",
        "sources action": "What to do; leave it out to list them",
        "sources source": "The source",
        "sources factor": "For scale: the weight of its passages, 0.1 to 10",
        "why message": "The id or the link of another message in this chat",
        "escalate question": "The question; without it, the one that you reply to, or your last one",
        "refresh source": "The source; without it, all",
        "pause minutes": "For how long; without it, until resumed",
        "pause source": "The source to refresh only on request",
        "resume source": "The source; without it, this chat",
        "mode mode": "default goes back to the configuration",
        "threshold value": "0 to 1; default goes back to the configuration, auto fits it to the thumbs here",
        "stats days": "How many days, including today; 7 by default",
        "digest days": "How many days, including today; 7 by default",
        "quota limit": "The limit to change; leave it out to show all",
        "quota value": "A number, none, or default for the configured one",
        "admins action": "What to do; leave it out to list them",
        "admins user": "The user's id (a number or a code; on Mastodon name@server, on GitHub and GitLab the login)",
        "learn question": ("The answer's link, if you do not reply to it; then its question, if it replies to none"),
        "faq action": "What to do; leave it out to list them",
        "faq number": "The number of the answer",
        "faq text": "For edit: the new answer",
        "post number": "The number of the draft",
        "edit number": "The number of the draft",
        "edit text": "The words to post",
        "drop number": "The number of the draft",
        "audit entries": "How many; 10 by default",
    }


MESSAGES = English()
