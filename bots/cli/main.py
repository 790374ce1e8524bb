"""The command line. Results go to standard output, the log and what went wrong to standard error."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

import click

from bots.cli.evaluate import evaluate
from bots.cli.maintenance import audit, faq, feedback, sources
from bots.cli.options import as_json_option, make_settings_reloader
from bots.cli.options import config_options as _configured
from bots.cli.options import load_cli_settings as _settings
from bots.cli.options import run as _run


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
    if question == "-":
        _require_stdin()

    async def work() -> int:
        from bots.cli.ask import ask

        text = sys.stdin.read() if question == "-" else question
        return await ask(_settings(files, overrides), text, as_json=as_json)

    _run(work())


@main.command()
@_configured
@click.option("--group", is_flag=True, help="Play a group: 'Ben: text' is said by Ben, @kimas means the bot.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="With --group: keep what is said there, and go on with it.",
)
def chat(files: tuple[Path, ...], overrides: tuple[str, ...], group: bool, keep: Path | None) -> None:
    """Hold a conversation in the terminal."""
    if keep and not group:
        raise click.UsageError("--keep belongs to --group")
    _require_stdin()

    async def work() -> int:
        from bots.cli.chat import chat
        from bots.cli.group import run_group_chat

        settings = _settings(files, overrides)
        return await (run_group_chat(settings, folder=keep) if group else chat(settings))

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
        from bots.cli.ask import search

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
        from bots.cli.ask import ingest

        return await ingest(_settings(files, overrides), sources, rebuild=rebuild, as_json=as_json)

    _run(work())


@main.command()
@_configured
@as_json_option
@click.option("--live", is_flag=True, help="Also reach the models and platforms.")
def check(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, live: bool) -> None:
    """Validate the configuration, credentials and reachability."""

    async def work() -> int:
        from bots.cli.ask import check

        return await check(_settings(files, overrides), live=live, as_json=as_json)

    _run(work())


@main.command()
@_configured
@as_json_option
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 36500), help="Days to show, with today.")
def usage(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, days: int) -> None:
    """Show the tokens and the cost of answers, by day and by agent."""

    async def work() -> int:
        from bots.cli.usage import usage

        return await usage(_settings(files, overrides), days, as_json=as_json)

    _run(work())


@main.command()
@click.argument("path", default="kimas.yaml", type=click.Path(path_type=Path))
def init(path: Path) -> None:
    """Write a starter configuration."""

    async def work() -> int:
        from bots.cli.init_template import write_config_template

        write_config_template(path)
        click.echo(
            f"{path} is written, and beside it a schema for editors. Next: name your sources in it, then "
            "`kimas check`, `kimas ingest` and `kimas chat`."
        )
        return 0

    _run(work())


@main.command()
@_configured
@click.option("--dry-run", "dry", is_flag=True, help="Read and decide as always, log what would be said, show nothing.")
def run(files: tuple[Path, ...], overrides: tuple[str, ...], dry: bool) -> None:
    """Run the daemon: answer on all platforms, keep knowledge fresh."""

    async def work() -> int:
        from bots.daemon.runner import run

        settings = _settings(files, overrides, daemon=True)
        return await run(settings, dry_run=dry, reload_settings=make_settings_reloader(files, overrides))

    _run(work())


main.add_command(sources)
main.add_command(audit)
main.add_command(feedback)
main.add_command(faq)


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
    """Copy knowledge into the other store.

    With its vectors: nothing is embedded again.
    """

    async def work() -> int:
        from bots.cli.store import copy_knowledge

        return await copy_knowledge(_settings(files, overrides), to, as_json=as_json)

    _run(work())


def _require_stdin() -> None:
    # Python has none where whoever started it closed it.
    if sys.stdin is None:
        raise click.UsageError("there is no standard input to read from")


main.add_command(evaluate)


if __name__ == "__main__":
    main()
