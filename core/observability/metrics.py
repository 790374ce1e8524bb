"""The metrics of one daemon in the Prometheus text format: the only module that knows prometheus_client."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from core.errors import MessageGone, UsageError, Withheld
from core.observability.recorder import CallOutcome, LiveOutcome, RefreshOutcome, Settled
from core.observability.silence_kinds import kind_of
from core.types import Question, Reply, SourceState

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The buckets of an answer's times, as shares of its deadline.
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0)
REFRESH_BUCKETS = (0.5, 2, 10, 60, 300, 1800)
OUTCOMES = ("answered", "extractive", "cached", "refused", "withheld", "failed", "cancelled")

Sink = TypeVar("Sink")


@dataclass(frozen=True, slots=True)
class PlatformState:
    """Whether a platform is connected, and how often its connection was lost."""

    name: str
    connected: bool
    outages: int


@dataclass(frozen=True, slots=True)
class CircuitState:
    """Whether an endpoint's circuit is open: it failed too often, and is left alone for a while."""

    model: str
    base_url: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """How the daemon stands at one moment. `in_hand` are messages not settled yet, `lag_s` the event loop's delay."""

    ready: bool = False
    lag_s: float = 0.0
    in_hand: int = 0
    platforms: Sequence[PlatformState] = ()
    circuits: Sequence[CircuitState] = ()
    sources: Sequence[SourceState] = ()


class Metrics:
    """Implements `Meter`. The labels are names from the configuration and words of ours, never a person's.

    `deadline_s` is the deadline of one answer, which the buckets of its times are made by.
    """

    def __init__(self, deadline_s: float) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, Summary

        self._registry = registry = CollectorRegistry()
        buckets = [round(deadline_s * share, 4) for share in BUCKETS]

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"kimas_{name}", meaning, labels, registry=registry)

        def histogram(name: str, meaning: str, *labels: str, bounds: Sequence[float] = buckets) -> Histogram:
            return Histogram(f"kimas_{name}", meaning, labels, registry=registry, buckets=bounds)

        self._messages = counter("messages", "Messages that came to their end", "platform", "outcome", "reason")
        self._answers = counter("answers", "Answers that came to their end", "outcome")
        self._cuts = counter("answer_cuts", "Stages of answers whose stand-in was used", "stage")
        self._first_token = histogram("first_token_seconds", "From the begin of an answer to its first token")
        self._seconds = histogram("answer_seconds", "From the begin of an answer until it is posted")
        self._stages = Summary("kimas_stage_seconds", "Time of one stage of an answer", ("stage",), registry=registry)
        self._tokens = counter("tokens", "Tokens that language models used", "agent", "kind")
        self._cost = counter("cost", "What they cost, in the currency of the prices", "agent")
        called = ("model", "endpoint")
        self._calls = counter("model_calls", "Calls of language models", *called, "outcome")
        self._call_seconds = histogram("model_call_seconds", "Time of one good call of a language model", *called)
        self._refreshes = counter("refreshes", "Refreshes of sources", "source", "outcome")
        self._refresh_seconds = histogram("refresh_seconds", "Time of one refresh", "source", bounds=REFRESH_BUCKETS)
        self._asked = counter("live_calls", "Times that a live source was asked", "source", "outcome")
        self._asked_seconds = histogram("live_call_seconds", "Time of one of them that was answered", "source")
        self._scrape_errors = counter("scrape_errors", "Readings of the metrics that left out the sources")
        self._standing = _Now(registry)
        ProcessCollector(registry=registry)
        for outcome in OUTCOMES:
            self._answers.labels(outcome)

    def settled(self, platform: str, outcome: Settled, reason: str = "") -> None:
        """Count a message that came to its end."""
        self._messages.labels(platform, outcome, kind_of(reason) if outcome == "silent" else "").inc()

    def called(self, model: str, base_url: str, outcome: CallOutcome, seconds: float) -> None:
        """Count one call of a language model."""
        endpoint = _host(base_url)
        self._calls.labels(model, endpoint, outcome).inc()
        if outcome == "ok":
            self._call_seconds.labels(model, endpoint).observe(seconds)

    def consumed(self, agent: str, prompt: int, completion: int, cost: float) -> None:
        """Count the tokens of one call. An endpoint that claims less than nothing is not believed."""
        self._tokens.labels(agent, "prompt").inc(max(0, prompt))
        self._tokens.labels(agent, "completion").inc(max(0, completion))
        self._cost.labels(agent).inc(max(0.0, cost))

    def refreshed(self, source: str, outcome: RefreshOutcome, seconds: float) -> None:
        """Count one refresh of a source."""
        self._refreshes.labels(source, outcome).inc()
        self._refresh_seconds.labels(source).observe(seconds)

    def asked(self, source: str, outcome: LiveOutcome, seconds: float) -> None:
        """Count that a live source was asked."""
        self._asked.labels(source, outcome).inc()
        if outcome == "answered":
            self._asked_seconds.labels(source).observe(seconds)

    def unread(self) -> None:
        """Count that the record of the sources could not be read for a scrape."""
        self._scrape_errors.inc()

    def answering(
        self, answer: Callable[[Question, Sink], Awaitable[Reply]]
    ) -> Callable[[Question, Sink], Awaitable[Reply]]:
        """Return what answers in the same way and is counted."""

        async def counted(question: Question, sink: Sink) -> Reply:
            started, outcome = time.monotonic(), "cancelled"
            self._standing.answering += 1
            try:
                reply = await answer(question, sink)
                outcome = "cached" if reply.trace.cached else "extractive" if reply.extractive else "answered"
            except UsageError:
                outcome = "refused"
                raise
            except (Withheld, MessageGone):
                outcome = "withheld"
                raise
            except Exception:
                outcome = "failed"
                raise
            finally:
                self._standing.answering -= 1
                self._answers.labels(outcome).inc()
            self._time(reply, time.monotonic() - started)
            return reply

        return counted

    def text(self, standing: Standing) -> bytes:
        """Return everything counted so far, with how the daemon stands now, in the text format 0.0.4."""
        from prometheus_client import generate_latest

        self._standing.now = standing
        return generate_latest(_Without(self._registry))

    def _time(self, reply: Reply, seconds: float) -> None:
        self._seconds.observe(seconds)
        timings = dict(reply.trace.timings_ms)
        # Marks, not stages; and what an earlier answer took says nothing of this one.
        timings.pop("total", None)
        if (first := timings.pop("first_token", None)) is not None and not reply.trace.cached:
            self._first_token.observe(first / 1000)
        if not reply.trace.cached:
            for stage, spent in timings.items():
                self._stages.labels(stage).observe(spent / 1000)
            for stage in reply.trace.cut:
                self._cuts.labels(stage).inc()


class _Now:
    """Collects what is read at the moment of a scrape, so that what is gone leaves no number behind."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.now = Standing()
        self.answering = 0
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return the families, as `collect` does."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """Return every family with what it holds now."""
        now, gauge = self.now, _gauge
        yield gauge("ready", "1 from the start's end until a stop", [((), now.ready)])
        yield gauge("event_loop_lag_seconds", "Longest delay of the event loop in the last minute", [((), now.lag_s)])
        yield gauge("messages_in_hand", "Messages not settled yet", [((), now.in_hand)])
        yield gauge("answers_in_progress", "Answers in the making", [((), self.answering)])
        yield from _platforms(now.platforms)
        circuits: dict[tuple[str, ...], bool] = {}
        for one in now.circuits:
            # Two roles may share an endpoint, each with a circuit of its own.
            key = one.model, _host(one.base_url)
            circuits[key] = circuits.get(key, False) or one.is_open
        yield gauge("circuit_open", "1 while an endpoint is left alone", circuits.items(), ("model", "endpoint"))
        yield from _sources(now.sources)


class _Without:
    """A registry without the times at which its numbers began: they would double what is sent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        """Return every family."""
        for metric in self._registry.collect():
            metric.samples = [one for one in metric.samples if not one.name.endswith("_created")]
            yield metric


def _gauge(
    name: str, meaning: str, values: Iterable[tuple[tuple[str, ...], float]], labels: Sequence[str] = ()
) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(f"kimas_{name}", meaning, labels=labels)
    for key, value in values:
        family.add_metric(key, float(value))
    return family


def _platforms(states: Sequence[PlatformState]) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily

    connected = [((one.name,), one.connected) for one in states]
    yield _gauge("platform_connected", "1 while messages can arrive", connected, ("platform",))
    outages = CounterMetricFamily("kimas_platform_outages", "Connections that were lost", labels=("platform",))
    for one in states:
        outages.add_metric((one.name,), one.outages)
    yield outages


def _sources(states: Sequence[SourceState]) -> Iterable[Metric]:
    def each(name: str, meaning: str, of: Callable[[SourceState], float | None]) -> Metric:
        known = [((one.name,), value) for one in states if (value := of(one)) is not None]
        return _gauge(f"source_{name}", meaning, known, ("source",))

    yield each("passages", "Passages stored", lambda one: one.passages)
    yield each("documents", "Documents stored", lambda one: one.documents)
    yield each("last_try_timestamp_seconds", "Last begin of a refresh", lambda one: _stamp(one.last_try))
    yield each("last_success_timestamp_seconds", "Last good end of one", lambda one: _stamp(one.last_success))
    yield each("next_refresh_timestamp_seconds", "When the next is due", lambda one: _stamp(one.next_run))
    yield each("failing", "1 when the last refresh failed", lambda one: bool(one.error))
    yield each("paused", "1 while refreshed only when asked", lambda one: one.paused)
    yield each("refreshing", "1 during a refresh", lambda one: one.running)


def _stamp(when: datetime | None) -> float | None:
    return None if when is None else when.timestamp()


def _host(base_url: str) -> str:
    """Return host and port alone: the rest of a URL may hold a secret."""
    return urlsplit(base_url).netloc.rpartition("@")[2]
