"""What all commands share: options, loading the settings, exit codes."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from core.errors import ConfigurationError, KimasError

if TYPE_CHECKING:
    from core.settings import Settings

# Where click's context keeps the values of the configured secrets, for `_print_error` to hide.
SECRETS_META_KEY = "kimas.secrets"

Function = TypeVar("Function", bound=Callable[..., Any])
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


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


def load_cli_settings(files: tuple[Path, ...], overrides: tuple[str, ...], *, is_daemon: bool = False) -> Settings:
    """Load the settings that the options before and behind a command name, and configure the log.

    Raises `ConfigurationError`.
    """
    from core.observability.logs import configure_logs
    from core.settings.loader import get_secret_values

    settings = _make_loader(files, overrides)()
    log = settings.log
    # A command prints its result and logs only warnings, unless the configuration asks for more.
    if not is_daemon and log.level == "info":
        log = log.model_copy(update={"level": "warning"})
    secrets = get_secret_values(settings)
    click.get_current_context().meta[SECRETS_META_KEY] = secrets
    configure_logs(log, secrets=secrets)
    return settings


def make_settings_reloader(files: tuple[Path, ...], overrides: tuple[str, ...]) -> Callable[[], Awaitable[Settings]]:
    """Return a function that reads the settings again. It raises `ConfigurationError`."""
    return partial(asyncio.to_thread, _make_loader(files, overrides))


def _make_loader(files: tuple[Path, ...], overrides: tuple[str, ...]) -> Callable[[], Settings]:
    from core.settings.loader import find_default_files, load_settings

    root_files, root_overrides = click.get_current_context().find_root().obj
    config_files, config_overrides = (*root_files, *files), (*root_overrides, *overrides)
    return lambda: load_settings(config_files or find_default_files(), config_overrides)


def run_command(
    path: str, files: tuple[Path, ...], overrides: tuple[str, ...], *, is_daemon: bool = False, **options: Any
) -> NoReturn:
    """Load the settings, run the function at `path` (`module:function`) with the options, and exit with its code.

    The module loads here and no sooner: no command loads what only others need.
    """

    async def run_with_settings() -> int:
        settings = load_cli_settings(files, overrides, is_daemon=is_daemon)
        exit_code: int = await import_by_path(path)(settings, **options)
        return exit_code

    run(run_with_settings())


def import_by_path(path: str) -> Any:
    """Return what a path names: `module:attribute`."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def run(coroutine: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a command and exit with its code; an expected error becomes its message."""
    # Loading creates many objects that stay. Collecting garbage among them takes a tenth of the start; `open_app`
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
    """Print an error without secrets and control characters."""
    from core.observability.logs import make_redactor
    from core.text.formatting import strip_control_characters

    redact = make_redactor(click.get_current_context().meta.get(SECRETS_META_KEY, ()))
    click.echo(strip_control_characters(redact(message)), err=True)
