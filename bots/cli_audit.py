"""The command about commands: `kimas audit`."""

from __future__ import annotations

from pathlib import Path

import click

from bots.command import as_json_option, configured, load, run


@click.command()
@configured
@as_json_option
@click.option("--entries", default=20, show_default=True, type=click.IntRange(1, 100_000), help="How many to show.")
def audit(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, entries: int) -> None:
    """Show who changed what by a command.

    The newest entries first, with what was refused.
    """

    async def work() -> int:
        from bots.audit import audit

        return await audit(load(files, overrides), entries, as_json=as_json)

    run(work())
