"""The Bot API through aiogram: the few calls we make, typed, with every failure mapped.

Importing aiogram takes seconds: get this module through `loading.load_client`, in a worker thread. No other module
here uses aiogram outside of type checking.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiogram import Bot, types
from aiogram import exceptions as refusals
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.methods import (
    AnswerCallbackQuery,
    DeleteWebhook,
    EditMessageReplyMarkup,
    EditMessageText,
    GetChatAdministrators,
    GetFile,
    GetMe,
    GetUpdates,
    GetWebhookInfo,
    SendChatAction,
    SendMessage,
    SendMessageDraft,
    SetMyCommands,
    TelegramMethod,
)
from aiogram.types import (
    BotCommand,
    BotCommandScopeAllChatAdministrators,
    BotCommandScopeAllGroupChats,
    BotCommandScopeAllPrivateChats,
    BotCommandScopeDefault,
    CallbackQuery,
    File,
    InaccessibleMessage,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    Message,
    ReplyParameters,
    ResponseParameters,
    Update,
    User,
    WebhookInfo,
)
from aiogram.utils.token import TokenValidationError
from pydantic import ValidationError

from bots.common.connection import BasicPace, NotAllowed, RetryLater, TokenRefused, Unreachable
from bots.common.downloads import content_of
from bots.telegram.convert import Identity, RawAdministrators, RawUpdates
from core.errors import MessageGone, PlatformError

if TYPE_CHECKING:
    from aiogram.methods.base import TelegramType


@dataclass(frozen=True, slots=True)
class Pace(BasicPace):
    """All intervals in seconds. The defaults keep within the limits of Telegram's own servers.

    A group takes about 20 messages and edits a minute from one bot, which is what `edit_s` is made for; drafts in
    private chats are cheaper. The typing notice fades after 5 s.
    """

    poll_s: int = 25
    edit_s: float = 3.0
    draft_s: float = 1.0
    typing_s: float = 4.5


__all__ = [
    "Conflict",
    "MarkupRejected",
    "Moved",
    "NotAllowed",
    "NotEditable",
    "NotModified",
    "RetryLater",
    "TokenRefused",
    "Unreachable",
]


class Conflict(PlatformError):
    """Somebody else takes this bot's updates: a second poller, or a webhook."""


class MarkupRejected(PlatformError):
    """Telegram cannot parse the entities of a text."""


class NotModified(PlatformError):
    """An edit changes nothing."""


class NotEditable(PlatformError):
    """A message can no longer be edited."""


class Moved(PlatformError):
    """A group was upgraded to a supergroup and has the id `chat_id` now."""

    def __init__(self, message: str, chat_id: int) -> None:
        super().__init__(message)
        self.chat_id = chat_id


ALLOWED_UPDATES = ["message", "edited_message", "callback_query"]
ANSWER_TIMEOUT_S = 20
REFUSED = "telegram.token was refused: get the bot's token from @BotFather (/mybots, API Token), without spaces"

# Every model that the calls below build or receive.
_USED = (
    *(User, Message, Update, WebhookInfo, ResponseParameters),
    *(ReplyParameters, LinkPreviewOptions, BotCommand, BotCommandScopeAllGroupChats, BotCommandScopeAllPrivateChats),
    *(BotCommandScopeAllChatAdministrators, BotCommandScopeDefault, GetChatAdministrators),
    *(GetMe, GetUpdates, GetWebhookInfo, DeleteWebhook, SetMyCommands, GetFile, File),
    *(SendMessage, SendMessageDraft, EditMessageText, SendChatAction),
    *(CallbackQuery, InaccessibleMessage, InlineKeyboardMarkup, InlineKeyboardButton),
    *(AnswerCallbackQuery, EditMessageReplyMarkup),
)

Menu = Sequence[tuple[str, str]]
# Rows of buttons, each with its label and what stands behind it.
Rows = Sequence[Sequence[tuple[str, str]]]

# What Telegram says, in lower case, and what it means. The first match counts.
_REFUSED_BECAUSE: tuple[tuple[str, type[PlatformError], str], ...] = (
    ("message is not modified", NotModified, "the message already looks like that"),
    ("can't parse entities", MarkupRejected, "the markup was rejected"),
    ("message to be replied not found", MessageGone, "the question was deleted"),
    ("replied message not found", MessageGone, "the question was deleted"),
    ("message thread not found", MessageGone, "the topic of the question was deleted"),
    ("topic_deleted", MessageGone, "the topic of the question was deleted"),
    ("message to edit not found", MessageGone, "the reply was deleted while it was written"),
    ("message_id_invalid", MessageGone, "the reply was deleted while it was written"),
    ("message can't be edited", NotEditable, "the reply can no longer be edited"),
    ("topic_closed", NotAllowed, "the topic is closed; make the bot an administrator who may manage topics"),
    ("not enough rights", NotAllowed, "the bot may not write in this chat"),
    ("have no rights", NotAllowed, "the bot may not write in this chat"),
)

_MEANINGS: tuple[tuple[tuple[type[Exception], ...], type[PlatformError], str], ...] = (
    ((refusals.TelegramUnauthorizedError, refusals.TelegramNotFound), TokenRefused, REFUSED),
    ((refusals.TelegramConflictError,), Conflict, "another program takes this bot's updates: {said}"),
    ((refusals.TelegramForbiddenError,), NotAllowed, "the bot may not write there: {said}"),
    (
        (refusals.TelegramNetworkError, refusals.TelegramServerError, refusals.ClientDecodeError, OSError),
        Unreachable,
        "Telegram cannot be reached for {call}: {said}",
    ),
    ((ValidationError,), Unreachable, "Telegram's answer to {call} makes no sense: {said}"),
)


def complete_models() -> None:
    """Complete the models that are used here, when aiogram was loaded without that."""
    names = {name: getattr(types, name) for name in types.__all__}
    for model in _USED:
        model.model_rebuild(_types_namespace=names)


class Client:
    """One bot's connection. Every call raises a `PlatformError` of `failures`, chained with aiogram's."""

    def __init__(self, bot: Bot, token: str) -> None:
        self._bot = bot
        self._token = token

    @classmethod
    def connect(cls, token: str, api_url: str) -> Client:
        """Make a client; nothing is sent yet. Raises `TokenRefused` for a text that cannot be a token."""
        session = AiohttpSession(api=TelegramAPIServer.from_base(api_url), timeout=ANSWER_TIMEOUT_S)
        try:
            return cls(Bot(token, session=session), token)
        except TokenValidationError as error:
            raise TokenRefused(REFUSED) from error

    async def identity(self) -> Identity:
        """Return who the bot is."""
        me = await self._call(GetMe())
        return Identity(me.id, me.username or "", bool(me.can_read_all_group_messages))

    async def updates(self, offset: int | None, wait_s: int) -> list[Any]:
        """Return what came in at or after `offset`, as raw JSON values, waiting at most `wait_s` for the first."""
        method = RawUpdates(offset=offset, timeout=wait_s, allowed_updates=ALLOWED_UPDATES)
        return await self._call(method, timeout_s=wait_s + ANSWER_TIMEOUT_S)

    def parse(self, raw: object) -> Update:
        """Read one raw update. Raises `ValueError` for a malformed one."""
        return Update.model_validate(raw, context={"bot": self._bot})

    async def remove_webhook(self) -> str:
        """Remove a webhook, which would keep all updates from us, and return its URL; pending updates stay."""
        url = (await self._call(GetWebhookInfo())).url
        if url:
            await self._call(DeleteWebhook(drop_pending_updates=False))
        return url

    async def offer_commands(self, commands: Menu, for_administrators: Menu) -> None:
        """Set the command menus, as (name, description): everybody's, and that of a group's administrators."""
        for scope, offered in (
            (BotCommandScopeDefault(), commands),
            (BotCommandScopeAllPrivateChats(), commands),
            (BotCommandScopeAllGroupChats(), commands),
            (BotCommandScopeAllChatAdministrators(), for_administrators),
        ):
            menu = [BotCommand(command=name, description=summary) for name, summary in offered]
            await self._call(SetMyCommands(commands=menu, scope=scope))

    async def administrators(self, chat_id: int) -> frozenset[int]:
        """Return the ids of the people who administer a group; those who stay anonymous are among them."""
        call: TelegramMethod[Any] = RawAdministrators(chat_id=chat_id)
        found = await self._call(call)
        people = (one["user"] for one in found if isinstance(one, dict) and isinstance(one.get("user"), dict))
        return frozenset(one["id"] for one in people if isinstance(one.get("id"), int) and not one.get("is_bot"))

    async def send(
        self,
        chat_id: int,
        thread_id: int | None,
        text: str,
        *,
        markup: bool,
        reply_to: int | None = None,
        buttons: Rows = (),
    ) -> int:
        """Send a message and return its id. `markup` says whether the text is HTML or plain."""
        reply = ReplyParameters(message_id=reply_to) if reply_to is not None else None
        method = SendMessage(
            chat_id=chat_id,
            message_thread_id=thread_id,
            text=text,
            parse_mode="HTML" if markup else None,
            reply_parameters=reply,
            reply_markup=_keyboard(buttons),
            link_preview_options=LinkPreviewOptions(is_disabled=True),
        )
        return (await self._call(method)).message_id

    async def edit(self, chat_id: int, message_id: int, text: str, *, markup: bool, buttons: Rows = ()) -> None:
        """Replace the text of one of the bot's messages, and its buttons."""
        await self._call(
            EditMessageText(
                chat_id=chat_id,
                message_id=message_id,
                text=text,
                parse_mode="HTML" if markup else None,
                reply_markup=_keyboard(buttons),
                link_preview_options=LinkPreviewOptions(is_disabled=True),
            )
        )

    async def draft(self, chat_id: int, thread_id: int | None, draft_id: int, text: str, *, markup: bool) -> None:
        """Show a text that is still being written, in a private chat. `draft_id` is not zero."""
        await self._call(
            SendMessageDraft(
                chat_id=chat_id,
                message_thread_id=thread_id,
                draft_id=draft_id,
                text=text,
                parse_mode="HTML" if markup else None,
            )
        )

    async def typing(self, chat_id: int, thread_id: int | None) -> None:
        """Show for about 5 s that the bot is typing."""
        await self._call(SendChatAction(chat_id=chat_id, message_thread_id=thread_id, action="typing"))

    async def show_buttons(self, chat_id: int, message_id: int, buttons: Rows) -> None:
        """Replace the buttons below one of the bot's messages."""
        method = EditMessageReplyMarkup(chat_id=chat_id, message_id=message_id, reply_markup=_keyboard(buttons))
        await self._call(method)

    async def notify(self, query: str, text: str) -> None:
        """Answer the press of a button with a notice that only who pressed it sees."""
        await self._call(AnswerCallbackQuery(callback_query_id=query, text=text))

    async def fetch(self, file_id: str, most: int) -> bytes:
        """Return a file's content. Raises `PlatformError` for one of more than `most` bytes."""
        path = (await self._call(GetFile(file_id=file_id))).file_path or ""
        session = self._bot.session
        async with aclosing(session.stream_content(session.api.file_url(self._token, path))) as pieces:
            return await content_of(pieces, most)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._bot.session.close()

    async def _call(self, method: TelegramMethod[TelegramType], timeout_s: int | None = None) -> TelegramType:
        try:
            result: TelegramType = await self._bot(method, request_timeout=timeout_s)
        except (refusals.AiogramError, OSError, ValidationError) as error:
            # Some network errors repeat the URL, and with it the token.
            said = (getattr(error, "message", "") or str(error)).replace(self._token, "<token>")
            raise _failure(error, method.__api_method__, said) from error
        return result


def _keyboard(rows: Rows) -> InlineKeyboardMarkup | None:
    made = [[InlineKeyboardButton(text=label, callback_data=data) for label, data in row] for row in rows]
    return InlineKeyboardMarkup(inline_keyboard=made) if made else None


def _failure(error: Exception, call: str, said: str) -> PlatformError:
    """Return what an error of aiogram means to us."""
    lowered = said.lower()
    failure: PlatformError = PlatformError(f"Telegram refused {call}: {said}")
    if isinstance(error, refusals.TelegramRetryAfter):
        failure = RetryLater(f"Telegram asks to wait {error.retry_after} s before {call}", float(error.retry_after))
    elif "too many requests" in lowered:
        failure = RetryLater(f"Telegram asks to slow down before {call}", 1.0)
    elif isinstance(error, refusals.TelegramMigrateToChat):
        failure = Moved(f"the group became the supergroup {error.migrate_to_chat_id}", error.migrate_to_chat_id)
    elif isinstance(error, refusals.TelegramBadRequest):
        for words, kind, meaning in _REFUSED_BECAUSE:
            if words in lowered:
                return kind(f"{meaning} (Telegram: {said})")
    elif "method not found" not in lowered:
        for errors, kind, meaning in _MEANINGS:
            if isinstance(error, errors):
                return kind(meaning.format(call=call, said=said[:300]))
    return failure
