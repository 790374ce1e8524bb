"""Slack as a platform: who the bot is, and how its events are taken, each made safe before Slack is told so."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from bots.common.connection import Line, Outage
from bots.common.proactive import muted
from bots.slack.administrators import Administrators
from bots.slack.commands import ACKNOWLEDGED, CHOSEN, CommandSink, to_lesson
from bots.slack.convert import Deleted, Identity, Ignored, from_command, from_event
from bots.slack.errors import Pace, TokenRefused, Turns
from bots.slack.feedback import PRESSED, PressSink, to_press
from bots.slack.settings_modal import FIELD, SUBMITTED, FieldSink, Submission, Submissions, to_submission, view_of
from bots.slack.sink import Shared, SlackSink
from bots.slack.status import Lacking
from bots.slack.thread_cache import AnsweredIn, Memory
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.policy.posts import by_bot
from core.observability.logs import logger
from core.types import Attachment, Message

if TYPE_CHECKING:
    from bots.slack.client import Client
    from core.messaging.commands.form import Form
    from core.ports import Delivery, Receive, Sink
    from core.settings import Secret, SlackSettings

Result = TypeVar("Result")

UNREADABLE = "slack.{which} cannot be read: {error}. docs/slack.md says where it comes from"
# The client's calls that show nothing to anybody, and what holds the connection.
READS = frozenset(("identity", "socket_url", "is_administrator", "fetch", "close", "web", "session"))


class SlackAdapter:
    """One Slack app in one workspace.

    Slack takes an event for delivered once it is acknowledged, and delivers it again otherwise. So every message is
    handed to `receive`, which makes it durable, before the acknowledgement. `skipped` counts payloads that became no
    message, by reason; `port` is where HTTP is listened on, once it is. In the channels `counted`, other bots' messages
    are delivered as well, to be counted. With `mute` nothing is ever shown.
    """

    name = "slack"
    inherits = True

    def __init__(
        self,
        settings: SlackSettings,
        answered_in: AnsweredIn,
        pace: Pace | None = None,
        *,
        counted: Collection[str] = (),
        mute: bool = False,
    ) -> None:
        self._mute = mute
        self._settings = settings
        self._counted = counted
        self._pace = pace or Pace()
        self.line = Line()
        self._memory = Memory(answered_in)
        self._administrators = Administrators()
        self._submissions = Submissions(self._pace.submit_s)
        self._shared: Shared | None = None
        self._me = Identity("")
        self._url = ""
        self.skipped: Counter[str] = Counter()
        self.port = 0

    @property
    def bot(self) -> str:
        """The bot's own id, once it is open."""
        return self._me.user_id

    async def open(self) -> None:
        """Learn who the bot is, and try the app token where there is one.

        Outages are waited out. Raises `PlatformError` for a token that is missing or refused.
        """
        client = await _connect(self._settings, self._pace)
        client = muted(client, READS) if self._mute else client
        self._shared = Shared(client, self._memory, Turns(), Lacking(), self._pace)
        try:
            self._me = await self._reached(client.identity)
            if self._settings.app_token is not None:
                # Good for the first connection; asking for another one right away would be asking too often.
                self._url = await self._reached(client.socket_url)
        except BaseException:
            await self.close()
            raise
        logger(__name__).info("slack.open", bot=self._me.name, workspace=self._me.team)

    async def listen(self, receive: Receive) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked token."""
        from bots.slack.events import Events

        settings = self._settings
        secret = await _value("signing_secret", settings.signing_secret)
        events = Events(self._opened().client, secret, lambda payload: self._take(payload, receive))
        if settings.app_token is not None:
            await self._follow(events.follow)
        async with events.serving(settings.host, settings.port, settings.path) as self.port:
            self.line.up()
            logger(__name__).info("slack.listening", host=settings.host, port=self.port, path=settings.path)
            await asyncio.Event().wait()

    def sink(self, message: Message, delivery: Delivery, previous: str = "") -> Sink:
        """Return a sink that answers this message; `previous` is the timestamp of a reply posted before a crash."""
        shared = self._opened()
        # Another bot's reply cannot be edited.
        mine = previous if message.bot in ("", self._me.user_id) else ""
        if is_press(message):
            return PressSink(shared.client, message, self._pace)
        if FIELD in message.reference:
            return FieldSink(shared.client, self._submissions, message)
        if "response_url" in message.reference:
            return CommandSink(shared.client, message, delivery, mine, self._pace)
        return SlackSink(shared, message, delivery, mine)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return what is attached to a message. Raises `PlatformError`."""
        return await self._opened().client.fetch(str(attachment.reference["file"]), most)

    async def is_administrator(self, message: Message) -> bool:
        """Say whether the author administers the workspace. Raises `PlatformError`."""
        return await self._administrators.include(self._opened().client, message)

    async def show_form(self, message: Message, form: Form) -> bool:
        """Open a form for the author of a slash command. Raises `PlatformError`, also when it is too late for that."""
        await self._opened().client.open_form(message.id, view_of(form, message))
        return True

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        shared, self._shared = self._shared, None
        if shared is not None:
            await shared.client.close()

    def _opened(self) -> Shared:
        if self._shared is None:
            raise PlatformError("the Slack adapter is not open")
        return self._shared

    async def _follow(self, connection: Callable[[str, float, Callable[[], None]], Awaitable[None]]) -> None:
        """Keep one Socket Mode connection open."""
        outage = Outage("slack", "listening", self._pace, _hint, self.line)
        refusals = 0
        while True:
            url, self._url = self._url, ""
            try:
                url = url or await self._opened().client.socket_url()
                refusals = 0
                await connection(url, self._pace.ping_s, outage.over)
            except TokenRefused as failure:
                # A single refusal may be a hiccup of Slack's.
                refusals += 1
                if refusals > 1:
                    raise
                await outage.wait(failure)
            except PlatformError as failure:
                await outage.wait(failure)

    def _reached(self, call: Callable[[], Awaitable[Result]]) -> Awaitable[Result]:
        return Outage("slack", "opening", self._pace, _hint).outlasted(call)

    async def _take(self, payload: Mapping[str, Any], receive: Receive) -> Mapping[str, Any]:
        """Make one payload safe. Return what Slack is answered. Raises what kept it from being safe."""
        found = self._converted(payload)
        if isinstance(found, Deleted):
            self._memory.delete(found)
        elif isinstance(found, Ignored):
            self.skipped[found.reason] += 1
            tell = logger(__name__).debug if found.expected else logger(__name__).warning
            tell("slack.event_skipped", reason=found.reason, event_id=str(payload.get("event_id", ""))[:100])
        elif isinstance(found, Submission):
            return await self._submissions.settle(found, receive)
        elif found.command:
            await receive(found)
            return {"text": ACKNOWLEDGED} if found.command == "ask" and not self._mute else {}
        elif by_bot(found):
            await receive(found)
        else:
            await receive(await self._memory.placed(found))
        return {}

    def _converted(self, payload: Mapping[str, Any]) -> Message | Deleted | Submission | Ignored:
        interactive = {PRESSED: to_press, SUBMITTED: to_submission, CHOSEN: to_lesson}
        kind = str(payload.get("type"))
        try:
            if isinstance(payload.get("command"), str):
                return from_command(payload, self._me)
            if kind in interactive:
                return interactive[kind](payload, self._me)
            if kind == "event_callback":
                return from_event(payload, self._me, self._counted)
        except Exception as error:
            # It would come again and break the conversion again.
            logger(__name__).warning("slack.event_malformed", error=str(error)[:500])
            return Ignored("malformed", expected=False)
        return Ignored(f"a payload of type {kind[:50]}")


async def identify(settings: SlackSettings) -> str:
    """Return the names of the bot and the workspace that the token belongs to. Raises `PlatformError`."""
    client = await _connect(settings, Pace())
    try:
        me = await client.identity()
        return f"{me.name} in {me.team}"
    finally:
        await client.close()


def _hint(failure: Exception) -> str:
    return "retrying" if isinstance(failure, PlatformError) else "an event could not be made safe"


async def _connect(settings: SlackSettings, pace: Pace) -> Client:
    """Read the tokens and load slack_sdk in a worker thread, and make a client."""
    bot_token = await _value("bot_token", settings.bot_token)
    app_token = await _value("app_token", settings.app_token)
    loaded = await asyncio.to_thread(_load)
    return loaded.connect(bot_token, app_token, settings.api_url, pace.answer_s)


async def _value(which: str, secret: Secret | None) -> str:
    try:
        return "" if secret is None else (await asyncio.to_thread(secret.value)).strip()
    except (KeyError, OSError, UnicodeDecodeError) as error:
        raise PlatformError(UNREADABLE.format(which=which, error=error)) from error


def _load() -> type[Client]:
    import bots.slack.events  # noqa: F401 - slack_bolt too takes its time
    from bots.slack.client import Client

    return Client
