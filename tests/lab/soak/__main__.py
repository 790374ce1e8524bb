"""Constant load on the daemon with faults and kills: every answer arrives once, and what it takes levels off.

    make soak                       ten minutes
    SOAK_MINUTES=60 make soak       an hour

For the first part of the time the daemon is killed again and again; then one process lives to the end, under faults
alone, and what it takes is measured. The exit code is 1 when an answer is lost, cut off or there twice, or when memory,
threads, descriptors or the journal go on growing.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sqlite3
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from aiohttp import web

from tests.lab.soak.kills import report
from tests.lab.soak.world import World, open_world

ASK_EVERY_S = 1.5
FAULT_EVERY_S = 6.0
KILL_EVERY_S = 25.0
SAMPLE_EVERY_S = 2.0
KILLED_SHARE = 0.4
MAX_WAIT_S = 300.0
# What the last quarter of a life may take more than its second one: a share, and so much in any case.
TOLERANCES = {"memory, MiB": (0.08, 25.0), "threads": (0.1, 4.0), "descriptors": (0.2, 10.0)}
MAX_JOURNAL_GROWTH = 1.5
# What SQLite's write-ahead log and free pages take now and then, however few questions there are.
LOG_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Sample:
    """What the daemon takes at one moment."""

    memory: float
    threads: float
    descriptors: float
    journal_bytes: float
    questions: int


def judge_growth(samples: Sequence[Sample]) -> list[str]:
    """Return what has not levelled off: the median of the last quarter is compared with that of the second one.

    The journal keeps what is said, so it grows; but not more for each question than before.
    """
    quarter = len(samples) // 4
    if not quarter:
        return ["there are too few samples to say whether anything levels off"]
    early = samples[quarter : 2 * quarter]
    late = samples[-quarter:]
    growing = []
    for (name, (share, least)), field in zip(TOLERANCES.items(), ("memory", "threads", "descriptors"), strict=True):
        early_median, late_median = (
            statistics.median(getattr(sample, field) for sample in part) for part in (early, late)
        )
        print(f"{name}: {early_median:.0f} in the second quarter, {late_median:.0f} in the last one")
        if late_median > early_median + max(share * early_median, least):
            growing.append(f"{name}: {early_median:.0f}, then {late_median:.0f}")
    sizes = [_bytes_per_question(part) for part in (samples[: 2 * quarter], samples[2 * quarter :])]
    print(f"journal: {sizes[0]:.0f} bytes for each question in the first half, {sizes[1]:.0f} in the second one")
    slack = LOG_BYTES / max(1, samples[-1].questions - samples[2 * quarter].questions)
    if sizes[1] > MAX_JOURNAL_GROWTH * max(sizes[0], 0.0) + slack:
        growing.append(f"journal: {sizes[0]:.0f} bytes for each question, then {sizes[1]:.0f}")
    return growing


def _bytes_per_question(samples: Sequence[Sample]) -> float:
    first = samples[0]
    last = samples[-1]
    return (last.journal_bytes - first.journal_bytes) / max(1, last.questions - first.questions)


class FaultInjector:
    """What goes wrong, at random: `counts` says how often."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._away: set[str] = set()
        self._losing: set[str] = set()
        self.counts: Counter[str] = Counter()
        for name, platform in world.platforms.items():
            platform.peer.watch = self._watch_of(name)  # type: ignore[attr-defined]

    def _watch_of(self, platform: str) -> Callable[[str, str], Awaitable[None]]:
        async def watch(method: str, phase: str) -> None:
            if platform in (self._away if phase == "before" else self._losing):
                raise web.HTTPServiceUnavailable

        return watch

    async def cause(self) -> None:
        """Let something go wrong for a while."""
        causes = (
            self._outage,
            self._lost_responses,
            self._slow_model,
            self._broken_model,
            self._locked,
            self._full,
        )
        action = self._world.chance.choice((*causes, self._stopped))
        self.counts[action.__name__.strip("_")] += 1
        await action()

    async def _outage(self) -> None:
        platform = self._world.chance.choice(list(self._world.platforms))
        self._away.add(platform)
        await asyncio.sleep(self._world.chance.choice((3, 10, 45)))
        self._away.discard(platform)

    async def _lost_responses(self) -> None:
        platform = self._world.chance.choice(list(self._world.platforms))
        self._losing.add(platform)
        await asyncio.sleep(self._world.chance.uniform(0.5, 3))
        self._losing.discard(platform)

    async def _slow_model(self) -> None:
        self._world.model.ttft_s = 6.0
        await asyncio.sleep(8)
        self._world.model.ttft_s = 0.05

    async def _broken_model(self) -> None:
        model = self._world.model
        name, value = self._world.chance.choice(
            [("status", 500), ("malformed_after", 40), ("drop_after", 60), ("empty", True), ("hang", True)]
        )
        usual = getattr(model, name)
        setattr(model, name, value)
        await asyncio.sleep(self._world.chance.uniform(1, 6))
        setattr(model, name, usual)

    async def _locked(self) -> None:
        with closing(sqlite3.connect(self._world.journal, isolation_level=None, timeout=30)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            await asyncio.sleep(self._world.chance.uniform(1, 12))
            connection.execute("ROLLBACK")

    async def _stopped(self) -> None:
        """Let the process stand still, longer than a call may take or not."""
        pid = self._world.daemon.pid
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(self._world.chance.choice((2, 40)))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    async def _full(self) -> None:
        """Let no file of the daemon's grow for a while, as on a full disk."""
        pid = self._world.daemon.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
        await asyncio.sleep(self._world.chance.uniform(1, 8))
        if self._world.daemon.pid == pid:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


async def soak(world: World, seconds: float) -> tuple[list[Sample], Counter[str]]:
    """Ask, disturb and kill for so long; return what the last process took, and what happened how often."""
    injector = FaultInjector(world)
    samples = list[Sample]()
    started_at = time.monotonic()

    async def repeat(every_s: float, until_s: float, call: Callable[[], Awaitable[object]]) -> None:
        while time.monotonic() - started_at < until_s:
            await asyncio.sleep(world.chance.uniform(0.5, 1.5) * every_s)
            await call()

    async def kill() -> None:
        injector.counts["kill"] += 1
        await world.daemon.kill(world.chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
        await world.daemon.start()

    async def sample() -> None:
        if time.monotonic() - started_at > KILLED_SHARE * seconds + KILL_EVERY_S:
            samples.append(take_sample(world))

    async def ask() -> None:
        # The network over HTTP waits until the daemon takes the question.
        ask_tasks.append(asyncio.create_task(world.ask(world.chance.choice(list(world.platforms)))))

    ask_tasks: list[asyncio.Task[object]] = []
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(repeat(ASK_EVERY_S, seconds, ask))
        tasks.create_task(repeat(SAMPLE_EVERY_S, seconds, sample))
        # A fault that waits for a process that is just being killed has none to disturb.
        tasks.create_task(repeat(KILL_EVERY_S, KILLED_SHARE * seconds, kill))
        tasks.create_task(repeat(FAULT_EVERY_S, seconds, injector.cause))
    await asyncio.gather(*ask_tasks)
    return samples, injector.counts


def take_sample(world: World) -> Sample:
    """Return what the daemon takes now."""
    process = psutil.Process(world.daemon.pid)
    with process.oneshot():
        memory = process.memory_info().rss
        threads = process.num_threads()
        descriptors = process.num_fds()
    size = sum(path.stat().st_size for path in (world.journal, Path(f"{world.journal}-wal")) if path.exists())
    return Sample(memory / 2**20, threads, descriptors, size, len(world.questions))


async def run(folder: Path, minutes: float, seed: int) -> bool:
    """Soak for so many minutes; return whether all is as it should be."""
    async with open_world(folder, seed) as world:
        samples, counts = await soak(world, 60 * minutes)
        await world.wait_until_finished(MAX_WAIT_S)
        unfinished_ids = world.count_pending()
        # What is left of the journal after it was read back is counted with the rest.
        samples.append(take_sample(world))
        print(f"{len(world.questions)} questions, {dict(counts)}, {unfinished_ids} not finished")
        is_right = report(world)
        growing = judge_growth(samples)
    print(*(f"does not level off: {description}" for description in growing), sep="\n")
    return is_right and not growing and not unfinished_ids


def main() -> None:
    """Run it, as long as SOAK_MINUTES says."""
    minutes = float(os.environ.get("SOAK_MINUTES", "10"))
    seed = int(os.environ.get("SOAK_SEED", "20261122"))
    with TemporaryDirectory() as folder:
        sys.exit(0 if asyncio.run(run(Path(folder), minutes, seed)) else 1)


if __name__ == "__main__":
    main()
