"""One reply on Discord: a message that replies to the question and grows by edits, or the response to a command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from bots.common.connection import NotAllowed, NotEditable, Refused, RetryLater, TokenRefused, Unreachable
from bots.common.message_split import utf16_length
from bots.common.reply_sink import ReplySink
from bots.discord.connection import DiscordIntervals, InteractionExpired
from bots.discord.feedback import to_components
from bots.discord.render import render, to_plain
from core.errors import MessageDeleted, PlatformError
from core.observability.logs import get_logger
from core.ports import Delivery
from core.types import Button, Citation, Message

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

_log = get_logger(__name__)

HISTORY_PAGE_SIZE = 100
MAX_HISTORY_PAGES = 10
Components = Sequence[Mapping[str, Any]]


class ChannelTarget:
    """A message in the channel, as a reply to the question where `question_id` names one.

    `nonce` is the same for every try at one reply, after a restart too: Discord takes a part once. `mentions` are the
    users whom it notifies.
    """

    def __init__(
        self,
        client: DiscordClient,
        channel_id: str,
        nonce: str,
        question_id: str = "",
        *,
        quote_prefix: str = "",
        mentions: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._channel_id = channel_id
        self._nonce = self._first_nonce = nonce
        self._question_id = question_id
        self._quote_prefix = quote_prefix
        self._mentions = mentions
        self._mention_prefix = "".join(f"<@{user_id}> " for user_id in mentions)
        self.prefix = self._mention_prefix + quote_prefix

    async def send_typing(self) -> None:
        """Show for about 10 s that the bot is typing."""
        await self._client.send_typing(self._channel_id)

    async def post(self, text: str, components: Components = ()) -> str:
        """Post the first part; without a reply to the question where the channel allows none."""
        if self._question_id:
            try:
                return await self._send(text, components, reply_to=self._question_id)
            except Refused as error:
                _log.warning("discord.reply_refused", channel=self._channel_id, error=str(error))
                self._question_id = ""
        return await self._send(self._quote_prefix + text, components)

    async def find(self, text: str, part_number: int = 0) -> str:
        """Look for our part among the messages after the question: by what it replies to, its nonce or its text."""
        nonce = f"{self._nonce}-{part_number}" if part_number else self._nonce
        contents = (text, self._mention_prefix + text, self._mention_prefix + self._quote_prefix + text)
        # A second answer to the same question has a different nonce.
        question_id = self._question_id if self._question_id == self._nonce else ""

        def is_part(message: Mapping[str, Any]) -> bool:
            reference = message.get("message_reference") or {}
            is_reply = bool(question_id) and reference.get("message_id") == question_id
            has_nonce = str(message.get("nonce", "")) == nonce
            return has_nonce or message.get("content") in contents or (is_reply and not part_number)

        return await find_own_message(self._client, self._channel_id, self._nonce, is_part)

    async def edit(self, reply_id: str, text: str, components: Components = ()) -> None:
        """Replace the first part."""
        await self._client.edit_message(
            self._channel_id, reply_id, self._mention_prefix + self._quote_prefix + text, components=components
        )

    async def delete(self, reply_id: str) -> None:
        """Delete the first part. The post that replaces it has a different nonce."""
        self._first_nonce = f"{self._nonce}-0"
        await self._client.delete_message(self._channel_id, reply_id)

    async def send_followup(self, text: str, part_number: int, components: Components = ()) -> str:
        """Post a further part."""
        return await self._client.send_message(
            self._channel_id, text, f"{self._nonce}-{part_number}", components=components
        )

    async def _send(self, text: str, components: Components, reply_to: str = "") -> str:
        content = self._mention_prefix + text
        return await self._client.send_message(
            self._channel_id,
            content,
            self._first_nonce,
            reply_to=reply_to,
            components=components,
            mentions=self._mentions,
        )


async def find_own_message(
    client: DiscordClient, channel_id: str, after_id: str, matches: Callable[[Mapping[str, Any]], bool]
) -> str:
    """Return the id of the bot's first message in a channel after a question that matches, or ""."""
    after_message = int(after_id.partition("~")[0])
    for _ in range(MAX_HISTORY_PAGES):
        messages = await client.get_messages(channel_id, after_message, HISTORY_PAGE_SIZE)
        for message in messages:
            if client.is_own(message) and matches(message):
                return str(message["id"])
        if len(messages) < HISTORY_PAGE_SIZE:
            break
        after_message = int(messages[-1]["id"])
    return ""


@dataclass(slots=True, eq=False)
class InteractionTarget:
    """The response to a slash command, which takes the place of its acknowledgement; works for 15 minutes.

    `acknowledged` becomes true when Discord took the acknowledgement; it is None after a restart, when that is unknown.
    With `is_ephemeral` only the asker sees the response. `location` is the channel and the interaction's id.
    """

    client: DiscordClient
    application_id: str
    token: str
    acknowledged: asyncio.Future[bool] | None = None
    _: KW_ONLY
    location: tuple[str, str]
    is_ephemeral: bool = False
    prefix: str = ""

    async def send_typing(self) -> None:
        """Do nothing: Discord shows that the bot is thinking."""
        await self._wait_acknowledged()

    async def post(self, text: str, components: Components = ()) -> str:
        """Put the first part in the place of the acknowledgement."""
        await self._wait_acknowledged()
        try:
            return await self.client.edit_original_response(
                self.application_id, self.token, self.prefix + text, components=components
            )
        except MessageDeleted as error:
            raise InteractionExpired("the response to the slash command was removed, or never acknowledged") from error

    async def find(self, text: str, part_number: int = 0) -> str:
        """Look for a further part in the channel, by its text; the first one is written into its place once more."""
        if not part_number or self.is_ephemeral:
            return ""
        return await find_own_message(self.client, *self.location, lambda message: message.get("content") == text)

    async def edit(self, reply_id: str, text: str, components: Components = ()) -> None:
        """Replace the first part."""
        await self.client.edit_original_response(
            self.application_id, self.token, self.prefix + text, components=components
        )

    async def delete(self, reply_id: str) -> None:
        """Remove the response."""
        await self.client.delete_original_response(self.application_id, self.token)

    async def send_followup(self, text: str, part_number: int, components: Components = ()) -> str:
        """Post a further part."""
        return await self.client.send_followup(
            self.application_id, self.token, text, components=components, is_ephemeral=self.is_ephemeral
        )

    async def _wait_acknowledged(self) -> None:
        if self.acknowledged is not None and not await asyncio.shield(self.acknowledged):
            raise InteractionExpired("the slash command was not acknowledged in time")


# Where a reply is posted. Its calls raise a `PlatformError` (see `connection.py`); its `prefix` begins the first part.
ReplyTarget = ChannelTarget | InteractionTarget


class DiscordSink(ReplySink):
    """Writes one reply. `fallback` takes it when a slash command can no longer be answered."""

    max_chars = 16_000

    def __init__(
        self,
        target: ReplyTarget,
        message: Message,
        *,
        delivery: Delivery,
        previous_reply_id: str,
        intervals: DiscordIntervals,
        fallback: ReplyTarget | None = None,
    ) -> None:
        super().__init__("discord", message, delivery, intervals)
        self._target = target
        self._fallback = fallback
        self._intervals = intervals
        self._reply_id = previous_reply_id
        self._is_in_doubt = delivery.is_in_doubt

    def mark_question_deleted(self) -> None:
        """Note that the question was deleted: nothing new is posted, but a visible reply is completed."""
        if not self._reply_id and self._preview.error is None:
            self._preview.error = MessageDeleted("the question was deleted")

    async def _run_preview(self) -> None:
        await self._preview.run_updates(
            lambda: self._show_state(self._show_preview, self._intervals.edit_s),
            self._send_typing,
            self._intervals.typing_s,
        )

    def _render(self, text: str, citations: Sequence[Citation] = ()) -> list[str]:
        # Another target may take the reply in the middle of it.
        targets = (self._target, self._fallback or self._target)
        return render(text, citations, max(utf16_length(target.prefix) for target in targets))

    async def _send_typing(self) -> None:
        try:
            await self._target.send_typing()
        except (MessageDeleted, NotAllowed, TokenRefused):
            raise
        except RetryLater as error:
            # Typing has a separate rate limit.
            _log.debug("discord.typing_skipped", wait_s=error.seconds)
        except InteractionExpired as error:
            self._recover(error)
        except PlatformError as error:
            _log.debug("discord.typing_failed", error=str(error))

    async def _show_preview(self, text: str) -> None:
        try:
            await super()._show_preview(text)
        except InteractionExpired as error:
            self._recover(error)
            raise Unreachable(str(error)) from error

    async def _send_part(self, text: str, number: int, buttons: Sequence[Button]) -> str:
        return await self._target.send_followup(text, number, to_components(buttons))

    async def _find_part(self, text: str, number: int) -> str:
        return await self._target.find(text, number)

    async def _show_first_part(self, text: str, buttons: Sequence[Button] = ()) -> None:
        components = to_components(buttons)
        if self._reply_id:
            try:
                await self._target.edit(self._reply_id, text, components)
                return
            except NotEditable as error:
                _log.info("discord.reply_not_editable", error=str(error))
                if not await self._withdraw():
                    raise
        self._preview.raise_error()
        # Where no answer comes, the post's nonce keeps a second try from doubling it, for some minutes.
        self._reply_id = await self._retry.post(lambda: self._post(text, components), lambda: self._target.find(text))
        if self._is_in_doubt:
            # A try that seemed lost may have arrived, with its old text.
            await self._target.edit(self._reply_id, text, components)

    async def _post(self, text: str, components: Components) -> str:
        try:
            return await self._target.post(text, components)
        except Unreachable:
            self._is_in_doubt = True
            raise

    async def _withdraw(self) -> bool:
        # A message that only the asker sees has no other place.
        if isinstance(self._target, InteractionTarget) and self._fallback is None:
            return False
        reply_id = self._reply_id
        self._reply_id = ""
        if reply_id or self._fallback:
            await self._try_quietly(self._target.delete(reply_id))
        target = self._target
        self._target = self._fallback or self._target
        self._fallback = None
        return bool(reply_id) or self._target is not target

    def _to_plain(self, part: str, max_chars: int = 0) -> list[str]:
        return to_plain(part, max_chars)

    def _recover(self, error: PlatformError) -> None:
        """Continue in the channel when the token of a slash command has expired. Raises any other error."""
        # What may be there in the place of the command cannot be looked up: a second answer is worse.
        if not isinstance(error, InteractionExpired) or self._fallback is None or self._is_in_doubt:
            raise error
        _log.info("discord.command_expired", error=str(error))
        self._target = self._fallback
        self._fallback = None
