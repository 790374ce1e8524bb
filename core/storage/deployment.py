"""What a deployment keeps of itself: its id, and the key of its marks.

The daemons and commands that share a journal are one deployment, on whatever machines.
"""

from __future__ import annotations

import secrets
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
# Not the id: that stands on the server that keeps the passages, in logs and in errors.
MASK_KEY_NAME = "mask_key"


async def read_deployment_id(database: Database) -> str:
    """Return the id that the journal keeps, or "" where it has none yet. Raises `StoreError`."""
    return await _read(database, NAME)


async def ensure_deployment_id(database: Database) -> str:
    """Return the id that the journal keeps; a journal without one gets a random one. Raises `StoreError`."""
    return await _ensure(database, NAME, uuid.uuid4().hex)


async def get_mask_key(database: Database) -> bytes:
    """Return a key that stays over restarts, and that daemons share; a random one where the journal cannot keep it."""
    try:
        return (await _ensure(database, MASK_KEY_NAME, secrets.token_hex())).encode()
    except StoreError as error:
        _log.warning("masking.marks_will_change", error=str(error))
        return secrets.token_bytes()


async def _read(database: Database, name: str) -> str:
    query = select(overrides.c.value).filter_by(scope=SCOPE, name=name)
    return str(await database.fetch_value(query) or "")


async def _ensure(database: Database, name: str, new_value: str) -> str:
    """Return what the journal keeps under a name: the new value, if it kept nothing yet. Raises `StoreError`."""
    stored_value = await _read(database, name)
    if stored_value:
        return stored_value
    try:
        await _write(database, name, new_value)
    except JournalError:
        # Another process may have been faster.
        if not await _read(database, name):
            raise
    return await _read(database, name)


@uncancellable
async def _write(database: Database, name: str, value: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(insert(overrides).values(scope=SCOPE, name=name, value=value))
