"""When a source is due: everything that the record and the configuration can say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.settings import FaqSource, Settings
from core.settings.audience import Audiences
from core.settings.cron import RefreshSchedule
from core.storage.refresh_state import RefreshState
from knowledge.ingestion.schedule import index_fingerprint, make_schedule, next_refresh_at, source_states

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NOW = datetime.now(UTC)
HOURLY = RefreshSchedule(60, jitter=0)
FRESH = RefreshState(last_try=NOW - HOUR / 2, ended_at=NOW - HOUR / 2, last_success=NOW - HOUR / 2, fingerprint="same")


def when(entry: RefreshState, table: RefreshSchedule = HOURLY, started_at: datetime | None = None) -> timedelta | None:
    """Return how long after the last try a source is due; what is due by now is "0"."""
    time = next_refresh_at("docs", entry, table, "same", now=NOW, started_at=started_at)
    if time is None:
        return None
    return timedelta() if time <= NOW else time - (entry.last_try or time)


@pytest.mark.parametrize(
    ("entry", "after"),
    [
        (RefreshState(), timedelta()),
        (FRESH, HOUR),
        (replace(FRESH, last_try=NOW - 50 * HOUR), timedelta()),
        (replace(FRESH, fingerprint="other settings"), timedelta()),
        (replace(FRESH, last_try=NOW + 9000 * HOUR), timedelta()),
        (replace(FRESH, paused=True), None),
        (replace(RefreshState(), paused=True), None),
        (replace(FRESH, paused=True, asked_at=NOW), timedelta()),
        (replace(FRESH, asked_at=NOW), timedelta()),
        # The clock was wrong when it was asked for.
        (replace(FRESH, asked_at=NOW + 9000 * HOUR), timedelta()),
        # Broken off: what was asked for goes on, what was planned does not.
        (replace(FRESH, paused=True, unfinished=True, ended_at=None, failures=1, asked_at=NOW - HOUR), timedelta()),
        (replace(FRESH, paused=True, unfinished=True, ended_at=None, failures=1), None),
        (replace(FRESH, asked_at=NOW - HOUR), HOUR),
        (replace(FRESH, unfinished=True, ended_at=None, failures=1), timedelta()),
    ],
)
def test_due(entry: RefreshState, after: timedelta | None) -> None:
    assert when(entry) == after


def test_failures_are_retried_ever_more_slowly_but_not_after_the_plan() -> None:
    daily = RefreshSchedule(24 * 60, jitter=0)
    for failures, minutes in ((1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (50, 60)):
        entry = replace(FRESH, last_try=NOW, ended_at=NOW + MINUTE, error="gone", failures=failures)
        assert when(entry, daily) == minutes * MINUTE + MINUTE
        assert when(entry, RefreshSchedule(0)) == minutes * MINUTE + MINUTE
        assert when(entry, RefreshSchedule(0.5, jitter=0)) == MINUTE / 2
        assert when(replace(entry, paused=True), daily) is None


def test_what_kills_its_process_is_not_tried_at_once_for_ever() -> None:
    killed_state = replace(FRESH, last_try=NOW, unfinished=True, ended_at=None)
    assert when(replace(killed_state, failures=1)) == timedelta()
    assert when(replace(killed_state, failures=2)) == MINUTE
    assert when(replace(killed_state, failures=5)) == 8 * MINUTE
    # A bot that knows nothing yet is not left so for long.
    first = replace(killed_state, last_success=None)
    assert [when(replace(first, failures=failures)) for failures in (1, 2, 5)] == [timedelta(), MINUTE, 2 * MINUTE]


def test_at_each_start_only() -> None:
    once = RefreshSchedule(0)
    assert when(FRESH, once) is None
    assert when(FRESH, once, started_at=NOW) == timedelta()
    assert when(FRESH, once, started_at=NOW - HOUR) is None


def test_the_delay_depends_on_the_source_and_not_on_who_asks() -> None:
    times = {
        next_refresh_at(name, FRESH, RefreshSchedule(60), "same", now=NOW)
        for name in ("a", "b", "c", "d")
        for _ in range(2)
    }
    assert len(times) == 4
    assert all(
        FRESH.last_try and FRESH.last_try + HOUR <= time <= FRESH.last_try + 1.1 * HOUR for time in times if time
    )


def test_the_plan_of_a_source() -> None:
    def plan(**refresh: object) -> RefreshSchedule:
        return make_schedule(FaqSource.model_validate({"kind": "faq", "path": "x.csv", "refresh": refresh}), 60)

    assert plan() == RefreshSchedule(60, jitter=0.1)
    assert plan(minutes=5, jitter=0.5) == RefreshSchedule(5, jitter=0.5)
    assert plan(minutes=0) == RefreshSchedule(0)
    assert plan(cron="0 6 * * *") == RefreshSchedule(cron="0 6 * * *", jitter=0)
    assert plan(cron="0 6 * * *", timezone="UTC", jitter=1) == RefreshSchedule(
        cron="0 6 * * *", timezone="UTC", jitter=1
    )


def test_states_are_in_the_order_of_configuration_without_live_sources(tmp_path: Path) -> None:
    faq = {"kind": "faq", "path": "x.csv"}
    web = {"kind": "search_api", "provider": "searxng", "base_url": "http://127.0.0.1:9"}
    settings = Settings.model_validate({"data_dir": tmp_path, "sources": {"b": faq, "web": web, "a": faq}})
    states = source_states(settings, {"a": replace(FRESH, error="gone", failures=1, documents=3, unfinished=True)})
    assert [(state.name, state.kind) for state in states] == [("b", "faq"), ("a", "faq")]
    assert (states[0].last_try, states[0].error) == (None, "")
    assert (states[1].error, states[1].documents, states[1].running) == ("gone", 3, False), "its process died"


def test_a_source_is_due_in_another_store_which_may_hold_old_passages(tmp_path: Path) -> None:
    values = {"data_dir": tmp_path, "sources": {"docs": {"kind": "files", "path": "docs"}}}
    stores: list[dict[str, Any]] = [
        {"provider": "sqlite"},
        {"provider": "weaviate"},
        {"provider": "weaviate", "weaviate": {"tenant": "team"}},
    ]
    configurations = [Settings.model_validate(values | {"knowledge": {"store": store}}) for store in stores]
    for settings in configurations:
        audiences = Audiences.from_settings(settings)
        store = settings.knowledge.store
        fingerprint = index_fingerprint(
            "docs", settings.sources, settings.knowledge.chunking.tokens, audiences, store.place
        )
        states = {"docs": RefreshState(last_try=NOW, last_success=NOW, fingerprint=fingerprint)}
        next_runs = [source_states(each, states)[0].next_run for each in configurations]
        is_due = [time is not None and time < NOW + HOUR / 2 for time in next_runs]
        assert is_due == [each is not settings for each in configurations]
    elsewhere = {"provider": "weaviate", "weaviate": {"host": "other.example.org"}}
    settings = Settings.model_validate(values | {"knowledge": {"store": elsewhere}})
    assert settings.knowledge.store.place == configurations[1].knowledge.store.place, "one server, by another name"


def test_another_secret_shows_in_a_fingerprint_and_makes_nothing_due(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("token", "key")}
    source = {"kind": "git", "url": "git@git.example.org:a/b.git", "ssh_key": files["key"]}
    wiki = {"kind": "own", "plugin": "discourse", "token": {"file": files["token"]}}
    settings = Settings.model_validate({"data_dir": tmp_path, "sources": {"key": source, "token": wiki}})
    audiences = Audiences.from_settings(settings)
    for name, file in files.items():
        fingerprints = []
        for secret in ("", "quokka", "quokka", "numbat"):
            file.write_text(secret, "utf-8")
            fingerprints.append(index_fingerprint(name, settings.sources, 200, audiences, ""))
        assert fingerprints[1] == fingerprints[2]
        assert len(set(fingerprints)) == 3
        state = replace(FRESH, fingerprint=fingerprints[1])
        times = {next_refresh_at(name, state, HOURLY, each, now=NOW) for each in fingerprints}
        assert len(times) == 1, "tokens are renewed"
        assert times != {NOW}
