"""One Markdown template per agent. `{{name}}` is replaced by the value of that name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from core.catalogue import messages_for
from core.errors import ConfigurationError

PROMPTS_DIR = Path(__file__).parent
_LANGUAGE_SUFFIX = re.compile(r"-[a-z]{2}\Z")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True)
class Prompts:
    """The templates by name, read once."""

    templates: Mapping[str, str]
    agents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    language: str = ""

    @classmethod
    def read(
        cls, overrides: Mapping[str, Path] | None = None, agents: Mapping[str, Mapping[str, Path]] | None = None
    ) -> Prompts:
        """Read every template. `overrides` replaces some of them, `agents` others for single retrieval agents.

        Raises `ConfigurationError` for an unknown template name, and for a file that cannot be read.
        """
        defaults = {path.stem: path.read_text("utf-8") for path in sorted(PROMPTS_DIR.glob("*.md"))}
        override_texts = _read_templates(overrides or {}, "prompts", defaults)
        agent_overrides = {
            name: _read_templates(paths, f"agents.{name}.prompts", defaults) for name, paths in (agents or {}).items()
        }
        return cls(_override_templates(defaults, override_texts), agent_overrides)

    def for_agent(self, agent: str) -> Prompts:
        """Return the templates of one retrieval agent."""
        return replace(self, templates=_override_templates(self.templates, self.agents.get(agent, {}))).for_language(
            self.language
        )

    def for_language(self, language: str) -> Prompts:
        """Return the templates for a language: `summarizer-zh`, if it exists, in place of `summarizer`."""
        suffix = f"-{language}"
        translations = {
            name.removesuffix(suffix): text for name, text in self.templates.items() if name.endswith(suffix)
        }
        return replace(self, templates={**self.templates, **translations}, language=language) if language else self

    def fill(self, template: str, /, **values: str) -> str:
        """Return a template with its values and the current date and time. Raises `KeyError` for an unknown one."""
        # A template without a version in the asker's language is English.
        language = self.language if f"{template}-{self.language}" in self.templates else ""
        all_values = {"now": _format_now(datetime.now().astimezone(), language), **values}
        # In one pass: a placeholder inside a value is data.
        return _PLACEHOLDER.sub(lambda match: all_values.get(match[1], match[0]), self.templates[template]).strip()


def _format_now(now: datetime, language: str) -> str:
    texts = messages_for(language)
    weekday = texts.weekdays.split()[now.weekday()]
    return texts.moment.format(weekday=weekday, date=f"{now:%Y-%m-%d}", time=f"{now:%H:%M %Z}")


def _override_templates(templates: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Replace templates. The translations of a replaced template are dropped: they say something else."""
    remaining_templates = {
        name: text for name, text in templates.items() if _LANGUAGE_SUFFIX.sub("", name) not in overrides
    }
    return {**remaining_templates, **overrides}


def _read_templates(paths: Mapping[str, Path], setting_path: str, defaults: Mapping[str, str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, path in paths.items():
        # Any template may have a version for another language: summarizer-fr.
        if name not in defaults and not (_LANGUAGE_SUFFIX.search(name) and name[:-3] in defaults):
            template_names = ", ".join(template for template in defaults if not _LANGUAGE_SUFFIX.search(template))
            raise ConfigurationError([f"{setting_path}.{name}: there is no such template; they are: {template_names}"])
        try:
            texts[name] = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ConfigurationError([f"{setting_path}.{name}: {path} cannot be read: {reason}"]) from error
    return texts
