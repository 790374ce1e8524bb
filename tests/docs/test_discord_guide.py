"""The configuration examples of the Discord guide are valid, and its permissions add up."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from core.settings import Settings

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "discord.md").read_text("utf-8")


def test_the_examples_are_valid() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        assert Settings.model_validate(yaml.safe_load(example)).discord is not None


def test_the_permissions_add_up() -> None:
    values = [int(item) for item in re.findall(r"^\| [A-Z][A-Za-z ]+ \| (\d+) \|", GUIDE, re.MULTILINE)]
    assert len(values) == 4
    assert f"permissions={sum(values)}\n" in GUIDE
