"""`make quality`: measures judgement on public data, beside plain BM25, the goal and the figures of the last commit.

python -m tests.lab.quality fetch MIRROR [PART ...]   clone the public repositories that MIRROR lacks
python -m tests.lab.quality build MIRROR [PART ...]   build the data from MIRROR/OWNER+NAME/repo (bare git folders)
python -m tests.lab.quality run [--save] [PART ...]   measure every part that is built
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.table import Table

import tests.lab.quality as package
from tests.lab.quality.drawing import draw
from tests.lab.quality.figures import Figure, commit, committed

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / ".cache/quality"
PICTURES = ROOT / "docs/images"


def parts() -> dict[str, ModuleType]:
    """Return the modules of this package that measure something, by name."""
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")]
    modules = {name: importlib.import_module(f"tests.lab.quality.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "measure")}


def fetch(mirror: Path, parts: dict[str, ModuleType]) -> None:
    """Clone the repositories of these parts that are missing; raises `CalledProcessError` where one cannot be had."""
    for repository in sorted({repository for part in parts.values() for repository in part.REPOSITORIES}):
        clone = mirror / repository.replace("/", "+") / "repo"
        if not clone.is_dir():
            command = ["git", "clone", "--quiet", "--bare", f"https://github.com/{repository}", str(clone)]
            subprocess.run(command, check=True)
            print(f"{repository}: cloned")


def build(mirror: Path, parts: dict[str, ModuleType]) -> None:
    """Write the data of each part into `.cache/quality/PART`; name the repositories that are missing and go on."""
    for name, part in parts.items():
        missing_repositories = [
            repository
            for repository in part.REPOSITORIES
            if not (mirror / repository.replace("/", "+") / "repo").is_dir()
        ]
        if missing_repositories:
            print(f"{name}: not built; missing in {mirror}: {', '.join(missing_repositories)}", file=sys.stderr)
            continue
        data = DATA / name
        data.mkdir(parents=True, exist_ok=True)
        part.build(mirror, data)
        (data / "built").touch()
        print(f"{name}: built in {data}")


def run(parts: dict[str, ModuleType], *, save: bool) -> None:
    """Measure every part whose data is built, print the table and draw the pictures."""
    measured: dict[str, list[Figure]] = {}
    for name, part in parts.items():
        if part.REPOSITORIES and not (DATA / name / "built").exists():
            print(f"{name}: not measured; build its data first (python -m tests.lab.quality build)", file=sys.stderr)
            continue
        measured[name] = part.measure(DATA / name)
        if hasattr(part, "draw"):
            part.draw(DATA / name, PICTURES if save else DATA)
    Console(width=140).print(_table(measured))
    for name, figures in measured.items():
        pictures = PICTURES if save else DATA
        pictures.mkdir(parents=True, exist_ok=True)
        (pictures / f"quality-{name.replace('_', '-')}.svg").write_text(draw(name, figures), "utf-8")
    if save:
        commit(measured)


def _table(measured: dict[str, list[Figure]]) -> Table:
    table = Table("part", "figure", "value", "goal", "BM25 alone", "committed", "", box=None, header_style="bold")
    committed_figures = committed()
    for name, figures in measured.items():
        for figure in figures:
            last = committed_figures.get(name, {}).get(figure.name)
            symbol = "" if figure.goal is None else "[green]ok[/]" if figure.reaches_goal() else "[red]short[/]"
            table.add_row(
                name, figure.name, f"{figure.value:.3f}", *map(_cell, (figure.goal, figure.baseline, last)), symbol
            )
    return table


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def main() -> None:
    all_parts = parts()
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.quality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    fetch_parser = commands.add_parser("fetch")
    build_parser = commands.add_parser("build")
    run_parser = commands.add_parser("run")
    run_parser.add_argument("--save", action="store_true", help="keep the figures and the pictures for the next commit")
    for command in (fetch_parser, build_parser):
        command.add_argument("mirror", type=Path)
    for command in (fetch_parser, build_parser, run_parser):
        command.add_argument("parts", nargs="*", choices=[*all_parts, []], help="all of them unless named")
    options = parser.parse_args()
    selected_parts = {name: all_parts[name] for name in options.parts or all_parts}
    if options.command == "fetch":
        fetch(options.mirror, selected_parts)
    elif options.command == "build":
        build(options.mirror, selected_parts)
    else:
        run(selected_parts, save=options.save)


if __name__ == "__main__":
    main()
