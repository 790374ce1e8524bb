"""How long a server asks to wait, in every form that is in use."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from core.runtime.retry_after import MAX_WAIT_S, parse_retry_after, read_retry_after


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2", 2.0),
        ("2.5", 2.5),
        ("-3", 0.0),
        ("1h", 3600.0),
        ("1m30s", 90.0),
        ("250ms", 0.25),
        ("1e9", MAX_WAIT_S),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2093 07:28:00 GMT", MAX_WAIT_S),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("Wed, 99 Oct 2015 99:28:00 GMT", None),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
    ],
)
def test_one_value(value: str, expected: float | None) -> None:
    assert parse_retry_after(value) == expected


@pytest.mark.parametrize(
    "form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y", "%Y-%m-%dT%H:%M:%SZ"]
)
def test_all_forms_of_a_date(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = time.time() + 1000
    date = time.strftime(form, time.gmtime(soon))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    wait_s = parse_retry_after(date)
    monkeypatch.undo()
    time.tzset()
    assert wait_s == pytest.approx(1000, abs=5)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "7", "X-RateLimit-Reset": "90"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"RateLimit-Reset": "12"}, 12.0),
        ({"RateLimit": '"default";r=0;t=30'}, 30.0),
        ({"RateLimit": "limit=10, remaining=0, reset=31"}, 31.0),
        ({"X-RateLimit-Reset-After": "1.25", "X-RateLimit-Reset": "1470173023.123"}, 1.25),
        ({"Retry-After": "soon", "RateLimit-Reset": "5"}, 5.0),
        ({"X-RateLimit-Reset": "tomorrow"}, None),
        ({}, None),
    ],
)
def test_the_headers_of_a_response(headers: dict[str, str], expected: float | None) -> None:
    assert read_retry_after(headers) == expected


@pytest.mark.parametrize("factor", [1, 1000])
def test_a_reset_may_be_a_point_in_time(factor: int) -> None:
    headers = {"X-RateLimit-Reset": str(int((time.time() + 1000) * factor))}
    assert read_retry_after(headers) == pytest.approx(1000, abs=5)
    assert read_retry_after(headers, max_s=60.0) == 60.0


@pytest.mark.parametrize("skew_s", [-7200, 7200])
def test_a_wrong_clock_does_not_matter_where_the_server_tells_the_time(skew_s: int) -> None:
    server_time = time.time() + skew_s
    headers = {"Date": formatdate(server_time, usegmt=True), "Retry-After": formatdate(server_time + 3, usegmt=True)}
    assert read_retry_after(headers) == 3.0
    headers = {"Date": formatdate(server_time, usegmt=True), "X-RateLimit-Reset": str(int(server_time) + 4)}
    assert read_retry_after(headers) == 4.0
