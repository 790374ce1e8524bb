"""Runs `kimas run` against local-slack, a Slack that we did not write, and says of each step whether it worked.

See `tests/lab/independent/README.md`. Usage: `python -m tests.lab.independent.slack http://127.0.0.1:3000`
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.lab.independent import steps
from tests.lab.independent.steps import Bot, Json, call, wait_for, wait_until_streamed

# As in local-slack's own example of a configuration.
SECRETS = {"bot": "xoxb-test-token", "app": "xapp-test-token", "secret": "test-signing-secret"}
BOT = "U0BOT"
ALICE = "U01ALICE"
BOB = "U02BOB"
CHANNEL = "C01GEN"
SOCKET_MODE = """
slack:
  api_url: {server}/api/
  bot_token:
    file: {{bot}}
  app_token:
    file: {{app}}
"""
OVER_HTTP = """
slack:
  api_url: {server}/api/
  bot_token:
    file: {{bot}}
  signing_secret:
    file: {{secret}}
  port: 4000
"""


class Server:
    """The workspace, as its people see it through the server's calls for tests."""

    def __init__(self, address: str) -> None:
        self._address = address

    def act(self, action: str, /, **body: object) -> Any:
        """Do what a person does."""
        return call(f"{self._address}/_control/{action}", {"channel": CHANNEL, "user": ALICE, **body})

    def get_mode(self) -> str:
        """Return how events are delivered: socket or events."""
        return str(call(f"{self._address}/_control/state")["apps"][0]["mode"])

    def count_connections(self) -> int:
        """Return how often an app has connected through Socket Mode."""
        entries = call(f"{self._address}/_control/log")["log"]
        return sum("socket connected" in entry["summary"] for entry in entries)

    def find(self, text: str, *, thread_ts: str = "", is_hidden: bool = False) -> Json | None:
        """Return the bot's message that holds a text, in a thread; a hidden one is shown to one person only."""
        for message in call(f"{self._address}/_control/messages/{CHANNEL}")["messages"]:
            is_there = message["user"] == BOT and thread_ts in ("", message.get("thread_ts"))
            if is_there and is_hidden == (message.get("subtype") == "ephemeral") and text in message["text"]:
                candidate: Json = message
                return candidate
        return None


def find_thumbs_up(message: Json) -> Json | None:
    """Return the press of thumbs up below a message: of Slack's own element for feedback, or of a button."""
    for element in (element for block in message.get("blocks") or [] for element in block.get("elements", ())):
        action = {"type": element["type"], "action_id": element.get("action_id")}
        if element["type"] == "feedback_buttons":
            return {**action, "value": element["positive_button"]["value"]}
        if element["type"] == "button" and element["text"]["text"] == "👍":
            return {**action, "value": element["value"]}
    return None


def converse(server: Server, bot: Bot, *, is_streamed: bool) -> None:
    """Mention the bot, follow up, give a command, rate."""
    question_ts = server.act("message", text=f"<@{BOT}> {steps.QUESTION}")["message"]["ts"]
    find = partial(server.find, thread_ts=question_ts)
    if is_streamed:
        wait_until_streamed(lambda: (find("") or {"text": ""})["text"], "written down")
    wait_for(lambda: find(steps.ANSWER), "a mention is answered in a thread")
    wait_for(lambda: steps.is_cited((find(steps.ANSWER) or {})["text"]), "with citations")
    thumbs_up = wait_for(lambda: find_thumbs_up(find(steps.ANSWER) or {}), "with thumbs below the answer")
    server.act("message", text=steps.FOLLOW_UP, thread_ts=question_ts)
    wait_for(lambda: find(steps.SECOND_ANSWER), "so is a follow-up in the thread, without a mention")
    server.act("command", command="/kimas", text="help")
    wait_for(lambda: server.find("sources", is_hidden=True), "a slash command is answered, to one person only")
    rate(server, bot, (find(steps.ANSWER) or {})["ts"], thumbs_up)


def rate(server: Server, bot: Bot, answer_ts: str, thumbs_up: Json) -> None:
    """Press a thumb, and react with another."""
    server.act("interact", messageTs=answer_ts, action=thumbs_up)
    wait_for(lambda: bot.count_ratings() == (1, 0), "a press of thumbs up is counted")
    wait_for(lambda: server.find("👍", is_hidden=True), "who pressed is told so")
    server.act("reaction", user=BOB, ts=answer_ts, name="-1")
    wait_for(lambda: bot.count_ratings() == (1, 1), "a reaction with thumbs down is counted")
    server.act("reaction", user=BOB, ts=answer_ts, name="-1", present=False)
    wait_for(lambda: bot.count_ratings() == (1, 0), "and no longer when it is taken away")


def main() -> None:
    """Run a bot with two documents, and talk to it."""
    arguments = steps.parse_arguments("local-slack", "http://127.0.0.1:3000")
    server = Server(arguments.server)
    is_socket_mode = server.get_mode() == "socket"
    print(f"events arrive {'through Socket Mode' if is_socket_mode else 'over signed HTTP'}")
    section = (SOCKET_MODE if is_socket_mode else OVER_HTTP).format(server=arguments.server)
    connections = server.count_connections()
    with steps.run_bot(section, SECRETS, arguments.model) as bot:
        if is_socket_mode:
            wait_for(lambda: server.count_connections() > connections, "and is connected")
        else:
            wait_for(lambda: bot.has_logged("slack.listening"), "and listens")
        converse(server, bot, is_streamed=bool(arguments.model))


if __name__ == "__main__":
    main()
