"""The bot as the daemon wires it, with everything that leaves it watched, and moments at which something may happen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bots.api.server import serve_api
from bots.daemon.bootstrap import make_live_settings, open_app
from core.observability.metrics import PrometheusMetrics
from core.storage.messages import Journal
from knowledge.parsing.parser import ThreadParser
from tests.support.audience_truth import Configuration, tell
from tests.support.interleaving import InterruptedEmbedder, InterruptedPeer, Interruptions, Watch
from tests.support.recording_bot import Bot
from tests.support.watched_doors import Doors
from tests.support.watched_platforms import PLATFORMS, WatchedAdapter


@dataclass(frozen=True)
class WatchedBot:
    """The bot, its models, the doors by which programs and visitors ask, and what it counts."""

    bot: Bot
    models: Sequence[InterruptedPeer]
    doors: Doors
    metrics: PrometheusMetrics


CHOICE = '{"strategy": "single", "query": ""}'


def write_documents(folder: Path) -> None:
    """Write what everybody may read, and the closed folder."""
    (folder / "docs").mkdir()
    (folder / "docs" / "start.md").write_text("# Launcher\n\nIts release date is announced on the site.\n", "utf-8")
    (folder / "team").mkdir()
    text = "# bilby\n\nThe release date of the launcher is the first of May, numbat.\n"
    (folder / "team" / "dunnart.md").write_text(text, "utf-8")


@asynccontextmanager
async def open_watched_bot(
    folder: Path, documents: Path, configuration: Configuration, interruptions: Interruptions, watch: Watch
) -> AsyncIterator[WatchedBot]:
    """Run the bot with two models until the block ends; the second one is for chats that have models of their own."""
    async with AsyncExitStack() as stack:
        peers = [InterruptedPeer(interruptions, write=tell, talk=tell, choose=CHOICE) for _ in range(2)]
        models = [await stack.enter_async_context(peer) for peer in peers]
        settings = configuration.make_settings(folder, documents, models)
        settings.data_dir.mkdir(exist_ok=True)
        journal = await Journal.open(settings.data_dir / "journal.db")
        stack.push_async_callback(journal.close)
        live = make_live_settings(settings, journal.database)
        # What another daemon says counts at once: otherwise a clock would decide.
        live.overrides._cache_ttl_s = 0
        embedder = InterruptedEmbedder(interruptions=interruptions)
        metrics = PrometheusMetrics(settings.budget.deadline_s)
        parts: dict[str, Any] = {
            "embedder": embedder,
            "database": journal.database,
            "live": live,
            "parser": ThreadParser(),
        }
        app = await stack.enter_async_context(open_app(settings, **parts, metrics_recorder=metrics))
        await live.publish_audiences(settings)
        serving = serve_api(settings.api, live, app.answer, app.get_deps, 8, journal=journal)
        doors = Doors(f"http://127.0.0.1:{await stack.enter_async_context(serving)}")
        bot = Bot(app, journal, None, models[0], live)
        bot.dispatcher.context.take_up = bot.take_up
        for platform in PLATFORMS:
            adapter = WatchedAdapter(platform, watch=watch, interruptions=interruptions)
            bot.adapters[platform] = adapter
            bot.processor.drafts.adapters[platform] = adapter
        locks = (live.overrides._load_lock, live._reload_lock, bot.scheduler.notify_lock)
        interruptions.locks = (*locks, journal.database._write_lock)  # type: ignore[assignment]
        yield WatchedBot(bot, models, doors, metrics)
