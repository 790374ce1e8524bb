from __future__ import annotations

from pathlib import Path

from bots.daemon.bootstrap import open_app
from core.settings import Settings
from tests.support.knowledge import WordEmbedder


async def test_a_warm_app_has_loaded_the_embedder_without_asking_it(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    async with open_app(Settings.model_validate({"data_dir": tmp_path}), embedder=embedder, with_answers=False) as app:
        assert not embedder.is_warm
        await app.warm_up()
        assert embedder.is_warm
        assert embedder.embedded == []
