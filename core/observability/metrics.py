"""The metrics of one daemon in the Prometheus text format: the only module that knows prometheus_client."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import urlsplit

from core.errors import AnswerWithheld, CommentSuppressed, MessageDeleted, UsageError
from core.types import Question, Reply, Skip, SourceState

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The buckets of an answer's histograms, as shares of its deadline.
ANSWER_TIME_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0)
REFRESH_BUCKETS = (0.5, 2, 10, 60, 300, 1800)
ANSWER_OUTCOMES = ("answered", "extractive", "cached", "refused", "withheld", "failed", "cancelled")

Sink = TypeVar("Sink")
ProcessingOutcome = Literal["answered", "silent", "failed"]
ModelCallOutcome = Literal["ok", "failed", "refused", "timeout", "cancelled"]
RefreshOutcome = Literal["succeeded", "stale", "failed"]
LiveCallOutcome = Literal["answered", "failed", "cancelled"]


class MetricsRecorder:
    """Counts what happens. This base class counts nothing. No method waits, fails or keeps what people wrote."""

    def record_message(self, platform: str, outcome: ProcessingOutcome, skip: Skip | None = None) -> None:
        """Count a message that is complete; `skip` is why the bot was silent."""

    def record_model_call(self, model: str, base_url: str, outcome: ModelCallOutcome, seconds: float) -> None:
        """Count one call of a language model on one endpoint."""

    def record_tokens(self, agent: str, prompt_tokens: int, completion_tokens: int, cost: float) -> None:
        """Count the tokens of one call, and their cost in the currency of the configured prices."""

    def record_head_start(self, *, is_kept: bool) -> None:
        """Count one head start, which began before its evidence was certain."""

    def record_refresh(self, source: str, outcome: RefreshOutcome, seconds: float) -> None:
        """Count one refresh of a source."""

    def record_live_call(self, source: str, outcome: LiveCallOutcome, seconds: float) -> None:
        """Count one query to a live source."""


@dataclass(frozen=True, slots=True)
class PlatformState:
    """Return whether a platform is connected, and how often it lost its connection."""

    name: str
    is_connected: bool
    outages: int


@dataclass(frozen=True, slots=True)
class CircuitState:
    """Whether an endpoint's circuit is open: it failed too often and gets no calls for a while."""

    model: str
    base_url: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """The state of the daemon. `in_flight` counts unfinished messages; `lag_s` is the event loop's delay in seconds."""

    is_ready: bool = False
    lag_s: float = 0.0
    in_flight: int = 0
    platforms: Sequence[PlatformState] = ()
    circuits: Sequence[CircuitState] = ()
    sources: Sequence[SourceState] = ()


class PrometheusMetrics(MetricsRecorder):
    """Counts for Prometheus. Labels are names from the configuration and fixed words, never a person's words.

    `deadline_s` is the deadline of one answer in seconds; the buckets of the histograms are shares of it.
    """

    def __init__(self, deadline_s: float) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, Summary

        self._registry = registry = CollectorRegistry()
        buckets = [round(deadline_s * share, 4) for share in ANSWER_TIME_BUCKETS]

        def counter(name: str, documentation: str, *labels: str) -> Counter:
            return Counter(f"kimas_{name}", documentation, labels, registry=registry)

        def histogram(name: str, documentation: str, *labels: str, bounds: Sequence[float] = buckets) -> Histogram:
            return Histogram(f"kimas_{name}", documentation, labels, registry=registry, buckets=bounds)

        self._messages = counter("messages", "Messages that are finished", "platform", "outcome", "reason")
        self._answers = counter("answers", "Answers that are finished", "outcome")
        self._saved_searches = counter("searches_saved", "Searches of agents that routing left out")
        self._source_answers = counter("source_answers", "Answers that show or cite a source", "source", "use")
        self._degraded_stages = counter("degraded_stages", "Stages of answers whose fallback was used", "stage")
        self._first_token_seconds = histogram("first_token_seconds", "From the start of an answer to its first token")
        self._answer_seconds = histogram("answer_seconds", "From the start of an answer until it is posted")
        self._stage_seconds = Summary(
            "kimas_stage_seconds", "Time of one stage of an answer", ("stage",), registry=registry
        )
        self._tokens = counter("tokens", "Tokens that language models used", "agent", "kind")
        self._head_starts = counter("head_starts", "Answers that began early, kept or discarded", "outcome")
        self._cost = counter("cost", "What they cost, in the currency of the prices", "agent")
        self._model_calls = counter("model_calls", "Calls of language models", "model", "endpoint", "outcome")
        self._model_call_seconds = histogram("model_call_seconds", "Time of one successful call", "model", "endpoint")
        self._refreshes = counter("refreshes", "Refreshes of sources", "source", "outcome")
        self._refresh_seconds = histogram("refresh_seconds", "Time of one refresh", "source", bounds=REFRESH_BUCKETS)
        self._live_calls = counter("live_calls", "Queries to a live source", "source", "outcome")
        self._live_call_seconds = histogram("live_call_seconds", "Time of one query that was answered", "source")
        self._scrape_errors = counter("scrape_errors", "Scrapes that left out the sources")
        self._status_collector = _StatusCollector(registry)
        ProcessCollector(registry=registry)
        for metric, outcomes in ((self._answers, ANSWER_OUTCOMES), (self._head_starts, ("kept", "discarded"))):
            for outcome in outcomes:
                metric.labels(outcome)

    def record_message(self, platform: str, outcome: ProcessingOutcome, skip: Skip | None = None) -> None:
        """Count a message that is complete."""
        self._messages.labels(platform, outcome, skip.reason.label if skip else "").inc()

    def record_model_call(self, model: str, base_url: str, outcome: ModelCallOutcome, seconds: float) -> None:
        """Count one call of a language model."""
        host = _get_host(base_url)
        self._model_calls.labels(model, host, outcome).inc()
        if outcome == "ok":
            self._model_call_seconds.labels(model, host).observe(seconds)

    def record_tokens(self, agent: str, prompt_tokens: int, completion_tokens: int, cost: float) -> None:
        """Count the tokens of one call; negative values count as 0."""
        self._tokens.labels(agent, "prompt").inc(max(0, prompt_tokens))
        self._tokens.labels(agent, "completion").inc(max(0, completion_tokens))
        self._cost.labels(agent).inc(max(0.0, cost))

    def record_head_start(self, *, is_kept: bool) -> None:
        """Count one head start."""
        self._head_starts.labels("kept" if is_kept else "discarded").inc()

    def record_refresh(self, source: str, outcome: RefreshOutcome, seconds: float) -> None:
        """Count one refresh of a source."""
        self._refreshes.labels(source, outcome).inc()
        self._refresh_seconds.labels(source).observe(seconds)

    def record_live_call(self, source: str, outcome: LiveCallOutcome, seconds: float) -> None:
        """Count one query to a live source."""
        self._live_calls.labels(source, outcome).inc()
        if outcome == "answered":
            self._live_call_seconds.labels(source).observe(seconds)

    def record_scrape_error(self) -> None:
        """Count a scrape without the state of the sources, which could not be read."""
        self._scrape_errors.inc()

    def answering(
        self, answer: Callable[[Question, Sink], Awaitable[Reply]]
    ) -> Callable[[Question, Sink], Awaitable[Reply]]:
        """Return a function that answers in the same way and counts its outcomes and times."""

        async def instrumented(question: Question, sink: Sink) -> Reply:
            started_at = time.monotonic()
            outcome = "cancelled"
            self._status_collector.answers_in_progress += 1
            try:
                reply = await answer(question, sink)
                outcome = "cached" if reply.trace.cached else "extractive" if reply.is_extractive else "answered"
            except (AnswerWithheld, CommentSuppressed, MessageDeleted):
                outcome = "withheld"
                raise
            except UsageError:
                outcome = "refused"
                raise
            except Exception:
                outcome = "failed"
                raise
            finally:
                self._status_collector.answers_in_progress -= 1
                self._answers.labels(outcome).inc()
            self._record_timings(reply, time.monotonic() - started_at)
            return reply

        return instrumented

    def render(self, status: DaemonStatus) -> bytes:
        """Return all metrics and the state of the daemon in the Prometheus text format 0.0.4."""
        from prometheus_client import generate_latest

        self._status_collector.status = status
        return generate_latest(_WithoutCreatedSamples(self._registry))

    def _record_timings(self, reply: Reply, seconds: float) -> None:
        self._answer_seconds.observe(seconds)
        timings = dict(reply.trace.timings_ms)
        # These are marks, not stages. The times of a cached answer belong to the earlier answer.
        timings.pop("total", None)
        if (first_token_ms := timings.pop("first_token", None)) is not None and not reply.trace.cached:
            self._first_token_seconds.observe(first_token_ms / 1000)
        if not reply.trace.cached:
            self._saved_searches.inc(reply.trace.saved_searches)
            for stage, spent_ms in timings.items():
                self._stage_seconds.labels(stage).observe(spent_ms / 1000)
            for stage in reply.trace.degraded:
                self._degraded_stages.labels(stage).inc()
            for source in {passage.source for passage in reply.passages}:
                self._source_answers.labels(source, "shown").inc()
            for source in {citation.source for citation in reply.citations}:
                self._source_answers.labels(source, "cited").inc()


class _StatusCollector:
    """Collects the state at the moment of a scrape, so that removed platforms and sources leave no stale values."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.status = DaemonStatus()
        self.answers_in_progress = 0
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return the metric families."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """Yield every metric family with its current values."""
        status = self.status
        gauge = _make_gauge
        yield gauge("ready", "1 from the end of the start until a stop", [((), status.is_ready)])
        yield gauge(
            "event_loop_lag_seconds", "Longest delay of the event loop in the last minute", [((), status.lag_s)]
        )
        yield gauge("messages_in_flight", "Messages that are not finished", [((), status.in_flight)])
        yield gauge("answers_in_progress", "Answers in progress", [((), self.answers_in_progress)])
        yield from _platform_metrics(status.platforms)
        circuits: dict[tuple[str, ...], bool] = {}
        for circuit in status.circuits:
            # Two roles may share an endpoint, each with its own circuit.
            key = circuit.model, _get_host(circuit.base_url)
            circuits[key] = circuits.get(key, False) or circuit.is_open
        yield gauge(
            "circuit_open", "1 while the circuit breaker skips an endpoint", circuits.items(), ("model", "endpoint")
        )
        yield from _source_metrics(status.sources)


class _WithoutCreatedSamples:
    """A registry without the creation times of its counters, which would double the output."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        """Yield every metric family."""
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def _make_gauge(
    name: str, documentation: str, values: Iterable[tuple[tuple[str, ...], float]], labels: Sequence[str] = ()
) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(f"kimas_{name}", documentation, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, float(value))
    return family


def _platform_metrics(states: Sequence[PlatformState]) -> Iterable[Metric]:
    from prometheus_client.core import CounterMetricFamily

    connected = [((platform.name,), platform.is_connected) for platform in states]
    yield _make_gauge("platform_connected", "1 while messages can arrive", connected, ("platform",))
    outages = CounterMetricFamily("kimas_platform_outages", "Connections that were lost", labels=("platform",))
    for platform in states:
        outages.add_metric((platform.name,), platform.outages)
    yield outages


def _source_metrics(states: Sequence[SourceState]) -> Iterable[Metric]:
    def source_gauge(name: str, documentation: str, get_value: Callable[[SourceState], float]) -> Metric:
        samples = [((state.name,), get_value(state)) for state in states]
        return _make_gauge(f"source_{name}", documentation, samples, ("source",))

    def time_gauge(name: str, documentation: str, get_time: Callable[[SourceState], datetime | None]) -> Metric:
        samples = [((state.name,), moment.timestamp()) for state in states if (moment := get_time(state))]
        return _make_gauge(f"source_{name}_timestamp_seconds", documentation, samples, ("source",))

    yield source_gauge("passages", "Passages stored", lambda state: state.passages)
    yield source_gauge("unfilled_passages", "Passages without a vector", lambda state: state.unfilled)
    yield source_gauge("documents", "Documents stored", lambda state: state.documents)
    yield time_gauge("last_try", "Start of the last refresh", lambda state: state.last_try)
    yield time_gauge("last_success", "End of the last successful refresh", lambda state: state.last_success)
    yield time_gauge("next_refresh", "When the next refresh is due", lambda state: state.next_run)
    yield source_gauge("failing", "1 when the last refresh failed", lambda state: bool(state.error))
    yield source_gauge("paused", "1 while refreshed only on request", lambda state: state.paused)
    yield source_gauge("refreshing", "1 during a refresh", lambda state: state.running)


def _get_host(base_url: str) -> str:
    """Return only host and port: the rest of a URL may contain a secret."""
    return urlsplit(base_url).netloc.rpartition("@")[2]
