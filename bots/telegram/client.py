"""The Bot API through aiogram: the few calls we make, typed, with every failure mapped.

Importing aiogram takes seconds: get this module through the adapter's `load_client`, in a worker thread. No other
module here uses aiogram outside of type checking.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from aiogram import Bot, exceptions, methods, types
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.methods import Response
from aiogram.utils.token import TokenValidationError
from pydantic import ValidationError

from bots.common.connection import NotAllowed, NotEditable, Refused, RetryLater, TokenRefused, Unreachable
from bots.common.downloads import read_limited
from bots.telegram.connection import ChatMigrated, Conflict, MarkupRejected, NotModified, RichRefused
from bots.telegram.convert import Identity
from core.errors import MessageDeleted, PlatformError

if TYPE_CHECKING:
    from aiogram.methods.base import TelegramMethod, TelegramType


ALLOWED_UPDATES = ["message", "edited_message", "callback_query", "message_reaction", "stopped_message_generation"]
RESPONSE_TIMEOUT_S = 20
REFUSED_MESSAGE = "telegram.token was refused: get the bot's token from @BotFather (/mybots, API Token), without spaces"

# Every model that the calls below build or receive.
_USED_TYPES = (
    "User",
    "Message",
    "Update",
    "WebhookInfo",
    "ResponseParameters",
    "ReplyParameters",
    "LinkPreviewOptions",
    "File",
    "BotCommand",
    "BotCommandScopeAllGroupChats",
    "BotCommandScopeAllPrivateChats",
    "BotCommandScopeDefault",
    "BotCommandScopeAllChatAdministrators",
    "CallbackQuery",
    "InaccessibleMessage",
    "File",
    "InlineKeyboardMarkup",
    "InlineKeyboardButton",
    "InputRichMessage",
)
_USED_METHODS = (
    "GetMe",
    "GetUpdates",
    "GetWebhookInfo",
    "DeleteWebhook",
    "SetMyCommands",
    "GetFile",
    "GetChatAdministrators",
    "GetChatMember",
    "SendMessage",
    "SendMessageDraft",
    "EditMessageText",
    "DeleteMessage",
    "SendChatAction",
    "AnswerCallbackQuery",
    "SendRichMessageDraft",
)
# How many updates come at once: they are parsed in one go, and members can write 400 kB of links into each.
MAX_UPDATES = 25
# What a server before Bot API 10.1 says, in lower case: it has no such method, and sees no text in such an edit.
_UNKNOWN_RICH_MESSAGE = ("method not found", "message text is empty")

CommandMenu = Sequence[tuple[str, str]]
# Rows of buttons, each with its label and what stands behind it.
ButtonRows = Sequence[Sequence[tuple[str, str]]]

# What Telegram says, in lower case, and what it means. The first match counts.
_BAD_REQUEST_ERRORS: tuple[tuple[str, type[PlatformError], str], ...] = (
    ("message is not modified", NotModified, "the message already looks like that"),
    ("can't parse entities", MarkupRejected, "the markup was rejected"),
    ("message to be replied not found", MessageDeleted, "the question was deleted"),
    ("replied message not found", MessageDeleted, "the question was deleted"),
    ("message thread not found", MessageDeleted, "the topic of the question was deleted"),
    ("topic_deleted", MessageDeleted, "the topic of the question was deleted"),
    ("message to edit not found", MessageDeleted, "the reply was deleted while it was written"),
    ("message_id_invalid", MessageDeleted, "the reply was deleted while it was written"),
    ("message can't be edited", NotEditable, "the reply can no longer be edited"),
    ("topic_closed", NotAllowed, "the topic is closed; make the bot an administrator who may manage topics"),
    ("not enough rights", NotAllowed, "the bot may not write in this chat"),
    ("have no rights", NotAllowed, "the bot may not write in this chat"),
)

_ERROR_MAPPING: tuple[tuple[tuple[type[Exception], ...], type[PlatformError], str], ...] = (
    ((exceptions.TelegramUnauthorizedError, exceptions.TelegramNotFound), TokenRefused, REFUSED_MESSAGE),
    ((exceptions.TelegramConflictError,), Conflict, "another program takes this bot's updates: {detail}"),
    ((exceptions.TelegramForbiddenError,), NotAllowed, "the bot may not write there: {detail}"),
    (
        (exceptions.TelegramNetworkError, exceptions.TelegramServerError, exceptions.ClientDecodeError, OSError),
        Unreachable,
        "Telegram cannot be reached for {call}: {detail}",
    ),
    ((ValidationError,), Unreachable, "Telegram's answer to {call} makes no sense: {detail}"),
)


def rebuild_models() -> None:
    """Complete the models that are used here, when aiogram was loaded without that."""
    names = {name: getattr(types, name) for name in types.__all__}
    used_methods = (*(getattr(methods, name) for name in _USED_METHODS), RawEdit, RawButtons)
    for model in (*(names[name] for name in _USED_TYPES), *used_methods):
        model.model_rebuild(_types_namespace=names)


@lru_cache(maxsize=64)
def _keep_response_model(result: Any) -> type[Response[Any]]:
    """Return the model of the responses with such a result. Nobody else keeps it: aiogram would build it every time."""
    return Response[result]


class _Session(AiohttpSession):
    def check_response(
        self, bot: Bot, method: TelegramMethod[TelegramType], status_code: int, content: str
    ) -> Response[TelegramType]:
        _keep_response_model(method.__returning__)
        return super().check_response(bot, method, status_code, content)


class TelegramClient:
    """One bot's connection. Calls raise a `PlatformError` of `bots/telegram/connection.py`, chained with aiogram's."""

    def __init__(self, bot: Bot, token: str) -> None:
        self._bot = bot
        self._token = token

    @classmethod
    def connect(cls, token: str, api_url: str) -> TelegramClient:
        """Make a client; nothing is sent yet. Raises `TokenRefused` for a text that cannot be a token."""
        session = _Session(api=TelegramAPIServer.from_base(api_url), timeout=RESPONSE_TIMEOUT_S)
        try:
            return cls(Bot(token, session=session), token)
        except TokenValidationError as error:
            raise TokenRefused(REFUSED_MESSAGE) from error

    async def get_identity(self) -> Identity:
        """Return who the bot is."""
        me = await self._call(methods.GetMe())
        return Identity(me.id, me.username or "", bool(me.can_read_all_group_messages))

    async def get_updates(self, offset: int | None, wait_s: int, more_kinds: Sequence[str] = ()) -> list[Any]:
        """Return what came in at or after `offset`, as raw JSON values, waiting at most `wait_s` for the first."""
        kinds = [*ALLOWED_UPDATES, *more_kinds]
        method = RawUpdates(offset=offset, limit=MAX_UPDATES, timeout=wait_s, allowed_updates=kinds)
        return await self._call(method, timeout_s=wait_s + RESPONSE_TIMEOUT_S)

    def parse_update(self, raw: object) -> types.Update:
        """Read one raw update. Raises `ValueError` for a malformed one."""
        return types.Update.model_validate(raw, context={"bot": self._bot})

    async def remove_webhook(self) -> str:
        """Remove a webhook, which would keep all updates from us, and return its URL; pending updates stay."""
        url = (await self._call(methods.GetWebhookInfo())).url
        if url:
            await self._call(methods.DeleteWebhook(drop_pending_updates=False))
        return url

    async def set_commands(self, commands: CommandMenu, admin_commands: CommandMenu, language: str = "en") -> None:
        """Set the command menus, as (name, description): everybody's, and that of a group's administrators.

        Those in English are for everybody whose language has none.
        """
        language_code = language if language != "en" else None
        for scope, entries in (
            (types.BotCommandScopeDefault(), commands),
            (types.BotCommandScopeAllPrivateChats(), commands),
            (types.BotCommandScopeAllGroupChats(), commands),
            (types.BotCommandScopeAllChatAdministrators(), admin_commands),
        ):
            menu = [types.BotCommand(command=name, description=summary) for name, summary in entries]
            await self._call(methods.SetMyCommands(commands=menu, scope=scope, language_code=language_code))

    async def get_administrators(self, chat_id: int) -> frozenset[int]:
        """Return the ids of the people who administer a group; those who stay anonymous are among them."""
        call: methods.TelegramMethod[Any] = RawAdministrators(chat_id=chat_id)
        members = await self._call(call)
        people = (
            member["user"] for member in members if isinstance(member, dict) and isinstance(member.get("user"), dict)
        )
        return frozenset(user["id"] for user in people if isinstance(user.get("id"), int) and not user.get("is_bot"))

    async def get_member(self, chat_id: int, user_id: int) -> dict[str, Any]:
        """Return what somebody is in a group."""
        call: methods.TelegramMethod[Any] = RawMember(chat_id=chat_id, user_id=user_id)
        member = await self._call(call)
        return member if isinstance(member, dict) else {}

    async def send_message(
        self,
        chat_id: int,
        thread_id: int | None,
        text: str,
        *,
        is_html: bool,
        reply_to: int | None = None,
        buttons: ButtonRows = (),
    ) -> int:
        """Send a message and return its id. `is_html` says whether the text is HTML or plain."""
        reply = types.ReplyParameters(message_id=reply_to) if reply_to is not None else None
        method = methods.SendMessage(
            chat_id=chat_id,
            message_thread_id=thread_id,
            text=text,
            parse_mode="HTML" if is_html else None,
            reply_parameters=reply,
            reply_markup=_to_keyboard(buttons),
            link_preview_options=types.LinkPreviewOptions(is_disabled=True),
        )
        return (await self._call(method)).message_id

    async def edit_message(
        self, chat_id: int, message_id: int, text: str, *, is_html: bool, buttons: ButtonRows = ()
    ) -> None:
        """Replace the text of one of the bot's messages, and its buttons."""
        await self._call(
            methods.EditMessageText(
                chat_id=chat_id,
                message_id=message_id,
                text=text,
                parse_mode="HTML" if is_html else None,
                reply_markup=_to_keyboard(buttons),
                link_preview_options=types.LinkPreviewOptions(is_disabled=True),
            )
        )

    async def edit_rich_message(self, chat_id: int, message_id: int, html: str, *, buttons: ButtonRows = ()) -> None:
        """Replace one of the bot's messages by a rich one. Raises `RichRefused`."""
        await self._call_rich(
            RawEdit(
                chat_id=chat_id,
                message_id=message_id,
                rich_message=_to_rich_message(html),
                reply_markup=_to_keyboard(buttons),
            )
        )

    async def send_rich_draft(
        self, chat_id: int, thread_id: int | None, draft_id: int, html: str, *, can_stop: bool = False
    ) -> None:
        """Show a rich message that is still being written, as `send_draft` does a text. Raises `RichRefused`."""
        await self._call_rich(
            methods.SendRichMessageDraft(
                chat_id=chat_id,
                message_thread_id=thread_id,
                draft_id=draft_id,
                rich_message=_to_rich_message(html),
                **_get_stop_options(can_stop),
            )
        )

    async def delete_message(self, chat_id: int, message_id: int) -> None:
        """Delete one of the bot's messages."""
        await self._call(methods.DeleteMessage(chat_id=chat_id, message_id=message_id))

    async def send_draft(
        self, chat_id: int, thread_id: int | None, draft_id: int, text: str, *, is_html: bool, can_stop: bool = False
    ) -> None:
        """Show a text that is still being written, in a private chat. `draft_id` is not zero.

        `can_stop` shows a button to stop it, which comes back as an update; what is there stays until the answer does.
        """
        await self._call(
            methods.SendMessageDraft(
                chat_id=chat_id,
                message_thread_id=thread_id,
                draft_id=draft_id,
                text=text,
                parse_mode="HTML" if is_html else None,
                **_get_stop_options(can_stop),
            )
        )

    async def send_typing(self, chat_id: int, thread_id: int | None) -> None:
        """Show for about 5 s that the bot is typing."""
        await self._call(methods.SendChatAction(chat_id=chat_id, message_thread_id=thread_id, action="typing"))

    async def edit_buttons(self, chat_id: int, message_id: int, buttons: ButtonRows) -> None:
        """Replace the buttons below one of the bot's messages."""
        await self._call(RawButtons(chat_id=chat_id, message_id=message_id, reply_markup=_to_keyboard(buttons)))

    async def answer_callback_query(self, query_id: str, text: str) -> None:
        """Answer a click on a button with a notice that only that user sees."""
        await self._call(methods.AnswerCallbackQuery(callback_query_id=query_id, text=text))

    async def download_file(self, file_id: str, max_bytes: int) -> bytes:
        """Return a file's content. Raises `PlatformError` for one of more than `max_bytes` bytes."""
        path = (await self._call(methods.GetFile(file_id=file_id))).file_path or ""
        session = self._bot.session
        async with aclosing(session.stream_content(session.api.file_url(self._token, path))) as chunks:
            return await read_limited(chunks, max_bytes)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._bot.session.close()

    async def _call_rich(self, method: methods.TelegramMethod[Any]) -> None:
        try:
            await self._call(method)
        except (Refused, NotAllowed) as error:
            is_unknown = any(phrase in str(error).lower() for phrase in _UNKNOWN_RICH_MESSAGE)
            raise RichRefused(str(error), is_unknown=is_unknown) from error

    async def _call(self, method: methods.TelegramMethod[TelegramType], timeout_s: int | None = None) -> TelegramType:
        try:
            result: TelegramType = await self._bot(method, request_timeout=timeout_s)
        except (exceptions.AiogramError, OSError, ValidationError) as error:
            # Some network errors repeat the URL, and with it the token.
            detail = (getattr(error, "message", "") or str(error)).replace(self._token, "<token>")
            raise _to_platform_error(error, method.__api_method__, detail) from error
        return result


def _to_keyboard(rows: ButtonRows) -> types.InlineKeyboardMarkup | None:
    keyboard = [[types.InlineKeyboardButton(text=label, callback_data=data) for label, data in row] for row in rows]
    return types.InlineKeyboardMarkup(inline_keyboard=keyboard) if keyboard else None


def _get_stop_options(can_stop: bool) -> dict[str, Any]:
    # Servers before Bot API 10.3 leave out what they do not know.
    return {"can_stop": True, "keep_on_stop": True} if can_stop else {}


def _to_rich_message(html: str) -> types.InputRichMessage:
    # What is a link has a tag already, and a name must not notify anybody.
    return types.InputRichMessage(html=html, skip_entity_detection=True)


def _to_platform_error(error: Exception, call: str, detail: str) -> PlatformError:
    """Return the error that an error of aiogram means."""
    lower_detail = detail.lower()
    platform_error: PlatformError = Refused(f"Telegram refused {call}: {detail}")
    if isinstance(error, exceptions.TelegramRetryAfter):
        platform_error = RetryLater(
            f"Telegram asks to wait {error.retry_after} s before {call}", float(error.retry_after)
        )
    elif "too many requests" in lower_detail:
        platform_error = RetryLater(f"Telegram asks to slow down before {call}", 1.0)
    elif isinstance(error, exceptions.TelegramMigrateToChat):
        platform_error = ChatMigrated(
            f"the group became the supergroup {error.migrate_to_chat_id}", error.migrate_to_chat_id
        )
    elif isinstance(error, exceptions.TelegramBadRequest):
        for phrase, error_class, meaning in _BAD_REQUEST_ERRORS:
            if phrase in lower_detail:
                return error_class(f"{meaning} (Telegram: {detail})")
    elif "method not found" not in lower_detail:
        for errors, error_class, meaning in _ERROR_MAPPING:
            if isinstance(error, errors):
                return error_class(meaning.format(call=call, detail=detail[:300]))
    return platform_error


class RawUpdates(methods.GetUpdates):
    """getUpdates with the updates as they came: aiogram's own refuses the whole batch for one bad update."""

    __returning__ = list[Any]


class RawAdministrators(methods.GetChatAdministrators):
    """getChatAdministrators with the members as they came: of their many kinds nothing but the user is needed."""

    __returning__ = list[Any]


class RawMember(methods.GetChatMember):
    """getChatMember with the member as it came."""

    __returning__ = dict[str, Any]


class RawEdit(methods.EditMessageText):
    """editMessageText without a look at the message that it returns: it is done, whatever that looks like."""

    __returning__ = dict[str, Any] | bool


class RawButtons(methods.EditMessageReplyMarkup):
    """editMessageReplyMarkup without a look at the message that it returns."""

    __returning__ = dict[str, Any] | bool
