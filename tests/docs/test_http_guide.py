"""The guide's program works as it is printed."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.support.http_helpers import open_harness

GUIDE = Path(__file__).parents[2] / "docs/http.md"


async def test_the_program_of_the_guide_asks_a_question(tmp_path: Path) -> None:
    result = re.search(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert result
    async with open_harness(tmp_path) as harness:
        program = result[1].replace("127.0.0.1:8088", f"127.0.0.1:{harness.adapter.port}")
        assert program != result[1]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            program,
            env={**os.environ, "KIMAS_HTTP_SECRET": harness.peer.secret},
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await process.communicate()
        assert b'"state": "taken"' in printed
        (final,) = await harness.peer.until("final")
        assert final["text"] == "0: How do I install it? [1]"
