"""Alerts: reports problems to the chats of those who run the bot, once a day for each, and when they are over."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from bots.daemon.monitor import Monitor
from bots.daemon.posting import find_chat_error, find_posting_adapter, make_post, resolve_chat
from core.catalogue import Messages, messages_for
from core.errors import PlatformUnavailable, StoreError, UsageError
from core.formatting import format_duration
from core.messaging.policy.permissions import make_reader
from core.observability.logs import get_logger, make_redactor
from core.ports import Adapter, MessageHandler
from core.runtime.clock import ClockWatch
from core.runtime.timers import run_periodically
from core.settings import AlertsSettings, Settings
from core.settings.audience import Asker
from core.settings.loader import get_secret_values
from core.storage.activity import ActivityRepository
from core.storage.engine import Database
from core.storage.overrides import LiveSettings
from core.storage.usage import UsageRepository
from core.types import QUOTED_QUESTIONS, Origin, PlatformName, Question, SourceState

_log = get_logger(__name__)

CHECK_MINUTES = 1.0
# A group in which so little happens may well be silent for a day.
MIN_MESSAGES = 20
COMPARED_DAYS = 7
MIN_DAILY_ANSWERS = 1.0
MAX_ERROR_CHARS = 300
# The used share of a daily limit that is worth an alert.
SPENT_SHARE = 0.8
GLOBAL_LIMITS = ("daily_tokens", "daily_cost")


@dataclass(frozen=True, slots=True)
class Watched:
    """The parts that alerts watch. `connections` and `endpoints` return whether each platform and model is in reach."""

    source_states: Callable[[], Awaitable[Sequence[SourceState]]]
    connections: Callable[[], Mapping[str, bool]]
    endpoints: Callable[[], Mapping[str, bool]]
    live: LiveSettings
    usage: UsageRepository
    activity: ActivityRepository
    clock: ClockWatch


class AlertRules:
    """Finds what is wrong. It remembers for how long a platform or an endpoint has been away."""

    def __init__(self, settings: AlertsSettings, watched: Watched) -> None:
        self._settings = settings
        self._watched = watched
        self._texts: Messages = messages_for(settings.language)
        # By the monotonic clock.
        self._down_since: dict[str, float] = {}

    def at_once(self) -> AlertRules:
        """Return rules for whoever looks now: they wait for nothing, and say it in English.

        Since when something has been away, both know from whichever looks more often.
        """
        settings = self._settings.model_copy(update={"source_hours": 0.0, "down_minutes": 0.0, "language": "en"})
        rules = AlertRules(settings, self._watched)
        rules._down_since = self._down_since
        return rules

    def watch_outages(self) -> None:
        """Remember since when the platforms and endpoints that are away have been so."""
        now_s = time.monotonic()
        for _, key, is_reachable in self._list_states():
            if is_reachable:
                self._down_since.pop(key, None)
            else:
                self._down_since.setdefault(key, now_s)

    async def find_problems(self, now: datetime) -> Mapping[str, str]:
        """Return a sentence for each problem, by a key that stays the same while it lasts. Raises `StoreError`."""
        return {
            **self._find_stale_sources(await self._watched.source_states(), now),
            **self._find_outages(now),
            **await self._find_spent_limits(now),
            **await self._find_silence(now),
            **self._find_clock_jump(now),
        }

    def _find_stale_sources(self, states: Sequence[SourceState], now: datetime) -> Mapping[str, str]:
        if self._settings.source_hours is None:
            return {}
        oldest_allowed = now - timedelta(hours=self._settings.source_hours)
        problems = {}
        for state in states:
            if state.paused or not state.error or (state.last_success and oldest_allowed < state.last_success <= now):
                continue
            error = " ".join(state.error.split())[:MAX_ERROR_CHARS]
            since = _format_moment(state.last_success) if state.last_success else ""
            template = self._texts.alert_source if since else self._texts.alert_source_never
            problems[f"source {state.name}"] = template.format(name=state.name, since=since, error=error)
        return problems

    def _find_outages(self, now: datetime) -> Mapping[str, str]:
        self.watch_outages()
        if self._settings.down_minutes is None:
            return {}
        problems = {}
        for name, key, is_reachable in self._list_states():
            if is_reachable:
                continue
            down_for = timedelta(seconds=time.monotonic() - self._down_since[key])
            if down_for >= timedelta(minutes=self._settings.down_minutes):
                is_platform = key.startswith("platform ")
                template = self._texts.alert_platform if is_platform else self._texts.alert_endpoint
                problems[key] = template.format(name=name, since=_format_moment(now - down_for))
        return problems

    def _list_states(self) -> Sequence[tuple[str, str, bool]]:
        """Return the platforms and endpoints: name, key, and whether each is in reach."""
        states_by_kind = {"platform": self._watched.connections(), "endpoint": self._watched.endpoints()}
        return [
            (name, f"{kind} {name}", is_reachable)
            for kind, states in states_by_kind.items()
            for name, is_reachable in states.items()
        ]

    async def _find_spent_limits(self, now: datetime) -> Mapping[str, str]:
        await self._watched.live.load()
        limits = {name: self._watched.live.limit(name) for name in GLOBAL_LIMITS}
        if not any(limits.values()):
            return {}
        totals = (await self._watched.usage.get_totals(now.astimezone().date(), Question(""))).overall
        usage_by_limit = {"daily_tokens": float(totals.total_tokens), "daily_cost": totals.cost}
        return {
            f"limit {name}": self._texts.alert_budget.format(
                name=name,
                share=f"{usage_by_limit[name] / limit:.0%}",
                used=f"{usage_by_limit[name]:,.10g}",
                limit=f"{limit:,.10g}",
            )
            for name, limit in limits.items()
            if limit and usage_by_limit[name] >= SPENT_SHARE * limit
        }

    async def _find_silence(self, now: datetime) -> Mapping[str, str]:
        if self._settings.silent_hours is None:
            return {}
        since = now - timedelta(hours=self._settings.silent_hours)
        recent_activity = await self._watched.activity.count_unprompted(since, now)
        if recent_activity.answers or recent_activity.messages < MIN_MESSAGES:
            return {}
        earlier_activity = await self._watched.activity.count_unprompted(since - timedelta(days=COMPARED_DAYS), since)
        usual_answers = earlier_activity.answers / COMPARED_DAYS
        if usual_answers < MIN_DAILY_ANSWERS:
            return {}
        hours = f"{self._settings.silent_hours:g}"
        return {
            "gate": self._texts.alert_silent.format(
                hours=hours, messages=recent_activity.messages, usual=f"{usual_answers:.1f}"
            )
        }

    def _find_clock_jump(self, now: datetime) -> Mapping[str, str]:
        jump = self._watched.clock.recent_jump
        if jump is None:
            return {}
        noticed_at = _format_moment(now - timedelta(seconds=time.monotonic() - jump.noticed_at))
        template = self._texts.alert_clock_ahead if jump.seconds > 0 else self._texts.alert_clock_back
        duration = format_duration(abs(jump.seconds), self._texts)
        return {"clock": template.format(duration=duration, moment=noticed_at)}


@dataclass
class AlertSender:
    """Posts problems and their end. The journal knows what was posted today, also after a restart.

    `handler_for` returns what processes the messages of an adapter. `adapters` are those of the daemon, each with the
    task that opens it: a chat whose platform is still away is told as soon as it is there.
    """

    live: LiveSettings
    handler_for: Callable[[Adapter], MessageHandler]
    adapters: Mapping[Adapter, asyncio.Task[None]]
    active: dict[str, str] = field(default_factory=dict)
    # Which chats were told of a problem.
    _told: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    async def report(self, problems: Mapping[str, str], now: datetime) -> None:
        """Post what is new, and what is over since the last call."""
        texts = messages_for(self.live.settings.alerts.language)
        redact = make_redactor(get_secret_values(self.live.settings))
        for key, problem in problems.items():
            if key not in self.active:
                _log.warning("alert.raised", problem=key)
            text = texts.alert.format(problem=redact(problem))
            untold_chats = [chat for chat in await self._find_chats(key) if chat not in self._told[key]]
            origin = Origin("alert", self._get_label(key))
            self._told[key] |= await self.post(untold_chats, f"{key} {now:%Y-%m-%d}", text, now, origin)
        for key in [key for key in self.active if key not in problems]:
            _log.info("alert.resolved", problem=key)
            text = texts.alert_over.format(problem=redact(self.active[key]))
            told_chats = self._told.pop(key, set())
            chats = [chat for chat in await self._find_chats(key) if chat in told_chats]
            await self.post(chats, f"{key} {now:%Y-%m-%d} over", text, now, Origin("alert", self._get_label(key)))
        self.active = dict(problems)

    async def _find_chats(self, key: str) -> Sequence[str]:
        """Return the chats that may be told of a problem: of a source those alone that may see it."""
        kind, _, source = key.partition(" ")
        chats = self.live.settings.alerts.chats
        if kind != "source" or not self.live.audiences.by_source.get(source):
            return chats
        askers = {chat: await self.make_asker(chat) for chat in chats}
        return [chat for chat, asker in askers.items() if source in self.live.audiences.visible_sources(asker)]

    def _get_label(self, key: str) -> str:
        """Return the label of the source that a problem is of, which is compared again before it is posted; or ""."""
        kind, _, source = key.partition(" ")
        return self.live.audiences.labels.get(source, "") if kind == "source" else ""

    async def make_asker(self, chat_name: str) -> Asker:
        """Return who reads what is posted to a chat, by the audiences in force."""
        platform, chat, _ = resolve_chat(chat_name)
        return make_reader(self.live, PlatformName(platform, chat), has_guests=await self._has_guests(chat_name))

    async def _has_guests(self, chat_name: str) -> bool:
        """Return whether guests read a chat; where nobody knows now, they may."""
        adapter = find_posting_adapter(chat_name, list(self.adapters))
        if not self.adapters[adapter].done():
            return True
        try:
            return await adapter.has_guests(resolve_chat(chat_name)[1])
        except PlatformUnavailable as error:
            _log.info("alerts.readers_unknown", chat=chat_name, error=str(error))
            return True

    async def post(
        self,
        chats: Sequence[str],
        reason: str,
        text: str,
        now: datetime,
        origin: Origin,
        *,
        labels: frozenset[str] = frozenset(),
        questions: Collection[int] = (),
    ) -> set[str]:
        """Post a text once for a reason: the journal refuses a message with a known id. Return the chats that have it.

        It quotes `questions`, by their numbers, and may tell of the sources with `labels`: where somebody reads by now
        who may not see them, it is not posted. A platform that is not open yet holds up no others.
        """
        told_chats = set[str]()
        # Discord takes 25 characters at most.
        message_id = f"alert-{hashlib.sha256(reason.encode()).hexdigest()[:16]}"
        for chat_name in chats:
            adapter = find_posting_adapter(chat_name, list(self.adapters))
            opening = self.adapters[adapter]
            if not opening.done():
                continue
            await opening
            message = replace(make_post(adapter, chat_name, message_id), has_guests=await self._has_guests(chat_name))
            place = PlatformName(message.key.platform, message.key.chat)
            reader = make_reader(self.live, place, has_guests=message.has_guests)
            if not labels <= self.live.audiences.visible_labels(reader):
                continue
            reference = {**message.reference, QUOTED_QUESTIONS: sorted(questions)} if questions else message.reference
            message = replace(message, text=text, sent_at=now, origin=origin, reference=reference)
            await self.handler_for(adapter)(message)
            told_chats.add(chat_name)
        return told_chats


@dataclass(frozen=True, slots=True)
class Alerts:
    """The alerts of a daemon."""

    rules: AlertRules
    sender: AlertSender

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Look for problems every minute while the block runs. Raises `UsageError` for a chat that no bot can write to.

        Without chats for alerts, only what is away is watched: the operator's page says since when.
        """
        if errors := find_alert_errors(self.sender.live.settings):
            raise UsageError("\n".join(errors))
        async with run_periodically(CHECK_MINUTES, self.check):
            yield

    async def check(self) -> None:
        """Look once, and post what is new or over."""
        if not self.sender.live.settings.alerts.chats:
            self.rules.watch_outages()
            return
        now = datetime.now(UTC)
        try:
            problems = await self.rules.find_problems(now)
        except StoreError as error:
            # Only the log reports it: a journal that cannot be read cannot say what was posted.
            _log.error("alerts.not_checked", error=str(error))
            return
        await self.sender.report(problems, now)


def make_alerts(
    live: LiveSettings,
    database: Database,
    monitor: Monitor,
    handler_for: Callable[[Adapter], MessageHandler],
    adapters: Mapping[Adapter, asyncio.Task[None]],
) -> Alerts:
    """Return the alerts of a daemon."""
    states = monitor.get_source_states, monitor.get_connections, monitor.get_endpoints
    watched = Watched(*states, live, UsageRepository(database), ActivityRepository(database), monitor.clock)
    return Alerts(AlertRules(live.settings.alerts, watched), AlertSender(live, handler_for, adapters))


def find_alert_errors(settings: Settings) -> Sequence[str]:
    """Return an error for each chat that no bot can write to."""
    errors = (find_chat_error(settings, "alerts.chats", chat) for chat in settings.alerts.chats)
    return [error for error in errors if error]


def _format_moment(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"
