"""What the bot says of its knowledge: what it answers from, and questions to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, zip_longest

from core.catalogue import Messages
from core.language.questions import ends_with_question_mark
from core.ports import Library
from core.settings import AgentSettings, LearnedSource, Settings

# Platforms show about so many suggestions, and none of more characters.
MAX_SUGGESTIONS = 4
MAX_SUGGESTION_CHARS = 150


def list_agents(settings: Settings, library: Library | None) -> dict[str, AgentSettings]:
    """Return the retrieval agents that people are told of: not those of lessons alone, before there is any.

    Other sources are named while nothing of them is stored, too: they are read soon, or somebody should mend them.
    """
    names = set(list_sources(settings, library))
    return {name: agent for name, agent in settings.retrieval_agents().items() if not names.isdisjoint(agent.sources)}


def list_sources(settings: Settings, library: Library | None) -> list[str]:
    """Return the names of the sources that people are told of, those without a lesson only where there are no others.

    Without a `library` nobody knows which these are.
    """
    empty = library.empty_sources() if library else ()
    sources = settings.sources.items()
    names = [name for name, source in sources if not (isinstance(source, LearnedSource) and name in empty)]
    return names or list(settings.sources)


def describe_agents(agents: Mapping[str, AgentSettings], texts: Messages) -> str:
    """Return a Markdown line for each retrieval agent, with its description."""
    lines = (
        f"- **{name}**" + (f": {agent.description}" if agent.description else "") for name, agent in agents.items()
    )
    return "\n".join(lines) or texts.help_no_sources


def suggest_questions(agents: Mapping[str, AgentSettings], texts: Messages) -> list[str]:
    """Return questions to begin with: the configured examples of agents, of each in turn, and what the bot can do."""
    by_agent = (agent.examples for agent in agents.values())
    examples = [text.strip() for text in chain.from_iterable(zip_longest(*by_agent, fillvalue=""))]
    questions = [text for text in examples if ends_with_question_mark(text) and len(text) <= MAX_SUGGESTION_CHARS]
    examples_shown = list(dict.fromkeys(questions))[: MAX_SUGGESTIONS - 1]
    return [*examples_shown, texts.what_can_you_do]
