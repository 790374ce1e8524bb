"""`.cache/results.md`: every figure that was committed, where it comes from and how to repeat it.

`python -m tests.lab.results` writes the page, which is not committed, and draws the pictures of the benchmarks.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tests.lab.benchmarks import curves
from tests.lab.benchmarks.figures import Figure
from tests.lab.comparison.report import page_lines
from tests.lab.quality.figures import committed
from tests.support.deployment import ROOT

BENCHMARKS = ROOT / "docs/benchmarks/figures.json"
PAGE = ROOT / ".cache/results.md"
HEAD = """# Results

This page is generated: `python -m tests.lab.results` writes it from the figures that were committed last. A test fails
when README quotes a figure that is not here.

## Judgement

Measured by `make quality` on public projects and messages. Some labels, questions and statements about them are ours:
`docs/quality.md` says which, how to build each set, and how far to trust the figures. All are shares from 0 to 1.
"""
SPEED_HEAD = """
## Speed

Measured by `make bench`, against a model server of the tests on the same machine,
which needs 300 ms to its first token and then writes 50 tokens a second. The machine is shared and noisy. So compare
figures of one suite with each other, and not with those of other machines.
"""
# What the names of a part's or a suite's figures mean.
NOTES = {
    "follow_ups": "`own` are questions of ours in English and Chinese, `CAsT` and `dialogues` the public sets.",
    "history": (
        "A question after a conversation: how much later its answer begins than the model alone, as a share of a\n"
        "model call that completes the question before the answer begins."
    ),
    "line": "One question at a time, without a conversation. A bare call is one of the same client, without KIMAs.",
    "open_loop": (
        "Questions come at random moments. An answer is good if its first token comes within twice the model's own\n"
        "time plus the time that one question alone needs. Goodput is the number of good answers a second."
    ),
}
COMPARISON_HEAD = """
## Comparison

Measured by `make compare`: KIMAs beside a bare loop and other frameworks, on the same documents, questions, embedder
and model. `docs/quality.md` says what each of them does, and what is fair about it.
"""


def describe_machine() -> dict[str, str]:
    """Return what figures of speed depend on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    commit = subprocess.run(
        ("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"), capture_output=True, text=True, check=False
    )
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit.stdout.strip(),
        "processor": f"{os.cpu_count()} x {names[0] if names else platform.machine()}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
    }


def save(measurement: Mapping[str, Sequence[Figure]]) -> None:
    """Keep the figures of the suites that ran, those of the others stay; write the page and the pictures."""
    values = curves.read(BENCHMARKS)
    machine = describe_machine()
    # A suite whose server is missing measures nothing.
    for suite, figures in ((suite, figures) for suite, figures in measurement.items() if figures):
        entries = [
            {"what": figure.name, "value": float(f"{figure.value:.4g}"), "unit": figure.unit, "limit": figure.limit}
            for figure in figures
        ]
        values[suite] = {"machine": machine, "figures": entries}
    BENCHMARKS.parent.mkdir(parents=True, exist_ok=True)
    BENCHMARKS.write_text(json.dumps(dict(sorted(values.items())), indent=1, ensure_ascii=False) + "\n", "utf-8")
    write()


def write() -> None:
    """Write the page and the pictures from the figures."""
    curves.save(curves.read(BENCHMARKS), BENCHMARKS.parent)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(), "utf-8")


def render() -> str:
    """Return the page."""
    parts = [HEAD, *_quality_lines(), SPEED_HEAD, *_speed_lines(), COMPARISON_HEAD, *page_lines()]
    return "\n".join(parts).rstrip() + "\n"


def _note_lines(name: str) -> tuple[str, ...]:
    return (NOTES[name], "") if name in NOTES else ()


def _quality_lines() -> Iterator[str]:
    for part, figures in committed().items():
        yield from (f"### {part.replace('_', ' ').capitalize()}", "", *_note_lines(part))
        yield from ("| figure | value |", "|---|---|")
        yield from (f"| {name} | {value:.3f} |" for name, value in figures.items())
        yield ""


def _speed_lines() -> Iterator[str]:
    values = curves.read(BENCHMARKS)
    pictures = curves.pictures(values)
    if not values:
        yield "No figures are committed yet: `python -m tests.lab.benchmarks --save` keeps them, on a quiet machine."
    for suite, result in values.items():
        machine = result["machine"]
        yield from (f"### `make bench` suite {suite}", "")
        yield f"{machine['date']}, commit {machine['commit']}: {machine['processor']}, {machine['memory']},"
        yield from (f"{machine['system']}, Python {machine['python']}.", "")
        if suite in pictures:
            yield from (f"![the suite {suite} as curves](../docs/benchmarks/{suite}.svg)", "")
        yield from _note_lines(suite)
        yield from ("| figure | value | goal |", "|---|---|---|")
        for figure in result["figures"]:
            limit = "" if figure["limit"] is None else f"at most {figure['limit']:g} {figure['unit']}".rstrip()
            value = f"{figure['value']:g} {figure['unit']}".rstrip()
            yield f"| {figure['what']} | {value} | {limit or '-'} |"
        yield ""


if __name__ == "__main__":
    write()
