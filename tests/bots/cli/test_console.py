"""The terminal: what it shows while it is watched, what it never does, and in which state it is left."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing
from fcntl import ioctl
from pathlib import Path
from select import select

import pyte
import pytest
from rich.console import Console

from bots.cli.console import Finding, print_findings, print_passages, print_reports
from bots.common.terminal import make_console, step_progress
from bots.console.render import ConsoleSink
from core.observability.logs import configure_logs, get_logger
from core.settings.messaging import LogSettings
from core.types import Citation, Passage, Reply
from knowledge.ingestion.sync import SyncReport
from tests.support import forked
from tests.support.deployment import Deployment, logging_as_it_was, make_repository
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.slow_load import MAX_WAIT_S, load_slowly
from tests.support.terminal import open_kimas

pytestmark = pytest.mark.slow

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31mred\r\x08"
HIDE = b"\x1b[?25l"
SHOW = b"\x1b[?25h"
LONGEST_S = 60
ROWS = 40
COLUMNS = 120


def terminal() -> tuple[Console, io.StringIO]:
    output = io.StringIO()
    return Console(file=output, force_terminal=True, width=100, color_system=None, legacy_windows=False), output


class Terminal:
    """A process at a pseudo-terminal. `screens` holds what stood on the screen after every piece of output."""

    def __init__(self, deployment: Deployment, *arguments: str) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.screens: list[str] = []
        self.written = b""
        self._stream = pyte.ByteStream(self.screen)
        self._master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        variables = {**deployment.variables(), "TERM": "xterm-256color"}
        variables.pop("NO_COLOR", None)
        self._process = _start(deployment, arguments, variables, slave)
        os.close(slave)

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def read(self, until: Callable[[], bool] = lambda: False) -> None:
        """Read until something is true, or to the end."""
        end = time.monotonic() + LONGEST_S
        while not until():
            assert time.monotonic() < end, self.text()
            if not select([self._master], [], [], 0.1)[0]:
                continue
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # How Linux tells that the other side is closed.
                return
            self.written += piece
            self._stream.feed(piece)
            self.screens.append(self.text())

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).strip()

    def close(self) -> int:
        self._process.kill()
        os.close(self._master)
        return self._process.wait(LONGEST_S)

    def end(self) -> int:
        """Read to the end and return the exit code."""
        self.read()
        return self._process.wait(LONGEST_S)


@pytest.fixture
async def model() -> AsyncIterator[LanguageModelPeer]:
    async with LanguageModelPeer(reply="Call **rotate_keys** [p1].\n\n- nobody is logged out [p1]") as peer:
        yield peer


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    folder = tmp_path_factory.mktemp("terminal")
    make_repository(folder / "rocket")
    link = "https://example.org/{path}#L{start}"
    rocket = {"kind": "git", "url": str(folder / "rocket"), "link": link}
    deployment = Deployment(folder, {"sources": {"rocket": rocket}})
    deployment.call("ingest")
    return deployment


def _start(
    deployment: Deployment, arguments: Sequence[str], variables: Mapping[str, str], terminal: int
) -> subprocess.Popen[bytes] | forked.BlockingProcess:
    """Start `kimas` at a terminal: a fork, where forks are served."""
    if forked.are_served():
        return forked.start_at_terminal(deployment.arguments(*arguments), deployment.folder, variables, terminal)
    return subprocess.Popen(
        deployment.command(*arguments),
        cwd=deployment.folder,
        env=variables,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        preexec_fn=_take_terminal,  # noqa: PLW1509 (two system calls)
    )


def _take_terminal() -> None:
    """Make standard input the terminal of this process alone, so that Ctrl-C typed there becomes a signal.

    Whoever starts the tests may ignore it, and what is ignored is inherited.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    ioctl(0, termios.TIOCSCTTY, 0)


def with_model(deployment: Deployment, model: LanguageModelPeer) -> Deployment:
    models = {"main": {"base_url": model.base_url, "model": "peer"}}
    return Deployment(deployment.folder, {**deployment.settings, "models": models})


def test_an_ingest_shows_how_far_words_and_meaning_are(deployment: Deployment) -> None:
    with closing(Terminal(deployment, "ingest", "--rebuild")) as output:
        assert output.end() == 0
        bars = [line for screen in output.screens for line in screen.splitlines() if "by words" in line]
        assert any("2 of 2 documents" in line for line in bars)
        assert any("by meaning" in line for line in bars)
        assert "added" in output.text()
        assert output.written.count(HIDE) == output.written.count(SHOW) > 0
    piped = deployment.call("ingest").stdout
    assert "by words" not in piped
    assert "\x1b" not in piped


async def test_an_answer_streams_in_as_markdown_with_numbered_links(
    deployment: Deployment, model: LanguageModelPeer
) -> None:
    model.tokens_per_s = 5
    with closing(Terminal(with_model(deployment, model), "ask", "How do I change the signing key?")) as output:
        assert await asyncio.to_thread(output.end) == 0
        assert any("Call rotate_keys" in screen and "logged out" not in screen for screen in output.screens), "live"
        assert "**" not in output.text(), "Markdown is rendered"
        assert " • nobody is logged out [1]" in output.text()
        assert "\n[1] " in output.text()
        assert "https://example.org/" in output.text()
        assert b"\x1b]8;" in output.written, "a link to click on"
        assert output.written.count(HIDE) == output.written.count(SHOW) > 0


async def test_a_conversation_goes_on_while_vectors_are_made(tmp_path: Path, model: LanguageModelPeer) -> None:
    make_repository(tmp_path / "rocket")
    endpoint = {"provider": "openai", "base_url": model.base_url, "model": "embedder", "dimension": model.dimension}
    sources = {"rocket": {"kind": "git", "url": str(tmp_path / "rocket")}}
    deployment = Deployment(tmp_path, {"sources": sources, "knowledge": {"embedding": endpoint}})
    model.hang = True
    with closing(Terminal(deployment, "chat")) as output:
        await asyncio.to_thread(output.read, lambda: "\n>" in output.text())
        assert "Found by words alone so far: " in output.text()
        output.type(b"How do I change the signing key?\r")
        await asyncio.to_thread(output.read, lambda: "[1]" in output.text())
        model.hang = False
        output.type(b"/sources\r")
        # Before the prompt is back, Ctrl-C would end the command and not the conversation.
        await asyncio.to_thread(output.read, lambda: "\n>" in output.text().partition("refreshed")[2])
        output.type(b"\x03")
        assert await asyncio.to_thread(output.end) == 0


async def test_control_c_while_the_model_thinks_gives_the_terminal_back(
    deployment: Deployment, model: LanguageModelPeer
) -> None:
    model.hang = True
    with closing(Terminal(with_model(deployment, model), "ask", "How do I change the signing key?")) as output:
        await asyncio.to_thread(output.read, lambda: HIDE in output.written and bool(model.requests))
        output.type(b"\x03")
        assert await asyncio.to_thread(output.end) == 130
        assert output.written.count(HIDE) == output.written.count(SHOW) == 1
        assert "Traceback" not in output.text()


async def test_control_c_in_an_ingest_says_that_nothing_is_lost(tmp_path: Path, model: LanguageModelPeer) -> None:
    make_repository(tmp_path / "rocket")
    endpoint = {"provider": "openai", "base_url": model.base_url, "model": "embedder", "dimension": model.dimension}
    sources = {"rocket": {"kind": "git", "url": str(tmp_path / "rocket")}}
    model.hang = True
    deployment = Deployment(tmp_path, {"sources": sources, "knowledge": {"embedding": endpoint}})
    with closing(Terminal(deployment, "ingest")) as output:
        await asyncio.to_thread(output.read, lambda: "by words, 0 by meaning" in output.text())
        output.type(b"\x03")
        assert await asyncio.to_thread(output.end) == 130
        assert "what was read is kept" in output.text()
        assert "Traceback" not in output.text()


async def test_control_c_at_the_prompt_ends_a_chat_like_the_end_of_input(deployment: Deployment) -> None:
    async with open_kimas(deployment.arguments("chat"), deployment.folder) as user:
        await user.interrupt("\n> ")
        assert await user.end() == 0
        assert "Traceback" not in user.output


def test_lines_from_a_pipe_are_answered_without_a_prompt(deployment: Deployment) -> None:
    lines = deployment.call("chat", stdin="How do I install Rocket?\n\n/good\n").stdout.splitlines()
    # The answer is a quotation, with its heading.
    quotation = [line for line in lines if line.startswith(">")]
    # A short page is shown whole.
    assert quotation[0] == "> **Rocket**"
    assert "> Install Rocket with `pip install rocket`. It needs Python 3.11 or newer." in "\n".join(quotation)
    assert quotation[-1].endswith("[1]")
    assert lines[-1].startswith("Thank you")


def test_who_leaves_does_not_wait_for_what_is_still_loading(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun = load_slowly(monkeypatch)
    monkeypatch.setattr("bots.cli.chat.WARM_UP_START_S", 2)
    # Where no language or no description is configured, the passages are read before the first prompt.
    agents = {"rocket": {"sources": ["rocket"], "language": "en", "description": "The web framework Rocket"}}
    start = time.monotonic()
    Deployment(deployment.folder, {**deployment.settings, "agents": agents}).call("chat", stdin="exit\n")
    assert has_begun.is_set()
    assert time.monotonic() - start < MAX_WAIT_S


def test_the_log_is_printed_above_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, ROWS)
    with open(slave, "w", encoding="utf-8") as stream, logging_as_it_was():
        monkeypatch.setattr("sys.stderr", stream)
        configure_logs(LogSettings())
        with step_progress(make_console(stderr=True), {"judging": 2}) as advance:
            get_logger("bots.test").warning("judge.slow")
            advance("judging")
        get_logger("bots.test").warning("judge.done")
        written = b""
        while b"judge.done" not in written or not written.endswith(b"\n"):
            written += os.read(master, 65536)
    os.close(master)
    pyte.ByteStream(screen).feed(written)
    lines = [line.rstrip() for line in screen.display if line.strip()]
    assert [re.sub(r"^\d{4}-\S+Z \[warning *\] (\S+).*", r"\1", line) for line in lines] == ["judge.slow", "judge.done"]


async def test_a_sink_that_is_closed_shows_the_cursor_again() -> None:
    console, output = terminal()
    sink = ConsoleSink(console)
    await sink.open()
    assert "\x1b[?25l" in output.getvalue()
    sink.close()
    assert output.getvalue().count("\x1b[?25h") == 1
    sink.close()
    assert output.getvalue().count("\x1b[?25h") == 1


def harmless(text: str) -> bool:
    """Return whether a text commands the terminal to do nothing but what we do: links, and the cursor on or off."""
    ours = ("\x1b]8;", "\x1b\\", "\x1b[?25l", "\x1b[?25h", "\x1b[2K", "\x1b[1A", "\x1b[0m", "\r")
    for name in ours:
        text = text.replace(name, "")
    return not any((ord(letter) < 32 and letter not in "\t\n") or 127 <= ord(letter) < 160 for letter in text)


async def test_nothing_that_is_quoted_steers_the_terminal() -> None:
    console, output = terminal()
    passage = Passage("i", EVIL, EVIL, EVIL, EVIL, EVIL)
    citation = Citation(1, "i", EVIL, EVIL, EVIL, "https://example.org/ b" + EVIL)
    for reply in (Reply(EVIL, (citation,)), Reply("# " + EVIL)):
        with closing(ConsoleSink(console)) as sink:
            await sink.open()
            await sink.update(EVIL)
            await sink.finish(reply)
    await ConsoleSink(console).fail(EVIL)
    print_passages(console, [passage])
    print_findings(console, [Finding("ok", EVIL, EVIL)])
    print_reports(console, [SyncReport("docs", 0, 0, 0, 0, 0, {}, EVIL, 0.0)])
    assert "owned" in output.getvalue()
    assert harmless(output.getvalue())


def test_credentials_in_addresses_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("question,answer\nWho?,We.\n", "utf-8")
    embedding = {"provider": "openai", "base_url": "http://ada:hush-hush@127.0.0.1:9/v1", "model": "m", "dimension": 8}
    sources = {"faq": {"kind": "faq", "path": "faq.csv"}}
    deployment = Deployment(tmp_path, {"sources": sources, "knowledge": {"embedding": embedding}})
    for arguments in (("ingest",), ("ingest", "--json")):
        result = deployment.call(*arguments, code=1)
        assert "127.0.0.1:9" in result.stdout
        assert "hush" not in result.output
    result = deployment.call("ingest", "http://ada:hush-hush@host/", code=2)
    assert "no source is named" in result.stderr
    assert "hush" not in result.stderr
