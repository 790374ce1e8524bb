"""Runs `kimas run` against mastodon-mock, a server that we did not write, and says of each step whether it worked.

See `tests/lab/independent/README.md`. Usage: `python -m tests.lab.independent.mastodon http://127.0.0.1:3002`
"""

from __future__ import annotations

from tests.lab.independent import steps
from tests.lab.independent.steps import Bot, Json, call, wait_for

# As in the server's own demonstration.
SECRETS = {"token": "alan_token"}
BOT = "alan"
ADA_TOKEN = "ada_token"
SECTION = """
mastodon:
  url: {server}
  token:
    file: {{token}}
"""


class Server:
    """The server, as one person sees it."""

    def __init__(self, address: str) -> None:
        self._address = address

    def call(self, path: str, body: object = None) -> Json:
        """Make one call as that person."""
        headers = {"Authorization": f"Bearer {ADA_TOKEN}"}
        result: Json = call(f"{self._address}/api/v1/{path}", body, headers=headers)
        return result

    def say(self, text: str, *, reply_to: str = "", visibility: str = "public", **fields: str) -> str:
        """Post a status that mentions the bot, and return its id."""
        body = {"status": f"@{BOT} {text}", "visibility": visibility, "in_reply_to_id": reply_to or None, **fields}
        return str(self.call("statuses", body)["id"])

    def find(self, question_id: str, text: str) -> Json | None:
        """Return the bot's reply to a status that holds a text."""
        for status in self.call(f"statuses/{question_id}/context")["descendants"]:
            if status["account"]["username"] == BOT and text in str(status["content"]):
                candidate: Json = status
                return candidate
        return None


def converse(server: Server, bot: Bot) -> None:
    """Mention the bot in public and in private, follow up, give a command, rate."""
    question = server.say(steps.QUESTION, spoiler_text="keys")
    reply = wait_for(lambda: server.find(question, steps.ANSWER), "a mention is answered")
    wait_for(lambda: steps.is_cited(reply["content"]), "with citations")
    wait_for(lambda: (reply["visibility"], reply["spoiler_text"]) == ("unlisted", "keys"), "no wider than the question")
    follow_up = server.say(steps.FOLLOW_UP, reply_to=str(reply["id"]))
    wait_for(lambda: server.find(follow_up, steps.SECOND_ANSWER), "so is a reply to the answer")
    private = server.say(steps.QUESTION, visibility="direct")
    private_reply = wait_for(lambda: server.find(private, steps.ANSWER), "a private mention is answered")
    wait_for(lambda: private_reply["visibility"] == "direct", "in private")
    command = server.say("/help")
    wait_for(lambda: server.find(command, "sources"), "a command is answered")
    server.call(f"statuses/{reply['id']}/favourite", {})
    wait_for(lambda: bot.count_ratings() == (1, 0), "a favourite is counted")


def main() -> None:
    """Run a bot with two documents, and talk to it."""
    arguments = steps.parse_arguments("mastodon-mock", "http://127.0.0.1:3002")
    with steps.run_bot(SECTION.format(server=arguments.server), SECRETS, arguments.model) as bot:
        wait_for(lambda: bot.has_logged("mastodon.open"), "and is connected")
        print(bot.run("check", "--live"))
        converse(Server(arguments.server), bot)


if __name__ == "__main__":
    main()
