"""The journal in a PostgreSQL database: several daemons can share it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, event, func, inspect, make_url, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from core.errors import StoreError
from core.install_hints import format_install_hint
from core.settings.messaging import JournalSettings

MIN_VERSION = (13,)
# Connections of one process: most transactions take a millisecond, and servers allow about a hundred in all.
POOL_SIZE = 10
MAX_OVERFLOW = 10
CONNECT_TIMEOUT_S = 10
# Any number: two processes that open a new database take turns.
UPGRADE_LOCK = 7_304_117
NO_DRIVER = "the journal is on PostgreSQL, and its driver is not installed"


def make_engine(settings: JournalSettings) -> AsyncEngine:
    """Return the engine of the database that the settings name. Raises `StoreError` without the driver or password."""
    url = make_url(settings.url or "").set(drivername="postgresql+psycopg")
    if settings.password:
        try:
            url = url.set(password=settings.password.value())
        except (KeyError, OSError, UnicodeDecodeError) as error:
            raise StoreError(f"journal.password cannot be read: {settings.password.missing_reason()}") from error
    try:
        engine = create_async_engine(
            url,
            pool_size=POOL_SIZE,
            max_overflow=MAX_OVERFLOW,
            # After a restart of the server, the connections of before are dead.
            pool_pre_ping=True,
            connect_args={"connect_timeout": CONNECT_TIMEOUT_S},
        )
    except ModuleNotFoundError as error:
        raise StoreError(f"{NO_DRIVER}: {format_install_hint('postgres')}") from error
    event.listen(engine.sync_engine, "connect", _set_time_zone)
    return engine


async def check_server(engine: AsyncEngine, location: str) -> None:
    """Connect once. Raises `StoreError`, which says what to do, for a server that cannot be used."""
    try:
        async with engine.connect() as connection:
            version = connection.dialect.server_version_info or MIN_VERSION
    except (SQLAlchemyError, OSError) as error:
        cause = " ".join(str(getattr(error, "orig", None) or error).split())
        raise StoreError(f"the journal {location} cannot be opened: {cause}. {_hint(cause)}") from error
    if version < MIN_VERSION:
        numbers = (".".join(map(str, numbers)) for numbers in (version, MIN_VERSION))
        raise StoreError("the journal {} is on PostgreSQL {}: it needs {} or newer".format(location, *numbers))


def lock_schema(connection: Connection) -> None:
    """Wait until no other process changes the tables; the lock ends with the transaction."""
    connection.execute(select(func.pg_advisory_xact_lock(UPGRADE_LOCK)))


def reset_sequences(connection: Connection, tables: list[Any]) -> None:
    """Let the numbers of new rows follow those of rows that were copied."""
    for table in tables:
        columns = inspect(connection).get_columns(table.name)
        if any(column["name"] == "number" for column in columns):
            sequence = func.pg_get_serial_sequence(table.name, "number")
            last_number = select(func.max(table.c.number)).scalar_subquery()
            connection.execute(select(func.setval(sequence, func.coalesce(last_number, 0) + 1, False)))


def _hint(cause: str) -> str:
    if "password" in cause or "authentication" in cause:
        return "Check the user in journal.url, and journal.password"
    if "does not exist" in cause:
        return "Create it on the server (createuser, createdb), or correct journal.url"
    return "Check journal.url, and that the server runs and lets this machine in (listen_addresses, pg_hba.conf)"


def _set_time_zone(connection: Any, _record: object) -> None:
    # Days are counted by the text of moments, which PostgreSQL writes in the zone of the session.
    cursor = connection.cursor()
    cursor.execute("SET TIME ZONE 'UTC'")
    cursor.close()
    connection.commit()
