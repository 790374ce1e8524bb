"""Calls of the Bot API whose answers are taken as they come, where aiogram's own reading is of no use to us.

Imports aiogram: for `client` alone.
"""

from __future__ import annotations

from typing import Any

from aiogram.methods import GetChatAdministrators, GetUpdates


class RawUpdates(GetUpdates):
    """getUpdates with the updates as they came: aiogram's own refuses the whole batch for one bad update."""

    __returning__ = list[Any]


class RawAdministrators(GetChatAdministrators):
    """getChatAdministrators with the members as they came: of their many kinds nothing but the user is needed."""

    __returning__ = list[Any]
