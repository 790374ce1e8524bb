"""One reply on Telegram: drafts in private chats, an edited message in groups, and the final text in either."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from bots.common.connection import NotAllowed, NotEditable, Refused, RetryLater, Unreachable
from bots.common.judged_client import judge_calls
from bots.common.reply_sink import ReplySink
from bots.telegram.connection import (
    ChatMigrated,
    MarkupRejected,
    NotModified,
    RichRefused,
    ServerCapabilities,
    TelegramIntervals,
)
from bots.telegram.feedback import render_mentions, to_button_rows
from bots.telegram.render import MAX_UNITS, RichHtml, render, render_rich, split_message, write_out_links
from core.errors import MessageDeleted, PlatformError
from core.observability.logs import get_logger
from core.ports import Delivery
from core.types import Button, Citation, Message

if TYPE_CHECKING:
    from bots.telegram.client import ButtonRows, TelegramClient

_log = get_logger(__name__)

PLACEHOLDER = "…"
# After so many edits in a row that failed, it may be the rich message that the server cannot bear.
MAX_RICH_FAILURES = 3


class TelegramSink(ReplySink):
    """Writes the reply to one message.

    While the answer is being written a private chat shows its newest state as a draft, which has Telegram's own button
    to stop it; in a group a message that replies to the question is edited, with a button of ours. Telegram cannot say
    afterwards whether it took a message. So each message begins as a placeholder, and the text is edited into it: what
    is lost or doubled is a placeholder.

    An answer with a table, a heading or a formula is one rich message, where the server knows of `capabilities` these.
    Where it does not take it, the answer is shown in text messages.
    """

    skipped_errors = (*ReplySink.skipped_errors, ChatMigrated, RichRefused)

    def __init__(
        self,
        client: TelegramClient,
        message: Message,
        delivery: Delivery,
        previous_reply_id: str,
        intervals: TelegramIntervals,
        *,
        capabilities: ServerCapabilities,
    ) -> None:
        super().__init__("telegram", message, delivery, intervals)
        self._client = judge_calls(client, delivery)
        self._intervals = intervals
        self._capabilities = capabilities
        # Further messages of an earlier try would stand below the whole answer.
        self._is_rich = not delivery.parts and not self._mention_prefix()
        self._rich_failure_count = 0
        self._chat_id = int(message.reference["chat_id"])
        self._thread_id: int | None = message.reference.get("thread_id")
        # 0 where there is no question. In a private chat it is clear what is answered; only groups need the reply.
        self._draft_id = int(message.reference["message_id"])
        self._question_id = None if message.private else self._draft_id or None
        self._asker_username = str(message.reference.get("username", ""))
        self._reply_id = int(previous_reply_id) if previous_reply_id else None
        self._uses_drafts = message.private and not previous_reply_id

    async def _run_preview(self) -> None:
        pause_s = self._intervals.draft_s if self._uses_drafts else self._intervals.edit_s
        show = self._send_draft if self._uses_drafts else self._show_preview
        await self._preview.run_updates(
            lambda: self._show_state(show, pause_s), self._send_typing, self._intervals.typing_s
        )

    def _render(self, text: str, citations: Sequence[Citation] = ()) -> list[str]:
        if self._is_rich and self._capabilities.has_rich_messages and (html := render_rich(text, citations)):
            return [html]
        return render(text, citations, self._asker_username)

    async def _show_final(self, text: str, citations: Sequence[Citation], buttons: Sequence[Button] = ()) -> None:
        try:
            await super()._show_final(text, citations, buttons)
        except RichRefused:
            await super()._show_final(text, citations, buttons)

    def _mention_prefix(self) -> str:
        return render_mentions(self._message)

    def _is_unfinished(self) -> bool:
        # A draft disappears after a while.
        return self._uses_drafts

    async def _send_typing(self) -> None:
        try:
            await self._client.send_typing(self._chat_id, self._thread_id)
        except (MessageDeleted, NotAllowed):
            raise
        except RetryLater as error:
            self._retry.note_retry_after(error)
        except PlatformError as error:
            _log.debug("telegram.typing_failed", error=str(error))

    async def _send_draft(self, html: str) -> None:
        try:
            await self._try_draft(html)
        except NotModified:
            return
        except RichRefused as error:
            self._give_up_rich(error)
            raise
        except (NotAllowed, MessageDeleted, RetryLater, Unreachable):
            raise
        except PlatformError as error:
            if isinstance(error, Refused) and self._preview_buttons:
                raise
            # An older Bot API server, or a chat without drafts: the final message comes all the same.
            _log.info("telegram.drafts_unavailable", error=str(error))
            self._preview.stop()

    async def _try_draft(self, html: str) -> None:
        target = (self._chat_id, self._thread_id, self._draft_id)
        can_stop = bool(self._preview_buttons)
        if isinstance(html, RichHtml):
            await self._client.send_rich_draft(*target, html, can_stop=can_stop)
            return
        try:
            await self._client.send_draft(*target, html, is_html=True, can_stop=can_stop)
        except MarkupRejected:
            text = write_out_links(html)[:MAX_UNITS]
            await self._client.send_draft(*target, text, is_html=False, can_stop=can_stop)

    async def _show_first_part(self, text: str, buttons: Sequence[Button] = ()) -> None:
        """Show the first part: edit the reply where there is one, post it otherwise."""
        if self._reply_id is not None:
            try:
                await self._edit(self._reply_id, text, to_button_rows(buttons))
                return
            except NotEditable as error:
                _log.info("telegram.reply_not_editable", error=str(error))
                await self._withdraw()
        self._reply_id = int(await self._retry.post(self._post_placeholder))
        await self._edit(self._reply_id, text, to_button_rows(buttons))

    async def _post_part(self, part: str, number: int, buttons: Sequence[Button]) -> None:
        if not self._delivery.parts.get(number):
            await super()._post_part(part, number, buttons)
        await self._edit(int(self._delivery.parts[number]), part, to_button_rows(buttons))

    async def _send_part(self, text: str, number: int, buttons: Sequence[Button]) -> str:
        return str(await self._send(PLACEHOLDER, None))

    async def _post_placeholder(self) -> str:
        # An edit notifies nobody, so whoever is to be called is called by this.
        text = self._mention_prefix() + PLACEHOLDER
        try:
            return str(await self._send(text, self._question_id))
        except Refused as error:
            if self._question_id is None:
                raise
            _log.warning("telegram.reply_refused", error=str(error))
            self._question_id = None
            return str(await self._send(text, None))

    async def _withdraw(self) -> bool:
        reply_id = self._reply_id
        self._reply_id = None
        if reply_id is not None:
            await self._try_quietly(self._client.delete_message(self._chat_id, reply_id))
        return reply_id is not None

    def _to_plain(self, part: str, max_chars: int = 0) -> list[str]:
        if isinstance(part, RichHtml):
            # Not in pieces of its markup: the answer itself is shown in another form.
            error = RichRefused("what a rich message begins with was refused")
            self._give_up_rich(error)
            raise error
        return split_message(escape(write_out_links(part), quote=False), max_chars or MAX_UNITS)

    def _recover(self, error: PlatformError) -> None:
        """Continue in the group that this one became. Messages of the old one cannot be edited or replied to there."""
        if not isinstance(error, ChatMigrated):
            raise error
        self._chat_id = error.chat_id
        self._thread_id = None
        self._question_id = None
        self._reply_id = None

    async def _edit(self, message_id: int, html: str, buttons: ButtonRows) -> None:
        if isinstance(html, RichHtml):
            await self._edit_rich(message_id, html, buttons)
            return
        try:
            await self._client.edit_message(self._chat_id, message_id, html, is_html=True, buttons=buttons)
        except NotModified:
            # It shows this already.
            return
        except MarkupRejected as error:
            _log.warning("telegram.markup_rejected", error=str(error))
            text = write_out_links(html)[:MAX_UNITS]
            await self._client.edit_message(self._chat_id, message_id, text, is_html=False, buttons=buttons)

    async def _edit_rich(self, message_id: int, html: RichHtml, buttons: ButtonRows) -> None:
        try:
            await self._client.edit_rich_message(self._chat_id, message_id, html, buttons=buttons)
        except NotModified:
            return
        except RichRefused as error:
            self._give_up_rich(error)
            raise
        except Unreachable as error:
            self._rich_failure_count += 1
            if self._rich_failure_count < MAX_RICH_FAILURES:
                raise
            rich_error = RichRefused(str(error))
            self._give_up_rich(rich_error)
            raise rich_error from error
        self._rich_failure_count = 0

    def _give_up_rich(self, error: RichRefused) -> None:
        """Show this answer in text messages, and all others, too, if the server knows of nothing else."""
        if error.is_unknown:
            self._capabilities.has_rich_messages = False
            _log.info("telegram.rich_messages_unavailable", error=str(error))
        else:
            _log.warning("telegram.rich_message_refused", error=str(error))
        # Whether an earlier state of it is there is unknown. This one is shown in the other form.
        self._is_rich = False
        self._shown_text = ""
        self._preview.changed.set()

    async def _send(self, html: str, reply_to: int | None, buttons: ButtonRows = ()) -> int:
        target = (self._chat_id, self._thread_id)
        try:
            return await self._client.send_message(*target, html, is_html=True, reply_to=reply_to, buttons=buttons)
        except MarkupRejected as error:
            _log.warning("telegram.markup_rejected", error=str(error))
            return await self._client.send_message(
                *target, write_out_links(html)[:MAX_UNITS], is_html=False, reply_to=reply_to, buttons=buttons
            )
