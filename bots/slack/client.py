"""The Web API through slack_sdk: the few calls we make, typed, with every failure mapped.

Loading slack_sdk takes a moment: import this module in a worker thread.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from bots.common.bounded_response import BoundedResponse, ResponseTooLarge
from bots.common.connection import Refused, RetryLater, Unreachable
from bots.common.downloads import download
from bots.slack.channel_directory import ChannelInfo
from bots.slack.connection import retry_after, to_platform_error
from bots.slack.convert import Identity, get_file_url
from core.errors import PlatformError

# Slack's layout of a message, as JSON.
Blocks = Sequence[dict[str, Any]]
MAX_HISTORY_PAGES = 10
# A page of messages, and one of a history that is too large for that: a message may have 40,000 characters, twice.
PAGE_SIZE = 200
SMALL_PAGE_SIZE = 5
MAX_PROMPT_TITLE_CHARS = 75
# The scope that an app has as an agent.
AGENT_SCOPE = "assistant:write"


class _Response(BoundedResponse):
    # Asked for in smaller pages beyond it.
    max_bytes = 4 * 2**20


class SlackClient:
    """One bot's connection. Calls raise a `PlatformError` of `bots/slack/connection.py`, chained with slack_sdk's."""

    def __init__(self, web: AsyncWebClient, session: aiohttp.ClientSession, app_token: str) -> None:
        self.web = web
        self.session = session
        self._app_token = app_token
        self._team = ""
        self._user_id = ""
        self._bot_ids: tuple[str, ...] = ()

    @classmethod
    def connect(cls, bot_token: str, app_token: str, api_url: str, timeout_s: float) -> SlackClient:
        """Make a client inside the running loop; nothing is sent yet."""
        session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout_s), trust_env=True, response_class=_Response
        )
        # No retries of its own: what is retried, and when, the reply decides, which knows what was posted already.
        web = AsyncWebClient(bot_token, base_url=api_url, session=session, retry_handlers=[], logger=get_quiet_logger())
        # The session reads the proxy from the environment, and unlike slack_sdk heeds its exceptions.
        web.proxy = None
        return cls(web, session, app_token)

    async def get_identity(self) -> Identity:
        """Return who the bot is."""
        response = await _get_response(self.web.auth_test(), "auth.test", "bot_token")
        me = _get_data(response, "auth.test")
        self._team = str(me.get("team_id") or "")
        self._user_id = str(me.get("user_id") or "")
        self._bot_ids = (str(me["bot_id"]),) if me.get("bot_id") else ()
        values = {name: str(me.get(name) or "") for name in ("user_id", "team_id", "team", "bot_id")}
        return Identity(**values, name=str(me.get("user") or ""), is_agent=AGENT_SCOPE in _get_scopes(response))

    async def get_scopes(self) -> frozenset[str]:
        """Return the scopes of the bot's token; empty where Slack does not say."""
        return _get_scopes(await _get_response(self.web.auth_test(), "auth.test", "bot_token"))

    async def read_newest(self, channel: str) -> None:
        """Read the newest message of a channel. Raises `NotAllowed` where the bot is not in it."""
        await _call(self.web.conversations_history(channel=channel, limit=1), "conversations.history")

    async def get_channel(self, channel: str) -> ChannelInfo:
        """Return what a channel is called, and who reads it (scope channels:read, of private ones groups:read)."""
        info = (await _call(self.web.conversations_info(channel=channel), "conversations.info")).get("channel")
        if not isinstance(info, dict):
            return ChannelInfo("", is_shared=None)
        is_conversation = info.get("is_im") or info.get("is_mpim") or not info.get("name")
        return ChannelInfo("" if is_conversation else f"#{info['name']}", is_shared=info.get("is_ext_shared") is True)

    async def get_socket_url(self) -> str:
        """Return the address of a new Socket Mode connection, good for one use within seconds."""
        call = self.web.apps_connections_open(app_token=self._app_token)
        url = str((await _call(call, "apps.connections.open", "app_token")).get("url") or "")
        if not url.startswith(("ws://", "wss://")):
            raise Unreachable("Slack's answer to apps.connections.open has no address")
        return url

    async def post(
        self, channel: str, thread_ts: str | None, text: str, blocks: Blocks = (), *, label: str = ""
    ) -> str:
        """Post a message of mrkdwn, links not unfurled, and return its timestamp.

        `blocks` are shown in the place of the text. `find_own` finds the message by its label.
        """
        call = self.web.chat_postMessage(
            channel=channel,
            thread_ts=thread_ts,
            text=text,
            blocks=list(blocks) or None,
            unfurl_links=False,
            unfurl_media=False,
            metadata=_to_metadata(label),
        )
        return _get_ts(await _call(call, "chat.postMessage"), "chat.postMessage")

    async def post_ephemeral(
        self, channel: str, user_id: str, text: str, thread_ts: str = "", blocks: Blocks = ()
    ) -> None:
        """Post a message of mrkdwn that only one user sees; `blocks` are shown in the place of the text."""
        call = self.web.chat_postEphemeral(
            channel=channel, user=user_id, text=text, thread_ts=thread_ts or None, blocks=list(blocks) or None
        )
        await _call(call, "chat.postEphemeral")

    async def find_own(self, channel: str, thread_ts: str | None, after_ts: str, label: str) -> str:
        """Return the timestamp of the bot's first message after another that has this label, or "".

        A message that is being streamed has no label and stands for a first part. Scopes: the channels' history.
        """
        async for message in self._iter_own(channel, thread_ts, after_ts):
            payload = (message.get("metadata") or {}).get("event_payload") or {}
            # Streams have no label, and only the first part is one.
            if payload.get("label") == label or ("label" not in payload and label.endswith("/0")):
                return str(message["ts"])
        return ""

    async def find_response(self, channel: str, after_ts: str, texts: Collection[str]) -> str:
        """Return the timestamp of the bot's answer to a command, with one of these texts, in a channel, or "".

        Such messages have no label. Scopes: the channels' history.
        """
        async for message in self._iter_own(channel, None, after_ts):
            if message.get("text") in texts:
                return str(message["ts"])
        return ""

    async def _iter_own(self, channel: str, thread_ts: str | None, after_ts: str) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the bot's messages in a channel, or in a thread, after a moment."""
        params: dict[str, Any] = {"oldest": after_ts, "include_all_metadata": True}
        async for message in self._iter_history(channel, thread_ts, params):
            # Answers to commands may name the app's bot alone.
            is_own = message.get("user") == self._user_id or message.get("bot_id", "") in self._bot_ids
            if is_own and str(message.get("ts", "")) > after_ts:
                yield message

    async def read_thread(self, channel: str, thread_ts: str, before_ts: str) -> list[dict[str, Any]]:
        """Return the messages of a thread before another one, at most 200: the first of all, then the next."""
        messages: list[dict[str, Any]] = []
        async for message in self._iter_history(channel, thread_ts, {"latest": before_ts}, max_pages=1):
            # The first message of the thread comes, whatever is asked for.
            if str(message.get("ts", "")) < before_ts:
                messages.append(message)
        return messages

    async def _iter_history(
        self, channel: str, thread_ts: str | None, params: Mapping[str, Any], *, max_pages: int = MAX_HISTORY_PAGES
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of a channel, or of a thread. Where members wrote very long ones, pages get shorter."""
        page_size = PAGE_SIZE
        cursor = ""
        page_count = 0
        while page_count < max_pages:
            page = {**params, "channel": channel, "limit": page_size} | ({"cursor": cursor} if cursor else {})
            try:
                if thread_ts is None:
                    data = await _call(self.web.conversations_history(**page), "conversations.history")
                else:
                    data = await _call(self.web.conversations_replies(ts=thread_ts, **page), "conversations.replies")
            except Unreachable as error:
                if page_size == SMALL_PAGE_SIZE or not isinstance(error.__cause__, ResponseTooLarge):
                    raise
                page_size = SMALL_PAGE_SIZE
                max_pages = MAX_HISTORY_PAGES
                continue
            page_count += 1
            messages = data.get("messages")
            for message in messages if isinstance(messages, list) else ():
                yield message
            cursor = str((data.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                break

    async def update(self, channel: str, ts: str, text: str, blocks: Blocks = (), *, label: str = "") -> None:
        """Replace one of the bot's messages by mrkdwn. `blocks` are shown in the place of the text."""
        # Other than for a new message, names would be linked by default, and old blocks shown in place of the text.
        call = self.web.chat_update(
            channel=channel, ts=ts, text=text, parse="none", blocks=list(blocks), metadata=_to_metadata(label)
        )
        await _call(call, "chat.update")

    async def delete(self, channel: str, ts: str) -> None:
        """Delete one of the bot's messages."""
        await _call(self.web.chat_delete(channel=channel, ts=ts), "chat.delete")

    async def start_stream(
        self, channel: str, thread_ts: str, text: str, recipient: tuple[str, str], blocks: Blocks = ()
    ) -> str:
        """Begin a streamed message of Markdown, below some blocks, and return its timestamp.

        The recipient is who asked: their workspace ("" for ours) and their id.
        """
        team_id, user_id = recipient
        chunks: list[dict[str, Any]] = [
            {"type": "blocks", "blocks": list(blocks)},
            {"type": "markdown_text", "text": text},
        ]
        call = self.web.chat_startStream(
            channel=channel,
            thread_ts=thread_ts,
            markdown_text=None if blocks else text,
            chunks=chunks if blocks else None,
            recipient_team_id=team_id or None,
            recipient_user_id=user_id,
        )
        return _get_ts(await _call(call, "chat.startStream"), "chat.startStream")

    async def append_stream(self, channel: str, ts: str, text: str) -> None:
        """Append Markdown to a streamed message."""
        await _call(self.web.chat_appendStream(channel=channel, ts=ts, markdown_text=text), "chat.appendStream")

    async def stop_stream(self, channel: str, ts: str) -> None:
        """End a streamed message; from then on it can be edited."""
        await _call(self.web.chat_stopStream(channel=channel, ts=ts), "chat.stopStream")

    async def set_status(self, channel: str, thread_ts: str, status: str) -> None:
        """Show in a thread what the bot is doing. It goes when the bot posts there, or for an empty status."""
        call = self.web.assistant_threads_setStatus(channel_id=channel, thread_ts=thread_ts, status=status)
        await _call(call, "assistant.threads.setStatus")

    async def set_title(self, channel: str, thread_ts: str, title: str) -> None:
        """Name a conversation of the assistant view (scope assistant:write)."""
        call = self.web.assistant_threads_setTitle(channel_id=channel, thread_ts=thread_ts, title=title)
        await _call(call, "assistant.threads.setTitle")

    async def set_session(self, channel: str, thread_ts: str, status: str, title: str) -> None:
        """Set the state of a conversation of the agent view: "processing" or "active". The first call names it."""
        values = {"channel_id": channel, "thread_ts": thread_ts, "status": status}
        values |= {"title": title} if title else {}
        await _call(self.web.api_call("agents.sessions.setStatus", json=values), "agents.sessions.setStatus")

    async def suggest(self, channel: str, thread_ts: str, title: str, questions: Sequence[str]) -> None:
        """Suggest up to four questions (scope assistant:write), in a thread or, in the agent view, where one begins."""
        prompts = [{"title": question[:MAX_PROMPT_TITLE_CHARS], "message": question} for question in questions]
        call = self.web.assistant_threads_setSuggestedPrompts(
            channel_id=channel, thread_ts=thread_ts or None, title=title, prompts=prompts
        )
        await _call(call, "assistant.threads.setSuggestedPrompts")

    async def publish_home(self, user_id: str, view: dict[str, Any]) -> None:
        """Show a view on somebody's App Home."""
        await _call(self.web.views_publish(user_id=user_id, view=view), "views.publish")

    async def open_modal(self, trigger_id: str, view: dict[str, Any]) -> None:
        """Open a modal for the user of a trigger: a command or a click, at most three seconds ago, and only once."""
        await _call(self.web.views_open(trigger_id=trigger_id, view=view), "views.open")

    async def download_file(self, file_id: str, max_bytes: int) -> bytes:
        """Return a file (scope files:read). Raises `PlatformError` for one of more than `max_bytes` bytes."""
        found = (await _call(self.web.files_info(file=file_id), "files.info")).get("file")
        file_info = found if isinstance(found, dict) else {}
        url = get_file_url(file_info, self.web.base_url)
        if not url:
            raise PlatformError("the file is gone, or not on Slack's servers")
        headers = {"Authorization": f"Bearer {self.web.token}"}
        content = await download(self.session, url, max_bytes, headers)
        is_page = content[:64].lstrip().lower().startswith(b"<!doctype html")
        if is_page and file_info.get("mimetype") != "text/html":
            raise PlatformError("Slack shows a page to log in: the app lacks the scope files:read")
        return content

    async def is_admin(self, user_id: str) -> bool:
        """Return whether somebody is an administrator or owner of the workspace (scope users:read)."""
        member = await self._get_member(user_id)
        return any(member.get(flag) is True for flag in ("is_admin", "is_owner", "is_primary_owner"))

    async def is_member(self, user_id: str) -> bool:
        """Return whether somebody belongs to the workspace (scope users:read)."""
        return bool(await self._get_member(user_id))

    async def _get_member(self, user_id: str) -> Mapping[str, Any]:
        """Return what is known of a member of the workspace; nothing for others."""
        user_info = (await _call(self.web.users_info(user=user_id), "users.info")).get("user")
        if not isinstance(user_info, dict) or user_info.get("is_bot") or not _belongs_to_team(self._team, user_info):
            return {}
        return {} if user_info.get("deleted") or user_info.get("is_stranger") else user_info

    async def add_reaction(self, channel: str, ts: str, name: str) -> None:
        """Put a reaction on a message. One that is there already is fine."""
        await _call(
            self.web.reactions_add(channel=channel, timestamp=ts, name=name),
            "reactions.add",
            ignored_error="already_reacted",
        )

    async def remove_reaction(self, channel: str, ts: str, name: str) -> None:
        """Take our reaction off a message. One that is not there is fine."""
        call = self.web.reactions_remove(channel=channel, timestamp=ts, name=name)
        await _call(call, "reactions.remove", ignored_error="no_reaction")

    async def respond(self, response_url: str, text: str, *, in_channel: bool, blocks: Blocks = ()) -> None:
        """Answer a slash command, to everybody in the channel or to the asker alone."""
        response_type = "in_channel" if in_channel else "ephemeral"
        await self._post_webhook(response_url, text, blocks, response_type=response_type)

    async def respond_to_action(
        self, response_url: str, text: str, blocks: Blocks, *, replace_original: bool, thread_ts: str = ""
    ) -> None:
        """Answer a click on a button for that user alone, in place of the message above the button or below it."""
        options: dict[str, Any] = {"response_type": "ephemeral", "replace_original": replace_original}
        if thread_ts:
            options["thread_ts"] = thread_ts
        await self._post_webhook(response_url, text, blocks, **options)

    async def _post_webhook(self, response_url: str, text: str, blocks: Blocks, **options: Any) -> None:
        webhook = AsyncWebhookClient(response_url, session=self.session, retry_handlers=[], logger=get_quiet_logger())
        webhook.proxy = None
        options |= {"unfurl_links": False, "unfurl_media": False, **({"blocks": list(blocks)} if blocks else {})}
        try:
            response = await webhook.send_dict({"text": text, **options})
        except (SlackClientError, aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(f"Slack cannot be reached to answer a command: {type(error).__name__}") from error
        if response.status_code == 429:
            raise RetryLater("Slack asks to slow down before answering a command", retry_after(response.headers))
        if response.status_code >= 500:
            raise Unreachable(f"Slack failed to take the answer to a command ({response.status_code})")
        if response.status_code != 200:
            raise Refused(f"Slack takes no such answer to the command ({str(response.body)[:100]})")

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self.session.close()


def _to_metadata(label: str) -> dict[str, Any] | None:
    return {"event_type": "kimas_reply", "event_payload": {"label": label}} if label else None


def get_quiet_logger() -> logging.Logger:
    """Return the logger for Slack's libraries: at their lower levels they repeat what people write."""
    quiet_logger = logging.getLogger("slack_sdk.kimas")
    quiet_logger.setLevel(logging.ERROR)
    return quiet_logger


def redact_error(error: Exception) -> str:
    """Return what an error says: some errors of the network repeat an address, and with it a token or a ticket."""
    text = re.sub(r"xapp-[\w-]+|xox[a-z]-[\w-]+|\?[^\s'\"]+", "<secret>", str(error))
    return text[:200] or type(error).__name__


def _belongs_to_team(team: str, user: Mapping[str, Any]) -> bool:
    """Return whether somebody is of a workspace: a shared channel has people who are administrators of theirs."""
    enterprise_user = user.get("enterprise_user")
    teams = enterprise_user.get("teams") if isinstance(enterprise_user, Mapping) else None
    return user.get("team_id") in (None, team) or (isinstance(teams, list) and team in teams)


async def _call(
    call: Awaitable[Any], name: str, credential: str = "bot_token", *, ignored_error: str = ""
) -> dict[str, Any]:
    """Make a call and return the response's content; the error code `ignored_error` counts as success."""
    response = await _get_response(call, name, credential, ignored_error=ignored_error)
    return {} if response is None else _get_data(response, name)


def _get_data(response: Any, name: str) -> dict[str, Any]:
    if not isinstance(response.data, dict):
        raise Unreachable(f"Slack's answer to {name} is no object")
    return response.data


def _get_scopes(response: Any) -> frozenset[str]:
    headers = {str(name).lower(): str(value) for name, value in dict(response.headers).items()}
    return frozenset(filter(None, re.split(r"[,\s]+", headers.get("x-oauth-scopes", ""))))


async def _get_response(call: Awaitable[Any], name: str, credential: str, *, ignored_error: str = "") -> Any:
    """Make a call and return the response; None for the error code `ignored_error`."""
    try:
        return await call
    except SlackApiError as error:
        response = error.response
        error_code = response.data.get("error") if isinstance(getattr(response, "data", None), dict) else None
        status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0) or 0)
        if ignored_error and error_code == ignored_error:
            return None
        raise to_platform_error(
            name, credential, str(error_code or ""), status, getattr(response, "headers", {})
        ) from error
    except (SlackClientError, aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"Slack cannot be reached for {name}: {redact_error(error)}") from error
    except (AttributeError, TypeError, ValueError) as error:
        # slack_sdk takes a reply that is no JSON object for one.
        raise Unreachable(f"Slack's answer to {name} makes no sense: {error}") from error


def _get_ts(data: dict[str, Any], call: str) -> str:
    ts = data.get("ts")
    if not isinstance(ts, str) or not ts:
        raise Unreachable(f"Slack's answer to {call} has no timestamp")
    return ts
