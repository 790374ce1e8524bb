"""What `kimas ingest` and `kimas check` say about languages that the embedding model does not know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bots.cli.language_check import check_languages
from bots.common.open_storage import open_journal
from core.settings import EmbeddingSettings, Settings
from core.types import Reply
from knowledge.embedding import get_known_languages
from tests.support.deployment import Deployment
from tests.support.journal import MESSAGE

ENGLISH = "The rocket is installed with pip. It is then started by the command of the same name."
RUSSIAN = "Ракета устанавливается через pip, а затем запускается командой с тем же именем. Ей нужен файл настроек."
REMOTE = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m", "dimension": 3}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    return Deployment(tmp_path, {"sources": {"docs": {"kind": "files", "path": str(tmp_path / "docs")}}})


def write(deployment: Deployment, **texts: str) -> None:
    for name, text in texts.items():
        (deployment.folder / "docs" / f"{name}.md").write_text(f"# Rocket\n\n{text}\n", "utf-8")


def texts(deployment: Deployment) -> list[str]:
    findings = deployment.json("check")["findings"]
    return [finding["text"] for finding in findings if finding["level"] == "warning"]


def test_documents_in_an_unknown_language_are_named_with_the_way_out(deployment: Deployment) -> None:
    write(deployment, rocket=ENGLISH, raketa=RUSSIAN)
    for _ in range(2):
        output = " ".join(deployment.call("ingest").stdout.split())
        assert "docs: documents are in Russian; the embedding model knows only English" in output
        assert "provider multilingual" in output
    assert any("docs: documents are in Russian" in text for text in texts(deployment))
    write(deployment, raketa=ENGLISH, rocket=f"{ENGLISH} Again.")
    assert "documents are in" not in deployment.call("ingest").stdout
    assert texts(deployment) == []


def test_what_the_model_knows_is_not_mentioned(deployment: Deployment) -> None:
    write(deployment, rocket=ENGLISH)
    assert "documents are in" not in deployment.call("ingest").stdout
    assert texts(deployment) == []


async def test_questions_in_an_unknown_language_are_named_without_a_model(tmp_path: Path) -> None:
    settings = Settings.model_validate({"data_dir": tmp_path})
    assert await check_languages(settings) == [], "nothing was asked yet"
    journal = await open_journal(settings)
    await journal.record_message(MESSAGE)
    await journal.mark_answered(MESSAGE, Reply("So."))
    assert await check_languages(settings) == []
    for number, text in enumerate(
        ("Как установить ракету на сервер?", "Почему ракета не запускается после установки?"), 2
    ):
        message = replace(MESSAGE, id=str(number), text=text)
        await journal.record_message(message)
        await journal.mark_answered(message, Reply("So."))
    await journal.close()
    [finding] = await check_languages(settings)
    assert (finding.level, finding.subject) == ("warning", "knowledge.embedding")
    assert "2 of 3 recent questions are in Russian" in finding.text
    assert "language model, which translates them" in finding.text
    with_model = {"main": {"base_url": "http://127.0.0.1:9/v1", "model": "m"}}
    assert await check_languages(Settings.model_validate({"data_dir": tmp_path, "models": with_model})) == []
    remote = Settings.model_validate({"data_dir": tmp_path, "knowledge": {"embedding": REMOTE}})
    assert await check_languages(remote) == []


@pytest.mark.parametrize(
    ("model", "languages"),
    [
        ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", ()),
        ("BAAI/bge-small-en-v1.5", ("en",)),
        ("BAAI/bge-small-zh-v1.5", ("zh",)),
        ("jinaai/jina-embeddings-v2-base-zh", ("zh", "en")),
        ("nobody/nothing", ()),
    ],
)
def test_models_of_fastembed_say_what_they_know(model: str, languages: tuple[str, ...]) -> None:
    assert get_known_languages(EmbeddingSettings(provider="fastembed", model=model)) == languages


def test_a_fastembed_model_is_checked_by_its_files(deployment: Deployment, tmp_path: Path) -> None:
    write(deployment, rocket=ENGLISH)
    deployment.settings["knowledge"] = {"embedding": {"provider": "fastembed", "path": str(tmp_path / "docs")}}
    findings = deployment.call("check", code=1).stdout
    assert "holds no model.onnx, config.json" in " ".join(findings.split())
    deployment.settings["knowledge"] = {"embedding": {"provider": "fastembed", "model": "BAAI/bge-small-en-v1.5"}}
    assert "BAAI/bge-small-en-v1.5" in deployment.call("check").stdout
