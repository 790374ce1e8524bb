"""Runs `kimas run` and the example of a bridge against a Matrix server, and says of each step whether it worked.

See `tests/lab/independent/README.md`. Usage: `python -m tests.lab.independent.matrix http://127.0.0.1:8008`
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote

from tests.lab.independent import steps
from tests.lab.independent.steps import ANSWER, Bot, Json, call, wait_for
from tests.support.free_ports import free_port

PROGRAM = Path(__file__).parents[3] / "config/examples/matrix.py"
SECRET = "a-secret-of-both-sides"
SECTION = """
http:
  secret:
    file: {{secret}}
  callback_url: http://127.0.0.1:{callback}
  allow_private: [127.0.0.1]
  port: {port}
"""


class Person:
    """An account on the server, made anew."""

    def __init__(self, server: str, name: str) -> None:
        self._server = f"{server}/_matrix/client/v3"
        account = {
            "username": f"{name}-{secrets.token_hex(3)}",
            "password": secrets.token_hex(),
            "auth": {"type": "m.login.dummy"},
        }
        session = call(f"{self._server}/register", account)
        self.id = str(session["user_id"])
        self.token = str(session["access_token"])

    def call(self, method: str, path: str, body: object = None) -> Json:
        """Make one call as this person."""
        headers = {"Authorization": f"Bearer {self.token}"}
        result: Json = call(f"{self._server}/{path}", body, method=method, headers=headers)
        return result

    def make_room(self, bot: Person, **options: object) -> str:
        """Open a room, and invite the bot; wait until it has come."""
        room = str(self.call("POST", "createRoom", {"invite": [bot.id], **options})["room_id"])
        wait_for(lambda: bot.id in self.call("GET", f"rooms/{quote(room)}/joined_members")["joined"], "the bot comes")
        return room

    def say(self, room: str, text: str, **content: object) -> str:
        """Say something, and return its id."""
        body = {"msgtype": "m.text", "body": text, **content}
        path = f"rooms/{quote(room)}/send/m.room.message/{secrets.token_hex()}"
        return str(self.call("PUT", path, body)["event_id"])

    def list_events(self, room: str) -> list[Json]:
        """Return what was said in a room, the newest first."""
        events: list[Json] = self.call("GET", f"rooms/{quote(room)}/messages?dir=b&limit=100")["chunk"]
        return events

    def find(self, room: str, bot: Person, question: str, text: str) -> Json | None:
        """Return what the bot replied to something, if it holds a text."""
        for event in self.list_events(room):
            content = event["content"]
            reply_to = (content.get("m.relates_to") or {}).get("m.in_reply_to", {}).get("event_id")
            if event["sender"] == bot.id and reply_to == question and text in content.get("body", ""):
                return event
        return None


def converse(account: Person, ada: Person, bot: Bot) -> None:
    """Ask in rooms, in a thread and alone; follow up, correct, delete."""
    ben = Person(ada._server.removesuffix("/_matrix/client/v3"), "ben")
    room = ada.make_room(account, preset="public_chat", name="Help")
    ben.call("POST", f"join/{quote(room)}", {})
    mention = {"m.mentions": {"user_ids": [account.id]}}
    ada.say(room, "Nice weather.")
    question = ada.say(room, f"kimas: {steps.QUESTION}", **mention)
    reply = wait_for(lambda: ada.find(room, account, question, ANSWER), "a mention is answered")
    content = reply["content"]
    wait_for(lambda: steps.is_cited(content["body"]), "with citations")
    wait_for(lambda: "<code>" in content["formatted_body"], "as HTML")
    wait_for(lambda: content["m.mentions"] == {"user_ids": [ada.id]}, "which mentions who asked")
    follow_up = ada.say(room, steps.FOLLOW_UP, **{"m.relates_to": {"m.in_reply_to": {"event_id": reply["event_id"]}}})
    wait_for(lambda: ada.find(room, account, follow_up, steps.SECOND_ANSWER), "so is a reply to the answer")
    top = ben.say(room, "Something else.")
    thread = {"rel_type": "m.thread", "event_id": top}
    in_thread = ben.say(room, steps.QUESTION, **mention, **{"m.relates_to": thread})
    answer = wait_for(lambda: ben.find(room, account, in_thread, ANSWER), "a question in a thread is answered")
    wait_for(lambda: answer["content"]["m.relates_to"]["event_id"] == top, "in the thread")
    command = ada.say(room, "kimas: /help")
    wait_for(lambda: ada.find(room, account, command, "sources"), "a command is answered")
    private_room = ben.make_room(account, preset="trusted_private_chat", is_direct=True)
    private = ben.say(private_room, steps.QUESTION)
    wait_for(lambda: ben.find(private_room, account, private, ANSWER), "who is alone with the bot needs no mention")


def is_refused(account: Person, ada: Person) -> Json | None:
    """Return what the bot says in an encrypted room, once it has left it."""
    algorithm = {"algorithm": "m.megolm.v1.aes-sha2"}
    state = {"type": "m.room.encryption", "state_key": "", "content": algorithm}
    room = str(ada.call("POST", "createRoom", {"invite": [account.id], "initial_state": [state]})["room_id"])

    def find() -> Json | None:
        events = [event for event in ada.list_events(room) if event["sender"] == account.id]
        has_left = any(event["content"].get("membership") == "leave" for event in events)
        notices = [event for event in events if "encrypted" in event["content"].get("body", "")]
        return notices[0] if has_left and notices else None

    return wait_for(find, "in an encrypted room it says that it cannot read, and leaves")


@contextmanager
def run_bridge(server: str, account: Person, kimas_port: int, port: int, folder: Path) -> Iterator[None]:
    """Run the example for the length of the block."""
    environment = {
        "KIMAS_HTTP_SECRET": SECRET,
        "KIMAS_URL": f"http://127.0.0.1:{kimas_port}",
        "MATRIX_URL": server,
        "MATRIX_TOKEN": account.token,
        "BRIDGE_PORT": str(port),
        "BRIDGE_DATABASE": str(folder / "matrix.db"),
    }
    process = subprocess.Popen([sys.executable, str(PROGRAM)], env={**os.environ, **environment})
    try:
        yield
    finally:
        process.kill()
        process.wait()


def ask_while_away(ada: Person, account: Person, room: str) -> str:
    """Ask, and then say so much that a server does not send it all by itself."""
    question = ada.say(room, f"kimas: {steps.QUESTION}", **{"m.mentions": {"user_ids": [account.id]}})
    for number in range(120):
        ada.say(room, f"Message {number}")
    return question


def main() -> None:
    """Run a bot with two documents and a bridge, and talk to it."""
    arguments = steps.parse_arguments("a Matrix server with open registration", "http://127.0.0.1:8008")
    server = arguments.server
    account, ada = Person(server, "kimas"), Person(server, "ada")
    account.call("PUT", f"profile/{quote(account.id)}/displayname", {"displayname": "kimas"})
    port, callback = free_port(), free_port()
    section = SECTION.format(port=port, callback=callback)
    with tempfile.TemporaryDirectory() as name, steps.run_bot(section, {"secret": SECRET}, arguments.model) as bot:
        folder = Path(name)
        with run_bridge(server, account, port, callback, folder):
            converse(account, ada, bot)
            is_refused(account, ada)
            room = ada.make_room(account, preset="public_chat")
            ben = Person(server, "ben")
            ben.call("POST", f"join/{quote(room)}", {})
        question = ask_while_away(ada, account, room)
        with run_bridge(server, account, port, callback, folder):
            wait_for(lambda: ada.find(room, account, question, ANSWER), "what was asked while it was away is answered")
        with run_bridge(server, account, port, callback, folder):
            last = ada.say(room, "kimas: /help")
            wait_for(lambda: ada.find(room, account, last, "sources"), "and so after a restart")
        own = [event for event in ada.list_events(room) if event["sender"] == account.id]
        wait_for(lambda: sum("body" in event["content"] for event in own) == 2, "each once")


if __name__ == "__main__":
    try:
        main()
    except HTTPError as error:
        raise SystemExit(f"failed: {error.read().decode()}") from error
