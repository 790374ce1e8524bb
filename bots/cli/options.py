"""What every command has in common: its options, its settings, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from core.errors import ConfigurationError, KimasError

if TYPE_CHECKING:
    from core.settings import Settings

# Where the values of the configured secrets are kept, for `_print_error` to hide.
SECRETS_META_KEY = "kimas.secrets"

Function = TypeVar("Function", bound=Callable[..., Any])


def config_options(function: Function) -> Function:
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
corpus_option = click.option(
    "--corpus", type=click.Path(path_type=Path), metavar="FILE", help="Documents (JSON Lines) in place of the sources."
)


def load_cli_settings(files: tuple[Path, ...], overrides: tuple[str, ...], *, daemon: bool = False) -> Settings:
    """Load the settings that the options before and behind a command name, and set the log up by them.

    Raises `ConfigurationError`.
    """
    from core.observability.logs import configure_logs
    from core.settings.loader import find_default_files, get_secret_values, load_settings

    root_options: tuple[tuple[Path, ...], tuple[str, ...]] = click.get_current_context().find_root().obj
    config_files = (*root_options[0], *files)
    settings = load_settings(config_files or find_default_files(), (*root_options[1], *overrides))
    log = settings.log
    # A command prints its result; of the log only warnings are of interest, unless the configuration asks for more.
    if not daemon and log.level == "info":
        log = log.model_copy(update={"level": "warning"})
    secrets = get_secret_values(settings)
    click.get_current_context().meta[SECRETS_META_KEY] = secrets
    configure_logs(log, secrets=secrets)
    return settings


def make_settings_reloader(files: tuple[Path, ...], overrides: tuple[str, ...]) -> Callable[[], Awaitable[Settings]]:
    """Return a function that reads the settings again. It raises `ConfigurationError`."""
    from core.settings.loader import find_default_files, load_settings

    root_options: tuple[tuple[Path, ...], tuple[str, ...]] = click.get_current_context().find_root().obj
    config_files, config_overrides = (*root_options[0], *files), (*root_options[1], *overrides)

    async def reload_settings() -> Settings:
        return await asyncio.to_thread(lambda: load_settings(config_files or find_default_files(), config_overrides))

    return reload_settings


def run_command(
    path: str,
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    *arguments: Any,
    daemon: bool = False,
    **options: Any,
) -> None:
    """Load the settings and run what does the work, `module:function`, to its exit code.

    It is imported here and no sooner: what one command needs, no other has to load.
    """

    async def work() -> int:
        settings = load_cli_settings(files, overrides, daemon=daemon)
        exit_code: int = await import_by_path(path)(settings, *arguments, **options)
        return exit_code

    run(work())


def import_by_path(path: str) -> Any:
    """Return what a path names: `module:attribute`."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def run(coroutine: Coroutine[Any, Any, int]) -> None:
    """Run a command to its exit code; an expected error becomes its message."""
    # Loading makes many objects that stay: looking for garbage among them costs a tenth of the start. `open_app`
    # switches the collector on again.
    gc.disable()
    try:
        code = asyncio.run(coroutine)
    except ConfigurationError as error:
        for reason in error.errors:
            _print_error(f"configuration: {reason}")
        code = error.exit_code
    except KimasError as error:
        _print_error(f"kimas: {error}")
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    finally:
        gc.enable()
    sys.exit(code)


def _print_error(message: str) -> None:
    """Print what went wrong, without secrets and without characters that the terminal would obey."""
    from bots.common.terminal import strip_control_characters
    from core.observability.logs import make_redactor

    redact = make_redactor(click.get_current_context().meta.get(SECRETS_META_KEY, ()))
    click.echo(strip_control_characters(redact(message)), err=True)
