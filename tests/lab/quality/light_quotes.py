"""First quotes with a light model, which orders the passages: somebody plays it who sees its prompts alone.

FOLDER/bots has a folder for each bot, with its `kimas.yaml` and its `questions.txt`, one a line. Each question is asked
of the real pipeline. Its provider is a real one, behind a socket, with a light model alone. What that model is asked
goes into FOLDER/prompts.jsonl, and is answered from FOLDER/replies.jsonl (`id` and `reply` in each line). What would
be written as the answer stays empty, so that the bot quotes, as it does when a model fails.

    python -m tests.lab.quality.light_quotes read FOLDER       read the sources of the bots
    python -m tests.lab.quality.light_quotes prompts FOLDER    write prompts.jsonl, and replies.jsonl if there is none
    python -m tests.lab.quality.light_quotes quotes FOLDER     print the first quotes with these replies
    python -m tests.lab.quality.light_quotes plain FOLDER      print the first quotes without a model
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bots.common.reply_sink import SilentSink
from bots.daemon.bootstrap import open_app
from core.settings import ModelsSettings, Settings
from core.types import Question, Reply
from tests.lab.quality.quoted_answers import split_quotes
from tests.support.scripted import LIGHT, Body, ScriptedPeer, get_agent

# Other programs on the machine decide nothing then.
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Bot:
    """A bot with its questions, by ids that name the bot."""

    settings: Settings
    questions: dict[str, str]


class PlayedProvider(ScriptedPeer):
    """A provider whose light model replies what is in `replies`, by the id of the prompt, and else nothing of use.

    `prompts` are what it was asked, in order; `question_id` is what its prompts are named after.
    """

    def __init__(self, replies: dict[str, str]) -> None:
        super().__init__(write="", look_back="none", **{name: self._play for name in LIGHT if name != "look_back"})
        self.played = replies
        self.prompts: dict[str, dict[str, str]] = {}
        self.question_id = ""

    def _play(self, body: Body) -> str:
        agent = get_agent(body)
        prompt_id = f"{self.question_id}-{agent}"
        # What cannot be read is asked for once more; who plays knows the first prompt alone.
        if agent != "repair":
            system, *turns = [str(message["content"]) for message in body["messages"]]
            self.prompts.setdefault(prompt_id, {"id": prompt_id, "system": system, "user": "\n\n".join(turns)})
        return self.played.get(prompt_id, "")

    def configure(self, settings: Settings) -> Settings:
        """Return settings with this light model and no other one."""
        models = ModelsSettings.model_validate({"light": {"base_url": self.base_url, "model": "light"}})
        return settings.model_copy(update={"models": models})


@dataclass(slots=True)
class Asked:
    """The replies of bots to their questions, by id, in the order of asking."""

    questions: dict[str, str] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)

    def render(self) -> str:
        """Return the first quotes, and what was said where nothing was quoted, for people to read."""
        return "\n\n".join(
            f"########## {name}: {self.questions[name]}\n\n{_get_first_quote(reply)}"
            for name, reply in self.replies.items()
        )


def _get_first_quote(reply: Reply) -> str:
    quotes = split_quotes(reply.text) if reply.citations else []
    places = [f"{citation.path}: {citation.title}" for citation in reply.citations[:1]]
    return "\n\n".join([quotes[0], *places]) if quotes else f"(no quote)\n\n{reply.text}"


def read_bots(folder: Path) -> list[Bot]:
    """Return the bots of a folder, in the order of their names."""
    bots = []
    for file in sorted((folder / "bots").glob("*/kimas.yaml")):
        name = file.parent.name
        record: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
        record |= {"name": "Quality", "data_dir": folder / "data" / name}
        settings = Settings.model_validate(record)
        embedding = settings.knowledge.embedding.model_copy(update={"query_timeout_s": PATIENCE_S})
        knowledge = settings.knowledge.model_copy(update={"embedding": embedding})
        budget = settings.budget.model_copy(update={"deadline_s": PATIENCE_S})
        settings = settings.model_copy(update={"knowledge": knowledge, "budget": budget})
        lines = (file.parent / "questions.txt").read_text("utf-8").splitlines()
        questions = {f"{name}-{number}": line for number, line in enumerate(filter(str.strip, lines), 1)}
        bots.append(Bot(settings, questions))
    return bots


async def read_sources(folder: Path) -> None:
    """Read the sources of all bots."""
    for bot in read_bots(folder):
        async with open_app(bot.settings, with_answers=False) as app:
            result = await app.refresh()
            print({report.name: report.passages for report in result.reports})


async def ask(folder: Path, provider: PlayedProvider | None) -> Asked:
    """Ask all bots all their questions, with the light model of a provider that runs, or without a model."""
    asked = Asked()
    async for question_id, question, reply in _ask_all(read_bots(folder), provider):
        asked.questions[question_id] = question
        asked.replies[question_id] = reply
    return asked


async def _ask_all(bots: list[Bot], provider: PlayedProvider | None) -> AsyncIterator[tuple[str, str, Reply]]:
    for bot in bots:
        settings = provider.configure(bot.settings) if provider else bot.settings
        async with AsyncExitStack() as stack:
            app = await stack.enter_async_context(open_app(settings))
            for question_id, question in bot.questions.items():
                if provider:
                    provider.question_id = question_id
                yield question_id, question, await app.answer(Question(question), SilentSink())


async def write_prompts(folder: Path) -> None:
    """Write what the light model is asked, and an empty file of replies if there is none."""
    async with PlayedProvider({}) as provider:
        await ask(folder, provider)
    _write_lines(folder / "prompts.jsonl", list(provider.prompts.values()))
    (folder / "replies.jsonl").touch()
    print(f"{len(provider.prompts)} prompts")


async def print_quotes(folder: Path) -> None:
    """Print the first quotes with the replies that were written, and name the prompts without one, and changed ones."""
    replies = {record["id"]: record["reply"] for record in _read_lines(folder / "replies.jsonl")}
    played_prompts = {record["id"]: record for record in _read_lines(folder / "prompts.jsonl")}
    async with PlayedProvider(replies) as provider:
        asked = await ask(folder, provider)
    print(asked.render())
    for name, prompt in provider.prompts.items():
        if name not in replies:
            print(f"\n{name} has no reply")
        elif prompt["user"] != played_prompts.get(name, {}).get("user"):
            print(f"\n{name} is another prompt than the one that was played")
    for name, reply in asked.replies.items():
        if "rerank" in reply.trace.degraded:
            print(f"\n{name}: the reply was not understood")


def _write_lines(file: Path, records: list[dict[str, str]]) -> None:
    file.write_text("".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records), "utf-8")


def _read_lines(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def main() -> None:
    """Run a command of the module's description."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", choices=("read", "prompts", "quotes", "plain"))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if arguments.command == "read":
        asyncio.run(read_sources(folder))
    elif arguments.command == "prompts":
        asyncio.run(write_prompts(folder))
    elif arguments.command == "quotes":
        asyncio.run(print_quotes(folder))
    else:
        print(asyncio.run(ask(folder, None)).render())


if __name__ == "__main__":
    main()
