"""The schema's versions: what brings the tables of an older journal up to those in `tables.py`.

To change the schema, change `tables.py`, add `versions/vNNNN_*.py` behind the last one, and name it in `HEAD`.
"""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, inspect, select
from sqlalchemy.exc import DBAPIError

from core.errors import StoreError
from core.storage.tables import metadata

HEAD = "0001"
# As Alembic makes it.
alembic_version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))


class UnknownSchema(StoreError):
    """The tables are those of a newer or unknown version."""


def get_revision(connection: Connection) -> str | None:
    """Return the revision of the schema, or None where none is recorded."""
    try:
        return connection.scalar(select(alembic_version.c.version_num))
    except DBAPIError:
        return None


def upgrade(connection: Connection) -> None:
    """Make the tables, or bring those of an older version up to date, within the caller's transaction.

    Raises `UnknownSchema`, with the reason alone, where the tables are those of a newer or unknown version.
    """
    if connection.dialect.name == "sqlite":
        # A change of the schema begins no transaction by itself. Of two processes that open a file, one waits here.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    if not (table_names := inspect(connection).get_table_names()):
        metadata.create_all(connection)
        alembic_version.create(connection)
        connection.execute(insert(alembic_version).values(version_num=HEAD))
    elif alembic_version.name not in table_names or get_revision(connection) != HEAD:
        _run_revisions(connection)


def _run_revisions(connection: Connection) -> None:
    # Alembic takes long to import, and only a journal of an older version needs it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "core.storage:migrations")
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise UnknownSchema(str(error)) from error
    try:
        for table in metadata.sorted_tables:
            connection.execute(select(table).limit(1))
    except DBAPIError as error:
        raise UnknownSchema(str(error.orig)) from error
