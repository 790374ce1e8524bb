"""A whole deployment for end-to-end tests: a real git repository, a configuration, the command line as a process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from bots.cli.main import main
from core.observability.logs import OWN_PACKAGES
from tests.support import forked

ROOT = Path(__file__).parents[2]
GIT = ("git", "-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")

README = """# Rocket

Rocket is a small web framework.

## Installation

Install Rocket with `pip install rocket`. It needs Python 3.11 or newer.

## Sessions

Sessions are kept in signed cookies. Call `rotate_keys` to change the signing key without logging anybody out.
"""
SERVER = '''"""The server."""


class Server:
    """Serves an application."""

    def listen(self, port: int = 8000) -> None:
        """Listen on a port until the process is told to stop; the default port is 8000."""
        self.port = port


def rotate_keys(keys: list[str]) -> list[str]:
    """Put a fresh signing key in front of the old ones, so that sessions signed with them stay valid."""
    return ["fresh", *keys]
'''


def git(repository: Path, *arguments: str) -> str:
    result = subprocess.run([*GIT, "-C", str(repository), *arguments], check=True, capture_output=True, text=True)
    return result.stdout.strip()


def make_repository(path: Path, files: Mapping[str, str] | None = None) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main")
    commit(path, files or {"README.md": README, "rocket/server.py": SERVER})
    return path


def commit(repository: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text, encoding="utf-8")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "Change")


@contextmanager
def logging_as_it_was() -> Iterator[None]:
    """Undo what the command line, run inside a test, sets up for its process: what comes next starts afresh."""
    root = logging.getLogger()
    loggers = [root, *map(logging.getLogger, OWN_PACKAGES)]
    levels = [item.level for item in loggers]
    handlers = list(root.handlers)
    umask = os.umask(0o022)
    os.umask(umask)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        root.handlers = handlers
        os.umask(umask)
        logging.captureWarnings(False)


@dataclass
class Deployment:
    """A folder with a configuration; `kimas(...)` runs the command line in it as its own process."""

    folder: Path
    settings: dict[str, Any]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        path = self.folder / "kimas.yaml"
        # JSON is YAML.
        path.write_text(json.dumps({"data_dir": str(self.folder / "data"), **self.settings}), encoding="utf-8")
        return path

    def arguments(self, *arguments: str) -> list[str]:
        return ["--config", str(self.config), *arguments]

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-W", "error", "-m", forked.MODULE, *self.arguments(*arguments)]

    def variables(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}

    def call(self, *arguments: str, code: int = 0, stdin: str | None = None) -> Result:
        """Run the command line inside this process: the same code without the time that its start takes."""
        arguments = ("--config", str(self.config), *arguments)
        with logging_as_it_was():
            result = CliRunner().invoke(main, arguments, input=stdin, env=self.environment, catch_exceptions=False)
        assert result.exit_code == code, f"exit code {result.exit_code}\n{result.output}"
        return result

    def json(self, *arguments: str) -> Any:
        return json.loads(self.call(*arguments, "--json").stdout)

    def kimas(self, *arguments: str, code: int = 0, stdin: str | int | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command line as its own process. Its input is a text or the descriptor of an open file."""
        if forked.are_served():
            result = forked.run(self.arguments(*arguments), self.folder, self.variables(), stdin)
        else:
            input_options: dict[str, Any] = {"stdin": stdin} if isinstance(stdin, int) else {"input": stdin}
            result = subprocess.run(
                self.command(*arguments),
                check=False,
                capture_output=True,
                text=True,
                timeout=600,
                cwd=self.folder,
                env=self.variables(),
                **input_options,
            )
        assert result.returncode == code, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[asyncio.subprocess.Process | forked.ForkedProcess]:
        """Run `kimas run` for the length of the block; kill it at the end if it still runs."""
        with (self.folder / "daemon.log").open("ab") as log:
            process: asyncio.subprocess.Process | forked.ForkedProcess
            if forked.are_served():
                descriptors = (0, log.fileno(), log.fileno())
                process = await forked.start(self.arguments("run"), self.folder, self.variables(), descriptors)
            else:
                process = await asyncio.create_subprocess_exec(
                    *self.command("run"), cwd=self.folder, env=self.variables(), stdout=log, stderr=log
                )
            try:
                yield process
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()

    def log(self) -> str:
        return (self.folder / "daemon.log").read_text("utf-8")


def make_rocket_deployment(folder: Path, **sections: Any) -> Deployment:
    """Return a deployment that has read its repository, with further sections of the configuration."""
    repository = make_repository(folder / "rocket")
    link = "https://example.org/rocket/blob/{commit}/{path}#L{start}-L{end}"
    deployment = Deployment(
        folder, {"sources": {"rocket": {"kind": "git", "url": str(repository), "link": link}}, **sections}
    )
    assert deployment.json("ingest")["sources"][0]["added"] == 2
    return deployment
