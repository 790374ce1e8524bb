"""The common part of all commands: options, loading the settings, exit codes."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
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

# `bots` here, and `kimas.bots` where the wheel is installed.
BOTS_PACKAGE = __name__.removesuffix(".cli.options")

# What to do about errors of the operating system that are no fault of the program.
OS_ERROR_HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "check the permissions, and which account runs KIMAs"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files (ulimit -n, LimitNOFILE=)"),
}

# As a shell reports a process that SIGTERM ended.
EXIT_TERMINATED = 128 + signal.SIGTERM

Function = TypeVar("Function", bound=Callable[..., Any])
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
as_json_lines_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the proposed lines as JSON Lines, and ask nothing."
)
days_option = click.option(
    "--days", default=7, show_default=True, type=click.IntRange(1, 36500), help="Days to show, including today."
)
source_option = click.option(
    "--source", default="", metavar="PLACE", help="Answer from this folder, file or address, without a configuration."
)

# A command beside the service may not have their secrets, and uses none of them.
PLATFORM_SECTIONS = (
    "telegram",
    "discord",
    "slack",
    "mastodon",
    "bluesky",
    "github",
    "gitlab",
    "http",
    "bots",
    "operator_page",
    "api",
)

# Commands that only read or write knowledge or records need no models' keys, either.
NO_MODEL_SECTIONS = (*PLATFORM_SECTIONS, "models")


def open_missing_streams() -> None:
    """Open on /dev/null the standard streams that a supervisor closed: the next file would get their number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # It gets the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


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


def load_cli_settings(
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    *,
    is_daemon: bool = False,
    trial_source: str | None = None,
    unused_sections: Collection[str] = PLATFORM_SECTIONS,
) -> Settings:
    """Load the settings that the options before and behind a command name, and configure the log.

    With a `trial_source` there are no files. Secrets of `unused_sections` may be missing. Raises `ConfigurationError`.
    """
    from core.observability.logs import BackgroundStream, configure_logs
    from core.settings.loader import get_secret_values

    if trial_source is None:
        # A source that cannot be read fails alone: its disk may not be mounted yet, after a restart of the machine.
        load_settings = _make_loader(files, overrides, () if is_daemon else unused_sections, require_sources=False)
        settings = load_settings()
    else:
        load_trial_settings = import_by_path("cli.trial:load_trial_settings")
        settings = load_trial_settings(trial_source, (*click.get_current_context().find_root().obj[1], *overrides))
    log = settings.log
    # A command prints its result and logs only warnings, unless the configuration asks for more.
    if not is_daemon and log.level == "info":
        log = log.model_copy(update={"level": "warning"})
    secrets = get_secret_values(settings)
    click.get_current_context().meta[SECRETS_META_KEY] = secrets
    stream = BackgroundStream(sys.stderr) if is_daemon else None
    if stream:
        click.get_current_context().call_on_close(stream.close)
    configure_logs(log, stream, secrets)
    return settings


def make_settings_reloader(files: tuple[Path, ...], overrides: tuple[str, ...]) -> Callable[[], Awaitable[Settings]]:
    """Return a function that reads the settings again. It raises `ConfigurationError`."""
    return partial(asyncio.to_thread, _make_loader(files, overrides, require_sources=False))


def _make_loader(
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    unused_sections: Collection[str] = (),
    *,
    require_sources: bool = True,
) -> Callable[[], Settings]:
    from bots.cli.env_file import get_env_path, load_env_file
    from core.settings.loader import find_default_files, load_settings

    root_files, root_overrides = click.get_current_context().find_root().obj
    config_files = (*root_files, *files)
    config_overrides = (*root_overrides, *overrides)

    def load() -> Settings:
        chosen_files = config_files or find_default_files()
        variable_files: dict[str, Path] = {}
        for file in chosen_files:
            # The first one to set a variable has set it.
            variable_files = {**load_env_file(file), **variable_files}
        settings = load_settings(
            chosen_files,
            config_overrides,
            require_sources=require_sources,
            unused_sections=unused_sections,
            variable_files=variable_files,
        )
        return settings.with_files((*chosen_files, *map(get_env_path, chosen_files)))

    return load


def find_only_file(files: tuple[Path, ...]) -> Path | None:
    """Return the configuration file; None where there are several, or none."""
    from core.settings.loader import find_default_files

    chosen_files = (*click.get_current_context().find_root().obj[0], *files)
    try:
        only_file, *others = chosen_files or find_default_files()
    except ConfigurationError:
        return None
    return None if others else only_file


def find_trial_source(files: tuple[Path, ...], source: str) -> str | None:
    """Return what a command that needs no configuration answers from; None where a configuration says it.

    An empty text stands for the guide. Raises `UsageError` for both.
    """
    from core.settings.loader import find_default_files

    is_configured = bool(files or click.get_current_context().find_root().obj[0])
    if source:
        if is_configured:
            raise click.UsageError("--source and --config exclude each other: give one of them")
        return source
    try:
        return None if is_configured or find_default_files() else ""
    except ConfigurationError:
        return ""


def run_command(
    path: str,
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    *,
    is_daemon: bool = False,
    trial_source: str | None = None,
    unused_sections: Collection[str] = PLATFORM_SECTIONS,
    **options: Any,
) -> NoReturn:
    """Load the settings, run the function at `path` (`module:function`) with the options, and exit with its code.

    The module loads here and no sooner: no command loads what only others need.
    """

    async def run_with_settings() -> int:
        settings = load_cli_settings(
            files, overrides, is_daemon=is_daemon, trial_source=trial_source, unused_sections=unused_sections
        )
        exit_code: int = await import_by_path(path)(settings, **options)
        return exit_code

    run(run_with_settings())


def import_by_path(path: str) -> Any:
    """Return what a path names: `module:attribute`, the module as it is called below the package of all bots."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(f"{BOTS_PACKAGE}.{module}"), attribute)


def run(coroutine: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a command and exit with its code; an expected error becomes its message."""
    # Loading creates many objects that stay. Collecting garbage among them takes a tenth of the start; `open_app`
    # switches the collector on again.
    gc.disable()
    try:
        code = asyncio.run(_run_until_terminated(coroutine))
    except ConfigurationError as error:
        for reason in error.errors:
            _print_error(f"configuration: {reason}")
        code = error.exit_code
    except KimasError as error:
        _print_error(f"kimas: {error}")
        code = error.exit_code
    except OSError as error:
        if error.errno not in OS_ERROR_HINTS:
            raise
        place = f"{error.filename}: " if error.filename else ""
        _print_error(f"kimas: {place}{error.strerror}; {OS_ERROR_HINTS[error.errno]}")
        code = 1
    except KeyboardInterrupt:
        code = 130
    finally:
        gc.enable()
    sys.exit(code)


async def _run_until_terminated(coroutine: Coroutine[Any, Any, int]) -> int:
    """Run a command. SIGTERM cancels it, as Ctrl-C does, so that it gives back what it holds; a second one ends it."""
    command = asyncio.ensure_future(coroutine)
    is_terminated = asyncio.Event()
    loop = asyncio.get_running_loop()

    def terminate() -> None:
        is_terminated.set()
        loop.remove_signal_handler(signal.SIGTERM)
        command.cancel()

    # Signals go to the main thread alone. The daemon has a handler of its own, which takes the place of this one.
    if threading.current_thread() is threading.main_thread():
        loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await command
    except asyncio.CancelledError:
        if not is_terminated.is_set():
            raise
        return EXIT_TERMINATED


def _print_error(message: str) -> None:
    """Print an error without secrets and control characters."""
    from core.formatting import strip_control_characters
    from core.observability.logs import make_redactor

    redact = make_redactor(click.get_current_context().meta.get(SECRETS_META_KEY, ()))
    click.echo(strip_control_characters(redact(message)), err=True)
