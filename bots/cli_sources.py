"""The commands about sources: `kimas sources`, `kimas sources pause` and `resume`."""

from __future__ import annotations

from pathlib import Path

import click

from bots.command import as_json_option, configured, load, run


@click.group(invoke_without_command=True)
@configured
@as_json_option
@click.pass_context
def sources(context: click.Context, files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool) -> None:
    """Show how every source stands.

    What is stored, when it was refreshed, when it will be, and what went wrong.
    """
    if context.invoked_subcommand is not None:
        # What stands between the two names counts for the second.
        root = context.find_root()
        root.obj = ((*root.obj[0], *files), (*root.obj[1], *overrides))
        return

    async def work() -> int:
        from bots.sources import sources

        return await sources(load(files, overrides), as_json=as_json)

    run(work())


@sources.command()
@configured
@click.argument("name")
def pause(files: tuple[Path, ...], overrides: tuple[str, ...], name: str) -> None:
    """Refresh a source only when asked, until it is resumed.

    What it knows stays in use. A daemon beside it sees that within a minute.
    """
    _plan(files, overrides, name, paused=True)


@sources.command()
@configured
@click.argument("name")
def resume(files: tuple[Path, ...], overrides: tuple[str, ...], name: str) -> None:
    """Refresh a source by its plan again; what was missed comes once."""
    _plan(files, overrides, name, paused=False)


def _plan(files: tuple[Path, ...], overrides: tuple[str, ...], name: str, *, paused: bool) -> None:
    async def work() -> int:
        from bots.sources import plan

        return await plan(load(files, overrides), name, paused=paused)

    run(work())
