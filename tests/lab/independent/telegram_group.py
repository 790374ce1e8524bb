"""Runs `kimas run` in a group of telegram-mock-ai, a Telegram that we did not write, and says what worked.

See `tests/lab/independent/README.md`. Usage: `python -m tests.lab.independent.telegram_group http://127.0.0.1:8081`
"""

from __future__ import annotations

import asyncio
import itertools
import time
from functools import partial
from typing import Any

from tests.lab.independent import steps
from tests.lab.independent.steps import Bot, Json, call, wait_for, wait_until_streamed

# The token is the one in the server's own example of a configuration.
TOKEN = "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"
USERNAME = "test_bot"
ADMIN = "http://127.0.0.1:8082"
TELEGRAM = """
telegram:
  api_url: {server}
  token:
    file: {{token}}
"""


class Group:
    """A group with two members, as they see it through the server's calls for its administrator."""

    def __init__(self, server: str, admin: str) -> None:
        self.api_url = server
        self.token = TOKEN
        self._admin = admin.rstrip("/")
        self.ann = self._call("users", {"first_name": "Ann", "username": "ann"})
        self.bob = self._call("users", {"first_name": "Bob", "username": "bob"})
        members = [self.ann["id"], self.bob["id"]]
        new_chat = {
            "id": -1000000000000 - int(time.time()),
            "type": "supergroup",
            "title": "Rocket",
            "members": members,
        }
        self.chat = self._call("chats", new_chat)
        bot = next(bot for bot in self._call("bots") if bot["token"] == TOKEN)["user"]
        self._call(f"chats/{self.chat['id']}/members", {"user_id": bot["id"]})
        # The server numbers what is said through its calls, but not updates that are made by hand.
        self._numbers = itertools.count(100_001)

    def _call(self, path: str, body: object = None) -> Any:
        return call(f"{self._admin}/api/{path}", body)

    def deliver(self, **update: object) -> None:
        """Hand an update to the bot, as Telegram would."""
        self._call(f"bots/{TOKEN}/updates", update)

    def write(self, text: str, entity: str = "", **fields: object) -> None:
        """Let Ann write a message. Its first word is an entity of this kind: a mention, a command or nothing."""
        length = len(text.split(maxsplit=1)[0])
        entities = [{"type": entity, "offset": 0, "length": length}] if entity else []
        number = next(self._numbers)
        now = int(time.time())
        message = {"message_id": number, "from": self.ann, "chat": self.chat, "date": now, "text": text}
        self.deliver(message={**message, "entities": entities, **fields})

    def find(self, text: str, after: int = 0) -> Json | None:
        """Return the bot's first message that holds a text, among those after a message."""
        for message in self._call(f"chats/{self.chat['id']}/messages?limit=100") or []:
            if message["from"]["is_bot"] and message["message_id"] > after and text in message["text"]:
                candidate: Json = message
                return candidate
        return None

    def say(self, command: str) -> None:
        """Let Ann give a command."""
        self.write(command, "bot_command")

    async def wait_for_answer(self) -> str:
        """Return the bot's first answer with a citation."""
        async with asyncio.timeout(steps.TIMEOUT_S):
            while (answer := self.find("[1]")) is None:
                await asyncio.sleep(0.1)
        return str(answer["text"])

    def press(self, message: Json, button: Json) -> None:
        """Let Ann press a button below a message."""
        press = {
            "id": str(next(self._numbers)),
            "from": self.ann,
            "chat_instance": "1",
            "data": button["callback_data"],
        }
        self.deliver(callback_query={**press, "message": message})

    def react(self, message: Json, old_emoji: str, new_emoji: str) -> None:
        """Let Bob change his reaction to a message."""
        event_fields = {
            "chat": self.chat,
            "message_id": message["message_id"],
            "user": self.bob,
            "date": int(time.time()),
        }
        kinds = {
            name: [{"type": "emoji", "emoji": emoji}] if emoji else []
            for name, emoji in (("old_reaction", old_emoji), ("new_reaction", new_emoji))
        }
        self.deliver(message_reaction={**event_fields, **kinds})


def get_buttons(message: Json) -> list[Json]:
    """Return the buttons below a message."""
    rows = (message.get("reply_markup") or {}).get("inline_keyboard") or []
    return [button for row in rows for button in row]


def converse(group: Group, bot: Bot, *, is_streamed: bool) -> None:
    """Mention the bot, follow up, give a command, rate."""
    group.write(f"@{USERNAME} {steps.QUESTION}", "mention")
    if is_streamed:
        wait_until_streamed(lambda: (group.find("") or {"text": ""})["text"], "written down")
    wait_for(lambda: group.find(steps.ANSWER), "a mention is answered")
    wait_for(lambda: steps.is_cited((group.find(steps.ANSWER) or {})["text"]), "with citations")
    answer = wait_for(
        lambda: (message := group.find(steps.ANSWER)) and get_buttons(message) and message, "and thumbs below it"
    )
    find = partial(group.find, after=answer["message_id"])
    group.write(steps.FOLLOW_UP, reply_to_message=answer)
    wait_for(lambda: find(steps.SECOND_ANSWER), "so is a follow-up that replies to the bot")
    group.write(f"/help@{USERNAME}", "bot_command")
    wait_for(lambda: find("/sources"), "a slash command is answered")
    rate(group, bot, answer)


def rate(group: Group, bot: Bot, answer: Json) -> None:
    """Press a thumb, and react with another."""
    group.press(answer, get_buttons(answer)[0])
    wait_for(lambda: bot.count_ratings() == (1, 0), "a press of thumbs up is counted")
    group.react(answer, "", "👎")
    wait_for(lambda: bot.count_ratings() == (1, 1), "a reaction with thumbs down is counted")
    group.react(answer, "👎", "")
    wait_for(lambda: bot.count_ratings() == (1, 0), "and no longer when it is taken away")


def main() -> None:
    """Make a group with a bot with two documents, and talk to it."""
    arguments = steps.parse_arguments("telegram-mock-ai", "http://127.0.0.1:8081", admin=ADMIN)
    group = Group(arguments.server, arguments.admin)
    with steps.run_bot(TELEGRAM.format(server=arguments.server), {"token": TOKEN}, arguments.model) as bot:
        converse(group, bot, is_streamed=bool(arguments.model))


if __name__ == "__main__":
    main()
