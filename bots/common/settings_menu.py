"""The settings of a chat as a menu of buttons or lists: what stands behind an entry, and its choice as a message.

An entry opens a field, or is the command that sets its value. A choice is given as that command: so it is checked,
journalled and audited like one, and permits nothing else, whoever makes it and whatever a changed client sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.catalogue import messages_for
from core.types import Message
from core.types.forms import VALUE_PLACEHOLDER, FormField, SettingsForm

# In a message's reference: the command of the field that was opened or set; empty for the overview.
MENU_FIELD = "menu_field"
SETTINGS_COMMAND = "settings"
# The settings of a form's fields.
FIELD_COMMANDS = frozenset({"mode", "threshold", "sources"})
_OPEN = "field:"
_SET = "set:"


@dataclass(frozen=True, slots=True)
class Menu:
    """A form as a menu: its text as plain lines, the entries of its fields, and those of the field that is open.

    Entries are (label, what stands behind it, whether it is chosen).
    """

    lines: tuple[str, ...]
    fields: tuple[tuple[str, str, bool], ...]
    values: tuple[tuple[str, str, bool], ...] = ()


def build_menu(form: SettingsForm, open_field: str, max_data_bytes: int, max_fields: int) -> Menu:
    """Return a form as a menu with the field of this command open. Fields that cannot be entries are left out."""
    texts = messages_for(form.language)
    fields = [field for field in form.fields if _get_size(field) <= max_data_bytes][:max_fields]
    missing_note = [texts.form_too_many_fields] if len(fields) < len(form.fields) else []
    field = next((field for field in fields if field.command == open_field), None)
    entries = tuple((_format_field(item), _OPEN + item.command, item is field) for item in fields)
    if field is None:
        return Menu((texts.form_title, *form.notes, *missing_note), entries)
    values = tuple(
        (label, _SET + field.command.replace(VALUE_PLACEHOLDER, value), value == field.value)
        for value, label in _get_choices(field)
    )
    return Menu((texts.form_title, _format_field(field), *([field.hint] if field.hint else [])), entries, values)


def get_overview_data() -> str:
    """Return what stands behind the way back to all fields."""
    return _OPEN


def get_value_data(message: Message) -> str:
    """Return what stands behind the entry that a message is the choice of: that of a value."""
    return f"{_SET}{message.reference[MENU_FIELD]}"


def to_menu_message(message: Message, data: str) -> Message | None:
    """Return a message as the choice of an entry; None for what is no entry of ours."""
    if not data.startswith((_OPEN, _SET)):
        return None
    field = data.removeprefix(_OPEN)
    command = SETTINGS_COMMAND
    text = ""
    if data.startswith(_SET):
        field = data.removeprefix(_SET)
        command, _, text = field.partition(" ")
        if command not in FIELD_COMMANDS or not text:
            return None
    reference = {**message.reference, MENU_FIELD: field}
    return replace(message, command=command, text=text, addressed=True, reference=reference)


def _get_choices(field: FormField) -> Sequence[tuple[str, str]]:
    choices = field.choices or field.suggestions
    has_current = any(value == field.value for value, _ in choices)
    return choices if has_current else ((field.value, field.value), *choices)


def _format_field(field: FormField) -> str:
    return f"{field.label}: {dict(_get_choices(field)).get(field.value, field.value)}"


def _get_size(field: FormField) -> int:
    """Return how many bytes the longest entry of a field takes."""
    max_length_value = max((value for value, _ in _get_choices(field)), key=len)
    return len(f"{_OPEN}{field.command.replace(VALUE_PLACEHOLDER, max_length_value)}".encode())
