"""The English texts of what chat platforms do: refusals, welcomes, menus and their entries."""

from __future__ import annotations

from collections.abc import Mapping


class PlatformTexts:
    """The texts. Markdown, where a chat shows it."""

    # On joining a group, and menus
    welcome_privacy = (
        "I do not see all messages here, only those that mention me or reply to me. "
        "The person who set me up can change that: {setting}."
    )
    prompts_title = "You could ask, for example"
    what_can_you_do = "What can you do?"
    ask_about_this = "Ask about this"
    learn_from_this = "Learn from this"

    passage_refused = "(This part of the answer cannot be shown here: the chat did not accept it.)"

    # /settings
    form_title = "Settings of this chat"
    form_save = "Save"
    form_cancel = "Cancel"
    form_back = "« Back"
    form_choose = "Choose a setting"
    form_choose_value = "Choose a value"
    form_value_missing = "A value is missing."
    form_field_gone = "There is no such setting any more."
    form_too_many_fields = "There are more sources than fit here. Use the command sources on|off|scale for the others."
    form_save_timeout = (
        "This takes longer than Slack waits. You will see the result in the channel; "
        "/kimas settings shows the current values."
    )
    form_mode = "When I speak in this chat"
    form_threshold = "How sure I must be to speak unprompted"
    form_threshold_hint = "0 to 1, or {default} for the configured value ({configured})"
    form_as_configured = "As configured ({configured})"
    mode_names: Mapping[str, str] = {
        "off": "Never",
        "mention": "When I am mentioned",
        "auto": "Also unprompted",
        "draft": "After a team has looked at it",
    }
    form_source_used = "{source}: used for answers"
    form_source_weight = "{source}: weight of its passages"
    form_weight_hint = "0.1 to 10; 1 is the normal weight"
    form_on = "On"
    form_off = "Off"
    form_source_note = "{source}: used for answers, weight {factor}; only owners change that"
    form_source_off_note = "{source}: not used for answers, weight {factor}; only owners change that"
    form_persona_note = "persona in this chat: {persona}"
    form_language_note = "answers in this chat are written in: {language}"
    form_chat_sources_note = "searched in this chat: {sources}"
    form_asker_note = "answers in this chat are for the asker alone"
    form_models_note = "language models of this chat: {set} ({model})"
    form_no_model = "no model: answers are quotes"
    form_line = "- {label}: {value}. {command}"
    form_value = "VALUE"
    form_hint = " ({hint})"

    # Alerts to whoever runs the bot
    alert = "⚠️ {problem}"
    alert_over = "✅ Resolved: {problem}"
    gap_report = (
        "**What people asked from {since} to {until} and I could not answer well**: {count} questions, "
        "{earlier} in the week before. The operator's page has them all, and a patch to fill in."
    )
    alert_source = "The source `{name}` was last refreshed {since} and is failing: {error}"
    alert_source_never = "The source `{name}` could not be read yet: {error}"
    alert_endpoint = "The model `{name}` has not answered since {since}. Its fallbacks are used, if any."
    alert_platform = "`{name}` has been unreachable since {since}."
    alert_clock_ahead = (
        "The clock of this machine jumped ahead by {duration} at {moment}, or the machine slept. If it is wrong now, "
        "set it: signed events are refused, and questions count as too old."
    )
    alert_clock_back = (
        "The clock of this machine was set back by {duration} at {moment}. If it is wrong now, set it: signed events "
        "are refused, and what happens at a time of day comes late."
    )
    alert_budget = (
        "{share} of the daily limit `{name}` is used up: {used} of {limit}. "
        "At the limit I stop answering until midnight."
    )
    alert_silent = (
        "I have given no unprompted answer for {hours} hours, although people wrote {messages} messages; "
        "before, it was {usual} such answers a day. Check the threshold and the sources, and ask the command `why`."
    )
