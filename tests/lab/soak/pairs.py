"""Two daemons on one PostgreSQL, of which one is killed or stands still again and again, while people ask.

    python -m tests.lab.soak.pairs --rounds 40

In each round a daemon is killed and started again, or it is stopped for up to twice the length of a lease and goes on,
so that the other one takes over what it was writing. The exit code is 1 when an answer is lost, there twice, out of
order or mixed with another one.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lab.benchmarks.daemons import Fleet, Shape
from tests.support.peers.postgresql import PostgresServer, run_server

# How long a round takes, with the fault in it, in seconds.
ROUND_S = 9.0
LEASE_S = 3.0
QUESTIONS_PER_S = 3


async def trouble(fleet: Fleet, stack: AsyncExitStack, chance: random.Random, rounds: int) -> Counter[str]:
    """Kill or stop a daemon in each round; return how often each was done."""
    counts: Counter[str] = Counter()
    for number in range(rounds):
        began_at = time.monotonic()
        await asyncio.sleep(chance.uniform(0, 1))
        index = chance.randrange(len(fleet.processes))
        if chance.random() < 0.5:
            counts["killed"] += 1
            fleet.processes[index].send_signal(signal.SIGKILL)
            await asyncio.sleep(chance.uniform(0, LEASE_S))
            fleet.processes[index] = await stack.enter_async_context(fleet.deployments[index].daemon())
        else:
            counts["stopped"] += 1
            fleet.processes[index].send_signal(signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(0.2, 2) * LEASE_S)
            fleet.processes[index].send_signal(signal.SIGCONT)
        await asyncio.sleep(max(0.0, began_at + ROUND_S - time.monotonic()))
        if number % 10 == 9:
            print(f"{number + 1} rounds", flush=True)
    return counts


async def run(folder: Path, rounds: int, seed: int, server: PostgresServer) -> bool:
    """Trouble a pair of daemons so many times; return whether every question was answered once, and in order."""
    seconds = rounds * ROUND_S
    messages = round(seconds * QUESTIONS_PER_S)
    shape = Shape(messages, 40, seconds, workers=16, model_s=1.0, lease_s=LEASE_S, max_wait_s=60)
    async with AsyncExitStack() as stack:
        fleet = Fleet(folder, shape, server)
        await fleet.open(stack)
        ask_task = asyncio.create_task(fleet.ask())
        counts = await trouble(fleet, stack, random.Random(seed), rounds)
        await ask_task
        await fleet.wait_until_finished()
        outcome = fleet.outcome()
    print(f"{rounds} rounds: {counts['killed']} kills, {counts['stopped']} stops; {messages} questions")
    print(f"{outcome.lost} lost, {outcome.twice} twice, {outcome.out_of_order} out of order or mixed", end=", ")
    print(f"{outcome.placeholders} placeholders left; answered by each: {outcome.shares}")
    return not (outcome.lost or outcome.twice or outcome.out_of_order)


def main() -> None:
    """Run it by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=20261128)
    options = parser.parse_args()
    with TemporaryDirectory() as folder, run_server() as server:
        sys.exit(0 if asyncio.run(run(Path(folder), options.rounds, options.seed, server)) else 1)


if __name__ == "__main__":
    main()
