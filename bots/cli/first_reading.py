"""Reading of what was never read, before the first answer: by words, which takes seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from bots.cli.console import print_failures, redact_refresh_result
from bots.common.terminal import ingest_progress, make_console
from bots.daemon.bootstrap import App
from core.errors import UsageError
from core.formatting import pluralize, strip_source_prefix
from core.settings import LiveSource
from knowledge.ingestion.refresh import RefreshResult
from knowledge.ingestion.schedule import stored_sources
from knowledge.retrieval.library import KnowledgeLibrary

if TYPE_CHECKING:
    from knowledge.ingestion.sync import SyncProgress

# So many vectors are made at once, in so many seconds at most: the first answer is better for it.
MAX_FILLED_FIRST = 256
MAX_FILL_S = 10.0


async def read_first(app: App, *, is_trial: bool = False) -> None:
    """Read all stored sources where nothing is known of them yet; a trial's folder again, which costs little.

    Raises `UsageError` if nothing is known then, and no source is live.
    """
    library = app.library
    sources = app.settings.sources.values()
    has_live_source = any(isinstance(source, LiveSource) for source in sources)
    is_cheap = is_trial and all(source.kind == "files" for source in sources)
    if (library.is_empty and stored_sources(app.settings.sources)) or is_cheap:
        out = make_console(stderr=True)
        if library.is_empty:
            out.print("Reading the sources for the first time.", style="dim")
        with ingest_progress(out) as progress:
            result = await app.refresh((), progress, is_filling=False)
            if 0 < library.unfilled_count <= MAX_FILLED_FIRST:
                result = await _fill_in_time(app, progress, result)
        result = redact_refresh_result(result, app.settings)
        if library.is_empty and result.failures and not has_live_source:
            # Once: nothing else is known that the command could go on with.
            reasons = (strip_source_prefix(name, reason) for name, reason in result.failures.items())
            raise UsageError("\n".join(("there is nothing to answer from:", *reasons)))
        print_failures(out, result)
    if library.is_empty and not has_live_source:
        raise UsageError("there is nothing to answer from")


async def _fill_in_time(app: App, progress: Callable[[SyncProgress], None], result: RefreshResult) -> RefreshResult:
    """Make the vectors that are missing, unless that takes long; return the result of the refresh with that."""
    try:
        async with asyncio.timeout(MAX_FILL_S):
            filled = await app.fill(progress)
    except TimeoutError:
        return result
    return RefreshResult(result.reports, {**filled.failures, **result.failures})


def describe_unfilled(library: KnowledgeLibrary, *, is_trial: bool) -> str:
    """Say how much is found by words alone so far; empty where nothing is."""
    unfilled_count = library.unfilled_count
    if not unfilled_count:
        return ""
    amount = f"{unfilled_count:,} of {pluralize(library.passage_count, 'passage')}"
    ways = "`kimas chat` adds" if is_trial else "`kimas ingest`, `kimas run` and `kimas chat` add"
    return f"Found by words alone so far: {amount}; {ways} the search by meaning."
