"""The connectors as docs/sources.md shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.settings import OwnSource, Settings
from knowledge.connectors.source import ConnectorSource
from knowledge.sources.plugin import find_plugin

PAGE = (Path(__file__).parents[3] / "docs/sources.md").read_text("utf-8")
CONNECTORS = re.findall(
    r"^\| `((?!plugin)\w+)` \| .* \| `", PAGE[PAGE.index("| `plugin` |") :].partition("\n\n")[0], re.MULTILINE
)


def find_examples() -> dict[str, OwnSource]:
    blocks: list[Any] = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.M)]
    sections = [block for block in blocks if isinstance(block, dict) and "sources" in block]
    sources = [source for block in sections for source in Settings.model_validate(block).sources.items()]
    return {name: source for name, source in sources if isinstance(source, OwnSource) and source.plugin in CONNECTORS}


@pytest.mark.parametrize("source", find_examples().values(), ids=lambda source: source.plugin)
def test_documented_options_are_accepted(source: OwnSource, tmp_path: Path) -> None:
    token = {"token": "a-token"} if source.token else {}
    opened_source = find_plugin(source.plugin).load()("docs", {**source.options, **token}, tmp_path)
    assert isinstance(opened_source, ConnectorSource)


def test_every_connector_is_documented_with_an_example() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8")
    section = text.partition('[project.entry-points."kimas.sources"]\n')[2].partition("\n\n")[0]
    names = sorted(line.partition(" ")[0] for line in section.splitlines())
    assert sorted(CONNECTORS) == names
    assert sorted({source.plugin for source in find_examples().values()}) == names
