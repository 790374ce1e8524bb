"""One system in a process of its own, in its environment: indexes, starts, or starts and answers under load.

    python -m tests.lab.comparison.worker SYSTEM index|start|measure|retrieve JOB.json

The job says where everything is; what was measured is written to the file that it names. Standard library alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tests.lab.comparison.contract import Document, Query, System, SystemConfig
from tests.lab.comparison.systems import SYSTEMS

PROBE_S = 0.005
RETRIEVALS_AT_ONCE = 4
Report = dict[str, Any]


@dataclass(slots=True)
class Load:
    """What some questions showed."""

    first_ms: list[float] = field(default_factory=list)
    stall_ms: float = 0.0
    wall_s: float = 0.0
    cpu_ms: float = 0.0
    calls: float = 0.0
    prompt_tokens: float = 0.0
    # Prompts and completions of the calls that write answers, as a provider bills them.
    answer_tokens: float = 0.0


@dataclass(slots=True)
class Job:
    """What a worker has to do, as the runner wrote it."""

    config: SystemConfig
    result: Path
    started: float
    documents: Path
    standalone_queries: list[Query]
    follow_up_queries: list[Query]
    crowds: list[int]
    rounds: int
    # The questions of a crowd arrive within this time, evenly.
    spread_s: float

    @classmethod
    def read(cls, file: Path) -> Job:
        values = json.loads(file.read_text("utf-8"))
        config = SystemConfig(
            Path(values["folder"]), values["model_url"], values["embedder_url"], values["head_starts"]
        )
        return cls(
            config,
            Path(values["result"]),
            values["started"],
            Path(values["documents"]),
            [to_query(item) for item in values["alone"]],
            [to_query(item) for item in values["following"]],
            values["crowds"],
            values["rounds"],
            values["spread_s"],
        )


def to_query(item: dict[str, Any]) -> Query:
    """Read a question as the runner writes it: {question, history: [[role, text]]}."""
    return Query(item["question"], tuple((role, text) for role, text in item["history"]))


async def index(system: System, job: Job) -> Report:
    lines = job.documents.read_text("utf-8").splitlines()
    await system.index([Document(**json.loads(line)) for line in lines])
    return {}


async def start(system: System, job: Job) -> Report:
    await system.start()
    return {"ready_s": time.monotonic() - job.started}


async def retrieve(system: System, job: Job) -> Report:
    """Return what was found for each question, best first."""
    await system.start()
    turn = asyncio.Semaphore(RETRIEVALS_AT_ONCE)

    async def retrieve_query(query: Query) -> list[str]:
        async with turn:
            return await system.retrieve(query)

    retrieved = await asyncio.gather(*map(retrieve_query, job.follow_up_queries))
    await _calls(job)
    return {"found": retrieved}


async def measure(system: System, job: Job) -> Report:
    report = await start(system, job)
    questions = iter(job.follow_up_queries)
    report["cold_first_ms"] = (await _one_by_one(system, job, job.standalone_queries[:1])).first_ms[0]
    report["alone"] = _summary(await _one_by_one(system, job, job.standalone_queries[1:]))
    report["following"] = _summary(
        await _one_by_one(system, job, [next(questions) for _ in job.standalone_queries[1:]])
    )
    report["memory_mib"] = _resident_mib()
    for size in job.crowds:
        loads = [await _crowd(system, job, [next(questions) for _ in range(size)]) for _ in range(job.rounds)]
        report[f"crowd_{size}"] = _summary(*loads)
    report["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return report


async def _one_by_one(system: System, job: Job, queries: Sequence[Query]) -> Load:
    async def ask(load: Load) -> None:
        for query in queries:
            await _answer(system, query, load)

    # The probe itself would take a good part of the processor time of a single answer.
    return await _measured(job, ask, len(queries), with_probe=False)


async def _crowd(system: System, job: Job, queries: Sequence[Query]) -> Load:
    async def ask(load: Load) -> None:
        async def answer_query(number: int, query: Query) -> None:
            await asyncio.sleep(job.spread_s * number / len(queries))
            await _answer(system, query, load)

        await asyncio.gather(*(answer_query(number, query) for number, query in enumerate(queries)))

    return await _measured(job, ask, len(queries), with_probe=True)


async def _answer(system: System, query: Query, load: Load) -> None:
    started = time.perf_counter()
    texts: list[str] = []
    async for text in system.answer(query):
        if text and not texts:
            load.first_ms.append((time.perf_counter() - started) * 1000)
        texts.append(text)
    if len("".join(texts)) < 100:
        raise RuntimeError(f"no whole answer to {query.question!r}: {''.join(texts)!r}")


async def _measured(job: Job, ask: Callable[[Load], Awaitable[None]], count: int, *, with_probe: bool) -> Load:
    """Measure a load: its stalls, times, and model calls."""
    load = Load()
    before = await _calls(job)
    probe = asyncio.create_task(_probe(load)) if with_probe else None
    cpu = time.process_time()
    begun = time.perf_counter()
    await ask(load)
    load.wall_s = time.perf_counter() - begun
    load.cpu_ms = (time.process_time() - cpu) * 1000 / count
    if probe:
        probe.cancel()
    after = await _calls(job)
    for name in ("calls", "prompt_tokens", "answer_tokens"):
        setattr(load, name, (after[name] - before[name]) / count)
    return load


async def _probe(load: Load) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(PROBE_S)
        load.stall_ms = max(load.stall_ms, (time.perf_counter() - before - PROBE_S) * 1000)


async def _calls(job: Job) -> Report:
    """Return what was asked of the model so far, when it has nothing to do any more.

    Raises `RuntimeError` when it was asked to complete a question that it does not know: then nothing is comparable.
    """

    def ask() -> Report:
        with urllib.request.urlopen(f"{job.config.model_url}/calls", timeout=30) as reply:  # noqa: S310  our own peer
            report: Report = json.load(reply)
        return report

    while (report := await asyncio.to_thread(ask))["active"]:
        await asyncio.sleep(0.05)
    if report["unknown"]:
        raise RuntimeError(f"the model could not complete {report['unknown']} questions")
    return report


def _summary(*loads: Load) -> Report:
    """Return the figures of some loads of the same size: the medians, and of stalls the longest."""
    first = sorted(time for load in loads for time in load.first_ms)
    count = len(loads[0].first_ms)
    return {
        "answers": count,
        "rounds": len(loads),
        "first_p50_ms": median(first),
        "first_p95_ms": first[min(len(first) - 1, int(0.95 * len(first)))],
        "stall_ms": max(load.stall_ms for load in loads),
        "wall_s": median(load.wall_s for load in loads),
        "cpu_ms": median(load.cpu_ms for load in loads),
        "calls": median(load.calls for load in loads),
        "prompt_tokens": median(load.prompt_tokens for load in loads),
        "answer_tokens": sum(load.answer_tokens for load in loads) / len(loads),
    }


def _resident_mib() -> float:
    status = Path("/proc/self/statm")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


PHASES = {"index": index, "start": start, "measure": measure, "retrieve": retrieve}


async def run(name: str, phase: str, job: Job) -> None:
    """Do one phase with one system and write its report."""
    system = SYSTEMS[name].open(job.config)
    try:
        report = await PHASES[phase](system, job)
    finally:
        await system.close()
    job.result.write_text(json.dumps(report), "utf-8")


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], Job.read(Path(sys.argv[3]))))
