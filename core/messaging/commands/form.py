"""The settings of a chat as a form: shown where the platform has forms, written as text elsewhere.

Every field is a command with a gap for its value. What is filled in is given as that command, so a form permits nothing
that its commands would not, and leaves the same entries in the audit.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.catalogue import ENGLISH, Messages
from core.catalogue.command_spelling import Spell, spell_with_slash
from core.errors import PlatformError, UsageError
from core.formatting import shorten
from core.messaging.commands.context import CommandContext, CommandRequest
from core.messaging.policy.command_table import CONFIGURED_VALUE
from core.observability.logs import get_logger
from core.types.forms import VALUE_PLACEHOLDER, FormField, SettingsForm

_log = get_logger(__name__)

# Free values that a menu offers. All others are given by the command.
THRESHOLDS = (0.2, 0.35, 0.5, 0.65, 0.8)
WEIGHTS = (0.25, 0.5, 1, 2, 4)
# What a note shows of a persona.
MAX_PERSONA_CHARS = 200


async def show_settings(context: CommandContext, request: CommandRequest) -> str:
    """Show what the author may change in the chat: as a form, with nothing more to say, or in words."""
    form = build_form(context, request)
    if request.adapter is None:
        return to_markdown(form, request.texts, request.spell)
    try:
        is_shown = await request.adapter.show_form(request.message, form)
    except PlatformError as error:
        _log.warning("form.not_shown", error=str(error))
        raise UsageError(request.texts.form_failed.format(error=error)) from error
    return "" if is_shown else to_markdown(form, request.texts, request.spell)


def build_form(context: CommandContext, request: CommandRequest) -> SettingsForm:
    """Return what the author of a command may change, and see, in its chat."""
    settings = context.settings
    overrides = context.overrides
    chat = request.chat
    texts = request.texts
    configured_mode = settings.get_mode(chat, private=request.message.private)
    threshold = overrides.threshold(chat)
    configured_threshold = f"{settings.get_threshold(chat):g}"
    mode_fields = (
        FormField(
            f"mode {VALUE_PLACEHOLDER}",
            texts.form_mode,
            overrides.mode(chat) or CONFIGURED_VALUE,
            (
                (CONFIGURED_VALUE, texts.form_as_configured.format(configured=configured_mode)),
                *texts.mode_names.items(),
            ),
        ),
        FormField(
            f"threshold {VALUE_PLACEHOLDER}",
            texts.form_threshold,
            CONFIGURED_VALUE if threshold is None else f"{threshold:g}",
            hint=texts.form_threshold_hint.format(default=CONFIGURED_VALUE, configured=configured_threshold),
            suggestions=(
                (CONFIGURED_VALUE, texts.form_as_configured.format(configured=configured_threshold)),
                *_suggest(THRESHOLDS),
            ),
        ),
    )
    notes = _describe_chat(context, request)
    if request.role == "owner":
        return SettingsForm((*mode_fields, *_source_fields(context, request)), tuple(notes), texts.language)
    notes += [_format_source(context, name, texts) for name in context.visible_settings(request).sources]
    return SettingsForm(mode_fields, tuple(notes), texts.language)


def to_markdown(form: SettingsForm, texts: Messages = ENGLISH, spell: Spell = spell_with_slash) -> str:
    """Return a form as Markdown, with the commands that fill it in."""
    lines = [
        texts.form_line.format(
            label=field.label,
            value=dict(field.choices).get(field.value, field.value),
            command=_format_command(field, texts, spell),
        )
        for field in form.fields
    ]
    return "\n".join([*lines, *(f"- {note}" for note in form.notes)])


def _describe_chat(context: CommandContext, request: CommandRequest) -> list[str]:
    """Return what only the configuration changes in the chat."""
    chat_settings = context.settings.get_chat(request.chat)
    visible_sources = context.visible_settings(request).sources
    texts = request.texts
    notes = []
    if chat_settings.persona:
        notes.append(texts.form_persona_note.format(persona=shorten(chat_settings.persona, MAX_PERSONA_CHARS)))
    if chat_settings.language:
        notes.append(texts.form_language_note.format(language=chat_settings.language))
    if chat_settings.sources:
        names = ", ".join(name for name in chat_settings.sources if name in visible_sources)
        notes.append(texts.form_chat_sources_note.format(sources=names or "-"))
    if chat_settings.answers == "asker":
        notes.append(texts.form_asker_note)
    if chat_settings.models is not None:
        models = context.settings.models.get_set(chat_settings.models)
        writer = models.main or models.light
        model = writer.model if writer else texts.form_no_model
        notes.append(texts.form_models_note.format(set=chat_settings.models, model=model))
    return notes


def _source_fields(context: CommandContext, request: CommandRequest) -> Sequence[FormField]:
    overrides = context.overrides
    texts = request.texts
    return [
        field
        for name in context.visible_settings(request).sources
        for field in (
            FormField(
                f"sources {VALUE_PLACEHOLDER} {name}",
                texts.form_source_used.format(source=name),
                "off" if overrides.is_off(name) else "on",
                (("on", texts.form_on), ("off", texts.form_off)),
            ),
            FormField(
                f"sources scale {name} {VALUE_PLACEHOLDER}",
                texts.form_source_weight.format(source=name),
                f"{overrides.scale(name):g}",
                hint=texts.form_weight_hint,
                suggestions=_suggest(WEIGHTS),
            ),
        )
    ]


def _suggest(values: Sequence[float]) -> tuple[tuple[str, str], ...]:
    return tuple((f"{value:g}", f"{value:g}") for value in values)


def _format_source(context: CommandContext, name: str, texts: Messages) -> str:
    template = texts.form_source_off_note if context.overrides.is_off(name) else texts.form_source_note
    return template.format(source=name, factor=f"{context.overrides.scale(name):g}")


def _format_command(field: FormField, texts: Messages, spell: Spell) -> str:
    values = "|".join(value for value, _ in field.choices) or texts.form_value
    hint = texts.form_hint.format(hint=field.hint) if field.hint else ""
    return f"{spell(field.command.replace(VALUE_PLACEHOLDER, values))}{hint}"
