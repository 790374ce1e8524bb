"""Runs the systems one after the other, each in a process of its own, against the same model and embedder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from tests.lab.comparison.contract import SPREAD_S, Document
from tests.lab.comparison.environments import make_environment, pins, versions
from tests.lab.comparison.systems import OWN, SYSTEMS
from tests.lab.comparison.workload import Case, make_documents, make_follow_ups, make_standalone, read_judged
from tests.lab.quality._retrieval import ndcg, recall
from tests.support.deployment import ROOT

CACHE = ROOT / ".cache/comparison"
JUDGED = ROOT / ".cache/quality/multi_turn"
CUTOFF = 5
TIMEOUT_S = 1200
# Nothing is to be looked up or reported elsewhere while it is measured.
QUIET = {
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGSMITH_TRACING": "false",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "OTEL_SDK_DISABLED": "true",
    "ANONYMIZED_TELEMETRY": "False",
    "PYTHONDONTWRITEBYTECODE": "",
}
Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    passages: int = 5000
    standalone_count: int = 20
    crowds: tuple[int, ...] = (16, 64)
    rounds: int = 3
    starts: int = 3
    is_judged: bool = True


FULL = Plan()
QUICK = Plan(passages=1000, standalone_count=5, crowds=(16, 64), rounds=1, starts=1, is_judged=False)


class WorkerFailedError(Exception):
    """A phase of a system failed; the message ends with what it printed last."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs workers: where things are, and who serves the model, with and without its delays, and the vectors."""

    plan: Plan
    folder: Path
    model_url: str
    fast_model_url: str
    embedder_url: str

    def run(self, name: str) -> Report:
        """Return everything that is measured of one system. Raises `WorkerFailedError`."""
        standalone_cases = make_standalone(self.plan.standalone_count + 1)
        follow_up_cases = make_follow_ups(self.plan.standalone_count + self.plan.rounds * sum(self.plan.crowds))
        documents = self._write_documents("documents", make_documents(self.plan.passages))
        work = Work(self, name, "speed", documents, standalone_cases, follow_up_cases)
        work.index()
        ready = [work.call("start")["ready_s"] for _ in range(self.plan.starts)]
        report = {**work.call("measure"), "ready_s": median(ready), "passages": self.plan.passages}
        if SYSTEMS[name].has_head_starts:
            report["without_head_starts"] = work.call("measure", head_starts=False)
        judged = read_judged(JUDGED) if self.plan.is_judged else None
        if judged:
            report |= self._judge(name, *judged)
        return {**report, "versions": versions(SYSTEMS[name].environment)}

    def _judge(self, name: str, documents: list[Document], cases: list[Case]) -> Report:
        """Return what the judged questions show. Their time is not measured, so the model need not wait."""
        work = Work(self, name, "judged", self._write_documents("judged", documents), [], cases)
        work.index()
        retrieved = work.call("retrieve", model_url=self.fast_model_url)["found"]
        return {
            "judged": len(cases),
            "recall": _mean(recall(ids, case.relevant, CUTOFF) for ids, case in zip(retrieved, cases, strict=True)),
            "ndcg": _mean(ndcg(ids, case.relevant, CUTOFF) for ids, case in zip(retrieved, cases, strict=True)),
        }

    def _write_documents(self, name: str, documents: Sequence[Document]) -> Path:
        file = self.folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(asdict(document)) + "\n" for document in documents), "utf-8")
        return file


@dataclass(frozen=True, slots=True)
class Work:
    """One system over one set of documents."""

    runner: Runner
    name: str
    purpose: str
    documents: Path
    standalone_cases: Sequence[Case]
    follow_up_cases: Sequence[Case]

    @property
    def folder(self) -> Path:
        return self.runner.folder / "systems" / self.name / self.purpose

    def index(self) -> None:
        """Index the documents, unless that was done already with the same documents, pins and adapter."""
        entry = SYSTEMS[self.name]
        stamp = self.folder / "indexed"
        parts = [self.documents.read_bytes(), (ROOT / f"tests/lab/comparison/systems/{entry.module}.py").read_bytes()]
        if entry.environment != OWN:
            parts.append(pins(entry.environment).read_bytes())
        expected_hash = hashlib.sha256(b"\n".join(parts)).hexdigest()
        is_known = stamp.exists() and stamp.read_text() == expected_hash
        if not is_known:
            # Some would add to what is there, other documents among it.
            shutil.rmtree(self.folder, ignore_errors=True)
        # What KIMAs indexes changes with its code, and it sees by itself what is new.
        if entry.environment == OWN or not is_known:
            url = self.runner.embedder_url.removesuffix("/v1") + "/indexing/v1"
            self.call("index", embedder_url=url)
            stamp.write_text(expected_hash)

    def call(self, phase: str, **changed: str | bool) -> Report:
        """Run one phase in a process and return its report. Raises `WorkerFailedError`."""
        python = make_environment(SYSTEMS[self.name].environment, self.runner.folder / "environments")
        self.folder.mkdir(parents=True, exist_ok=True)
        job = self.folder / "job.json"
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        values = {
            "folder": str(self.folder / "index"),
            "model_url": self.runner.model_url,
            "embedder_url": self.runner.embedder_url,
            "result": str(result),
            "documents": str(self.documents),
            "alone": [case.for_worker() for case in self.standalone_cases],
            "following": [case.for_worker() for case in self.follow_up_cases],
            "crowds": self.runner.plan.crowds,
            "rounds": self.runner.plan.rounds,
            "spread_s": SPREAD_S,
            "head_starts": True,
            **changed,
        }
        command = (python, "-m", "tests.lab.comparison.worker", self.name, phase, job)
        with (self.folder / f"{phase}.log").open("w+", encoding="utf-8") as log:
            job.write_text(json.dumps({**values, "started": time.monotonic()}), "utf-8")
            environment = {**os.environ, **QUIET, "PYTHONPATH": str(ROOT)}
            with contextlib.suppress(subprocess.SubprocessError):
                subprocess.run(
                    command, cwd=ROOT, env=environment, stdout=log, stderr=log, timeout=TIMEOUT_S, check=True
                )
        if not result.exists():
            tail = (self.folder / f"{phase}.log").read_text("utf-8", "replace")[-2000:]
            raise WorkerFailedError(f"{self.name}: {phase} failed, or took over {TIMEOUT_S} s\n{tail}")
        report: Report = json.loads(result.read_text("utf-8"))
        return report


def write_cases(folder: Path, plan: Plan) -> Path:
    """Write what the model has to know: how each question is completed."""
    cases = [
        *make_standalone(plan.standalone_count + 1),
        *make_follow_ups(plan.standalone_count + plan.rounds * sum(plan.crowds)),
    ]
    judged = read_judged(JUDGED) if plan.is_judged else None
    cases += judged[1] if judged else []
    file = folder / "cases.json"
    file.write_text(json.dumps([case.for_model() for case in cases]), "utf-8")
    return file


@contextmanager
def open_runner(plan: Plan, folder: Path) -> Iterator[Runner]:
    """Serve the model and the embedder for the length of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = str(write_cases(folder, plan))
    with (
        # Its complaints are mostly about clients that leave early, as some do on purpose.
        (folder / "peers.log").open("w", encoding="utf-8") as log,
        _peer(log, "model", cases) as model_url,
        _peer(log, "model", cases, "--ttft", "0", "--rate", "0") as fast_model_url,
        _peer(log, "embedder", str(folder)) as embedder_url,
    ):
        yield Runner(plan, folder, model_url, fast_model_url, embedder_url)


@contextmanager
def _peer(log: TextIO, *arguments: str) -> Iterator[str]:
    """Run a peer for the length of the block; the address is what it prints."""
    command = (sys.executable, "-m", "tests.lab.comparison.peers", *arguments)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _mean(values: Iterator[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)
