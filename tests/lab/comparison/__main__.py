"""`make compare`: KIMAs beside a bare loop and other frameworks, on the same documents, questions, embedder and model.

    python -m tests.lab.comparison [--quick] [--only NAME ...] [--save]
    python -m tests.lab.comparison --judged MIRROR    build the judged questions from MIRROR/IBM+mt-rag-benchmark/repo
    python -m tests.lab.comparison --lock             pin the frameworks again

What a system showed is kept in `.cache/comparison`, so that the systems may be measured one by one. `--save` keeps the
figures of those that ran in docs/benchmarks. docs/quality.md says what is compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.lab import results
from tests.lab.comparison import environments, report
from tests.lab.comparison.runner import CACHE, FULL, JUDGED, QUICK, Report, WorkerFailedError, open_runner
from tests.lab.comparison.systems import SYSTEMS
from tests.lab.comparison.workload import build_judged
from tests.lab.quality import multi_turn


def compare(names: list[str], *, is_quick: bool) -> tuple[dict[str, Report], bool]:
    """Measure the systems one after the other; return their reports, and whether all of them came to an end."""
    reports: dict[str, Report] = {}
    latest_reports = load_reports(is_quick=is_quick)
    with open_runner(QUICK if is_quick else FULL, CACHE) as runner:
        for name in names:
            print(f"{SYSTEMS[name].title} ...", file=sys.stderr, flush=True)
            try:
                reports[name] = runner.run(name)
            except WorkerFailedError as error:
                print(error, file=sys.stderr)
            _file(is_quick=is_quick).write_text(json.dumps({**latest_reports, **reports}), "utf-8")
    return reports, len(reports) == len(names)


def load_reports(*, is_quick: bool) -> dict[str, Report]:
    """Return the last report of each system: quick ones and full ones are kept apart."""
    file = _file(is_quick=is_quick)
    values: dict[str, Report] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return {name: values[name] for name in SYSTEMS if name in values}


def _file(*, is_quick: bool) -> Path:
    return CACHE / ("quick.json" if is_quick else "full.json")


def show(reports: dict[str, Report]) -> None:
    """Print the table, and where KIMAs is behind."""
    titles = [SYSTEMS[name].title for name in reports]
    table = Table("", *titles, box=None, header_style="bold", pad_edge=False)
    section = ""
    for row in report.ROWS:
        if row.section != section:
            section = row.section
            table.add_row(f"[bold]{section}[/]")
        table.add_row(row.label, *(row.cell(values) for values in reports.values()))
    console = Console(width=190)
    console.print(table)
    for row, ahead in report.behind(reports):
        console.print(f"KIMAs is behind {', '.join(ahead)}: {row.section}, {row.label}")
    if not any("recall" in values for values in reports.values()):
        console.print("Retrieval was not measured: its questions are not built (--judged), or left out by --quick.")


def build(mirror: Path) -> None:
    """Build the judged questions, and their corpus."""
    JUDGED.mkdir(parents=True, exist_ok=True)
    multi_turn.build(mirror, JUDGED)
    print(f"{build_judged(mirror, JUDGED)} judged questions in {JUDGED}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.comparison", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer passages and questions, no judged ones")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="NAME", help="these alone")
    parser.add_argument("--save", action="store_true", help="keep the figures in docs, for the next commit")
    parser.add_argument("--judged", type=Path, metavar="MIRROR", help="build the judged questions, and measure nothing")
    parser.add_argument("--lock", action="store_true", help="pin the frameworks again, and measure nothing")
    options = parser.parse_args()
    if options.lock or options.judged:
        environments.lock() if options.lock else build(options.judged)
        return
    if options.quick and options.save:
        parser.error("a quick run is too short to be kept: --save wants a full one")
    reports, is_complete = compare(options.only, is_quick=options.quick)
    show(load_reports(is_quick=options.quick))
    if options.save:
        report.save(reports, results.describe_machine())
    sys.exit(0 if is_complete else 1)


if __name__ == "__main__":
    main()
