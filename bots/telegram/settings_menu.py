"""The settings of a chat on Telegram: a message with inline buttons, and a press as the command it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from bots.common.judged_client import judge_calls
from bots.common.reply_sink import FinalTextSink
from bots.common.settings_menu import MENU_FIELD, SETTINGS_COMMAND, build_menu, get_overview_data, get_value_data
from bots.telegram.connection import NotModified
from bots.telegram.feedback import MAX_NOTICE_CHARS
from bots.telegram.render import to_html, write_out_links
from core.catalogue import messages_for
from core.errors import PlatformError
from core.observability.logs import get_logger
from core.ports import Delivery
from core.types import Message, Reply
from core.types.forms import SettingsForm

if TYPE_CHECKING:
    from bots.telegram.client import TelegramClient

_log = get_logger(__name__)

# What a button takes, and how many buttons a message takes.
MAX_DATA_BYTES = 64
MAX_FIELDS = 90
CHOSEN = "✓ "
Rows = Sequence[Sequence[tuple[str, str]]]


async def show_menu(client: TelegramClient, message: Message, form: SettingsForm) -> None:
    """Answer a command with the menu, or change the menu whose button was pressed. Raises `PlatformError`."""
    reference = message.reference
    field = str(reference.get(MENU_FIELD, ""))
    menu = build_menu(form, field, MAX_DATA_BYTES, MAX_FIELDS)
    title, *lines = (escape(line, quote=False) for line in menu.lines)
    html = "\n".join([f"<b>{title}</b>", *lines])
    rows = [[(f"{CHOSEN if is_chosen else ''}{label}", data)] for label, data, is_chosen in menu.values]
    if rows:
        rows.append([(messages_for(form.language).form_back, get_overview_data())])
    else:
        rows = [[(label, data)] for label, data, _ in menu.fields]
    chat_id = int(reference["chat_id"])
    if MENU_FIELD not in reference:
        reply_to = None if message.private else int(reference["message_id"]) or None
        await client.send_message(
            chat_id, reference.get("thread_id"), html, is_html=True, reply_to=reply_to, buttons=rows
        )
        return
    try:
        await client.edit_message(chat_id, int(reference["message_id"]), html, is_html=True, buttons=rows)
    except NotModified:
        # Somebody opened the same field at the same time.
        return


class TelegramMenuSink(FinalTextSink):
    """Answers a press in the menu by a notice to its presser only, and marks the value that is set."""

    def __init__(self, client: TelegramClient, message: Message, delivery: Delivery) -> None:
        self._client = judge_calls(client, delivery)
        self._message = message

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        notice = write_out_links(to_html(reply.text))[:MAX_NOTICE_CHARS] if reply.text else ""
        if not is_error and self._message.command != SETTINGS_COMMAND:
            await self._mark_value()
        try:
            await self._client.answer_callback_query(str(self._message.reference["query"]), notice)
        except PlatformError as error:
            # Telegram takes the answer for some seconds. What was set is set.
            _log.info("telegram.notice_not_shown", error=str(error))

    async def _mark_value(self) -> None:
        reference = self._message.reference
        chosen_data = get_value_data(self._message)
        rows = [
            [(f"{CHOSEN if data == chosen_data else ''}{label.removeprefix(CHOSEN)}", data) for label, data in row]
            for row in reference["keyboard"]
        ]
        if not rows:
            # Telegram no longer shows the bot so old a message.
            return
        try:
            await self._client.edit_buttons(int(reference["chat_id"]), int(reference["message_id"]), rows)
        except PlatformError as error:
            _log.info("telegram.buttons_not_shown", error=str(error))
