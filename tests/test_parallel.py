"""The processes that run the tests: each test runs once and is reported, whatever happens to the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deployment import ROOT

CONFTEST = """
import os, pytest

@pytest.fixture(scope="session")
def of_session():
    yield
    raise ValueError("the end of a session")

@pytest.fixture(autouse=True)
def recorded(request):
    with open("ran", "a") as file:
        print(request.node.name, os.getpid(), file=file)
"""
FIRST = """
import os, time, warnings, pytest

@pytest.fixture(scope="module")
def place(tmp_path_factory):
    yield tmp_path_factory.mktemp("module")

def test_warns(place): warnings.warn("look at this")
def test_fails(place): assert place == "nowhere"
def test_ends_the_process(): os._exit(3)
def test_comes_after_it(place): assert place.is_dir()
@pytest.mark.timeout(0.2)
def test_hangs(): time.sleep(60)
@pytest.mark.skip(reason="for a reason")
def test_is_skipped(): pass
@pytest.mark.serial
def test_is_alone(): pass
"""
SECOND = """
def test_uses_what_fails_at_the_end(of_session): pass
"""
CONFIGURATION = "[pytest]\nmarkers = serial: alone\nasyncio_default_fixture_loop_scope = function\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with tests of all kinds."""
    texts = {"conftest": CONFTEST, "test_first": FIRST, "test_second": SECOND}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "pytest.ini").write_text(CONFIGURATION)
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the tests of a folder in two processes; return the exit code and what is printed."""
    plugins = ("-p", "tests.parallel", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugins, "--forks", "2", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout


def test_every_test_runs_once_and_is_reported(suite: Path) -> None:
    code, output = run(suite, "-rA")
    outcomes = re.findall(r"^(PASSED|FAILED|ERROR) (?:\S+::)?(test_\w+|process)", output, re.MULTILINE)
    assert sorted(outcomes) == [
        ("FAILED", "process"),
        ("FAILED", "test_ends_the_process"),
        ("FAILED", "test_fails"),
        ("FAILED", "test_hangs"),
        ("PASSED", "test_comes_after_it"),
        ("PASSED", "test_is_alone"),
        ("PASSED", "test_uses_what_fails_at_the_end"),
        ("PASSED", "test_warns"),
    ]
    assert code == pytest.ExitCode.TESTS_FAILED
    for text in (
        "ended with 3 during test_first.py::test_ends",
        "Timeout",
        "for a reason",
        "UserWarning: look at this",
    ):
        assert text in output
    assert "ValueError: the end of a session" in output
    ran = [line.split() for line in (suite / "ran").read_text().splitlines()]
    assert len(ran) == len({name for name, _ in ran}) == 7
    assert ran[-1][0] == "test_is_alone"
    processes = dict(ran)
    assert processes["test_warns"] == processes["test_ends_the_process"] != processes["test_comes_after_it"]


def test_a_run_ends_at_the_first_failure_if_that_is_asked_for(suite: Path) -> None:
    code, output = run(suite, "-x", "-k", "fails or hangs")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "stopping after 1 failures" in output
    assert "Timeout" not in output
