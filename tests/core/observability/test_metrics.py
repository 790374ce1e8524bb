"""Counting: what is counted, by which names, and that the documentation knows all of it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from core.errors import CommentSuppressed, MessageDeleted, ModelError, UsageError
from core.language.questions import unanswerable_reason
from core.llm.role_models import RoleChatModel
from core.observability.metrics import (
    ANSWER_OUTCOMES,
    ANSWER_TIME_BUCKETS,
    CircuitState,
    DaemonStatus,
    MetricsRecorder,
    PlatformState,
    PrometheusMetrics,
)
from core.ports import Sink
from core.runtime.budget import Budget
from core.settings import BudgetSettings, ModelsSettings
from core.settings.answering import CircuitSettings
from core.storage.messages import Journal
from core.types import Citation, ConversationKey, Message, Question, Reply, Skip, SkipReason, SourceState, Turn, skip
from core.types.replies import Trace
from tests.support.documented_metrics import ROOT, documented
from tests.support.fixtures import INSTALL, MemorySink
from tests.support.peers.language_model import LanguageModelPeer

OTHER_SOURCE = replace(INSTALL, id="news", source="news")
WHEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
TRACE = Trace(
    "q", "single", ("docs",), {"search": 40.0, "first_token": 250.0, "total": 900.0}, ("rerank",), saved_searches=2
)
STANDING = DaemonStatus(
    is_ready=True,
    lag_s=0.004,
    in_flight=3,
    platforms=[
        PlatformState("telegram", is_connected=True, outages=2),
        PlatformState("http", is_connected=False, outages=0),
    ],
    circuits=[CircuitState("small", "https://ann:pw@llm.example.org:8443/v1?key=k", is_open=True)],
    sources=[
        SourceState("docs", "git", 120, 7, WHEN, WHEN, next_run=WHEN),
        SourceState("news", "feed", error="the server is away", paused=True, running=True),
    ],
)


@pytest.fixture
def metrics() -> PrometheusMetrics:
    return PrometheusMetrics(deadline_s=30)


def scraped(
    metrics: PrometheusMetrics, status: DaemonStatus = STANDING
) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return every sample by its name and labels, as Prometheus reads it."""
    text = metrics.render(status).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: PrometheusMetrics, name: str, **labels: str) -> float | None:
    return scraped(metrics).get((name, frozenset(labels.items())))


async def count_everything(metrics: PrometheusMetrics) -> None:
    """Make every metric have a sample."""

    async def answer(question: Question, sink: Sink) -> Reply:
        citation = Citation(1, "install", "docs", "Guide", "guide.md", "")
        return Reply("Yes [1].", (citation,), (INSTALL, OTHER_SOURCE), trace=TRACE)

    await metrics.answering(answer)(Question("How?"), MemorySink())
    metrics.record_message("telegram", "silent", skip(SkipReason.NOT_ADDRESSED))
    metrics.record_model_call("small", "http://127.0.0.1:8000/v1", "ok", 0.2)
    metrics.record_tokens("summarizer", 100, 20, 0.001)
    metrics.record_refresh("docs", "succeeded", 1.5)
    metrics.record_live_call("web", "answered", 0.3)


async def test_the_hits_of_a_source_are_counted_by_answer(metrics: PrometheusMetrics) -> None:
    await count_everything(metrics)
    assert value(metrics, "kimas_source_answers_total", source="docs", use="shown") == 1
    assert value(metrics, "kimas_source_answers_total", source="docs", use="cited") == 1
    assert value(metrics, "kimas_source_answers_total", source="news", use="shown") == 1
    assert value(metrics, "kimas_source_answers_total", source="news", use="cited") is None


async def test_the_documentation_names_every_metric_with_its_type_and_labels(metrics: PrometheusMetrics) -> None:
    await count_everything(metrics)
    results = {}
    for family in text_string_to_metric_families(metrics.render(STANDING).decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = frozenset[str]().union(*(sample.labels for sample in family.samples)) - {"le"}
        assert family.samples, f"{name} was not counted by this test"
        if not name.startswith("process_"):
            results[name] = (family.type, labels)
    assert results == documented()


def test_the_dashboard_shows_metrics_that_exist_with_their_labels() -> None:
    dashboard = json.loads((ROOT / "config/grafana.json").read_text("utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    metrics = documented()
    shown_names = set()
    for query in queries:
        names = {re.sub(r"_(?:bucket|sum|count)$", "", name) for name in re.findall(r"kimas_\w+", query)}
        assert names <= set(metrics), query
        known_labels = {"le"}.union(*(metrics[name][1] for name in names))
        used_labels = set(re.findall(r"(\w+)=\"", query))
        used_labels |= {label.strip() for labels in re.findall(r"by \(([^)]*)\)", query) for label in labels.split(",")}
        assert used_labels <= known_labels, query
        shown_names |= names
    assert len(queries) > 25
    assert len(shown_names) > 20
    grid_positions = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(grid_positions)) == len(grid_positions), "no panel lies on another"


def test_the_documentation_names_every_kind_of_silence() -> None:
    text = (ROOT / "docs/operate.md").read_text("utf-8")
    table = text[text.index("| `reason` | silent because |") :].split("\n\n", maxsplit=1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) - {"reason"} == {
        reason.label for reason in SkipReason
    }


async def test_what_is_gone_leaves_no_number_and_nothing_but_numbers_is_sent(metrics: PrometheusMetrics) -> None:
    assert value(metrics, "kimas_source_passages", source="docs") == 120
    assert ("kimas_source_passages", frozenset({("source", "docs")})) not in scraped(metrics, DaemonStatus())
    assert "_created" not in metrics.render(STANDING).decode()


async def test_how_the_daemon_stands(metrics: PrometheusMetrics) -> None:
    assert value(metrics, "kimas_ready") == 1
    assert value(metrics, "kimas_messages_in_flight") == 3
    assert value(metrics, "kimas_event_loop_lag_seconds") == 0.004
    assert value(metrics, "kimas_platform_connected", platform="telegram") == 1
    assert value(metrics, "kimas_platform_connected", platform="http") == 0
    assert value(metrics, "kimas_platform_outages_total", platform="telegram") == 2
    assert value(metrics, "kimas_source_last_success_timestamp_seconds", source="docs") == WHEN.timestamp()
    assert value(metrics, "kimas_source_last_success_timestamp_seconds", source="news") is None
    assert [value(metrics, f"kimas_source_{name}", source="news") for name in ("failing", "paused", "refreshing")] == [
        1,
        1,
        1,
    ]
    assert value(metrics, "kimas_source_failing", source="docs") == 0


def test_nothing_of_an_address_is_told_but_host_and_port(metrics: PrometheusMetrics) -> None:
    metrics.record_model_call("small", "https://ann:pw@llm.example.org:8443/v1?key=k", "ok", 0.1)
    text = metrics.render(STANDING).decode()
    assert value(metrics, "kimas_circuit_open", model="small", endpoint="llm.example.org:8443") == 1
    assert all(secret not in text for secret in ("ann", "pw@", "key=k", "/v1"))


def test_an_endpoint_of_two_roles_is_one_and_open_where_either_is(metrics: PrometheusMetrics) -> None:
    circuit = CircuitState("small", "http://a/v1", is_open=True)
    status = DaemonStatus(circuits=[circuit, replace(circuit, is_open=False)])
    assert scraped(metrics, status)["kimas_circuit_open", frozenset({("model", "small"), ("endpoint", "a")})] == 1


async def test_a_name_cannot_break_the_format(metrics: PrometheusMetrics) -> None:
    name = 'a"b\\c\nkimas_ready 7'
    metrics.record_tokens(name, 1, 2, 0)
    assert value(metrics, "kimas_tokens_total", agent=name, kind="completion") == 2
    assert value(metrics, "kimas_ready") == 1


async def test_each_end_of_an_answer_is_counted_once(metrics: PrometheusMetrics) -> None:
    replies: Mapping[str, Reply] = {
        "answered": Reply("Yes.", trace=TRACE),
        "extractive": Reply("Yes.", is_extractive=True, trace=replace(TRACE, timings_ms={"search": 40.0})),
        "cached": Reply("Yes.", trace=replace(TRACE, cached=True)),
    }
    errors: Mapping[str, Exception] = {
        "refused": UsageError("today's limit is used up"),
        "withheld": CommentSuppressed(skip(SkipReason.BEFORE_RESTART)),
        "failed": ModelError("the endpoint is away"),
    }

    async def answer(question: Question, sink: Sink) -> Reply:
        if question.text in errors:
            raise errors[question.text]
        if question.text == "gone":
            raise MessageDeleted("the question was deleted")
        if question.text == "cancelled":
            await asyncio.Event().wait()
        return replies[question.text]

    answer_function = metrics.answering(answer)
    for name, reply in replies.items():
        assert await answer_function(Question(name), MemorySink()) is reply
    for name, exception in errors.items():
        with pytest.raises(type(exception)):
            await answer_function(Question(name), MemorySink())
    with pytest.raises(MessageDeleted):
        await answer_function(Question("gone"), MemorySink())
    waiting_task = asyncio.create_task(answer_function(Question("cancelled"), MemorySink()))
    await asyncio.sleep(0)
    assert value(metrics, "kimas_answers_in_progress") == 1
    waiting_task.cancel()
    await asyncio.wait((waiting_task,))
    assert waiting_task.cancelled()
    ends = {name: value(metrics, "kimas_answers_total", outcome=name) for name in ANSWER_OUTCOMES}
    assert ends == {**dict.fromkeys(ANSWER_OUTCOMES, 1), "withheld": 2}
    assert value(metrics, "kimas_answers_in_progress") == 0
    assert value(metrics, "kimas_answer_seconds_count") == 3
    assert value(metrics, "kimas_first_token_seconds_count") == 1, "of an earlier answer it says nothing"
    assert value(metrics, "kimas_first_token_seconds_sum") == 0.25
    assert value(metrics, "kimas_stage_seconds_count", stage="search") == 2
    assert value(metrics, "kimas_degraded_stages_total", stage="rerank") == 2
    assert value(metrics, "kimas_searches_saved_total") == 4
    assert value(metrics, "kimas_stage_seconds_count", stage="total") is None


def test_the_buckets_have_the_shape_of_the_budget() -> None:
    bounds = {
        float(dict(labels)["le"])
        for name, labels in scraped(PrometheusMetrics(deadline_s=10))
        if name == "kimas_answer_seconds_bucket"
    }
    assert bounds == {round(10 * share, 4) for share in ANSWER_TIME_BUCKETS} | {float("inf")}


def test_two_daemons_of_a_process_count_for_themselves(metrics: PrometheusMetrics) -> None:
    other = PrometheusMetrics(deadline_s=30)
    metrics.record_message("telegram", "answered")
    assert value(metrics, "kimas_messages_total", platform="telegram", outcome="answered", reason="") == 1
    assert value(other, "kimas_messages_total", platform="telegram", outcome="answered", reason="") is None


def test_an_endpoint_that_lies_about_its_tokens_breaks_nothing(metrics: PrometheusMetrics) -> None:
    metrics.record_head_start(is_kept=True)
    assert value(metrics, "kimas_head_starts_total", outcome="kept") == 1
    assert value(metrics, "kimas_head_starts_total", outcome="discarded") == 0
    metrics.record_tokens("summarizer", -5, 3, -0.5)
    assert value(metrics, "kimas_tokens_total", agent="summarizer", kind="prompt") == 0
    assert value(metrics, "kimas_cost_total", agent="summarizer") == 0


class TestSilences:
    @pytest.mark.parametrize(
        ("silence", "text", "label"),
        [
            (skip(SkipReason.NOT_ADDRESSED), "the bot was not addressed", "not_addressed"),
            (
                skip(SkipReason.ATTACHMENT_ONLY, attachment="a picture"),
                "a picture without text, and the bot was not addressed",
                "no_text",
            ),
            (
                skip(SkipReason.UNSURE, probability=0.3111, threshold=0.5, explanation="- it asks nothing"),
                "not sure enough to help: 0.31, threshold 0.50 (- it asks nothing)",
                "unsure",
            ),
            (
                skip(SkipReason.PAUSED, chat="telegram:-100", until="until 12:30"),
                "telegram:-100 is paused by a command until 12:30",
                "paused",
            ),
            (
                skip(SkipReason.RATED, question="7", rating="down the bot was not addressed"),
                "feedback on 7: down the bot was not addressed",
                "feedback",
            ),
            (skip(SkipReason.EMPTY_POST), "the post has no text", "no_text"),
            (skip(SkipReason.PRIVATE_CHATS_OFF), "private chats are switched off (gate.private)", "switched_off"),
            (
                skip(SkipReason.COOLDOWN, seconds=60.0),
                "the bot spoke unprompted less than 60 s ago (gate.cooldown_s)",
                "rate_limit",
            ),
            (skip(SkipReason.TOPIC_EXCLUDED, word="{ad}"), "the post mentions '{ad}' (auto_comment.exclude)", "topic"),
            (skip(SkipReason.COMMENT_REFUSED, error="somebody made {this} up"), "somebody made {this} up", "other"),
        ],
    )
    def test_a_silence_has_a_text_and_a_label(self, silence: Skip, text: str, label: str) -> None:
        assert (str(silence), silence.reason.label) == (text, label)

    def test_words_that_ask_nothing_have_the_same_label(self) -> None:
        reasons = [unanswerable_reason(text) for text in ("thanks!", "GPU?")]
        assert [reason and reason.label for reason in reasons] == ["not_a_question", "not_a_question"]


class TestCounters:
    """The parts that count, each with a real peer or database."""

    async def test_the_journal_counts_what_it_finishes(self, tmp_path: Path, metrics: PrometheusMetrics) -> None:
        first = await Journal.open(tmp_path / "journal.db")
        journal = Journal(first.database, metrics)
        for number, text in enumerate(("How?", "Nice weather", "Why?")):
            message = Message(str(number), ConversationKey("slack", "C1"), "U1", "Ann", text, WHEN)
            await journal.record_message(message)
            if number == 0:
                await journal.mark_answered(message, Reply("So."))
            elif number == 1:
                await journal.mark_skipped(message, skip(SkipReason.NOT_ADDRESSED))
            else:
                await journal.mark_failed(message, "Ann's secret reason")
        await journal.close()
        counts = {key: item for key, item in scraped(metrics).items() if key[0] == "kimas_messages_total"}
        assert {(*sorted(dict(labels).items()),): count for (_, labels), count in counts.items()} == {
            (("outcome", "answered"), ("platform", "slack"), ("reason", "")): 1,
            (("outcome", "silent"), ("platform", "slack"), ("reason", "not_addressed")): 1,
            (("outcome", "failed"), ("platform", "slack"), ("reason", "")): 1,
        }
        assert "Ann" not in metrics.render(DaemonStatus()).decode()

    async def test_calls_of_models_are_counted_by_their_end(self, metrics: PrometheusMetrics) -> None:
        async with LanguageModelPeer(reply="I am well.") as peer:
            main = {"base_url": peer.base_url, "model": "peer", "price_prompt": 1.0, "first_token_s": 16}
            models = RoleChatModel.open(
                ModelsSettings.model_validate({"main": main}), metrics, CircuitSettings(failures=2, rest_s=60)
            )
            assert models is not None
            await models.warm_up()

            async def ask(deadline_s: float = 30.0) -> None:
                budget = Budget(BudgetSettings(deadline_s=deadline_s))
                turns = [Turn("user", "How are you?")]
                await models.complete("", turns, role="main", budget=budget, agent="summarizer")

            def ended(outcome: str) -> float | None:
                host = peer.base_url.split("/")[2]
                return value(metrics, "kimas_model_calls_total", model="peer", endpoint=host, outcome=outcome)

            def is_open() -> bool:
                return any(deployment.circuit_breaker.is_open for deployment in models.deployments())

            try:
                await ask()
                assert (ended("ok"), ended("failed")) == (1, None)
                prompt = value(metrics, "kimas_tokens_total", agent="summarizer", kind="prompt")
                assert prompt
                assert value(metrics, "kimas_cost_total", agent="summarizer") == pytest.approx(prompt / 1_000_000)
                peer.status = 400
                with pytest.raises(ModelError):
                    await ask()
                assert (ended("refused"), is_open()) == (1, False)
                peer.status = 0
                peer.hang = True
                with pytest.raises(ModelError):
                    await ask(deadline_s=1.2)
                assert ended("timeout") == 1
                peer.hang = False
                peer.status = 404
                with pytest.raises(ModelError):
                    await ask()
                assert (ended("failed"), is_open()) == (1, True)
                peer.status = 0
                pieces = models.stream("", [Turn("user", "Hm?")], role="main", budget=Budget(BudgetSettings()))
                assert "".join([piece async for piece in pieces]) == "I am well."
                assert (ended("ok"), ended("cancelled")) == (2, None)
                # An open circuit that answers well is closed again.
                assert not is_open()
            finally:
                await models.close()


async def test_counting_costs_next_to_nothing(metrics: PrometheusMetrics) -> None:
    async def answer(question: Question, sink: Sink) -> Reply:
        return reply

    reply = Reply("Yes.", trace=replace(TRACE, timings_ms={f"stage-{number}": 1.0 for number in range(12)}))
    answer_function = metrics.answering(answer)
    question = Question("How?")
    sink = MemorySink()
    times = 500
    started_at = time.thread_time()
    for _ in range(times):
        await answer_function(question, sink)
        metrics.record_message("telegram", "answered")
        for _ in range(4):
            metrics.record_model_call("small", "http://127.0.0.1:8000/v1", "ok", 0.2)
            metrics.record_tokens("summarizer", 100, 20, 0.001)
    each_ms = (time.thread_time() - started_at) / times * 1000
    assert each_ms < 2, f"{each_ms:.3f} ms for an answer of twelve stages and four calls"


def test_who_counts_nothing_takes_what_the_other_takes(metrics: PrometheusMetrics) -> None:
    meters: list[MetricsRecorder] = [metrics, MetricsRecorder()]
    for meter in meters:
        meter.record_message("telegram", "silent", skip(SkipReason.NOT_ADDRESSED))
        meter.record_model_call("small", "http://127.0.0.1:8000/v1", "cancelled", 0.2)
        meter.record_tokens("summarizer", 1, 1, 0.0)
        meter.record_refresh("docs", "failed", 1.0)
        meter.record_live_call("web", "cancelled", 1.0)
    assert value(metrics, "kimas_refreshes_total", source="docs", outcome="failed") == 1
    assert value(metrics, "kimas_live_calls_total", source="web", outcome="cancelled") == 1
    assert value(metrics, "kimas_live_call_seconds_count", source="web") is None
