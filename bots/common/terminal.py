"""Terminal helpers that several commands share: JSON output, tables, progress, printable text."""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.prompt import Confirm, Prompt

from core.formatting import format_duration, pluralize, strip_control_characters
from core.observability.logs import redirect_logs

if TYPE_CHECKING:
    from knowledge.ingestion.sync import SyncProgress

# Of Ctrl-C, pressed twice.
ECHOED_CHARS = 4


def make_console(*, stderr: bool = False) -> Console:
    """Return the terminal, or standard error."""
    return Console(stderr=stderr, highlight=False)


def print_json(value: object) -> None:
    """Print one object on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None) + "\n")


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """What leaves room at the end of a line: a `^C` that the terminal shows there would begin another one.

    All that is drawn after it would be a line further down, and what was there would stay.
    """

    inner: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self.inner, options.update_width(max(1, options.max_width - ECHOED_CHARS)))


class _Bars(Progress):
    def get_renderable(self) -> RenderableType:
        """Return what is drawn."""
        return _Narrowed(super().get_renderable())


@contextmanager
def ingest_progress(console: Console) -> Iterator[Callable[[SyncProgress], None]]:
    """Show one bar per source while the block runs; yields the function that moves them."""
    progress_bars = _Bars(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[amount]}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    task_ids: dict[tuple[str, bool], TaskID] = {}

    def on_progress(progress: SyncProgress) -> None:
        is_filling = progress.stage == "embedding"
        key = (progress.source, is_filling)
        if key not in task_ids:
            task_ids[key] = progress_bars.add_task(progress.source, total=None, amount="")
        done, total = (
            (progress.filled, progress.passages) if is_filling else (progress.documents_done, progress.documents_total)
        )
        seconds_left = progress_bars.tasks[task_ids[key]].time_remaining
        progress_bars.update(
            task_ids[key],
            completed=done,
            total=total,
            description=f"{progress.source} [dim]{progress.stage}[/]",
            amount=format_progress(progress, seconds_left),
        )

    with _shown_below_logs(progress_bars):
        yield on_progress


def format_progress(progress: SyncProgress, seconds_left: float | None) -> str:
    """Say how much of a source is read, or how much of it is found by words and by meaning."""
    amount = f"{pluralize(progress.passages, 'passage')} by words"
    time_left = f", {format_duration(math.ceil(seconds_left))} left" if seconds_left else ""
    if progress.stage == "embedding":
        return f"{amount}, {progress.filled:,} by meaning{time_left}"
    documents = f"{progress.documents_done:,} of {pluralize(progress.documents_total, 'document')}"
    return f"{documents}, {amount}{time_left}" if progress.documents_total else ""


@contextmanager
def step_progress(console: Console, totals: Mapping[str, int]) -> Iterator[Callable[[str], None]]:
    """Show a bar per named step while the block runs; yields the function that counts one more of a step."""
    progress_bars = _Bars(console=console, transient=True, disable=not console.is_terminal)
    task_ids = {name: progress_bars.add_task(name, total=total) for name, total in totals.items()}
    with _shown_below_logs(progress_bars):
        yield lambda name: progress_bars.advance(task_ids[name])


@contextmanager
def _shown_below_logs(progress_bars: Progress) -> Iterator[None]:
    """Show the bars while the block runs, and print log lines above them."""
    stderr = sys.stderr
    with ExitStack() as stack:
        stack.enter_context(progress_bars)
        # At a terminal, the bars have replaced standard error by a stream that prints above them, and the log still has
        # the stream from before. A log that goes to a file stays there.
        if stderr and stderr.isatty():
            stack.enter_context(redirect_logs(stderr, sys.stderr))
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise `KeyboardInterrupt` in the block, which waits for somebody to type.

    Under `asyncio.run`, the first Ctrl-C only cancels the main task. A task that waits for input blocks the event loop
    and never notices. Off the main thread this does nothing: no signal arrives there.
    """
    handler = signal.getsignal(signal.SIGINT)
    # Where the handler is no function, Ctrl-C is ignored or ends the process, as whoever started it wants.
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def confirm(question: str) -> bool:
    """Ask on standard error; True where nobody sits at a terminal who could answer. The end of the input is a no."""
    if sys.stdin is None or not sys.stdin.isatty():
        return True
    try:
        with interruptible():
            return Confirm.ask(escape(question), console=make_console(stderr=True), default=False)
    except EOFError:
        return False


def ask_choice(question: str, choices: Sequence[str]) -> str:
    """Ask at the terminal until the reply is one of the choices; the end of the input is the last one."""
    try:
        with interruptible():
            return Prompt.ask(question, console=make_console(stderr=True), choices=list(choices), show_choices=False)
    except EOFError:
        return choices[-1]


def ask_text(question: str, default: str) -> str:
    """Ask at the terminal for a line of text. What a default from outside holds does not steer the terminal."""
    default = strip_control_characters(default)
    with interruptible():
        return Prompt.ask(question, console=make_console(stderr=True), default=default, show_default=bool(default))


def format_table(rows: Sequence[Sequence[str]], left_columns: Sequence[int] = (0,)) -> Sequence[str]:
    """Return rows of cells as aligned lines: those of `left_columns` to the left, numbers to the right.

    >>> format_table([("name", "score"), ("docs", "0.9")])
    ['name  score', 'docs    0.9']
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in left_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
