"""`kimas eval`: the commands that measure, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bots.cli.options import as_json_option, config_options, corpus_option, run_command

plot_option = click.option("--plot", type=click.Path(path_type=Path), metavar="F.png", help="Also draw it, as PNG.")


@click.group("eval")
def evaluate() -> None:
    """Measure parts of the pipeline on labelled data (JSON Lines)."""


def _make_command(
    name: str, path: str, help_text: str, fit_help: str = "", *, has_corpus: bool = False
) -> click.Command:
    """Return the command that measures one kind of data, by what `path` names.

    `fit_help` says what its --fit does; such a command takes a corpus too.
    """

    def command_function(files: tuple[Path, ...], overrides: tuple[str, ...], data: Path, **options: Any) -> None:
        run_command(path, files, overrides, data, **options)

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
        "bots.evaluation.citations:citations",
        "Measure how well citations are found and false ones removed.\n\n"
        "The look-back is measured, and the support check.",
    )
)
evaluate.add_command(
    _make_command(
        "retrieval",
        "bots.evaluation.retrieval:retrieval",
        "Measure how well questions find their documents.\n\n"
        "As they were asked, rewritten by rule, and by the light model.",
        "the weight of meaning against words, and print it",
    )
)
evaluate.add_command(
    _make_command(
        "routing",
        "bots.evaluation.routing:routing",
        "Measure how well questions find their agents.\n\nAnd how many searches that saves.",
        "mix, scales and threshold, and print them",
    )
)
evaluate.add_command(
    _make_command(
        "gate",
        "bots.evaluation.gate:gate",
        "Measure how well the bot knows when to speak unasked.",
        "the weights and the threshold, and print them",
    )
)
evaluate.add_command(
    _make_command(
        "answers",
        "bots.evaluation.answers:answers",
        "Measure whole answers: words, citations, times.\n\n"
        "Every question is asked as `kimas ask` does, which costs what answers cost.",
        has_corpus=True,
    )
)
