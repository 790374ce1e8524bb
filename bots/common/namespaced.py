"""A bot with a name of its own, beside others of its platform: what keeps them apart in the journal and in the log."""

from __future__ import annotations

from dataclasses import replace

from bots.common.connection import ConnectionStatus, HasConnectionStatus
from core.errors import PlatformError
from core.messaging.commands.form import SettingsForm, SupportsForms
from core.messaging.feedback.escalation import MENTIONED_USERS, mentioned_users
from core.messaging.gate.human_activity import SupportsTyping
from core.messaging.multi_bot import HasBotId
from core.messaging.policy.permissions import SupportsAdminCheck
from core.observability.logs import log_context
from core.ports import Adapter, Delivery, MessageHandler, Sink, SupportsAttachments
from core.types import Attachment, ConversationKey, Message

# On Telegram a private chat has the id of the person, whichever bot they write to.
SHARED_PRIVATE_CHATS_PLATFORM = "telegram"
# Names of chats and people mean something within one network only.
NAMESPACED_PLATFORM = "http"


class NamespacedAdapter:
    """An adapter under a name.

    Where two bots of its platform may mean different places by one chat, its chats carry its name (`5@support`): no
    memory, no setting and no permission is shared then. Chats that are the same for every bot stay as they are.
    """

    def __init__(self, name: str, adapter: Adapter) -> None:
        self._adapter = adapter
        self._bot_name = name
        self._suffix = f"@{name}"
        self.name = adapter.name
        self.label = f"{adapter.name}:{name}"
        self.connection = adapter.connection if isinstance(adapter, HasConnectionStatus) else ConnectionStatus()

    @property
    def bot_id(self) -> str:
        """What its messages have as `bot`: the platform's id of it, or its name where there is none."""
        return (self._adapter.bot_id if isinstance(self._adapter, HasBotId) else "") or self._bot_name

    @property
    def can_take_over(self) -> bool:
        """Whether it may answer what another bot received that is no longer there."""
        return not isinstance(self._adapter, HasBotId) or self._adapter.can_take_over

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

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Fetch what is attached, as the adapter does. Raises `PlatformError`, also where it cannot."""
        if not isinstance(self._adapter, SupportsAttachments):
            raise PlatformError(f"{self.label} hands over no files")
        return await self._adapter.fetch_attachment(attachment, max_bytes)

    async def is_admin(self, message: Message) -> bool:
        """Say what the adapter says; no where it does not know. Raises `PlatformError`."""
        if not isinstance(self._adapter, SupportsAdminCheck):
            return False
        return await self._adapter.is_admin(self._to_native(message))

    def is_typing(self, key: ConversationKey) -> bool:
        """Say what the adapter says; no where it does not know."""
        return isinstance(self._adapter, SupportsTyping) and self._adapter.is_typing(self._to_native_key(key))

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show a form as the adapter does; no where it cannot. Raises `PlatformError`."""
        if not isinstance(self._adapter, SupportsForms):
            return False
        return await self._adapter.show_form(self._to_native(message), form)

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        await self._adapter.close()

    def _to_namespaced(self, message: Message) -> Message:
        """Return a message of the adapter's as everybody else sees it."""
        key, author_id = message.key, message.author_id
        if self.name == NAMESPACED_PLATFORM:
            key, author_id = replace(key, chat=key.chat + self._suffix), author_id and author_id + self._suffix
        elif self.name == SHARED_PRIVATE_CHATS_PLATFORM and message.private:
            key = replace(key, chat=key.chat + self._suffix)
        return replace(message, key=key, author_id=author_id, bot=message.bot or self._bot_name)

    def _to_native(self, message: Message) -> Message:
        """Return a message of everybody else's as the adapter knows it."""
        author_id = message.author_id
        if self.name == NAMESPACED_PLATFORM:
            author_id = author_id.removesuffix(self._suffix)
        reference = message.reference
        if self.name == NAMESPACED_PLATFORM and MENTIONED_USERS in reference:
            user_ids = [
                user_id.removesuffix(self._suffix)
                for user_id in mentioned_users(message)
                if user_id.endswith(self._suffix)
            ]
            reference = {**reference, MENTIONED_USERS: user_ids}
        return replace(message, key=self._to_native_key(message.key), author_id=author_id, reference=reference)

    def _to_native_key(self, key: ConversationKey) -> ConversationKey:
        return replace(key, chat=key.chat.removesuffix(self._suffix))

    def _with_bot_name(self, error: PlatformError) -> PlatformError:
        return PlatformError(f"bots.{self._bot_name}: {error}")
