"""Tools of the MCP project's own test server (npm, TypeScript) as live sources, over HTTP and as a program."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.lab.independent.steps import Json, parse_arguments

QUESTION = "Where do the rockets start?"


def kimas(folder: Path, *arguments: str) -> str:
    """Give one command of `kimas` and return what it prints."""
    command = [sys.executable, "-m", "kimas", *arguments, "--config", str(folder / "kimas.yaml")]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def require(holds: bool, step: str) -> None:
    """Print a step. Raises `SystemExit` where it does not hold."""
    if not holds:
        raise SystemExit(f"failed: {step}")
    print(f"ok   {step}", flush=True)


def main() -> None:
    arguments = parse_arguments("its address", "http://127.0.0.1:3003/mcp", program="mcp-server-everything")
    web: Json = {"kind": "mcp", "url": arguments.server, "allow_private": ["127.0.0.1"], "timeout_s": 20}
    program: Json = {"kind": "mcp", "command": [arguments.program], "timeout_s": 20}
    echo = {"tool": "echo", "query_argument": "message"}
    sources: dict[str, Any] = {
        "web": {**web, **echo},
        "program": {**program, **echo},
        "writes": {**program, "tool": "toggle-simulated-logging"},
        "gone": {**program, "tool": "search"},
        "number": {**web, "tool": "get-sum", "query_argument": "a", "arguments": {"b": 1}},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kimas.yaml").write_text(json.dumps({"data_dir": f"{folder}/data", "sources": sources}))
        checked = " ".join(kimas(folder, "check", "--live").split())
        require(f"{arguments.server}: answers (1 results" in checked, "over HTTP, a tool answers")
        require(f"{arguments.program}: answers (1 results" in checked, "as a program, it answers")
        require("tool toggle-simulated-logging says that it changes something" in checked, "one that writes is refused")
        require("no tool 'search'; its tools are: echo" in checked, "one that is not there is named")
        require("argument a of its tool get-sum takes no text" in checked, "an argument that takes no text is named")
        found = kimas(folder, "search", QUESTION)
        require(found.count(f"Echo: {QUESTION}") >= 2, "a search finds what both say")


if __name__ == "__main__":
    main()
