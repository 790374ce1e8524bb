"""A form of settings, as a platform shows it: its fields, and the commands that they replace."""

from __future__ import annotations

from dataclasses import dataclass

# Stands for the value in the command of a form field.
VALUE_PLACEHOLDER = "{}"


@dataclass(frozen=True, slots=True)
class FormField:
    """A field: the command that sets its value, with `VALUE_PLACEHOLDER` for the value, and the current value.

    `choices` are values with their labels; without choices the value is free text, and `hint` explains it.
    `suggestions` are some such values, for where people choose and do not type.
    """

    command: str
    label: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()
    hint: str = ""
    suggestions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SettingsForm:
    """The settings that the reader may change, and `notes`: one line per setting that they may only see. Plain text.

    `language` is the language code of the texts.
    """

    fields: tuple[FormField, ...]
    notes: tuple[str, ...] = ()
    language: str = "en"
