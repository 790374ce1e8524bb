"""The command line. Results go to standard output, the log and what went wrong to standard error."""

from __future__ import annotations

import os
from pathlib import Path

import click

from bots.cli.options import config_options, import_by_path

# Where each command is defined: looking one up loads its module, and no other.
COMMAND_PATHS = {
    "ask": "bots.cli.commands:ask",
    "audit": "bots.cli.maintenance:audit",
    "chat": "bots.cli.commands:chat",
    "check": "bots.cli.commands:check",
    "eval": "bots.cli.evaluate:evaluate",
    "faq": "bots.cli.maintenance:faq",
    "feedback": "bots.cli.maintenance:feedback",
    "ingest": "bots.cli.commands:ingest",
    "init": "bots.cli.commands:init",
    "run": "bots.cli.commands:run_daemon",
    "search": "bots.cli.commands:search",
    "sources": "bots.cli.maintenance:sources",
    "store": "bots.cli.commands:store",
    "usage": "bots.cli.commands:usage",
}


class LazyGroup(click.Group):
    """A group that imports a command when somebody asks for it."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the alphabet."""
        return sorted(COMMAND_PATHS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command by its name, or None for another name."""
        if name not in COMMAND_PATHS:
            return None
        command: click.Command = import_by_path(COMMAND_PATHS[name])
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@config_options
@click.version_option(package_name="kimas")
@click.pass_context
def main(context: click.Context, files: tuple[Path, ...], overrides: tuple[str, ...]) -> None:
    """Answer questions in group chats from your knowledge, with citations.

    --config and --set may stand before or behind the command.
    """
    context.obj = (files, overrides)
    # Before NumPy is loaded: our matrix products are small, and threads that wait by spinning slow everything else.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


if __name__ == "__main__":
    main()
