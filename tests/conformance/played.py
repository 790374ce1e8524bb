"""A group played in the terminal as a platform: lines go in, and what is printed is what people see."""

from __future__ import annotations

import os
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from bots.console.adapter import ConsoleGroupAdapter
from bots.console.convert import DELETE, EDIT, IgnoredLine, to_typed_line
from core.storage.messages import Journal
from core.types import ConversationKey, Message
from tests.conformance.platforms import ANN, Channel, Driver, How, Person, PostedMessage, Step, until

NOT_THERE = "a terminal has nothing like that"
# Above a reply stands who says it, and where.
HEADING = "\x1b[1mkimas"


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What is printed to somebody about what they said of an answer, and what they may type then, by its label."""

    text: str
    choices: dict[str, str]


class Played(Driver):
    """One group with its threads, and private talks, in which everybody types into the same terminal."""

    name = "console"
    mention = "@kimas "

    async def open(self, stack: AsyncExitStack) -> None:
        self._reading, self._writing = os.pipe()
        stack.callback(os.close, self._reading)
        stack.callback(os.close, self._writing)
        self._threads = 0
        self._posts: list[tuple[str, PostedMessage]] = []

    def adapter(self, journal: Journal, folder: Path) -> Watched:
        self._adapter = Watched(self._reading, self._posts)
        self._typed = 0
        return self._adapter

    async def ready(self) -> None:
        return None

    def private(self, person: Person = ANN) -> Channel:
        chat = f"@{person.name.lower()}"
        return Channel(chat, chat, private=True)

    def group(self, number: int = 1) -> Channel:
        assert number == 1, NOT_THERE
        return Channel("group", "group")

    def other_chat(self, person: Person = ANN) -> Channel:
        return self.private(person)

    async def separate_chats(self, count: int) -> list[Channel]:
        return [await self.thread(self.group()) for _ in range(count)]

    async def thread(self, channel: Channel) -> Channel:
        self._threads += 1
        return replace(channel, thread=f"topic-{self._threads}")

    def get_mention(self, person: Person) -> str:
        return f"@{person.name} "

    async def say(
        self, channel: Channel, text: str, *, person: Person = ANN, reply_to: str = "", **extra_fields: Any
    ) -> str:
        assert not channel.private or channel == self.private(person), "in a private talk nobody else says anything"
        key = ConversationKey(self.name, channel.chat, channel.thread)
        assert reply_to in ("", self._adapter.latest.get(key)), "only what was said last can be replied to"
        marks = [
            *(["bot"] if person.robot else []),
            *(["alone"] if channel.private else []),
            *([f"in {channel.thread}"] if channel.thread else []),
        ]
        where = f" ({', '.join(marks)})" if marks else ""
        return await self._type(f"{person.name}{where}: {'^ ' if reply_to else ''}{text}")

    async def _type(self, line: str) -> str:
        """Type a line, and return the id of what it became once it was heard."""
        texts = self._adapter.texts
        position = self._typed
        self._typed += 1
        os.write(self._writing, f"{line}\n".encode())
        await until(lambda: len(texts) > position, "the line")
        return texts[position]

    async def command(self, channel: Channel, name: str, text: str = "") -> str:
        return await self.say(channel, f"/{name} {text}".strip())

    def messages(self, channel: Channel) -> list[PostedMessage]:
        return [
            message for chat, message in self._posts if chat == channel.chat and channel.thread in ("", message.thread)
        ]

    def get_choices(self, message: PostedMessage) -> dict[str, str]:
        """Return what may be typed about an answer, by its label."""
        return self._adapter.choices_by_message.get(message.id, {})

    def printed(self) -> int:
        """Return how much has been printed."""
        return len(self._adapter.output.getvalue())

    def read_feedback_reply(self, person: Person, since: int) -> CommandOutput:
        """Return what somebody was told about what they said of an answer, from a point of what was printed on."""
        lines = plain(self._adapter.output.getvalue()[since:]).splitlines()
        at = next(at for at, line in enumerate(lines) if line.startswith(f"(to {person.name}: "))
        next_line = lines[at + 1] if at + 1 < len(lines) else ""
        return CommandOutput(lines[at].partition(": ")[2].removesuffix(")"), choices_in(next_line))

    def get_notified(self, channel: Channel) -> list[str]:
        return []

    def signs(self) -> int:
        return 0

    async def edit(self, channel: Channel, message: str, text: str) -> None:
        assert await self.say(channel, f"{EDIT} {text}") == message, "only what somebody said last can be changed"

    async def delete(self, channel: Channel, message: str) -> None:
        assert await self.say(channel, DELETE) == message, "only what somebody said last can be changed"

    def board(self) -> Channel:
        raise NotImplementedError(NOT_THERE)

    async def post(self, board: Channel, text: str) -> tuple[str, Channel]:
        raise NotImplementedError(NOT_THERE)

    async def attach(self, channel: Channel, text: str = "") -> None:
        raise NotImplementedError(NOT_THERE)

    async def say_as_bot(self, channel: Channel, text: str) -> None:
        raise NotImplementedError(NOT_THERE)

    async def redeliver(self, channel: Channel, message: str) -> None:
        raise NotImplementedError(NOT_THERE)

    async def malformed(self) -> None:
        raise NotImplementedError(NOT_THERE)

    async def lose_connection(self) -> None:
        raise NotImplementedError(NOT_THERE)

    def fail(self, step: Step, how: How, times: int = 1) -> None:
        raise NotImplementedError(NOT_THERE)

    def bar(self, channel: Channel, *, out: bool) -> None:
        raise NotImplementedError(NOT_THERE)


class Watched(ConsoleGroupAdapter):
    """The group, with what is heard and printed in it noted."""

    def __init__(self, descriptor: int, messages: list[tuple[str, PostedMessage]]) -> None:
        self.output = StringIO()
        out = Console(file=self.output, force_terminal=True, color_system="standard", width=100, height=400)
        super().__init__(descriptor, out)
        self._posts = messages
        self.texts: list[str] = []
        self.latest: dict[ConversationKey, str] = {}
        self.choices_by_message: dict[str, dict[str, str]] = {}

    def parse_line(self, line: str) -> Any:
        created = super().parse_line(line)
        if isinstance(created, Message) and not (created.command == "thumbs" or created.is_edit):
            self.latest[created.key] = created.id
        elif isinstance(created, IgnoredLine):
            self.latest.pop(to_typed_line(line).key, None)
        self.texts.append("" if isinstance(created, IgnoredLine) else created.id)
        return created

    def record_bot_message(self, key: ConversationKey, message_id: str, text: str, *, is_rateable: bool) -> None:
        super().record_bot_message(key, message_id, text, is_rateable=is_rateable)
        self.latest[key] = message_id
        heading, _, below = self.output.getvalue().rpartition(HEADING)[2].partition("\n")
        thread = re.search(r"\bin ([\w.-]+)\)", plain(heading))
        if choices := choices_in(plain(below).splitlines()[-1]):
            self.choices_by_message[message_id] = choices
            below = below.rstrip("\n").rpartition("\n")[0]
        self._posts.append((key.chat, replace(printed(message_id, below), thread=thread[1] if thread else "")))


def choices_in(line: str) -> dict[str, str]:
    """Return what a line says may be typed, by its label."""
    matches = dict(re.findall(r"(/[a-z]+(?: [a-z]+)?): ([^·]+?)(?: · |$)", line))
    return {label: word for word, label in matches.items()} if line.startswith("/") else {}


def plain(output: str) -> str:
    """Return what was printed without what steers the terminal."""
    return re.sub(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[[0-9;?]*[A-Za-z]", "", output)


def printed(number: int | str, output: str) -> PostedMessage:
    """Return what stays on the screen: the live view erases its lines before the reply is printed for good."""
    final = output.rsplit("\x1b[2K", maxsplit=1)[-1]
    links = re.findall(r"\x1b\]8;[^;]*;(\w+:[^\x1b]*)\x1b\\", final)
    # Below an answer stands an empty line.
    text = "\n".join(line.rstrip() for line in plain(final).splitlines()).rstrip("\n")
    return PostedMessage(str(number), text, tuple(dict.fromkeys(links)), (text,), final)
