"""SIGKILL at every step of a post, on every platform: nothing is lost, cut off or said twice.

    python -m tests.lab.soak.kills --kills 500
    python -m tests.lab.soak.kills --kills 12 --method chat.postEphemeral    in these calls alone
    python -m tests.lab.soak.kills --kills 50 --platform mastodon       or bluesky, github, gitlab: alone

The daemon is killed when the platform has a call and has not done it ("before"), has done it and not answered
("after"), or has just answered, while the journal does not know that yet ("soon").
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aiohttp import web

from tests.lab.soak.world import APOLOGIZED, NEVER_TAKEN, Daemon, World, open_world

# How long a question may take until the call comes that the kill is aimed at.
AIM_S = 15.0
SOON_S = 0.03
EPHEMERAL = "chat.postEphemeral"
# Channels of Slack where answers are for the asker alone.
ASKER_CHATS = {f"slack:C{number}": {"answers": "asker"} for number in range(120, 130)}


@dataclass(frozen=True, slots=True)
class Aim:
    """The moment of a kill: a call's `number`-th coming on a platform, and `when` in it."""

    platform: str
    method: str
    number: int
    when: str


POSTS = {
    "telegram": {"sendMessage": 2, "editMessageText": 3, "sendMessageDraft": 1},
    "discord": {"POST /channels/{}/messages": 4, "PATCH /channels/{}/messages/{}": 2},
    "slack": {"chat.startStream": 1, "chat.appendStream": 1, "chat.stopStream": 1, "chat.update": 1}
    | {"chat.postMessage": 2, EPHEMERAL: 2},
    "http": {"started": 1, "partial": 2, "final": 1},
}
AIMS = tuple(
    Aim(platform, method, number, when)
    for platform, methods in POSTS.items()
    for method, count in methods.items()
    for number in range(1, count + 1)
    for when in ("before", "after", "soon")
)


class Aiming:
    """Watches the calls that the platforms get, and kills the daemon in one of them."""

    def __init__(self, platforms: Mapping[str, Any], daemon: Daemon, chance: random.Random) -> None:
        self._daemon = daemon
        self._chance = chance
        self._counts: Counter[str] = Counter()
        self._aim: Aim | None = None
        self._killing: asyncio.Task[None] | None = None
        self.hit = asyncio.Event()
        for name, platform in platforms.items():
            platform.peer.watch = self._watch_of(name)

    def aim(self, aim: Aim) -> None:
        """Kill the daemon in this moment from now on."""
        self._counts.clear()
        self.hit.clear()
        self._aim = aim

    def disarm(self) -> None:
        """Kill nothing more."""
        self._aim = None

    def _watch_of(self, platform: str) -> Callable[[str, str], Awaitable[None]]:
        async def watch(method: str, phase: str) -> None:
            await self._on_call(platform, method, phase)

        return watch

    async def _on_call(self, platform: str, method: str, phase: str) -> None:
        aim = self._aim
        if aim is None or (platform, method) != (aim.platform, aim.method):
            return
        if phase == "before":
            self._counts[method] += 1
        if self._counts[method] != aim.number or phase != ("before" if aim.when == "before" else "after"):
            return
        self._aim = None
        self._killing = asyncio.create_task(self._kill(SOON_S if aim.when == "soon" else 0.0))
        if aim.when == "soon":
            return
        # The call ends with the connection, the kill goes on.
        await asyncio.shield(self._killing)
        if phase == "before":
            raise web.HTTPServiceUnavailable

    async def _kill(self, within_s: float) -> None:
        await asyncio.sleep(self._chance.uniform(0, within_s))
        await self._daemon.kill()
        self.hit.set()


async def kill_again_and_again(world: World, aims: Sequence[Aim]) -> int:
    """Kill the daemon once for each aim, while it answers on all platforms; return how many kills met their aim.

    Where the moment does not come, the kill comes all the same.
    """
    aiming = Aiming(world.platforms, world.daemon, world.chance)
    hit_count = 0
    for number, aim in enumerate(aims):
        aiming.aim(aim)
        other_platforms = [platform for platform in world.platforms if platform != aim.platform]
        # Too many at once would only make the start slower.
        ask_tasks = [
            asyncio.create_task(world.ask(aim.platform, ASKER_CHATS if aim.method == EPHEMERAL else ())),
            asyncio.create_task(world.ask(world.chance.choice(other_platforms))),
        ]
        try:
            async with asyncio.timeout(AIM_S):
                await aiming.hit.wait()
            hit_count += 1
        except TimeoutError:
            aiming.disarm()
            await world.daemon.kill()
        await world.daemon.start()
        await asyncio.gather(*ask_tasks)
        if number % 25 == 24:
            print(f"{number + 1} kills, {hit_count} as aimed", flush=True)
    return hit_count


def report(world: World) -> bool:
    """Print what became of the answers; return whether all are as they should be."""
    counts, problems = world.judge()
    outcomes = ("whole", APOLOGIZED, "lost", "cut off", "twice", "orphaned", NEVER_TAKEN)
    print(f"{'':10}", *(f"{outcome:>12}" for outcome in outcomes))
    for platform in world.platforms:
        print(f"{platform:10}", *(f"{counts[platform, outcome]:12}" for outcome in outcomes))
    print(*problems, sep="\n")
    return not [problem for problem in problems if not problem.startswith(NEVER_TAKEN)]


async def run(folder: Path, kills: int, seed: int, method: str = "") -> bool:
    """Kill so many times, in one `method` alone if any; return whether nothing was lost, cut off or doubled."""
    started_at = time.monotonic()
    async with open_world(folder, seed, settings={"chats": ASKER_CHATS}) as world:
        moments = [aim for aim in AIMS if method in ("", aim.method)]
        rounds = [world.chance.sample(moments, len(moments)) for _ in range(kills // len(moments) + 1)]
        aims = [aim for some in rounds for aim in some][:kills]
        hit_count = await kill_again_and_again(world, aims)
        await world.wait_until_finished(120)
        is_right = report(world)
        ready_s = sorted(world.daemon.ready_s)[len(world.daemon.ready_s) // 2]
    seconds = time.monotonic() - started_at
    print(f"{kills} kills, {hit_count} as aimed, {seconds:.0f} s; ready again in {ready_s:.1f} s (p50)")
    return is_right


def main() -> None:
    """Run it by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--method", choices=sorted({aim.method for aim in AIMS}), default="")
    parser.add_argument("--platform", choices=["mastodon", "bluesky", "github", "gitlab"])
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        if options.platform:
            from tests.lab.soak import networks

            trial = networks.run(folder, options.platform, options.kills, options.seed)
        else:
            trial = run(folder, options.kills, options.seed, options.method)
        sys.exit(0 if asyncio.run(trial) else 1)


if __name__ == "__main__":
    main()
