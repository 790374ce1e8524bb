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
import lance_namespace_urllib3_client, pydantic
assert pydantic.BaseModel.model_config == {}, "models of others would be completed late"
from lance_namespace_urllib3_client.models.table_version import TableVersion as model
assert not model.__pydantic_complete__, "it took time to load what nobody uses"
model.model_validate({"version": 1, "manifest_path": "a"})
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
