"""`kimas eval`: the commands that measure, and their options."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bots.cli.options import as_json_option, config_options, corpus_option, load_cli_settings, run

if TYPE_CHECKING:
    from core.settings import Settings

# What a command does: settings, labelled data and its options in, the exit code out.
EvaluationRunner = Callable[..., Awaitable[int]]

plot_option = click.option("--plot", type=click.Path(path_type=Path), metavar="F.png", help="Also draw it, as PNG.")


@click.group("eval")
def evaluate() -> None:
    """Measure parts of the line on labelled data (JSON Lines)."""


async def _evaluate_citations(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.citations import citations

    return await citations(settings, data, **options)


async def _evaluate_retrieval(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.retrieval import retrieval

    return await retrieval(settings, data, **options)


async def _evaluate_routing(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.routing import routing

    return await routing(settings, data, **options)


async def _evaluate_gate(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.gate import gate

    return await gate(settings, data, **options)


async def _evaluate_answers(settings: Settings, data: Path, **options: Any) -> int:
    from bots.evaluation.answers import answers

    return await answers(settings, data, **options)


def _make_command(
    name: str, run_evaluation: EvaluationRunner, help_text: str, fit_help: str = "", *, has_corpus: bool = False
) -> click.Command:
    """Return the command that measures one kind of data. With `fits`, what its --fit does, it takes a corpus too."""

    def command_function(files: tuple[Path, ...], overrides: tuple[str, ...], data: Path, **options: Any) -> None:
        async def work() -> int:
            return await run_evaluation(load_cli_settings(files, overrides), data, **options)

        run(work())

    command_function = click.argument("data", type=click.Path(path_type=Path))(command_function)
    if fit_help:
        command_function = click.option("--fit", is_flag=True, help=f"Also fit {fit_help} as YAML.")(command_function)
    command_function = plot_option(command_function)
    if fit_help or has_corpus:
        command_function = corpus_option(command_function)
    return click.command(name, help=help_text)(config_options(as_json_option(command_function)))


evaluate.add_command(
    _make_command(
        "citations",
        _evaluate_citations,
        "Measure how well citations are found and false ones removed.\n\n"
        "The look-back is measured, and the support check.",
    )
)
evaluate.add_command(
    _make_command(
        "retrieval",
        _evaluate_retrieval,
        "Measure how well questions find their documents.\n\n"
        "As they were asked, rewritten by rule, and by the light model.",
        "the weight of meaning against words, and print it",
    )
)
evaluate.add_command(
    _make_command(
        "routing",
        _evaluate_routing,
        "Measure how well questions find their agents.\n\nAnd how many searches that saves.",
        "mix, scales and threshold, and print them",
    )
)
evaluate.add_command(
    _make_command(
        "gate",
        _evaluate_gate,
        "Measure how well the bot knows when to speak unasked.",
        "the weights and the threshold, and print them",
    )
)
evaluate.add_command(
    _make_command(
        "answers",
        _evaluate_answers,
        "Measure whole answers: words, citations, times.\n\n"
        "Every question is asked as `kimas ask` does, which costs what answers cost.",
        has_corpus=True,
    )
)
