"""The log: its two looks, what ends up in it, and what never does."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from core.observability.logs import (
    MAX_BUFFERED_CHARS,
    MAX_BUFFERED_LINES,
    OWN_PACKAGES,
    buffered_logs,
    configure_logs,
    get_logger,
    log_context,
    make_redactor,
)
from core.settings import LogSettings

SECRET = 'p"ä\\ss word\n2'
TOKEN = "123456789:AAF-abcdefghijklmnopqrstuvwxyz012345"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    state_before = root.level, list(root.handlers), {name: logging.getLogger(name).level for name in OWN_PACKAGES}
    yield
    logging.captureWarnings(False)
    root.setLevel(state_before[0])
    root.handlers = state_before[1]
    for name, level in state_before[2].items():
        logging.getLogger(name).setLevel(level)


def configured(
    stream: io.StringIO | None = None,
    form: Literal["auto", "json", "console"] = "json",
    level: Literal["debug", "info", "warning", "error"] = "info",
    secrets: tuple[str, ...] = (),
) -> io.StringIO:
    stream = stream if stream is not None else io.StringIO()
    configure_logs(LogSettings(level=level, format=form), stream, secrets)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_object() -> None:
    stream = configured()
    get_logger("core.answering.pipeline").info("answer.finished", passages=3, text="two\nlines", path=logging)
    (event,) = lines(stream)
    assert event.pop("timestamp").endswith("Z")
    assert event.pop("path").startswith("<module 'logging'")
    assert event == {
        "event": "answer.finished",
        "level": "info",
        "logger": "core.answering.pipeline",
        "passages": 3,
        "text": "two\nlines",
    }


async def test_bound_keys_stay_with_their_message() -> None:
    stream = configured()

    async def answer(question_id: str) -> None:
        with log_context(question_id=question_id):
            await asyncio.sleep(0)
            get_logger("core").info("inside")
            await asyncio.create_task(deeper())

    async def deeper() -> None:
        get_logger("core").info("deeper")

    await asyncio.gather(answer("one"), answer("two"))
    get_logger("core").info("outside")
    events = sorted((line["event"], line.get("question_id")) for line in lines(stream)[:-1])
    assert events == [("deeper", "one"), ("deeper", "two"), ("inside", "one"), ("inside", "two")]
    assert "question_id" not in lines(stream)[-1]


def test_levels_hold_for_our_packages_and_vendors_speak_from_warning_up() -> None:
    stream = configured(level="debug")
    for name in (*OWN_PACKAGES, "aiogram.event", "openai", "apscheduler", "aiohttp.access", "asyncio"):
        logging.getLogger(name).debug("debug")
        logging.getLogger(name).warning("warning %d", 1)
    get_logger("knowledge.refresh").debug("debug")
    messages = {(line["logger"], line["event"]) for line in lines(stream)}
    assert ("aiogram.event", "warning 1") in messages
    assert ("asyncio", "warning 1") in messages
    assert {name for name, event in messages if event == "debug"} == {*OWN_PACKAGES, "knowledge.refresh"}
    configured(stream, level="error")
    text_before = stream.getvalue()
    get_logger("core").warning("quiet")
    assert stream.getvalue() == text_before


def test_an_exception_is_a_traceback_in_one_line() -> None:
    stream = configured()
    try:
        raise ValueError(f"no access with {TOKEN}")
    except ValueError:
        get_logger("core").exception("answer.failed")
        logging.getLogger("aiogram").exception("failed")
    for event in lines(stream):
        assert event["exception"].startswith("Traceback (most recent call last):")
        assert event["exception"].endswith("ValueError: no access with [redacted]")
        assert event["level"] == "error"


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_foreign_text_steers_a_terminal(form: Literal["json", "console"]) -> None:
    """Names of files, and errors that hold them, come from strangers."""
    hostile = "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202eexe\x85\u2028\r.md"
    stream = configured(Terminal(), form)
    get_logger("core").warning("file.skipped", path=hostile)
    try:
        raise ValueError(hostile)
    except ValueError:
        get_logger("core").exception("answer.failed")
    text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert {character for character in text if not character.isprintable()} <= {"\n"}
    assert text.count("owned") == 2, "it is shown all the same"
    if form == "json":
        assert lines(stream)[0]["path"] == hostile


def test_a_terminal_gets_colours_and_plain_tracebacks() -> None:
    stream = configured(Terminal(), "auto")
    local = "a local variable with " + "a secret"
    try:
        raise ValueError(len(local))
    except ValueError:
        get_logger("core").exception("answer.failed", n=1)
    assert "\x1b[" in stream.getvalue()
    assert "answer.failed" in stream.getvalue()
    assert "ValueError: 22" not in stream.getvalue().split("Traceback")[0]
    assert "Traceback (most recent call last)" in stream.getvalue()
    assert local not in stream.getvalue()


@pytest.mark.parametrize(
    ("form", "stream", "is_json"),
    [("auto", io.StringIO(), True), ("auto", Terminal(), False), ("json", Terminal(), True)],
)
def test_the_look_follows_the_stream_unless_told(
    form: Literal["auto", "json"], stream: io.StringIO, is_json: bool
) -> None:
    logger_output = configured(stream, form)
    get_logger("core").info("event")
    assert logger_output.getvalue().startswith("{") == is_json


def test_setting_up_again_replaces_and_leaves_other_handlers() -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    first = configured()
    second = configured()
    get_logger("core").info("event")
    assert first.getvalue() == ""
    assert len(lines(second)) == 1
    assert other in logging.getLogger().handlers


def test_warnings_are_logged() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        stream = configured()
        warnings.warn("old", UserWarning, stacklevel=1)
        logging.captureWarnings(False)
    assert [line["logger"] for line in lines(stream)] == ["py.warnings"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_never_appear_in_any_form(form: Literal["json", "console"]) -> None:
    stream = configured(form=form, secrets=(SECRET, "", "ab"))
    log = get_logger("core")
    log.info("event", key=SECRET, nested={"deep": [SECRET]}, text=f"x{SECRET}y", word="abc")
    log.info(f"event {SECRET}")
    logging.getLogger("openai").warning("key %s", SECRET)
    with log_context(key=SECRET):
        try:
            raise ValueError(SECRET)
        except ValueError:
            log.exception("event")
            logging.getLogger("openai").exception("event")
    text = stream.getvalue()
    assert "ss word" not in text
    assert "[redacted]" in text
    assert "abc" in text


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("https://api.telegram.org/bot123:ABC/getMe", "https://api.telegram.org/bot[redacted]/getMe"),
        (f"GET /file/bot{TOKEN}/photo.jpg", "GET /file/bot[redacted]/photo.jpg"),
        (f"the token {TOKEN} is bad", "the token [redacted] is bad"),
        ("{'Authorization': 'Bearer abc.def-123'}", "{'Authorization': 'Bearer [redacted]'}"),
        ("authorization: bearer abcdefgh", "authorization: bearer [redacted]"),
        ("Incorrect API key: sk-proj-abc_DEF123.", "Incorrect API key: [redacted]."),
        ("https://user:pass@git.example.org/r.git", "https://[redacted]@git.example.org/r.git"),
        ("https://token@git.example.org/r.git", "https://[redacted]@git.example.org/r.git"),
        ("https://llm.example/v1?api-key=s3cret&v=2 failed", "https://llm.example/v1?api-key=[redacted]&v=2 failed"),
        ("'https://h/x?page=2&X-Amz-Signature=ab12'", "'https://h/x?page=2&X-Amz-Signature=[redacted]'"),
        (
            "https://h/feed?private_token=ab&subscription_key=cd",
            "https://h/feed?private_token=[redacted]&subscription_key=[redacted]",
        ),
        ("https://h/?q=api+key&keyboard=1&monkey=2&tokens=3", None),
        ("task-force disk-images 12:30 https://h/@user a@b.org", None),
        ("core/observability/logs.py:12:34 2026-01-02T03:04:05.678901Z 10.0.0.1:8080", None),
    ],
)
def test_known_shapes_are_redacted_and_ordinary_text_is_not(text: str, rest: str | None) -> None:
    assert make_redactor()(text) == (rest or text)


def test_a_secret_within_a_longer_one_leaves_no_rest() -> None:
    assert make_redactor(["abcd", "abcdefgh"])("x abcdefgh abcd") == "x [redacted] [redacted]"


def test_a_secret_in_a_url_is_found() -> None:
    assert make_redactor(["a/b c"])("?key=a%2Fb%20c&x") == "?key=[redacted]&x"


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "1",
        "1:",
        "sk-",
        "://a",
        "Bearer ",
        "/bot1",
        "123456:",
        "12345678901:aaaa",
        "://a@",
        "Bearer abcd",
        "?key=",
        "&a_",
        "?a-key=b",
    ],
)
def test_redaction_is_linear_on_long_lines(piece: str) -> None:
    redact = make_redactor(["secret-value"])
    line = piece * (1_000_000 // len(piece))
    started_at = time.thread_time()
    redact(line)
    # 1 MB takes at most a tenth of a second; quadratic behaviour would take minutes.
    assert time.thread_time() - started_at < 2


def test_importing_the_module_loads_no_library() -> None:
    code = "import sys, core.observability.logs; sys.exit('structlog' in sys.modules or 'rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


FLOOD = """
import sys
from core.observability.logs import BackgroundStream, configure_logs, get_logger
from core.settings import LogSettings
stream = BackgroundStream(sys.stderr)
configure_logs(LogSettings(format="json"), stream)
for number in range(20_000):
    get_logger("core.test").info("event", number=number)
print("done", flush=True)
sys.stdin.readline()
stream.close()
"""


@pytest.mark.parametrize("is_read", [True, False])
def test_a_log_that_nobody_reads_holds_up_nobody_and_counts_what_it_drops(*, is_read: bool) -> None:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", FLOOD], text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "done\n", "nobody has read the log until now"
        if not is_read:
            process.stdin.write("end\n")
            process.stdin.flush()
            assert process.wait(30) == 0, "it ends though its log is full"
            return
        events = []
        while not events or events[-1]["event"] != "log.lines_dropped":
            events.append(json.loads(process.stderr.readline()))
        numbers = [event["number"] for event in events[:-1]]
        assert numbers == list(range(len(numbers))), "what was kept is whole and in order"
        assert len(numbers) + events[-1]["lines"] == 20_000
        process.stdin.write("end\n")


def test_the_last_lines_are_kept_without_secrets() -> None:
    configure_logs(LogSettings(level="info", format="json"), io.StringIO())
    with buffered_logs(["hunter2hunter2"]) as log_buffer:
        for number in range(MAX_BUFFERED_LINES + 3):
            get_logger("core.x").info("step", number=number)
        last = log_buffer.lines_after()[-1][0]
        get_logger("core.x").warning("leak", value="hunter2hunter2", address="https://u:pw@example.org/?token=abc")
        get_logger("core.x").debug("unseen")
        get_logger("core.x").info("long", text="x" * 2 * MAX_BUFFERED_CHARS)
    get_logger("core.x").info("after")
    lines = log_buffer.lines_after()
    assert len(lines) == MAX_BUFFERED_LINES
    assert [number for number, _ in lines] == list(range(6, MAX_BUFFERED_LINES + 6))
    leak_line, long_line = (json.loads(line) for _, line in log_buffer.lines_after(last))
    assert leak_line["value"] == "[redacted]"
    assert "pw" not in leak_line["address"]
    assert "abc" not in leak_line["address"]
    assert long_line["event"].startswith('{"text"')
    assert len(long_line["event"]) < 2 * MAX_BUFFERED_CHARS
