"""Runs `kimas run` against a Telegram server that we did not write, and says of each step whether it worked.

See `tests/independent/README.md`. Usage: `python -m tests.independent.telegram http://127.0.0.1:9321`
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOKEN, CHAT, TIMEOUT_S = "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11", 100, 60.0
Json = dict[str, Any]

DOCUMENTS = {
    "rotating.md": "# Rotating the keys\n\nRotate the keys with `rocket keys rotate`. Old keys work for a week.\n",
    "losing.md": "# Losing a key\n\nWho loses a key revokes it with `rocket keys revoke NAME`, at once.\n",
}
CONFIGURATION = """
data_dir: {folder}/data
sources:
  guide:
    kind: files
    path: {folder}/docs
telegram:
  token:
    file: {folder}/token
  api_url: {server}
"""


class Server:
    """The server, as its users see it through the calls that it has for tests."""

    def __init__(self, address: str) -> None:
        self._address = address

    def send(self, path: str, **body: object) -> Json:
        """Do what a person does."""
        data = json.dumps({"bot_token": TOKEN, "chat_id": CHAT, **body}).encode()
        request = urllib.request.Request(  # noqa: S310 - the address is an argument of the script
            f"{self._address}/client/{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
            result: Json = json.load(response)["result"]
        return result

    def shown(self) -> list[Json]:
        """Return the messages of the bot as they are shown now."""
        query = urllib.parse.urlencode({"bot_token": TOKEN, "chat_id": CHAT})
        with urllib.request.urlopen(f"{self._address}/client/getUpdates?{query}", timeout=20) as response:  # noqa: S310
            return [update["message"] for update in json.load(response)["result"]]


def wait_for(true: Callable[[], object], what: str) -> None:
    """Wait until something is true, and print it. Raises `SystemExit` when it never is."""
    deadline, begun = time.monotonic() + TIMEOUT_S, time.monotonic()
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"failed: {what}")
        time.sleep(0.1)
    print(f"ok   {what} ({time.monotonic() - begun:.1f} s)", flush=True)


def buttons(message: Json) -> list[Json]:
    """Return the buttons below a message."""
    rows = (message.get("reply_markup") or {}).get("inline_keyboard") or []
    return [button for row in rows for button in row]


def converse(server: Server) -> None:
    """Ask, follow up and give a command."""
    server.send("sendMessage", text="How do I rotate the keys?")
    wait_for(lambda: any("keys rotate" in item["text"] for item in server.shown()), "a question is answered")
    wait_for(lambda: any(buttons(item) for item in server.shown()), "with thumbs below the answer")
    count = len(server.shown())
    server.send("sendMessage", text="And what if I lose a key?")
    wait_for(lambda: any(len(item["text"]) > 1 for item in server.shown()[count:]), "so is a follow-up")
    server.send("sendCommand", command="/help")
    wait_for(lambda: any("/sources" in item["text"] for item in server.shown()), "a command is answered")


def main() -> None:
    """Make a bot with two documents, run it, and talk to it."""
    server = Server(sys.argv[1].rstrip("/"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "docs").mkdir()
        for file, text in DOCUMENTS.items():
            (folder / "docs" / file).write_text(text)
        (folder / "token").write_text(TOKEN)
        configuration = folder / "kimas.yaml"
        configuration.write_text(CONFIGURATION.format(folder=folder, server=sys.argv[1].rstrip("/")))
        kimas = [sys.executable, "-m", "kimas"]
        subprocess.run([*kimas, "ingest", "--config", str(configuration)], check=True)
        bot = subprocess.Popen([*kimas, "run", "--config", str(configuration)])
        try:
            converse(server)
        finally:
            bot.terminate()
            bot.wait(30)


if __name__ == "__main__":
    main()
