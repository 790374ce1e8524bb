"""A language model in a process of its own that says, in a line of JSON, who asks it for what.

    python -m tests.lab.benchmarks.load_model --ttft 0.3 --rate 50

The first line that it prints is its address; then one line for every request: `purpose` (the agent that sent it),
`question` (what stood between the tags of a question or a message, empty where there was none), and `at`, the seconds
of the clock that all processes of a machine share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from sys import executable

from tests.support.deployment import ROOT
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.scripted import Body, get_agent

# What people put to the bot; of anything else the model says that it is not for the bot.
FORMS = ("How do I set {}?", "What does the guide say about {}?", "Where is {} explained, and how does it work?")
QUESTION_PATTERN = re.compile(r"<(?:question|said)\b[^>]*>\n(.*?)\n</(?:question|said)>", re.DOTALL)
PASSAGE = re.compile(r'<passage id="p1"[^>]*>\n(.*?)\n</passage>', re.DOTALL)
WORDS = 45


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the model."""

    purpose: str
    question: str
    at: float


@dataclass(slots=True)
class Model:
    """The process with the model: its address, and every request so far."""

    base_url: str
    requests: list[Request] = field(default_factory=list)

    def of(self, purpose: str) -> list[Request]:
        return [request for request in self.requests if request.purpose == purpose]


@asynccontextmanager
async def model_process(ttft_s: float, rate: float) -> AsyncIterator[Model]:
    """Run the model for the length of the block."""
    process = await asyncio.create_subprocess_exec(
        executable,
        "-m",
        "tests.lab.benchmarks.load_model",
        "--ttft",
        str(ttft_s),
        "--rate",
        str(rate),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    reading: asyncio.Task[None] | None = None
    try:
        model = Model((await process.stdout.readline()).decode().strip())
        reading = asyncio.create_task(_read(process.stdout, model))
        yield model
    finally:
        process.terminate()
        await process.wait()
        if reading is not None:
            await reading


async def _read(lines: asyncio.StreamReader, model: Model) -> None:
    async for line in lines:
        model.requests.append(Request(**json.loads(line)))


def reply_to(body: Body) -> str:
    """Print who asks for what, and return what that agent expects.

    What is written says the question again, so that a reply can be told from all others wherever it is shown, and
    then words of the first passage, so that its citation holds.
    """
    purpose = get_agent(body)
    text = str(body["messages"][-1]["content"])
    matches = QUESTION_PATTERN.findall(text)
    first = PASSAGE.search(text)
    question = matches[-1] if matches else ""
    print(json.dumps({"purpose": purpose, "question": question, "at": time.monotonic()}), flush=True)
    match purpose:
        case "second_opinion":
            is_question = any(form.partition("{")[0] in question for form in FORMS)
            return json.dumps({"reason": "about the guide or not", "action": "answer" if is_question else "silent"})
        case "write" | "talk":
            words = re.findall(r"[A-Za-z]{2,}", first[1])[:WORDS] if first else []
            return f"You asked: {question}\n\n{' '.join(words) or 'Nothing is said about it'} [p1]."
        case "look_back":
            return "1: p1"
        case "context":
            return f"1\nThey want to know: {question}"
        case _:
            return question or "the question"


async def serve(ttft_s: float, rate: float) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with LanguageModelPeer(ttft_s=ttft_s, tokens_per_s=rate, reply=reply_to) as peer:
        print(peer.base_url, flush=True)
        await stop.wait()


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ttft", type=float, default=0.0, help="seconds to the first token")
    parser.add_argument("--rate", type=float, default=0.0, help="tokens a second after it; 0: no delay")
    options = parser.parse_args()
    asyncio.run(serve(options.ttft, options.rate))


if __name__ == "__main__":
    main()
