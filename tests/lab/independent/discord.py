"""Runs `kimas run` against Spacebar, a Discord that we did not write, and says of each step whether it worked.

See `tests/lab/independent/README.md`. Usage: `python -m tests.lab.independent.discord http://127.0.0.1:3001`
"""

from __future__ import annotations

import secrets
import urllib.parse
from typing import Any

from tests.lab.independent import steps
from tests.lab.independent.steps import Bot, Json, call, wait_for, wait_until_streamed

DISCORD = """
discord:
  api_url: {server}/api/v10
  token:
    file: {{token}}
"""
# View Channels, Send Messages, Embed Links, Read Message History, Add Reactions, Send Messages in Threads.
PERMISSIONS = 1 << 10 | 1 << 11 | 1 << 14 | 1 << 16 | 1 << 6 | 1 << 38
APPLICATION_COMMAND = 2
MESSAGE_COMPONENT = 3
STRING = 3
BUTTON = 2
# Spacebar knows no translations, no limits and no suggestions in the options of a command: the bot's own are refused.
ASK = {
    "name": "ask",
    "description": "Ask a question",
    "options": [{"type": STRING, "name": "question", "description": "What you want to know", "required": True}],
}


class Person:
    """Somebody with an account of their own; everything they do goes through the server's public API."""

    def __init__(self, server: str, name: str) -> None:
        self._api = f"{server}/api/v9"
        self._headers: dict[str, str] = {}
        name = f"{name}-{secrets.token_hex(4)}"
        account = {"username": name, "email": f"{name}@example.org", "password": secrets.token_hex(12)}
        body = {**account, "consent": True, "date_of_birth": "1990-01-01"}
        self._headers = {"Authorization": self.call("auth/register", body)["token"]}

    def call(self, path: str, body: object = None, *, method: str = "") -> Any:
        """Make one call of the API."""
        return call(f"{self._api}/{path}", body, method=method, headers=self._headers)


class Guild:
    """A server ("guild") with one channel, an application whose bot is in it, and two people."""

    def __init__(self, server: str) -> None:
        self.ann = Person(server, "ann")
        self.bob = Person(server, "bob")
        self.guild = self.ann.call("guilds", {"name": "Rocket"})["id"]
        channels = self.ann.call(f"guilds/{self.guild}/channels")
        self.channel = next(channel["id"] for channel in channels if channel["type"] == 0)
        code = self.ann.call(f"channels/{self.channel}/invites", {})["code"]
        self.bob.call(f"invites/{code}", {})
        self.application = self.ann.call("applications", {"name": "kimas"})["id"]
        self.token = self.ann.call(f"applications/{self.application}/bot", {})["token"]
        invitation = {"guild_id": self.guild, "permissions": str(PERMISSIONS), "authorize": True}
        self.ann.call(f"oauth2/authorize?client_id={self.application}", invitation)

    def write(self, text: str, *, reply_to: str = "") -> str:
        """Let Ann write a message, and return its id."""
        reference = {"message_reference": {"message_id": reply_to, "channel_id": self.channel}} if reply_to else {}
        message = self.ann.call(f"channels/{self.channel}/messages", {"content": text, **reference})
        return str(message["id"])

    def find(self, text: str, *, reply_to: str = "") -> Json | None:
        """Return the bot's message that holds a text; `reply_to` limits it to replies to a message, - to no replies."""
        for message in self.ann.call(f"channels/{self.channel}/messages?limit=50"):
            reference = message.get("message_reference") or {}
            is_reply = reply_to in ("", reference.get("message_id", "-"))
            if message["author"]["id"] == self.application and is_reply and text in message["content"]:
                candidate: Json = message
                return candidate
        return None

    def interact(self, kind: int, data: Json, **fields: object) -> None:
        """Let Ann use a command or press a button."""
        target = {"application_id": self.application, "guild_id": self.guild, "channel_id": self.channel}
        nonce = str(secrets.randbelow(10**18))
        self.ann.call("interactions", {"type": kind, "nonce": nonce, **target, **fields, "data": data})

    def ask_by_command(self, question: str) -> None:
        """Let Ann use the slash command /ask."""
        self.ann.call(f"applications/{self.application}/commands", ASK)
        (command,) = self.ann.call(f"applications/{self.application}/commands")
        fields = {"id": command["id"], "name": "ask", "type": 1, "version": command["version"]}
        options = [{"type": STRING, "name": "question", "value": question}]
        self.interact(APPLICATION_COMMAND, {**fields, "options": options, "attachments": []})

    def react(self, person: Person, message: Json, emoji: str, *, present: bool = True) -> None:
        """Let a person put an emoji below a message, or take it away."""
        path = f"channels/{self.channel}/messages/{message['id']}/reactions/{urllib.parse.quote(emoji)}/@me"
        person.call(path, method="PUT" if present else "DELETE")


def get_buttons(message: Json) -> list[Json]:
    """Return the buttons below a message."""
    rows = message.get("components") or []
    return [button for row in rows for button in row["components"] if button["type"] == BUTTON]


def converse(guild: Guild, bot: Bot, *, is_streamed: bool) -> None:
    """Mention the bot, follow up, give a command, rate."""
    question_id = guild.write(f"<@{guild.application}> {steps.QUESTION}")
    if is_streamed:
        wait_until_streamed(
            lambda: (guild.find("", reply_to=question_id) or {"content": ""})["content"], "written down"
        )
    wait_for(lambda: guild.find(steps.ANSWER, reply_to=question_id), "a mention is answered by a reply")
    wait_for(lambda: steps.is_cited((guild.find(steps.ANSWER) or {})["content"]), "with citations")
    answer = wait_for(
        lambda: (message := guild.find(steps.ANSWER)) and get_buttons(message) and message, "and thumbs below it"
    )
    follow_up = guild.write(steps.FOLLOW_UP, reply_to=answer["id"])
    wait_for(lambda: guild.find(steps.SECOND_ANSWER, reply_to=follow_up), "so is a follow-up that replies to the bot")
    guild.ask_by_command("What if I lose a key?")
    wait_for(lambda: guild.find(steps.SECOND_ANSWER, reply_to="-"), "a slash command is answered")
    rate(guild, bot, answer)


def rate(guild: Guild, bot: Bot, answer: Json) -> None:
    """Press a thumb, and react with another."""
    up = get_buttons(answer)[0]
    data = {"component_type": BUTTON, "custom_id": up["custom_id"]}
    guild.interact(MESSAGE_COMPONENT, data, message_id=answer["id"], message_flags=answer.get("flags", 0))
    wait_for(lambda: bot.count_ratings() == (1, 0), "a press of thumbs up is counted")
    guild.react(guild.bob, answer, "👎")
    wait_for(lambda: bot.count_ratings() == (1, 1), "a reaction with thumbs down is counted")
    guild.react(guild.bob, answer, "👎", present=False)
    wait_for(lambda: bot.count_ratings() == (1, 0), "and no longer when it is taken away")


def main() -> None:
    """Make people, a server and a bot with two documents, and talk to it."""
    arguments = steps.parse_arguments("Spacebar", "http://127.0.0.1:3001")
    guild = Guild(arguments.server)
    with steps.run_bot(DISCORD.format(server=arguments.server), {"token": guild.token}, arguments.model) as bot:
        wait_for(lambda: bot.has_logged("discord.connected"), "and is connected")
        converse(guild, bot, is_streamed=bool(arguments.model))


if __name__ == "__main__":
    main()
