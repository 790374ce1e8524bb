"""The command line. Results go to standard output, the log and what went wrong to standard error."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from core.errors import ConfigurationError, KimasError

if TYPE_CHECKING:
    from core.settings import Settings

# Where the values of the configured secrets are noted, for `_complain` to hide.
SECRETS = "kimas.secrets"

Function = TypeVar("Function", bound=Callable[..., Any])


def _configured(function: Function) -> Function:
    """Take --config and --set."""
    function = click.option(
        "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set one value by its path; repeatable."
    )(function)
    return click.option(
        "--config",
        "files",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A configuration file; repeatable, later ones win.",
    )(function)


as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


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
@click.argument("query")
def search(  # noqa: PLR0917 (click passes them by name)
    files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, agent: str, top_k: int, query: str
) -> None:
    """Retrieve passages, without a language model."""

    async def work() -> int:
        from bots.actions import search

        return await search(_settings(files, overrides), query, agent, top_k, as_json=as_json)

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


def _settings(files: tuple[Path, ...], overrides: tuple[str, ...], *, daemon: bool = False) -> Settings:
    from core.configuration import default_files, load_settings, secret_values
    from core.logs import configure_logs

    before: tuple[tuple[Path, ...], tuple[str, ...]] = click.get_current_context().find_root().obj
    chosen = (*before[0], *files)
    settings = load_settings(chosen or default_files(), (*before[1], *overrides))
    log = settings.log
    # A command prints its result; of the log only warnings are of interest, unless the configuration asks for more.
    if not daemon and log.level == "info":
        log = log.model_copy(update={"level": "warning"})
    secrets = secret_values(settings)
    click.get_current_context().meta[SECRETS] = secrets
    configure_logs(log, secrets=secrets)
    return settings


def _run(work: Coroutine[Any, Any, int]) -> None:
    """Run a command to its exit code; an expected error becomes its message."""
    # Loading makes many objects that stay: looking for garbage among them costs a tenth of the start. `open_app` goes
    # back to normal.
    gc.disable()
    try:
        code = asyncio.run(work)
    except ConfigurationError as error:
        for fault in error.faults:
            _complain(f"configuration: {fault}")
        code = error.exit_code
    except KimasError as error:
        _complain(f"kimas: {error}")
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    finally:
        gc.enable()
    sys.exit(code)


def _complain(message: str) -> None:
    """Print what went wrong, without secrets and without characters that the terminal would obey."""
    from bots.console import printable
    from core.logs import redactor

    hide = redactor(click.get_current_context().meta.get(SECRETS, ()))
    click.echo(printable(hide(message)), err=True)


if __name__ == "__main__":
    main()
