"""Slack's agent view: suggested questions, the title and the state of a conversation, and Slack's own stop button."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bots.common.connection import Refused
from bots.common.events import IgnoredEvent
from bots.common.reply_sink import FinalTextSink
from bots.slack.convert import Identity, to_interaction
from bots.slack.render import render
from bots.slack.status import TIMEOUT_S, MissingCapabilities
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import to_press
from core.observability.logs import get_logger
from core.types import STOP, ConversationKey, Message, MessagePurpose, Origin, Reply
from core.types.messages import PERSONAL_THREAD

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

_log = get_logger(__name__)

HOME_OPENED = "app_home_opened"
THREAD_STARTED = "assistant_thread_started"
CONTEXT_CHANGED = "assistant_thread_context_changed"
SESSION_STOPPED = "agent_session_stopped"
AGENT_EVENTS = (HOME_OPENED, THREAD_STARTED, CONTEXT_CHANGED, SESSION_STOPPED)
# In the reference of a press: the thread in which Slack's own button was pressed.
STOPPED_THREAD = "stopped_thread"
MAX_TITLE_CHARS = 100
# The question that is being answered in a thread, by channel and thread.
OpenQuestions = Mapping[tuple[str, str], str]


def from_agent_event(event: Mapping[str, Any], me: Identity, open_questions: OpenQuestions) -> Message | IgnoredEvent:
    """Convert what somebody does in the agent view or on the App Home, or return why it is ignored.

    To open App Home, or a conversation, asks for a message of the bot's own making (`purpose`); Slack's stop button is
    a press of ours. Raises `KeyError` and the like for a malformed event.
    """
    kind = event["type"]
    if kind == SESSION_STOPPED:
        return _to_stop(event, me, open_questions)
    if kind == THREAD_STARTED:
        thread = event["assistant_thread"]
        location = {"channel": thread["channel_id"], "thread_ts": thread["thread_ts"]}
        return _to_request(event, me, "prompts", user=thread["user_id"], **location)
    if kind == HOME_OPENED and event.get("tab") == "home":
        return _to_request(event, me, "home", user=event["user"], channel=event["channel"])
    if kind == HOME_OPENED and event.get("tab") == "messages" and me.is_agent:
        return _to_request(event, me, "prompts", user=event["user"], channel=event["channel"])
    # The suggestions do not depend on the channel that a person looks at.
    return IgnoredEvent(f"an event of type {kind}")


def _to_request(
    event: Mapping[str, Any], me: Identity, purpose: MessagePurpose, *, user: str, channel: str, thread_ts: str = ""
) -> Message:
    ts = str(event["event_ts"])
    return Message(
        id=f"{purpose} {ts}",
        key=ConversationKey("slack", str(channel), f"{PERSONAL_THREAD}{user}:{purpose}"),
        author_id=str(user),
        author=str(user),
        text="",
        sent_at=datetime.fromtimestamp(float(ts), UTC),
        private=True,
        addressed=True,
        command="help",
        bot=me.user_id,
        reference={"channel": str(channel), "user": str(user), "thread_ts": str(thread_ts)},
        origin=Origin(purpose=purpose),
    )


def _to_stop(event: Mapping[str, Any], me: Identity, open_questions: OpenQuestions) -> Message:
    channel = str(event["channel"])
    thread_ts = str(event["thread_ts"])
    streams = [str(ts) for ts in event.get("streaming_message_ts") or ()]
    # Another daemon may write the answer: then its stream names it, or the message that began the thread.
    question_id = open_questions.get((channel, thread_ts)) or next(iter(streams), thread_ts)
    press = to_interaction(f"stop {event['event_ts']}", channel, {"id": event["user"]}, "", me)
    press = replace(press, reference={"channel": channel, "user": press.author_id, STOPPED_THREAD: thread_ts})
    return to_press(press, STOP, question_id)


class StopSink(FinalTextSink):
    """Answers a press of Slack's own stop button: only people who may not press it get a message."""

    def __init__(self, client: SlackClient, message: Message) -> None:
        self._client = client
        self._reference = message.reference

    async def _show(self, reply: Reply, *, is_error: bool) -> None:
        if is_error:
            channel, user, thread_ts = (str(self._reference[name]) for name in ("channel", "user", STOPPED_THREAD))
            await self._client.post_ephemeral(channel, user, render(reply.text)[0], thread_ts)


class AgentSession:
    """The conversation of one question as the agent view shows it: its title, and whether the bot is at work.

    While it is, Slack shows its own stop button, if the app is subscribed to the event of it. Nothing depends on any
    of that.
    """

    def __init__(self, client: SlackClient, capabilities: MissingCapabilities, message: Message, me: Identity) -> None:
        self._client = client
        self._capabilities = capabilities
        self._thread = str(message.reference["channel"]), str(message.reference.get("thread_ts") or "")
        self._is_used = me.is_agent and message.private and bool(self._thread[1])
        self._title = " ".join(message.text.split())[:MAX_TITLE_CHARS]
        self._is_open = False

    async def begin(self, *, is_untitled: bool) -> None:
        """Show that the bot is at work; `is_untitled` says that nothing has named the conversation yet."""
        if not self._is_used:
            return
        # Noted first: what is cancelled in the middle may be there.
        self._is_open = True
        self._is_open = await self._try("sessions", "processing")
        if not self._is_open and is_untitled and self._title:
            await self._try("title", self._title)

    async def end(self) -> None:
        """Show that the bot is done."""
        if self._is_open:
            await self._try("sessions", "active")

    async def _try(self, capability: str, value: str) -> bool:
        if not self._capabilities.is_available(capability, True):
            return False
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if capability == "title":
                    await self._client.set_title(*self._thread, value)
                else:
                    await self._client.set_session(*self._thread, value, self._title)
        except Refused as error:
            self._capabilities.mark_missing(capability, True, error)
        except (PlatformError, TimeoutError) as error:
            _log.debug("slack.status_not_shown", what=capability, error=str(error))
        else:
            return True
        return False
