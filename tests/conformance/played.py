"""A group played in the terminal as a platform: lines go in, and what is printed is what people see."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import AsyncExitStack
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from bots.group import Group
from core.journal import Journal
from tests.conformance.platforms import ANN, Driver, How, Person, Room, Shown, Step, until

NOT_THERE = "a terminal has nothing like that"


class Played(Driver):
    """One group, in which everybody types into the same terminal."""

    name = "console"
    mention = "@kimas "

    async def open(self, stack: AsyncExitStack) -> None:
        self._reading, self._writing = os.pipe()
        stack.callback(os.close, self._reading)
        stack.callback(os.close, self._writing)

    def adapter(self, journal: Journal, folder: Path) -> _Watched:
        self._adapter = _Watched(self._reading)
        return self._adapter

    async def ready(self) -> None:
        return None

    def private(self, person: Person = ANN) -> Room:
        return Room("terminal", "terminal", private=True)

    def group(self, number: int = 1) -> Room:
        assert number == 1, NOT_THERE
        return Room("group", "group")

    async def say(self, room: Room, text: str, *, who: Person = ANN, reply_to: str = "", **more: Any) -> str:
        adapter = self._adapter
        assert reply_to in ("", adapter.newest), "only what was said last can be replied to"
        before = adapter.newest
        os.write(self._writing, f"{who.name}: {'^ ' if reply_to else ''}{text}\n".encode())
        await until(lambda: adapter.newest != before, "the line")
        return adapter.heard[-1]

    async def command(self, room: Room, name: str, text: str = "") -> str:
        return await self.say(room, f"/{name} {text}".strip())

    def shown(self, room: Room) -> list[Shown]:
        return self._adapter.shown

    def rung(self, room: Room) -> list[str]:
        return []

    def signs(self) -> int:
        return 0

    async def thread(self, room: Room) -> Room:
        raise NotImplementedError(NOT_THERE)

    def board(self) -> Room:
        raise NotImplementedError(NOT_THERE)

    async def post(self, board: Room, text: str) -> tuple[str, Room]:
        raise NotImplementedError(NOT_THERE)

    async def attach(self, room: Room, text: str = "") -> None:
        raise NotImplementedError(NOT_THERE)

    async def say_as_bot(self, room: Room, text: str) -> None:
        raise NotImplementedError(NOT_THERE)

    async def edit(self, room: Room, message: str, text: str) -> None:
        raise NotImplementedError(NOT_THERE)

    async def delete(self, room: Room, message: str) -> None:
        raise NotImplementedError(NOT_THERE)

    async def redeliver(self, room: Room, message: str) -> None:
        raise NotImplementedError(NOT_THERE)

    async def malformed(self) -> None:
        raise NotImplementedError(NOT_THERE)

    async def lose_connection(self) -> None:
        raise NotImplementedError(NOT_THERE)

    def fail(self, step: Step, how: How, times: int = 1) -> None:
        raise NotImplementedError(NOT_THERE)

    def bar(self, room: Room, *, out: bool) -> None:
        raise NotImplementedError(NOT_THERE)


class _Watched(Group):
    """The group, with what is heard and printed in it noted."""

    def __init__(self, descriptor: int) -> None:
        self._output = StringIO()
        shown = Console(file=self._output, force_terminal=True, color_system="standard", width=100, height=400)
        super().__init__(descriptor, shown)
        self.heard: list[str] = []
        self.shown: list[Shown] = []
        self.newest = ""
        self.skipped: Counter[str] = Counter()

    def message(self, line: str) -> Any:
        made = super().message(line)
        self.heard.append(made.id)
        self.newest = made.id
        return made

    def said(self, number: str, text: str) -> None:
        super().said(number, text)
        self.newest = number
        output = self._output.getvalue()
        self._output.seek(0)
        self._output.truncate()
        # Above it stands who says it.
        self.shown.append(printed(number, output.partition("\n")[2]))


def printed(number: int | str, output: str) -> Shown:
    """Return what stays on the screen: the live view erases its lines before the reply is printed for good."""
    final = output.rsplit("\x1b[2K", maxsplit=1)[-1]
    links = re.findall(r"\x1b\]8;[^;]*;(\w+:[^\x1b]*)\x1b\\", final)
    text = re.sub(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[[0-9;?]*[A-Za-z]", "", final)
    # Below an answer stands an empty line.
    text = "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n")
    return Shown(str(number), text, tuple(dict.fromkeys(links)), (text,), final)
