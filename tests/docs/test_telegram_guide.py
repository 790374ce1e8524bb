"""The configuration examples of the Telegram guide are valid."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from core.settings import Settings

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "telegram.md").read_text("utf-8")


def test_the_examples_are_valid() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        assert Settings.model_validate(yaml.safe_load(example)).telegram is not None
