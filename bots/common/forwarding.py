"""An adapter around another one."""

from __future__ import annotations

from collections.abc import Sequence

from core.ports import Adapter, Delivery, MessageHandler, Sink
from core.types import Attachment, ConversationKey, Message, Skip
from core.types.forms import SettingsForm


class ForwardingAdapter(Adapter):
    """An adapter that forwards everything to another adapter: a base class for wrappers."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.name = adapter.name
        self.connection = adapter.connection
        self.can_take_over = adapter.can_take_over
        self.can_fetch_attachments = adapter.can_fetch_attachments
        self.can_resolve_doubt = adapter.can_resolve_doubt
        self.needs_leader = adapter.needs_leader
        self.binding_references = adapter.binding_references

    @property
    def bot_id(self) -> str:
        """The adapter's `bot_id`."""
        return self._adapter.bot_id

    @property
    def author_ids(self) -> frozenset[str]:
        """The adapter's `author_ids`: the name of a network is nobody's id there."""
        return self._adapter.author_ids

    def spell_command(self, usage: str) -> str:
        """Spell a command as the adapter does."""
        return self._adapter.spell_command(usage)

    @property
    def label(self) -> str:
        """The adapter's `label`."""
        return self._adapter.label

    async def open(self) -> None:
        """Connect as the adapter does."""
        await self._adapter.open()
        self.privacy_setting = self._adapter.privacy_setting

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver what the adapter delivers."""
        await self._adapter.listen(receive)

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return the adapter's sink."""
        return self._adapter.sink(message, delivery, previous_reply_id)

    async def close(self) -> None:
        """Close the adapter's connection."""
        await self._adapter.close()

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Fetch the attachment as the adapter does."""
        return await self._adapter.fetch_attachment(attachment, max_bytes)

    async def is_admin(self, message: Message) -> bool:
        """Ask the adapter."""
        return await self._adapter.is_admin(message)

    async def has_guests(self, chat: str) -> bool:
        """Ask the adapter."""
        return await self._adapter.has_guests(chat)

    def is_typing(self, key: ConversationKey) -> bool:
        """Ask the adapter."""
        return self._adapter.is_typing(key)

    def refuse_comment(self, post: Message) -> Skip | None:
        """Ask the adapter."""
        return self._adapter.refuse_comment(post)

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show the form as the adapter does."""
        return await self._adapter.show_form(message, form)

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        """Suggest questions as the adapter does."""
        return await self._adapter.show_prompts(message, title, prompts)
