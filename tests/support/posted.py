"""What the journal of a deployment knows of a reply that is on its way."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

from tests.support.deployment import Deployment

# Only what hangs takes so long, however busy the machine is.
LONGEST_S = 60.0


async def posted(deployment: Deployment) -> None:
    """Wait until the journal knows that a reply has been begun: a kill before that leaves it in doubt."""
    async with asyncio.timeout(LONGEST_S):
        while not await asyncio.to_thread(_begun, deployment):
            await asyncio.sleep(0.02)


def _begun(deployment: Deployment) -> bool:
    with closing(sqlite3.connect(deployment.folder / "data" / "journal.db")) as journal:
        cursor = journal.execute("SELECT count(*) FROM messages WHERE state = 'answering' AND reply_id != ''")
        return bool(cursor.fetchone()[0])
