"""Runs the tests in several processes, which are forked when all tests are loaded: `pytest --forks 5`.

Loading the tests, and all that they import, takes seconds of a processor: with a fork it is done once per run, not once
per process. A process that is free takes the next file. What is marked `serial` comes last, in a process that is alone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn
from warnings import WarningMessage

import pytest
from _pytest._io import TerminalWriter

# The files with the longest tests come first, so that no process is left alone with one.
LONGEST = (
    "test_container",
    "test_linear_time",
    "test_audience",
    "test_load",
    "test_wheel",
    "test_document_bombs",
    "test_linear_functions",
    "test_kills",
    "test_injections",
    "test_discord_daemon",
    "test_rendering",
    "test_end_to_end",
    "test_slack_end_to_end",
    "test_copying_killed",
    "test_several_bots",
    "test_operator_page_browser",
    "test_crowd",
    "test_soak",
    "test_evaluate_gate",
    "test_embedding_download",
    "test_first_answer",
    "test_faults",
    "test_speaking",
    "test_cli",
    "test_compare",
    "test_init",
    "test_journal",
    "test_foreign_text",
    "test_rewrites",
    "test_migrations",
    "test_logs",
    "test_chunking",
    "test_strategies",
)
RUN_FOLDER = pytest.StashKey[Path]()
# How long a test may take to clean up when the run is interrupted.
PATIENCE_S = 10
Chunk = list[int]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="run the tests in so many processes, forked after loading")


@pytest.fixture(scope="session")
def run_folder(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes of a run share what is made once."""
    return pytestconfig.stash.get(RUN_FOLDER, None) or tmp_path_factory.getbasetemp()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forked processes, if that was asked for."""
    option = session.config.option
    if not option.forks or option.collectonly or option.usepdb or not session.items:
        return None
    if session.testsfailed and not option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors while loading the tests")
    together, alone = share(session.items)
    Crew(session).run(together, option.forks)
    Crew(session).run(alone, 1)
    return True


def share(items: list[pytest.Item]) -> tuple[list[Chunk], list[Chunk]]:
    """Return what is run side by side, a chunk per file, the longest first, and what is run alone."""
    alone = [number for number, item in enumerate(items) if item.get_closest_marker("serial")]
    rest = (number for number in range(len(items)) if number not in set(alone))
    files = [list(chunk) for _, chunk in groupby(rest, key=lambda number: items[number].path)]
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    files.sort(key=lambda chunk: ranks.get(items[chunk[0]].path.stem, len(LONGEST)))
    return files, [alone] if alone else []


class Crew:
    """The processes that run tests, and what they report."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._config = session.config
        self._workers: dict[Connection, Worker] = {}
        self._base: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def run(self, chunks: list[Chunk], size: int) -> None:
        """Run all tests of these chunks; what fails is reported as if it had run here."""
        queue = iter(chunks)
        try:
            for _ in range(min(size, len(chunks))):
                self._fork(next(queue))
            while self._workers:
                for connection in wait(list(self._workers)):
                    self._hear(self._workers[connection], queue)
        finally:
            for worker in self._workers.values():
                worker.stop()

    def _fork(self, chunk: Chunk) -> None:
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            ours.close()
            for worker in self._workers.values():
                worker.connection.close()
            work(self._session, theirs, self._base)
        theirs.close()
        worker = self._workers[ours] = Worker(pid, ours, chunk)
        worker.send(chunk)

    def _hear(self, worker: Worker, queue: Iterator[Chunk]) -> None:
        try:
            kind, content = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            kind = "end"
            content = None
        if kind == "end":
            self._bury(worker)
        elif kind == "start":
            worker.begin(content)
            item = self._session.items[content]
            self._config.hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        elif kind == "report":
            report = self._config.hook.pytest_report_from_serializable(config=self._config, data=content)
            self._config.hook.pytest_runtest_logreport(report=report)
            self._stop_if_enough()
        elif kind == "warning":
            message = WarningMessage(*content.pop("warning"))
            self._config.hook.pytest_warning_recorded.call_historic(kwargs={**content, "warning_message": message})
        elif kind == "fault":
            worker.fault = content
        else:
            worker.send(next(queue, []))

    def _bury(self, worker: Worker) -> None:
        """A process has ended; if it had not done all its tests, another one goes on behind the one where it ended."""
        del self._workers[worker.connection]
        code = worker.stop()
        if code or worker.chunk:
            item = None if worker.running is None else self._session.items[worker.running]
            text = f"process {worker.pid} ended with {code} during {item.nodeid if item else 'no test'}\n{worker.fault}"
            name = item.nodeid if item else f"process {worker.pid}"
            location = item.location if item else (name, None, name)
            report = pytest.TestReport(name, location, {}, "failed", text, "call")
            self._config.hook.pytest_runtest_logreport(report=report)
            self._stop_if_enough()
        if worker.chunk:
            self._fork(worker.chunk)

    def _stop_if_enough(self) -> None:
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)


class Worker:
    """One process, as the one that gives out the tests sees it."""

    def __init__(self, pid: int, connection: Connection, chunk: Chunk) -> None:
        self.pid = pid
        self.connection = connection
        self.chunk = chunk
        self.running: int | None = None
        self.fault = ""

    def send(self, chunk: Chunk) -> None:
        self.chunk = list(chunk)
        self.running = None
        self.connection.send(chunk)

    def begin(self, number: int) -> None:
        """A test has begun: whatever comes of it, no other process runs it."""
        self.chunk.remove(number)
        self.running = number

    def stop(self) -> int:
        """Wait until the process has ended, and return its exit code; a test in the middle is interrupted."""
        self.connection.close()
        pid, status = os.waitpid(self.pid, os.WNOHANG if self.running is not None else 0)
        if not pid:
            os.kill(self.pid, signal.SIGINT)
            for _ in range(PATIENCE_S * 10):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    break
                time.sleep(0.1)
            else:
                os.kill(self.pid, signal.SIGKILL)
                _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


class Reporter:
    """Sends what pytest reports in this process to the one that gives out the tests."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection
        # Others ask the reporter for it, as pytest-timeout does for the stacks of what hangs.
        self._tw = TerminalWriter(sys.__stderr__)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: WarningMessage, when: str, nodeid: str, location: tuple[str, int, str] | None
    ) -> None:
        warning = str(warning_message.message), UserWarning, warning_message.filename, warning_message.lineno
        self._connection.send(("warning", {"warning": warning, "when": when, "nodeid": nodeid, "location": location}))


def work(session: pytest.Session, connection: Connection, base: Path) -> NoReturn:
    """Run tests in this process, as long as there are any."""
    code = 1
    try:
        _prepare(session.config, connection, base)
        while chunk := connection.recv():
            for number, following in zip(chunk, [*chunk[1:], None], strict=True):
                connection.send(("start", number))
                # Behind the last one only the fixtures of the session are kept.
                next_item: Any = session if following is None else session.items[following]
                item = session.items[number]
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            connection.send(("done", None))
        session._setupstate.teardown_exact(None)
        session.config._ensure_unconfigure()
        code = 0
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        # The run is over, and nobody hears what is reported.
        code = 2
    except BaseException:
        connection.send(("fault", traceback.format_exc()))
    finally:
        os._exit(code)


def _prepare(config: pytest.Config, connection: Connection, base: Path) -> None:
    manager = config.pluginmanager
    manager.unregister(name="terminalreporter")
    manager.register(Reporter(config, connection), "terminalreporter")
    # What is captured goes into a file of this process.
    capture: Any = manager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    folder = base / f"process-{os.getpid()}"
    folder.mkdir()
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
    config.stash[RUN_FOLDER] = base
