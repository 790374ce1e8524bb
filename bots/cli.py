"""The command line. Results go to standard output, the log and what went wrong to standard error."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from bots.command import as_json_option, corpus_option
from bots.command import configured as _configured
from bots.command import load as _settings
from bots.command import run as _run

if TYPE_CHECKING:
    pass


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@_configured
@click.version_option(package_name="kimas")
@click.pass_context
def main(context: click.Context, files: tuple[Path, ...], overrides: tuple[str, ...]) -> None:
    """Answer questions in group chats from your knowledge, with citations.

    --config and --set may stand before or behind the command.
    """
    context.obj = (files, overrides)
    # Before NumPy is loaded: our matrix products are small, and threads that wait by spinning slow everything else.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@main.command()
@_configured
@as_json_option
@click.argument("question")
def ask(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, question: str) -> None:
    """Answer one question, with citations. QUESTION may be - for standard input."""

    async def work() -> int:
        from bots.actions import ask

        text = sys.stdin.read() if question == "-" else question
        return await ask(_settings(files, overrides), text, as_json=as_json)

    _run(work())


@main.command()
@_configured
def chat(files: tuple[Path, ...], overrides: tuple[str, ...]) -> None:
    """Hold a conversation in the terminal."""

    async def work() -> int:
        from bots.actions import chat

        return await chat(_settings(files, overrides))

    _run(work())


@main.command()
@_configured
@as_json_option
@click.option("--agent", default="", metavar="NAME", help="Search this agent's sources only.")
@click.option("--top-k", default=8, show_default=True, type=click.IntRange(1, 1000), help="Passages to show.")
@click.option("--explain", is_flag=True, help="Show every score on the way: of all agents, and behind each passage.")
@click.argument("query")
def search(  # noqa: PLR0917 (click passes them by name)
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    as_json: bool,
    agent: str,
    top_k: int,
    explain: bool,
    query: str,
) -> None:
    """Retrieve passages, without a language model."""

    async def work() -> int:
        from bots.actions import search

        return await search(_settings(files, overrides), query, agent, top_k, as_json=as_json, explain=explain)

    _run(work())


@main.command()
@_configured
@as_json_option
@click.option("--rebuild", is_flag=True, help="Empty the store first: for another embedding model or a damaged store.")
@click.argument("sources", nargs=-1)
def ingest(
    files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, rebuild: bool, sources: tuple[str, ...]
) -> None:
    """Refresh knowledge: all sources, or the named ones."""

    async def work() -> int:
        from bots.actions import ingest

        return await ingest(_settings(files, overrides), sources, rebuild=rebuild, as_json=as_json)

    _run(work())


@main.command()
@_configured
@as_json_option
@click.option("--live", is_flag=True, help="Also reach the models and platforms.")
def check(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, live: bool) -> None:
    """Validate the configuration, credentials and reachability."""

    async def work() -> int:
        from bots.actions import check

        return await check(_settings(files, overrides), live=live, as_json=as_json)

    _run(work())


@main.command()
@_configured
@as_json_option
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 36500), help="Days to show, with today.")
def usage(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, days: int) -> None:
    """Show the tokens and the cost of answers, by day and by agent."""

    async def work() -> int:
        from bots.actions import usage

        return await usage(_settings(files, overrides), days, as_json=as_json)

    _run(work())


@main.command()
@click.argument("path", default="kimas.yaml", type=click.Path(path_type=Path))
def init(path: Path) -> None:
    """Write a starter configuration."""

    async def work() -> int:
        from bots.starter import write_starter

        write_starter(path)
        click.echo(f"{path} is written. Next: edit its sources, then `kimas ingest` and `kimas chat`.")
        return 0

    _run(work())


@main.command()
@_configured
def run(files: tuple[Path, ...], overrides: tuple[str, ...]) -> None:
    """Run the daemon: answer on all configured platforms and keep the knowledge fresh."""

    async def work() -> int:
        from bots.runner import run

        return await run(_settings(files, overrides, daemon=True))

    _run(work())


@main.group()
def store() -> None:
    """Work on the passage store as a whole."""


@store.command("copy")
@_configured
@as_json_option
@click.option("--to", required=True, type=click.Choice(["weaviate", "lance"]), help="The store that is filled.")
def copy_store(
    files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, to: Literal["weaviate", "lance"]
) -> None:
    """Copy knowledge into the other store, with its vectors: nothing is embedded again."""

    async def work() -> int:
        from bots.store import copy

        return await copy(_settings(files, overrides), to, as_json=as_json)

    _run(work())


@main.group("eval")
def evaluate() -> None:
    """Measure parts of the line on labelled data (JSON Lines)."""


@evaluate.command("citations")
@_configured
@as_json_option
@click.argument("data", type=click.Path(path_type=Path))
def evaluate_citations(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, data: Path) -> None:
    """Measure how well citations are looked back for, and how well false ones are taken away."""

    async def work() -> int:
        from bots.evaluate import citations

        return await citations(_settings(files, overrides), data, as_json=as_json)

    _run(work())


@evaluate.command("retrieval")
@_configured
@as_json_option
@corpus_option
@click.option("--fit", is_flag=True, help="Also fit the weight of meaning against words, and print it as YAML.")
@click.argument("data", type=click.Path(path_type=Path))
def evaluate_retrieval(  # noqa: PLR0917 (click passes them by name)
    files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, corpus: Path | None, fit: bool, data: Path
) -> None:
    """Measure how well questions find their documents: as asked, rewritten by rule, and by the light model."""

    async def work() -> int:
        from bots.evaluate_retrieval import retrieval

        return await retrieval(_settings(files, overrides), data, corpus, fit=fit, as_json=as_json)

    _run(work())


@evaluate.command("routing")
@_configured
@as_json_option
@corpus_option
@click.option("--fit", is_flag=True, help="Also fit the agents' scales and the threshold, and print them as YAML.")
@click.argument("data", type=click.Path(path_type=Path))
def evaluate_routing(  # noqa: PLR0917 (click passes them by name)
    files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, corpus: Path | None, fit: bool, data: Path
) -> None:
    """Measure how well questions find their agents, and how many searches that saves."""

    async def work() -> int:
        from bots.evaluate_retrieval import routing

        return await routing(_settings(files, overrides), data, corpus, fit=fit, as_json=as_json)

    _run(work())


@evaluate.command("gate")
@_configured
@as_json_option
@corpus_option
@click.option("--fit", is_flag=True, help="Also fit the weights and the threshold, and print them as YAML.")
@click.argument("data", type=click.Path(path_type=Path))
def evaluate_gate(  # noqa: PLR0917 (click passes them by name)
    files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, corpus: Path | None, fit: bool, data: Path
) -> None:
    """Measure how well the bot knows when to speak unasked."""

    async def work() -> int:
        from bots.evaluate_gate import gate

        return await gate(_settings(files, overrides), data, corpus, fit=fit, as_json=as_json)

    _run(work())


if __name__ == "__main__":
    main()
