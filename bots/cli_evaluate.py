"""`kimas eval`: the commands that measure, and their options."""

from __future__ import annotations

from pathlib import Path

import click

from bots.command import as_json_option, corpus_option
from bots.command import configured as _configured
from bots.command import load as _settings
from bots.command import run as _run

plot_option = click.option("--plot", type=click.Path(path_type=Path), metavar="F.png", help="Also draw it, as PNG.")


@click.group("eval")
def evaluate() -> None:
    """Measure parts of the line on labelled data (JSON Lines)."""


@evaluate.command("citations")
@_configured
@as_json_option
@plot_option
@click.argument("data", type=click.Path(path_type=Path))
def evaluate_citations(
    files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, plot: Path | None, data: Path
) -> None:
    """Measure how well citations are found and false ones removed.

    The look-back is measured, and the support check.
    """

    async def work() -> int:
        from bots.evaluate import citations

        return await citations(_settings(files, overrides), data, as_json=as_json, plot=plot)

    _run(work())


@evaluate.command("retrieval")
@_configured
@as_json_option
@corpus_option
@plot_option
@click.option("--fit", is_flag=True, help="Also fit the weight of meaning against words, and print it as YAML.")
@click.argument("data", type=click.Path(path_type=Path))
def evaluate_retrieval(  # noqa: PLR0917 (click passes them by name)
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    as_json: bool,
    corpus: Path | None,
    plot: Path | None,
    fit: bool,
    data: Path,
) -> None:
    """Measure how well questions find their documents.

    As they were asked, rewritten by rule, and by the light model.
    """

    async def work() -> int:
        from bots.evaluate_retrieval import retrieval

        return await retrieval(_settings(files, overrides), data, corpus, fit=fit, as_json=as_json, plot=plot)

    _run(work())


@evaluate.command("routing")
@_configured
@as_json_option
@corpus_option
@plot_option
@click.option("--fit", is_flag=True, help="Also fit mix, scales and threshold, and print them as YAML.")
@click.argument("data", type=click.Path(path_type=Path))
def evaluate_routing(  # noqa: PLR0917 (click passes them by name)
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    as_json: bool,
    corpus: Path | None,
    plot: Path | None,
    fit: bool,
    data: Path,
) -> None:
    """Measure how well questions find their agents.

    And how many searches that saves.
    """

    async def work() -> int:
        from bots.evaluate_retrieval import routing

        return await routing(_settings(files, overrides), data, corpus, fit=fit, as_json=as_json, plot=plot)

    _run(work())


@evaluate.command("gate")
@_configured
@as_json_option
@corpus_option
@plot_option
@click.option("--fit", is_flag=True, help="Also fit the weights and the threshold, and print them as YAML.")
@click.argument("data", type=click.Path(path_type=Path))
def evaluate_gate(  # noqa: PLR0917 (click passes them by name)
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    as_json: bool,
    corpus: Path | None,
    plot: Path | None,
    fit: bool,
    data: Path,
) -> None:
    """Measure how well the bot knows when to speak unasked."""

    async def work() -> int:
        from bots.evaluate_gate import gate

        return await gate(_settings(files, overrides), data, corpus, fit=fit, as_json=as_json, plot=plot)

    _run(work())
