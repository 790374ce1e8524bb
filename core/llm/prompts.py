"""One Markdown template per agent. Values are put in by name with `{{name}}`; anything else is left alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from core.errors import ConfigurationError

HERE = Path(__file__).parent
_LANGUAGE = re.compile(r"-[a-z]{2}\Z")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True)
class Prompts:
    """The templates by name, read once."""

    templates: Mapping[str, str]
    agents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    language: str = ""

    @classmethod
    def read(
        cls, own: Mapping[str, Path] | None = None, agents: Mapping[str, Mapping[str, Path]] | None = None
    ) -> Prompts:
        """Read every template. `own` replaces some of them, `agents` some more for single retrieval agents.

        Raises `ConfigurationError` for a name that no template has, and for a file that cannot be read.
        """
        shipped = {path.stem: path.read_text("utf-8") for path in sorted(HERE.glob("*.md"))}
        mine = _read(own or {}, "prompts", shipped)
        each = {name: _read(paths, f"agents.{name}.prompts", shipped) for name, paths in (agents or {}).items()}
        return cls(_joined(shipped, mine), each)

    def of(self, agent: str) -> Prompts:
        """Return the templates as one retrieval agent has them."""
        return replace(self, templates=_joined(self.templates, self.agents.get(agent, {}))).spoken(self.language)

    def spoken(self, language: str) -> Prompts:
        """Return the templates for a language: `summarizer-zh` stands in for `summarizer`, where there is one."""
        ending = f"-{language}"
        own = {name.removesuffix(ending): text for name, text in self.templates.items() if name.endswith(ending)}
        return replace(self, templates={**self.templates, **own}, language=language) if language else self

    def fill(self, template: str, /, **values: str) -> str:
        """Return a template with its values and the current date and time. Raises `KeyError` for an unknown one."""
        now = datetime.now().astimezone()
        known = {"now": now.strftime("%A, %Y-%m-%d %H:%M %Z"), **values}
        # In one pass: a value that itself holds a placeholder is data.
        return _PLACEHOLDER.sub(lambda match: known.get(match[1], match[0]), self.templates[template]).strip()


def _joined(templates: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Put own templates over others. One that is replaced takes its translations with it: they say something else."""
    kept = {name: text for name, text in templates.items() if _LANGUAGE.sub("", name) not in own}
    return {**kept, **own}


def _read(paths: Mapping[str, Path], where: str, shipped: Mapping[str, str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, path in paths.items():
        # A language of its own may be added to any template: summarizer-fr.
        if name not in shipped and not (_LANGUAGE.search(name) and name[:-3] in shipped):
            known = ", ".join(one for one in shipped if not _LANGUAGE.search(one))
            raise ConfigurationError([f"{where}.{name}: there is no such template; they are: {known}"])
        try:
            texts[name] = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as fault:
            reason = getattr(fault, "strerror", None) or "it is not UTF-8 text"
            raise ConfigurationError([f"{where}.{name}: {path} cannot be read: {reason}"]) from fault
    return texts
