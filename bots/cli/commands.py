"""The commands that answer, read and run; each loads what it needs when it is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click

from bots.cli.options import as_json_option, config_options, make_settings_reloader, run_command
from bots.cli.options import run as run_coroutine


@click.command()
@config_options
@as_json_option
@click.argument("question")
def ask(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, question: str) -> None:
    """Answer one question, with citations. QUESTION may be - for standard input."""
    if question == "-":
        _require_stdin()
    run_command("bots.cli.ask:ask", files, overrides, question, as_json=as_json)


@click.command()
@config_options
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
    if group:
        run_command("bots.cli.group:run_group_chat", files, overrides, folder=keep)
    else:
        run_command("bots.cli.chat:chat", files, overrides)


@click.command()
@config_options
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
    run_command("bots.cli.ask:search", files, overrides, query, agent, top_k, as_json=as_json, explain=explain)


@click.command()
@config_options
@as_json_option
@click.option("--rebuild", is_flag=True, help="Empty the store first: for another embedding model or a damaged store.")
@click.argument("sources", nargs=-1)
def ingest(
    files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, rebuild: bool, sources: tuple[str, ...]
) -> None:
    """Refresh knowledge: all sources, or the named ones."""
    run_command("bots.cli.ask:ingest", files, overrides, sources, rebuild=rebuild, as_json=as_json)


@click.command()
@config_options
@as_json_option
@click.option("--live", is_flag=True, help="Also reach the models and platforms.")
def check(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, live: bool) -> None:
    """Validate the configuration, credentials and reachability."""
    run_command("bots.cli.check:run_check", files, overrides, live=live, as_json=as_json)


@click.command()
@config_options
@as_json_option
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 36500), help="Days to show, with today.")
def usage(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, days: int) -> None:
    """Show the tokens and the cost of answers, by day and by agent."""
    run_command("bots.cli.usage:usage", files, overrides, days, as_json=as_json)


@click.command()
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

    run_coroutine(work())


@click.command("run")
@config_options
@click.option("--dry-run", "dry", is_flag=True, help="Read and decide as always, log what would be said, show nothing.")
def run_daemon(files: tuple[Path, ...], overrides: tuple[str, ...], dry: bool) -> None:
    """Run the daemon: answer on all platforms, keep knowledge fresh."""
    reload_settings = make_settings_reloader(files, overrides)
    run_command("bots.daemon.runner:run", files, overrides, daemon=True, dry_run=dry, reload_settings=reload_settings)


@click.group()
def store() -> None:
    """Work on the whole passage store."""


@store.command("copy")
@config_options
@as_json_option
@click.option("--to", required=True, type=click.Choice(["weaviate", "lance"]), help="The store that is filled.")
def copy_store(
    files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, to: Literal["weaviate", "lance"]
) -> None:
    """Copy knowledge into the other store.

    With its vectors: nothing is embedded again.
    """
    run_command("bots.cli.store:copy_knowledge", files, overrides, to, as_json=as_json)


def _require_stdin() -> None:
    # Python has none where whoever started it closed it.
    if sys.stdin is None:
        raise click.UsageError("there is no standard input to read from")
