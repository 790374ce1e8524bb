"""`kimas eval`: the commands that measure, and their options."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bots.cli.options import as_json_option, configured, corpus_option, load, run

if TYPE_CHECKING:
    from core.settings import Settings

# What a command does: settings, labelled data and its options in, the exit code out.
Measure = Callable[..., Awaitable[int]]

plot_option = click.option("--plot", type=click.Path(path_type=Path), metavar="F.png", help="Also draw it, as PNG.")


@click.group("eval")
def evaluate() -> None:
    """Measure parts of the line on labelled data (JSON Lines)."""


async def _citations(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.citations import citations

    return await citations(settings, data, **options)


async def _retrieval(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.retrieval import retrieval

    return await retrieval(settings, data, **options)


async def _routing(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.routing import routing

    return await routing(settings, data, **options)


async def _gate(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.gate import gate

    return await gate(settings, data, **options)


async def _answers(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.answers import answers

    return await answers(settings, data, **options)


def _command(name: str, measure: Measure, says: str, fits: str = "", *, corpus: bool = False) -> click.Command:
    """Return the command that measures one kind of data. With `fits`, what its --fit does, it takes a corpus too."""

    def called(files: tuple[Path, ...], overrides: tuple[str, ...], data: Path, **options: Any) -> None:
        async def work() -> int:
            return await measure(load(files, overrides), data, **options)

        run(work())

    called = click.argument("data", type=click.Path(path_type=Path))(called)
    if fits:
        called = click.option("--fit", is_flag=True, help=f"Also fit {fits} as YAML.")(called)
    called = plot_option(called)
    if fits or corpus:
        called = corpus_option(called)
    return click.command(name, help=says)(configured(as_json_option(called)))


evaluate.add_command(
    _command(
        "citations",
        _citations,
        "Measure how well citations are found and false ones removed.\n\n"
        "The look-back is measured, and the support check.",
    )
)
evaluate.add_command(
    _command(
        "retrieval",
        _retrieval,
        "Measure how well questions find their documents.\n\n"
        "As they were asked, rewritten by rule, and by the light model.",
        "the weight of meaning against words, and print it",
    )
)
evaluate.add_command(
    _command(
        "routing",
        _routing,
        "Measure how well questions find their agents.\n\nAnd how many searches that saves.",
        "mix, scales and threshold, and print them",
    )
)
evaluate.add_command(
    _command(
        "gate",
        _gate,
        "Measure how well the bot knows when to speak unasked.",
        "the weights and the threshold, and print them",
    )
)
evaluate.add_command(
    _command(
        "answers",
        _answers,
        "Measure whole answers: words, citations, times.\n\n"
        "Every question is asked as `kimas ask` does, which costs what answers cost.",
        corpus=True,
    )
)
