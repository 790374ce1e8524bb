"""`kimas init --browser`: runs KIMAs with nothing configured yet, and shows an address where the rest is entered."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NoReturn

import click

from bots.cli.browser_setup import BrowserSetup
from bots.cli.env_file import get_env_path
from bots.cli.init_template import PAGE_KEY, PAGE_KEY_BYTES, Answers, check_is_new, find_port, write_config
from bots.cli.options import load_cli_settings, make_settings_reloader, run
from core.errors import KimasError, UsageError

# Whoever sets up sits at this machine.
OVERRIDES = ("operator_page.host=127.0.0.1",)


def init_in_browser(path: Path, api_url: str) -> NoReturn:
    """Write a configuration without sources, unless the file exists, and run it until it is stopped.

    Raises click's `UsageError` where it cannot be written.
    """
    # What members wrote, and private knowledge, is for this account only.
    os.umask(0o077)
    if not path.is_file():
        try:
            check_is_new(get_env_path(path))
            page_key = secrets.token_urlsafe(PAGE_KEY_BYTES)
            write_config(path, Answers(is_empty=True, page_port=find_port(), secrets={PAGE_KEY: page_key}))
        except UsageError as error:
            raise click.UsageError(str(error)) from error
        click.echo(f"{path} is written, and {get_env_path(path).name} with the token of the page.")
    setup = BrowserSetup(path, can_restart=True, overrides=OVERRIDES, api_url=api_url, show_address=_show_address)
    # The commands that read the settings again look for its options there.
    click.get_current_context().find_root().obj = ((path,), OVERRIDES)
    run(_run(setup))


async def _run(setup: BrowserSetup) -> int:
    """Run the daemon, and again after each restart that the page asks for. Raises `KimasError`."""
    from bots.daemon.runner import run as run_daemon

    while True:
        setup.is_restarting = False
        settings = load_cli_settings((), (), is_daemon=True)
        if settings.operator_page.port is None:
            raise UsageError(f"{setup.file} has no operator_page.port: docs/operate.md#the-operators-page says how")
        try:
            code = await run_daemon(settings, reload_settings=make_settings_reloader((), ()), make_setup=lambda: setup)
        except KimasError:
            files = f"{setup.file}, or a secret in {setup.secrets_file}"
            click.echo(f"KIMAs has ended. Change what is wrong in {files}, and give the command again.", err=True)
            raise
        if not setup.is_restarting:
            return code


def _show_address(address: str) -> None:
    click.echo(f"\nOpen this address in a browser on this machine. It works once, for 15 minutes:\n\n  {address}\n")
    click.echo("Ctrl-C ends KIMAs.")
