"""A bot with a name of its own, beside others of its platform: what keeps them apart in the journal and in the log."""

from __future__ import annotations

from dataclasses import replace

from bots.common.connection import Line, Watched
from core.errors import PlatformError
from core.messaging.commands.form import Form, ShowsForms
from core.messaging.feedback.escalation import CALLED, called
from core.messaging.gate.human_activity import KnowsTyping
from core.messaging.multi_bot import Identified
from core.messaging.policy.permissions import KnowsAdministrators
from core.observability.logs import context
from core.ports import Adapter, Delivery, Fetching, Receive, Sink
from core.types import Attachment, ConversationKey, Message

# On Telegram a private chat has the id of the person, whichever bot they write to.
SAME_PRIVATE_CHATS = "telegram"
# Names of chats and people mean something within one network only.
OWN_NETWORK = "http"


class NamedBot:
    """An adapter under a name.

    Where two bots of its platform may mean different places by one chat, its chats carry its name (`5@support`): no
    memory, no setting and no permission is shared then. Chats that are the same for every bot stay as they are.
    """

    def __init__(self, name: str, adapter: Adapter) -> None:
        self._adapter = adapter
        self._own = name
        self._ending = f"@{name}"
        self.name = adapter.name
        self.label = f"{adapter.name}:{name}"
        self.line = adapter.line if isinstance(adapter, Watched) else Line()

    @property
    def bot(self) -> str:
        """What its messages have as `bot`: the platform's id of it, or its name where there is none."""
        return (self._adapter.bot if isinstance(self._adapter, Identified) else "") or self._own

    @property
    def inherits(self) -> bool:
        """Whether it may answer what another bot received that is no longer there."""
        return not isinstance(self._adapter, Identified) or self._adapter.inherits

    async def open(self) -> None:
        """Connect as the adapter does. Raises `PlatformError`, with the bot's name."""
        with context(bot_name=self._own):
            try:
                await self._adapter.open()
            except PlatformError as failure:
                raise self._named(failure) from failure

    async def listen(self, receive: Receive) -> None:
        """Deliver what the adapter delivers. Raises `PlatformError`, with the bot's name."""

        async def take(message: Message) -> None:
            await receive(self._apart(message))

        with context(bot_name=self._own):
            try:
                await self._adapter.listen(take)
            except PlatformError as failure:
                raise self._named(failure) from failure

    def sink(self, message: Message, delivery: Delivery, previous: str = "") -> Sink:
        """Return the adapter's sink."""
        return self._adapter.sink(self._plain(message), delivery, previous)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Fetch what is attached, as the adapter does. Raises `PlatformError`, also where it cannot."""
        if not isinstance(self._adapter, Fetching):
            raise PlatformError(f"{self.label} hands over no files")
        return await self._adapter.fetch(attachment, most)

    async def is_administrator(self, message: Message) -> bool:
        """Say what the adapter says; no where it does not know. Raises `PlatformError`."""
        if not isinstance(self._adapter, KnowsAdministrators):
            return False
        return await self._adapter.is_administrator(self._plain(message))

    def is_typing(self, key: ConversationKey) -> bool:
        """Say what the adapter says; no where it does not know."""
        return isinstance(self._adapter, KnowsTyping) and self._adapter.is_typing(self._plain_key(key))

    async def show_form(self, message: Message, form: Form) -> bool:
        """Show a form as the adapter does; no where it cannot. Raises `PlatformError`."""
        if not isinstance(self._adapter, ShowsForms):
            return False
        return await self._adapter.show_form(self._plain(message), form)

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        await self._adapter.close()

    def _apart(self, message: Message) -> Message:
        """Return a message of the adapter's as everybody else sees it."""
        key, author = message.key, message.author_id
        if self.name == OWN_NETWORK:
            key, author = replace(key, chat=key.chat + self._ending), author and author + self._ending
        elif self.name == SAME_PRIVATE_CHATS and message.private:
            key = replace(key, chat=key.chat + self._ending)
        return replace(message, key=key, author_id=author, bot=message.bot or self._own)

    def _plain(self, message: Message) -> Message:
        """Return a message of everybody else's as the adapter knows it."""
        author = message.author_id
        if self.name == OWN_NETWORK:
            author = author.removesuffix(self._ending)
        reference = message.reference
        if self.name == OWN_NETWORK and CALLED in reference:
            people = [one.removesuffix(self._ending) for one in called(message) if one.endswith(self._ending)]
            reference = {**reference, CALLED: people}
        return replace(message, key=self._plain_key(message.key), author_id=author, reference=reference)

    def _plain_key(self, key: ConversationKey) -> ConversationKey:
        return replace(key, chat=key.chat.removesuffix(self._ending))

    def _named(self, failure: PlatformError) -> PlatformError:
        return PlatformError(f"bots.{self._own}: {failure}")
