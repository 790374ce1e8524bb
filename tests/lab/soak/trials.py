"""Long faults, one after the other, while people ask on four platforms: what becomes of every question?

    python -m tests.lab.soak.trials outage                  every platform is away for 185 s
    python -m tests.lab.soak.trials platform                every platform stands still for 40 s, from a post on
    python -m tests.lab.soak.trials daemon                  the daemon stands still for 40 s, from a post on
    python -m tests.lab.soak.trials model                   the model stands still for 40 s
    python -m tests.lab.soak.trials descriptors             the daemon may open no file and no connection for 30 s
    python -m tests.lab.soak.trials weaviate                the store's server is killed, again and again

The exit code is 1 when an answer is lost, cut off or there twice, or when a refresh is not made up for. The last one
needs the server that `make weaviate` builds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web

from core.language.tokens import query_tokens
from knowledge.embedding.local import LOCAL_DIMENSION, LOCAL_NAME
from knowledge.stores.weaviate import open_weaviate
from tests.lab.soak.kills import report
from tests.lab.soak.world import World, open_world
from tests.support.deployment import ROOT
from tests.support.peers.weaviate_server import BINARY, Node, weaviate_servers

OUTAGE_S = 185.0
STANDSTILL_S = 40.0
FEW_DESCRIPTORS_S = 30.0
FEW_DESCRIPTORS = 64
ASK_EVERY_S = 4.0
MAX_WAIT_S = 400.0
REFRESH_S = 180.0
SERVER_KILLS = 4
SERVER_AWAY_S = 15.0
SERVER_BACK_S = 20.0
REFRESH_MINUTES = 0.1
# The calls that post an answer, and may leave nobody knowing whether it stands.
POSTS = {
    "telegram": "sendMessage",
    "discord": "POST /channels/{}/messages",
    "slack": "chat.postMessage",
    "http": "final",
}


@asynccontextmanager
async def ask_continuously(world: World) -> AsyncIterator[None]:
    """Let somebody ask on every platform before the block, on one of them every few seconds in it, and on all after."""

    async def ask_on_all() -> None:
        await asyncio.gather(*map(world.ask, world.platforms))

    async def ask_again_and_again() -> None:
        while True:
            await asyncio.sleep(ASK_EVERY_S)
            # The network over HTTP waits until the daemon takes the question.
            waiting_task.append(asyncio.create_task(world.ask(world.chance.choice(list(world.platforms)))))

    waiting_task: list[asyncio.Task[object]] = [asyncio.create_task(ask_on_all())]
    repeating = asyncio.create_task(ask_again_and_again())
    try:
        yield
    finally:
        repeating.cancel()
    await asyncio.gather(*waiting_task)
    await ask_on_all()


async def outage(world: World) -> None:
    """Let no call of any platform through for three minutes."""
    is_away = True

    async def watch(method: str, phase: str) -> None:
        if is_away and phase == "before":
            raise web.HTTPServiceUnavailable

    async with ask_continuously(world):
        _watch_all(world, lambda _: watch)
        await asyncio.sleep(OUTAGE_S)
        is_away = False


async def platform(world: World) -> None:
    """Let every platform stand still from its next post on: half of them before they take it, half after it."""
    async with standing_still(world) as (standstill, posted):
        await asyncio.gather(*(event.wait() for event in posted.values()))
        await asyncio.sleep(STANDSTILL_S)
        standstill.set()


@asynccontextmanager
async def standing_still(world: World) -> AsyncIterator[tuple[asyncio.Event, Mapping[str, asyncio.Event]]]:
    """Ask; every platform stands still from its next post until the first event is set. The others say who does."""
    is_over = asyncio.Event()
    posted = {name: asyncio.Event() for name in world.platforms}

    def watch_of(name: str) -> Callable[[str, str], Awaitable[None]]:
        stops_in = "before" if name in ("telegram", "slack") else "after"

        async def watch(method: str, phase: str) -> None:
            if method == POSTS[name] and phase == stops_in:
                posted[name].set()
            if posted[name].is_set():
                await is_over.wait()

        return watch

    _watch_all(world, watch_of)
    async with ask_continuously(world):
        yield is_over, posted


async def daemon(world: World) -> None:
    """Let the daemon stand still at a post of each platform: the platform has it, and nobody reads its response."""
    for name, method in POSTS.items():
        at_post = asyncio.Event()

        async def watch(method_name: str, phase: str, method: str = method, at_post: asyncio.Event = at_post) -> None:
            if method_name == method and phase == "after" and not at_post.is_set():
                at_post.set()
                os.kill(world.daemon.pid, signal.SIGSTOP)

        _watch_all(world, lambda platform_name, name=name, watch=watch: watch if platform_name == name else None)  # type: ignore[misc]
        async with ask_continuously(world):
            await at_post.wait()
            await asyncio.sleep(STANDSTILL_S)
            os.kill(world.daemon.pid, signal.SIGCONT)


async def model(world: World) -> None:
    """Let the model stand still: it takes the calls, and says nothing."""
    async with ask_continuously(world):
        world.model.hang = True
        await asyncio.sleep(STANDSTILL_S)
        world.model.hang = False


async def descriptors(world: World) -> None:
    """Let the daemon open nothing more for a while: no file, no connection, not the journal."""
    _, hard = resource.prlimit(world.daemon.pid, resource.RLIMIT_NOFILE)
    async with ask_continuously(world):
        soft, _ = resource.prlimit(world.daemon.pid, resource.RLIMIT_NOFILE, (FEW_DESCRIPTORS, hard))
        await asyncio.sleep(FEW_DESCRIPTORS_S)
        resource.prlimit(world.daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))


async def weaviate(world: World, node: Node) -> None:
    """Kill the store's server while questions are answered, and in refreshes; it is started again each time."""
    async with ask_continuously(world):
        for number in range(SERVER_KILLS):
            _write_guide(world.folder, f"The word of edition {number} is edition{number}.")
            await asyncio.sleep(world.chance.uniform(0, 60 * REFRESH_MINUTES + 4))
            await node.stop()
            await asyncio.sleep(SERVER_AWAY_S)
            await node.start()
            await node.ready()
            await asyncio.sleep(SERVER_BACK_S)


def _watch_all(world: World, watch_of: Callable[[str], Callable[[str, str], Awaitable[None]] | None]) -> None:
    for name, platform in world.platforms.items():
        platform.peer.watch = watch_of(name)  # type: ignore[attr-defined]


def _write_guide(folder: Path, sentence: str) -> None:
    (folder / "guide").mkdir(exist_ok=True)
    text = (ROOT / "docs" / "groups.md").read_text("utf-8")
    (folder / "guide" / "groups.md").write_text(f"{text}\n## Edition\n\n{sentence}\n", "utf-8")


TRIALS = {trial.__name__: trial for trial in (outage, platform, daemon, model, descriptors)}


async def run(name: str, folder: Path, seed: int) -> bool:
    """Make one trial; return whether every question has one whole answer."""
    if name == weaviate.__name__:
        return await _run_on_weaviate(folder, seed)
    async with open_world(folder, seed) as world:
        await TRIALS[name](world)
        return await _judge(world)


async def _run_on_weaviate(folder: Path, seed: int) -> bool:
    _write_guide(folder, "Nothing new.")
    async with weaviate_servers(folder) as cluster:
        (node,) = cluster.nodes
        address = node.settings().model_dump(include={"host", "http_port", "grpc_port"})
        settings = {
            "sources": {
                "guide": {
                    "kind": "files",
                    "path": str(folder / "guide"),
                    "refresh": {"minutes": REFRESH_MINUTES, "jitter": 0},
                }
            },
            "knowledge": {"store": {"provider": "weaviate", "weaviate": address}},
        }
        async with open_world(folder, seed, settings=settings) as world:
            await weaviate(world, node)
            return await _judge(world) and await _finds_last_edition(world, node)


async def _finds_last_edition(world: World, node: Node) -> bool:
    """Return whether what was written while the server was away is found, without anybody's help."""
    edition = f"edition{SERVER_KILLS - 1}"
    deadline = time.monotonic() + REFRESH_S
    while time.monotonic() < deadline:
        store = await open_weaviate(node.settings(), LOCAL_NAME, LOCAL_DIMENSION)
        try:
            passages = await store.search(query_tokens(edition), None, ["guide"], 9)
        finally:
            await store.close()
        if any(edition in passage.text for passage in passages):
            counts = {
                name: count for name, count in (await world.daemon.metrics()).items() if "refreshes_total" in name
            }
            print(f"the last edition is found; {counts}")
            return True
        await asyncio.sleep(1)
    print("the last edition is not found")
    return False


async def _judge(world: World) -> bool:
    started_at = time.monotonic()
    _watch_all(world, lambda _: None)
    await world.wait_until_finished(MAX_WAIT_S)
    print(f"{len(world.questions)} questions, finished after {time.monotonic() - started_at:.0f} s; ", end="")
    print(f"{world.count_pending()} not finished")
    return report(world) and not world.count_pending()


def main() -> None:
    """Run one by hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trial", choices=[*TRIALS, *((weaviate.__name__,) if BINARY else ())])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        sys.exit(0 if asyncio.run(run(options.trial, Path(folder), options.seed)) else 1)


if __name__ == "__main__":
    main()
