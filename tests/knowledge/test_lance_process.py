from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

CHILD = """
import asyncio, os, sys
from pathlib import Path
before = dict(os.environ)
from knowledge.stores.lance.store import open_lance
assert "lancedb" not in sys.modules, "imported too early"
store = asyncio.run(open_lance(Path(sys.argv[1]), "test", 8))
assert dict(os.environ) == before, "the environment was changed"
assert "lance_namespace_urllib3_client" not in sys.modules, "the stand-in was left behind"
import lance_namespace_urllib3_client
print(lance_namespace_urllib3_client.BranchApi.__name__)
"""


async def test_opening_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    arguments = (sys.executable, "-c", CHILD, str(tmp_path))
    for environment in ({}, {"LANCEDB_LOG": "warn"}):
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **environment},
        )
        output, _ = await process.communicate()
        assert output.decode() == "BranchApi\n"
