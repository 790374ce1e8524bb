"""One Markdown template per agent. Values are put in by name with `{{name}}`; anything else is left alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True)
class Prompts:
    """The templates by name, read once."""

    templates: dict[str, str]

    @classmethod
    def read(cls, folder: Path = HERE) -> Prompts:
        """Read every template of a folder."""
        return cls({path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.md"))})

    def fill(self, template: str, /, **values: str) -> str:
        """Return a template with its values and the current date and time. Raises `KeyError` for an unknown one."""
        now = datetime.now().astimezone()
        known = {"now": now.strftime("%A, %Y-%m-%d %H:%M %Z"), **values}
        # In one pass: a value that itself holds a placeholder is data.
        return _PLACEHOLDER.sub(lambda match: known.get(match[1], match[0]), self.templates[template]).strip()
