"""Adapters that show replies by the sinks of the real platforms, over clients whose words are watched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from bots.bluesky.client import Identity as BlueskyIdentity, Ref
from bots.bluesky.connection import BlueskyIntervals
from bots.bluesky.sink import BlueskySink
from bots.common.caches import BoundedDict
from bots.common.connection import RetryLater, Unreachable
from bots.common.judged_client import judge_calls
from bots.discord.connection import DiscordIntervals
from bots.discord.sink import ChannelTarget, DiscordSink, InteractionTarget
from bots.forges.client import Account, Comment, Identity as ForgeIdentity, Topic
from bots.forges.connection import ForgeIntervals
from bots.forges.sink import ForgeSink
from bots.http.client import HttpIntervals
from bots.http.sink import HttpSink, HttpSinkContext
from bots.mastodon.client import Identity as MastodonIdentity
from bots.mastodon.connection import MastodonIntervals
from bots.mastodon.sink import MastodonSink
from bots.slack.connection import RateLimiter, SlackIntervals
from bots.slack.convert import Identity as SlackIdentity
from bots.slack.sink import SlackSink, SlackSinkContext
from bots.slack.status import MissingCapabilities
from bots.slack.thread_cache import ThreadCache
from bots.telegram.connection import ServerCapabilities, TelegramIntervals
from bots.telegram.sink import TelegramSink
from core.messaging.feedback.rating_buttons import is_press
from core.ports import Delivery, Sink
from core.settings import GithubSettings, GitlabSettings, Secret
from core.types import Attachment, Message, Reply
from core.types.forms import SettingsForm
from tests.support.interleaving import LONGEST_S, Interruptions, Watch
from tests.support.recording_bot import RecordingAdapter

PLATFORMS = ("telegram", "slack", "discord", "mastodon", "bluesky", "github", "gitlab", "http")
NUMBERS = count(1)
# How the calls of the platforms' clients begin that bring no words; as in tests/security/test_places.py.
WORDLESS = (
    "add_label",
    "add_reaction",
    "delete",
    "find_",
    "get_",
    "list_",
    "remove_",
    "send_typing",
    "set_status",
    "stop_stream",
    "wait_",
)
NOBODY = Account("", 0)
# What clients read, where a sink looks at more than whether there is something.
READ: dict[str, Any] = {
    "get_messages": [],
    "get_profiles": [],
    "get_thread": {"post": {"author": {}}},
    "get_topic": Topic("acme/launcher", "issues/1", 1, "", "", NOBODY, 0.0),
    "get_comment": Comment(1, "issues/1", "", NOBODY, 0.0, 0.0),
    "list_comments_below": [],
}
NOW: dict[str, Any] = {"retry_s": 0.0, "retry_timeout_s": LONGEST_S, "shutdown_grace_s": 0.0}


class WatchedClient:
    """Takes every call of a platform's client. Those that bring words are watched; each may be interrupted."""

    def __init__(self, message: Message, watch: Watch, interruptions: Interruptions) -> None:
        self._message = message
        self._watch = watch
        self._interruptions = interruptions

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **options: Any) -> Any:
            if name.startswith(WORDLESS):
                await self._interruptions.reach("look")
                return READ.get(name, "")
            if self._interruptions.is_refused():
                raise RetryLater("the platform is away", seconds=2 * LONGEST_S)
            self._watch.see_shown(self._message, json.dumps((arguments, options), ensure_ascii=False, default=str))
            await self._interruptions.reach("try")
            if await self._interruptions.reach("retry"):
                raise Unreachable("the response was lost")
            number = next(NUMBERS)
            match self._message.key.platform:
                case "telegram":
                    return number
                case "bluesky":
                    return Ref(f"at://did:plc:bot/app.bsky.feed.post/{number}", "cid")
            return str(number)

        return call


@dataclass(eq=False)
class WatchedSink(Sink):
    """Takes what a press of a button is answered with."""

    message: Message
    watch: Watch

    async def open(self) -> None:
        return None

    async def update(self, text: str) -> None:
        self.watch.see_shown(self.message, text)

    async def finish(self, reply: Reply) -> None:
        self.watch.see_shown(self.message, reply.text)

    async def fail(self, text: str) -> None:
        self.watch.see_shown(self.message, text)


@dataclass(eq=False)
class WatchedAdapter(RecordingAdapter):
    """Shows replies by the sinks of the real platforms; on Discord, by that of a slash command."""

    watch: Any = None
    interruptions: Interruptions = field(default_factory=Interruptions)
    # Over HTTP: the messages that somebody has deleted.
    deletions: BoundedDict[tuple[str, str], None] = field(default_factory=lambda: BoundedDict(10))
    can_fetch_attachments = True
    # One among those of a daemon.
    __hash__ = object.__hash__

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        await self.interruptions.reach("look")
        return bytes.fromhex(attachment.reference["content"])

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        if is_press(message):
            return WatchedSink(message, self.watch)
        client = WatchedClient(message, self.watch, self.interruptions)
        message = with_reference(message)
        make_sink = getattr(self, f"_make_{self.name}_sink")
        sink: Sink = make_sink(client, message, delivery, previous_reply_id)
        return sink

    def _make_telegram_sink(self, client: Any, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        intervals = TelegramIntervals(**NOW, edit_s=0, draft_s=0)
        return TelegramSink(client, message, delivery, previous_reply_id, intervals, capabilities=ServerCapabilities())

    def _make_discord_sink(self, client: Any, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        async def acknowledge() -> bool:
            await self.interruptions.reach("acknowledge")
            return True

        # As the adapter does, which chooses where a reply is posted.
        client = judge_calls(client, delivery)
        location = (message.key.chat, "1")
        target = InteractionTarget(client, "1", "token", asyncio.ensure_future(acknowledge()), location=location)
        fallback = ChannelTarget(client, message.key.chat, "1")
        intervals = DiscordIntervals(**NOW, edit_s=0)
        options = {"previous_reply_id": previous_reply_id, "intervals": intervals}
        return DiscordSink(target, message, delivery=delivery, **options, fallback=fallback)

    def _make_slack_sink(self, client: Any, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        async def has_answered(_channel: str, _thread: str) -> bool:
            return False

        intervals = SlackIntervals(**NOW, post_s=0, append_s=0, edit_s=0)
        parts = (client, ThreadCache(has_answered), RateLimiter(), MissingCapabilities(), intervals)
        context = SlackSinkContext(*parts, SlackIdentity("U1"), open_questions={}, untitled_threads={})
        return SlackSink(context, message, delivery, previous_reply_id)

    def _make_mastodon_sink(self, client: Any, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        me = MastodonIdentity("1", "kimas", "social.example")
        options: dict[str, Any] = {"previous_reply_id": previous_reply_id, "intervals": MastodonIntervals(**NOW)}
        return MastodonSink(client, me, message, delivery, **options)

    def _make_bluesky_sink(self, client: Any, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        me = BlueskyIdentity("did:plc:bot", "kimas.example")
        options: dict[str, Any] = {"previous_reply_id": previous_reply_id, "intervals": BlueskyIntervals(**NOW)}
        return BlueskySink(client, me, message, delivery, **options)

    def _make_github_sink(self, *parts: Any) -> Sink:
        return self._make_forge_sink(
            GithubSettings(token=Secret(env="GITHUB"), repositories=("acme/launcher",)), *parts
        )

    def _make_gitlab_sink(self, *parts: Any) -> Sink:
        return self._make_forge_sink(GitlabSettings(token=Secret(env="GITLAB"), projects=("acme/launcher",)), *parts)

    def _make_forge_sink(
        self,
        settings: GithubSettings | GitlabSettings,
        client: Any,
        message: Message,
        delivery: Delivery,
        previous_reply_id: str,
    ) -> Sink:
        async def check_project(_project: str) -> None:
            await self.interruptions.reach("look")

        me = ForgeIdentity("kimas", f"{self.name}.com")
        options: dict[str, Any] = {"previous_reply_id": previous_reply_id, "intervals": ForgeIntervals(**NOW)}
        return ForgeSink(client, me, settings, message, delivery, check_project=check_project, **options)

    def _make_http_sink(self, client: Any, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        intervals = HttpIntervals(**NOW, partial_s=0)
        context = HttpSinkContext(client, self.deletions, intervals, partials=True)
        return HttpSink(context, message, delivery, previous_reply_id)

    async def has_guests(self, chat: str) -> bool:
        await self.interruptions.reach("look")
        return f"{self.name}:{chat}" in self.watch.judge.shared

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        self.watch.see_shown(message, repr(form))
        return True

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        self.watch.see_shown(message, repr(prompts))
        return True


def with_reference(message: Message) -> Message:
    """Return a message with what the sink of its platform needs to know of its place."""
    chat, number = message.key.chat, message.id
    references: dict[str, dict[str, Any]] = {
        "slack": {"channel": chat, "ts": number, "thread_ts": number},
        "mastodon": {
            "status": number,
            "acct": message.author_id,
            "visibility": "direct" if message.private else "public",
        },
        "bluesky": {"uri": number, "cid": "cid", "root_uri": number, "root_cid": "cid"},
        **{name: {"project": chat, "topic": "issues/1", "comment": 1} for name in ("github", "gitlab")},
        "http": {"event": number},
    }
    if message.key.platform == "telegram":
        references["telegram"] = {"chat_id": int(chat), "message_id": 1, "thread_id": None}
    return replace(message, reference=references.get(message.key.platform, {}))
