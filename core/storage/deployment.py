"""The id of a deployment. The daemons and commands that share a journal are one deployment, on whatever machines."""

from __future__ import annotations

import uuid

from sqlalchemy import insert, select

from core.errors import JournalError, StoreError
from core.observability.logs import get_logger
from core.runtime.tasks import uncancellable
from core.storage.engine import Database
from core.storage.tables import overrides

_log = get_logger(__name__)

# It lies beside what commands have set: chats have another form (`platform:chat`).
SCOPE = "deployment"
NAME = "id"


async def read_deployment_id(database: Database) -> str:
    """Return the id that the journal keeps, or "" where it has none yet. Raises `StoreError`."""
    query = select(overrides.c.value).filter_by(scope=SCOPE, name=NAME)
    return str(await database.fetch_value(query) or "")


async def ensure_deployment_id(database: Database) -> str:
    """Return the id that the journal keeps; a journal without one gets a random one. Raises `StoreError`."""
    stored_id = await read_deployment_id(database)
    if stored_id:
        return stored_id
    try:
        await _write(database, uuid.uuid4().hex)
    except JournalError:
        # Another process may have been faster.
        if not await read_deployment_id(database):
            raise
    return await read_deployment_id(database)


async def get_mask_key(database: Database) -> bytes:
    """Return a key that stays over restarts, and that daemons share; a random one where the journal cannot keep it."""
    try:
        return (await ensure_deployment_id(database)).encode()
    except StoreError as error:
        _log.warning("masking.marks_will_change", error=str(error))
        return uuid.uuid4().bytes


@uncancellable
async def _write(database: Database, deployment_id: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(insert(overrides).values(scope=SCOPE, name=NAME, value=deployment_id))
