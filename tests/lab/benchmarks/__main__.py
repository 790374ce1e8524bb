"""`make bench`: the speed that KIMAs promises, measured on this machine; its tables compare within one run only."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.lab import results
from tests.lab.benchmarks import (
    crowd,
    daemon,
    daemons,
    evaluation,
    history,
    ingest,
    kills,
    line,
    load,
    million,
    open_loop,
    operator_page,
    repository,
    routing,
    scale,
    search,
    sizes,
    stores,
    sustained,
    waterfall,
)
from tests.lab.benchmarks.figures import Figure

SUITES = {
    "ingest": ingest.measure,
    "sustained": sustained.measure,
    "repository": repository.measure,
    "search": search.measure,
    "routing": routing.measure,
    "evaluation": evaluation.measure,
    "scale": scale.measure,
    "sizes": sizes.measure,
    "stores": stores.measure,
    "million": million.measure,
    "line": line.measure,
    "history": history.measure,
    "crowd": crowd.measure,
    "open_loop": open_loop.measure,
    "waterfall": waterfall.measure,
    "daemon": daemon.measure,
    "daemons": daemons.measure,
    "kills": kills.measure,
    "load": load.measure,
    "operator_page": operator_page.measure,
}

# It takes hours: by its name alone.
LONGEST = "million"


async def measure(names: list[str]) -> tuple[dict[str, list[Figure]], list[str]]:
    """Return the figures of each suite, and the names of those that failed; what one costs is printed as it ends."""
    figures: dict[str, list[Figure]] = {}
    failed_names: list[str] = []
    # One folder for all: what one suite ingested the next one uses.
    with tempfile.TemporaryDirectory(prefix="kimas-bench-") as folder:
        for name in names:
            started_at = time.monotonic()
            try:
                figures[name] = await SUITES[name](Path(folder))
            except Exception:  # an hour of measurements is not lost to one suite; the exit code tells of it
                traceback.print_exc()
                failed_names.append(name)
            print(f"{name}: {time.monotonic() - started_at:.0f} s", file=sys.stderr, flush=True)
    return figures, failed_names


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"all but {LONGEST} unless named: {', '.join(SUITES)}"
    )
    parser.add_argument("--save", action="store_true", help="keep the figures in docs/benchmarks, with their pictures")
    options = parser.parse_args()
    if unknown_suites := [name for name in options.suites if name not in SUITES]:
        parser.error(f"no suite is named {unknown_suites[0]!r}; there are {', '.join(SUITES)}")
    table = Table("what", "measured", "promised", "", box=None, header_style="bold", pad_edge=False)
    all_figures, failed_names = asyncio.run(measure(options.suites or [name for name in SUITES if name != LONGEST]))
    for figure in (figure for figures in all_figures.values() for figure in figures):
        symbol = "" if figure.limit is None else "[green]ok[/]" if figure.value <= figure.limit else "[red]over[/]"
        limit = "" if figure.limit is None else f"under {figure.limit:g} {figure.unit}"
        table.add_row(figure.name, f"{figure.value:.4g} {figure.unit}", limit, symbol)
    Console().print(table)
    if options.save:
        results.save(all_figures)
    if failed_names:
        sys.exit(f"failed: {', '.join(failed_names)}")


if __name__ == "__main__":
    main()
