"""The bot as the daemon wires it, with everything that leaves it watched, and moments at which something may happen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web
from sqlalchemy import delete, insert

from bots.api.server import serve_api
from bots.daemon.bootstrap import make_live_settings, open_app
from core.observability.metrics import PrometheusMetrics
from core.storage.engine import Database
from core.storage.leases import DAEMON_PREFIX
from core.storage.messages import Journal
from core.storage.tables import leases
from knowledge.parsing.parser import ThreadParser
from tests.support.audience_world import RECORDING, Configuration, repeat, see, tell
from tests.support.interleaving import InterruptedEmbedder, InterruptedPeer, Interruptions, Watch
from tests.support.recording_bot import Bot
from tests.support.watched_doors import Doors
from tests.support.watched_platforms import PLATFORMS, WatchedAdapter


class HearingPeer(InterruptedPeer):
    """A service that writes down what stands in recordings."""

    def make_app(self) -> web.Application:
        """Serve transcriptions as well."""
        app = super().make_app()
        # They come as forms, without the checks of JSON.
        app.middlewares.clear()
        app.router.add_post("/v1/audio/transcriptions", self._transcribe)
        app.middlewares.append(self._guarded_json)
        return app

    @web.middleware
    async def _guarded_json(self, request: web.Request, handler: Any) -> web.StreamResponse:
        is_form = request.path.endswith("/transcriptions")
        return await (handler(request) if is_form else self._guarded(request, handler))

    async def _transcribe(self, request: web.Request) -> web.Response:
        await self.interruptions.reach("model")
        file = (await request.post())["file"]
        assert isinstance(file, web.FileField)
        return web.json_response({"text": file.file.read()[len(RECORDING) :].decode()})


@dataclass(frozen=True)
class WatchedBot:
    """The bot, its models, the doors by which programs and visitors ask, and what it counts."""

    bot: Bot
    models: Sequence[InterruptedPeer]
    doors: Doors
    metrics: PrometheusMetrics


CHOICE = '{"strategy": "single", "query": ""}'


async def note_daemon(database: Database, name: str) -> None:
    """Let another daemon count as one that runs."""
    values = {"name": f"{DAEMON_PREFIX}{name}", "owner": name}
    async with database.transaction() as connection:
        await connection.execute(delete(leases).filter_by(**values))
        lease = {**values, "expires_at": datetime(2999, 1, 1, tzinfo=UTC)}
        await connection.execute(insert(leases).values(lease))


@asynccontextmanager
async def open_watched_bot(
    folder: Path,
    documents: Path,
    configuration: Configuration,
    interruptions: Interruptions,
    watch: Watch,
    joining: str = "",
) -> AsyncIterator[WatchedBot]:
    """Run the bot with its models until the block ends; `joining` as another daemon of this name, with own passages.

    The second model is for chats that have models of their own, the last one moderates, and hears.
    """
    async with AsyncExitStack() as stack:
        replies: dict[str, Any] = {"write": tell, "talk": tell, "see": see, "choose": CHOICE}
        peers: list[InterruptedPeer] = [InterruptedPeer(interruptions, repeat, **replies) for _ in range(2)]
        peers.append(HearingPeer(interruptions, repeat))
        models = [await stack.enter_async_context(peer) for peer in peers]
        settings = configuration.make_settings(folder, documents, models)
        journal_path = settings.data_dir / "journal.db"
        settings = settings.model_copy(update={"data_dir": settings.data_dir.with_name(f"data{joining}")})
        settings.data_dir.mkdir(exist_ok=True)
        journal = await Journal.open(journal_path)
        stack.push_async_callback(journal.close)
        # Messages of a file are claimed by nobody: only what the daemons say to each other has a name.
        said = await Database.open(journal_path)
        stack.push_async_callback(said.close)
        said.owner = joining
        live = make_live_settings(settings, said)
        if not joining:
            # Those of a backup run no more.
            await said.write(delete(leases))
        await note_daemon(said, joining)
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
        writing: Any = (journal.database._write_lock, said._write_lock)
        interruptions.locks = (*(interruptions.locks if joining else ()), *locks, *writing)
        yield WatchedBot(bot, models, doors, metrics)
