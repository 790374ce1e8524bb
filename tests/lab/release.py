"""Tries a release before it is published: what the index shows, and that uvx and pipx install it.

    python -m tests.lab.release

It builds the wheel and the source archive, checks both with twine, puts them on an index of this machine, and installs
`kimas` from there as people do, in an empty home. Its dependencies come from the index that uv uses here. Needs the
network, and takes minutes.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
QUESTION = "Does it work with Ollama?"


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        return None


@contextmanager
def serve_index(folder: Path) -> Iterator[str]:
    """Serve a folder as a simple index (PEP 503) on loopback; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_QuietHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple/"
    finally:
        server.shutdown()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kimas-release-") as name:
        folder = Path(name)
        files = folder / "simple" / "kimas"
        files.mkdir(parents=True)
        _run([sys.executable, "-m", "hatchling", "build", "--directory", str(files)], dict(os.environ))
        _run([str(UV), "tool", "run", "twine", "check", "--strict", *map(str, files.iterdir())], dict(os.environ))
        home = folder / "home"
        home.mkdir()
        with serve_index(folder) as index:
            environment = {
                **{key: value for key, value in os.environ.items() if not key.startswith(("KIMAS_", "PYTHON"))},
                "HOME": str(home),
                "XDG_CACHE_HOME": str(home / "cache"),
                "UV_INDEX": index,
                "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
                "PIP_EXTRA_INDEX_URL": index,
            }
            version = _run([str(UV), "tool", "run", "--refresh-package", "kimas", "kimas", "--version"], environment)
            _expect("kimas, version", version)
            number = version.split()[-1]
            # Named: pip takes no version between releases by itself.
            _run([str(UV), "tool", "run", "pipx", "install", f"kimas=={number}"], environment)
            command = str(home / ".local" / "bin" / "kimas")
            _expect(number, _run([command, "--version"], environment))
            _expect("[1]", _run([command, "ask", QUESTION], environment, home))
    print("ready to publish")


def _run(command: Sequence[str], environment: dict[str, str], folder: Path = ROOT) -> str:
    print("$", *(Path(word).name if word.startswith("/") else word for word in command), flush=True)
    result = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    print(result.stdout + result.stderr[-2000:])
    if result.returncode:
        raise SystemExit(f"exit code {result.returncode}")
    return result.stdout


def _expect(text: str, output: str) -> None:
    if text not in output:
        raise SystemExit(f"{text!r} is not in what it printed")


if __name__ == "__main__":
    main()
