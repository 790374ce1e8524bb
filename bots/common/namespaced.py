"""A named bot beside others of its platform: what keeps them apart in the journal and in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bots.common.forwarding import ForwardingAdapter
from core.errors import PlatformError
from core.observability.logs import log_context
from core.ports import Adapter, Delivery, MessageHandler, Sink
from core.types import NAMESPACED_CHAT_PLATFORMS, NETWORK_PLATFORM, ConversationKey, Message, Skip
from core.types.forms import SettingsForm

# On Telegram a private chat has the id of the person, whichever bot they write to.
SHARED_PRIVATE_CHATS_PLATFORM = "telegram"


class NamespacedAdapter(ForwardingAdapter):
    """An adapter under a name.

    Where two bots of its platform may mean different places by one chat, its chats carry its name (`5@support`): they
    then share no memory, setting or permission. Chats that are the same for every bot keep their id.
    """

    def __init__(self, name: str, adapter: Adapter) -> None:
        super().__init__(adapter)
        self._bot_name = name
        self._suffix = f"@{name}"

    @property
    def label(self) -> str:
        """The platform and the bot's name."""
        return f"{self.name}:{self._bot_name}"

    @property
    def bot_id(self) -> str:
        """What its messages have as `bot`: the platform's id of it, or its name where there is none."""
        return self._adapter.bot_id or self._bot_name

    async def open(self) -> None:
        """Connect as the adapter does. Raises `PlatformError`, with the bot's name."""
        with log_context(bot_name=self._bot_name):
            try:
                await self._adapter.open()
            except PlatformError as error:
                raise self._with_bot_name(error) from error

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver what the adapter delivers. Raises `PlatformError`, with the bot's name."""

        async def receive_namespaced(message: Message) -> None:
            await receive(self._to_namespaced(message))

        with log_context(bot_name=self._bot_name):
            try:
                await self._adapter.listen(receive_namespaced)
            except PlatformError as error:
                raise self._with_bot_name(error) from error

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return the adapter's sink."""
        return self._adapter.sink(self._to_native(message), delivery, previous_reply_id)

    async def is_admin(self, message: Message) -> bool:
        """Ask the adapter, in its own terms."""
        return await self._adapter.is_admin(self._to_native(message))

    def is_typing(self, key: ConversationKey) -> bool:
        """Ask the adapter, in its own terms."""
        return self._adapter.is_typing(self._to_native_key(key))

    def refuse_comment(self, post: Message) -> Skip | None:
        """Ask the adapter, in its own terms."""
        return self._adapter.refuse_comment(self._to_native(post))

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show the form as the adapter does."""
        return await self._adapter.show_form(self._to_native(message), form)

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        """Suggest questions as the adapter does."""
        return await self._adapter.show_prompts(self._to_native(message), title, prompts)

    def _to_namespaced(self, message: Message) -> Message:
        """Return a message of the adapter's as everybody else sees it."""
        key = message.key
        author_id = message.author_id
        quoted_authors = message.quoted_authors
        if self.name == NETWORK_PLATFORM:
            author_id = author_id and author_id + self._suffix
            quoted_authors = tuple(quoted_author + self._suffix for quoted_author in quoted_authors)
        if self.name in NAMESPACED_CHAT_PLATFORMS or (self.name == SHARED_PRIVATE_CHATS_PLATFORM and message.private):
            key = replace(key, chat=key.chat + self._suffix)
        return replace(
            message, key=key, author_id=author_id, quoted_authors=quoted_authors, bot=message.bot or self._bot_name
        )

    def _to_native(self, message: Message) -> Message:
        """Return a message of everybody else's as the adapter knows it."""
        author_id = message.author_id
        mentioned_users = message.origin.mentioned_users
        if self.name == NETWORK_PLATFORM:
            author_id = author_id.removesuffix(self._suffix)
            mentioned_users = tuple(
                user_id.removesuffix(self._suffix) for user_id in mentioned_users if user_id.endswith(self._suffix)
            )
        key = self._to_native_key(message.key)
        return replace(
            message, key=key, author_id=author_id, origin=replace(message.origin, mentioned_users=mentioned_users)
        )

    def _to_native_key(self, key: ConversationKey) -> ConversationKey:
        return replace(key, chat=key.chat.removesuffix(self._suffix))

    def _with_bot_name(self, error: PlatformError) -> PlatformError:
        named_error = PlatformError(f"bots.{self._bot_name}: {error}")
        named_error.exit_code = error.exit_code
        return named_error
