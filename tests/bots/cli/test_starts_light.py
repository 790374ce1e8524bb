"""Commands that only look at records load nothing that reads, embeds or answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "numpy",
    "openai",
    "aiohttp",
    "apscheduler",
    "mcp",
    "bots.daemon.bootstrap",
    "bots.cli.ask",
    "knowledge.ingestion.sync",
)
LOOK = """
import sys
from bots.cli.main import main
try:
    main()
finally:
    print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("command", [["usage"], ["audit"], ["faq", "list"], ["sources"]])
def test_looking_at_records_loads_nothing_heavy(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "kimas.yaml").write_text("data_dir: data\nsources: {docs: {kind: files, path: docs}}\n", "utf-8")
    script = LOOK.format(heavy=HEAVY)
    result = subprocess.run(
        [sys.executable, "-c", script, *command, "--config", str(tmp_path / "kimas.yaml")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (result.returncode, result.stderr.strip().splitlines()[-1:]) == (0, ["[]"]), result.stderr
