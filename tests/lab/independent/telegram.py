"""Runs `kimas run` in a private chat of telegram-bot-api-mock, a Telegram that we did not write, and says what worked.

See `tests/lab/independent/README.md`. Usage: `python -m tests.lab.independent.telegram http://127.0.0.1:9321`
"""

from __future__ import annotations

import urllib.parse
from functools import partial

from tests.lab.independent import steps
from tests.lab.independent.steps import Json, call, wait_for

TOKEN = "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"
CHAT = 100
TELEGRAM = """
telegram:
  api_url: {server}
  token:
    file: {{token}}
"""


class Server:
    """The server, as its users see it through the calls that it has for tests."""

    def __init__(self, address: str) -> None:
        self._address = address

    def send(self, path: str, **body: object) -> None:
        """Do what a person does."""
        call(f"{self._address}/client/{path}", {"bot_token": TOKEN, "chat_id": CHAT, **body})

    def list_shown(self) -> list[Json]:
        """Return the messages of the bot as they are shown now."""
        query = urllib.parse.urlencode({"bot_token": TOKEN, "chat_id": CHAT})
        return [update["message"] for update in call(f"{self._address}/client/getUpdates?{query}")["result"]]

    def find(self, text: str, after: int = 0) -> Json | None:
        """Return the bot's message that holds a text, of those after a message."""
        messages = (message for message in self.list_shown() if message["message_id"] > after)
        return next((message for message in messages if text in message["text"]), None)


def get_buttons(message: Json) -> list[Json]:
    """Return the buttons below a message."""
    rows = (message.get("reply_markup") or {}).get("inline_keyboard") or []
    return [button for row in rows for button in row]


def converse(server: Server) -> None:
    """Ask, follow up and give a command."""
    last = max((message["message_id"] for message in server.list_shown()), default=0)
    find = partial(server.find, after=last)
    server.send("sendMessage", text=steps.QUESTION)
    wait_for(lambda: find(steps.ANSWER), "a question is answered")
    wait_for(lambda: steps.is_cited((find(steps.ANSWER) or {})["text"]), "with citations")
    wait_for(lambda: get_buttons(find(steps.ANSWER) or {}), "with thumbs below the answer")
    server.send("sendMessage", text=steps.FOLLOW_UP)
    wait_for(lambda: find(steps.SECOND_ANSWER), "so is a follow-up")
    server.send("sendCommand", command="/help")
    wait_for(lambda: find("/sources"), "a command is answered")


def main() -> None:
    """Run a bot with two documents, and talk to it."""
    arguments = steps.parse_arguments("telegram-bot-api-mock", "http://127.0.0.1:9321")
    with steps.run_bot(TELEGRAM.format(server=arguments.server), {"token": TOKEN}, arguments.model):
        converse(Server(arguments.server))


if __name__ == "__main__":
    main()
