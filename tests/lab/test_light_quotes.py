"""First quotes with a light model that somebody plays: its prompts are written, and its replies order the passages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.lab.quality import light_quotes
from tests.support.peers.language_model import LanguageModelPeer

PAGES = {
    "linux.md": "# Install on Linux\n\nUnpack `rocket.tar` below `/opt` and run `install.sh`, which asks for a port.",
    "windows.md": "# Install on Windows\n\nStart `rocket.exe`, and choose a folder when the installer asks for one.",
}
QUESTION = "How do I install Rocket?"


def _make_bot(folder: Path, embeddings_url: str) -> None:
    (folder / "docs").mkdir(parents=True)
    for name, text in PAGES.items():
        (folder / "docs" / name).write_text(text, "utf-8")
    embedding = {"provider": "openai", "base_url": embeddings_url, "model": "m", "dimension": 8}
    sources = {"docs": {"kind": "files", "path": str(folder / "docs")}}
    settings = {"sources": sources, "knowledge": {"embedding": embedding}}
    (folder / "kimas.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    (folder / "questions.txt").write_text(f"{QUESTION}\n", "utf-8")


async def test_a_played_light_model_sees_prompts_and_its_replies_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with LanguageModelPeer() as embeddings:
        _make_bot(tmp_path / "bots/rocket", embeddings.base_url)
        await light_quotes.read_sources(tmp_path)
        await light_quotes.write_prompts(tmp_path)
        (prompt,) = map(json.loads, (tmp_path / "prompts.jsonl").read_text("utf-8").splitlines())
        assert prompt["id"] == "rocket-1-rerank"
        assert QUESTION in prompt["user"]
        assert all(word in prompt["user"] for word in ("rocket.tar", "rocket.exe"))
        await light_quotes.print_quotes(tmp_path)
        assert "rocket-1-rerank has no reply" in capsys.readouterr().out
        reply = {"id": "rocket-1-rerank", "reply": '{"order": ["p2", "p1"]}'}
        (tmp_path / "replies.jsonl").write_text(json.dumps(reply), "utf-8")
        await light_quotes.print_quotes(tmp_path)
    output = capsys.readouterr().out
    assert output.startswith(f"########## rocket-1: {QUESTION}")
    assert "**Install on" in output
    assert "reply" not in output
