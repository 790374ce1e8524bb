"""The commands that look after records and sources: `audit`, `sources`, `feedback` and `faq`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bots.cli.options import as_json_option, config_options, run_command

if TYPE_CHECKING:
    from core.storage.lessons import ReviewState


@click.command()
@config_options
@as_json_option
@click.option("--entries", default=20, show_default=True, type=click.IntRange(1, 100_000), help="How many to show.")
def audit(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, entries: int) -> None:
    """Show who changed what by a command.

    The newest entries first, with what was refused.
    """
    run_command("bots.cli.audit:audit", files, overrides, entries, as_json=as_json)


@click.group(invoke_without_command=True)
@config_options
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

    run_command("bots.cli.sources:sources", files, overrides, as_json=as_json)


@sources.command()
@config_options
@click.argument("name")
def pause(files: tuple[Path, ...], overrides: tuple[str, ...], name: str) -> None:
    """Refresh a source only when asked, until it is resumed.

    What it knows stays in use. A daemon beside it sees that within a minute.
    """
    _set_paused(files, overrides, name, paused=True)


@sources.command()
@config_options
@click.argument("name")
def resume(files: tuple[Path, ...], overrides: tuple[str, ...], name: str) -> None:
    """Refresh a source by its plan again; what was missed comes once."""
    _set_paused(files, overrides, name, paused=False)


def _set_paused(files: tuple[Path, ...], overrides: tuple[str, ...], name: str, *, paused: bool) -> None:
    run_command("bots.cli.sources:set_paused", files, overrides, name, paused=paused)


@click.command()
@config_options
@as_json_option
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 36500), help="Days to show, with today.")
@click.option("--labels", is_flag=True, help="Print the rated questions as labelled lines for `kimas eval gate`.")
@click.option("--calibrate", is_flag=True, help="Fit the threshold of the chat to its rated questions, and show it.")
@click.option("--apply", "apply_", is_flag=True, help="With --calibrate: set it, where it does better.")
@click.option("--chat", default="", metavar="PLATFORM:CHAT", help="With --labels, --calibrate: of this chat alone.")
def feedback(  # noqa: PLR0917 (click passes them by name)
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    as_json: bool,
    days: int,
    labels: bool,
    calibrate: bool,
    apply_: bool,
    chat: str,
) -> None:
    """Show what people said about answers, by day."""
    if apply_ and not calibrate:
        raise click.UsageError("--apply sets what --calibrate finds: give that with it")
    if calibrate and labels:
        raise click.UsageError("--labels and --calibrate are two things: give one of them")
    if calibrate:
        run_command("bots.cli.calibrate:calibrate", files, overrides, chat, apply=apply_, as_json=as_json)
    run_command("bots.cli.feedback:feedback", files, overrides, days, as_json=as_json, labels=labels, chat=chat)


@click.group()
def faq() -> None:
    """Review the answers that people gave.

    What is approved becomes knowledge, by a source of the kind learned.
    """


@faq.command("list")
@config_options
@as_json_option
@click.option(
    "--state", default="pending", show_default=True, type=click.Choice(["pending", "approved", "rejected", "all"])
)
def list_answers(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, state: str) -> None:
    """Show answers, by default those that wait for a review."""
    review_state = None if state == "all" else state
    run_command("bots.cli.faq:list_answers", files, overrides, review_state, as_json=as_json)


@faq.command()
@config_options
@as_json_option
@click.argument("number", type=click.IntRange(1))
def approve(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, number: int) -> None:
    """Make an answer knowledge, from the next refresh on."""
    _review_answer(files, overrides, number, "approved", as_json=as_json)


@faq.command()
@config_options
@as_json_option
@click.argument("number", type=click.IntRange(1))
def reject(files: tuple[Path, ...], overrides: tuple[str, ...], as_json: bool, number: int) -> None:
    """Keep an answer from becoming knowledge, or take it out again."""
    _review_answer(files, overrides, number, "rejected", as_json=as_json)


@faq.command()
@config_options
def export(files: tuple[Path, ...], overrides: tuple[str, ...]) -> None:
    """Print the approved answers as JSON Lines.

    A source of the kind faq reads them.
    """
    run_command("bots.cli.faq:export_answers", files, overrides)


def _review_answer(
    files: tuple[Path, ...], overrides: tuple[str, ...], number: int, state: ReviewState, *, as_json: bool
) -> None:
    run_command("bots.cli.faq:review_answer", files, overrides, number, state, as_json=as_json)
