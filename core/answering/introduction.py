"""What the bot says of its knowledge: what it answers from, and questions to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, zip_longest

from core.catalogue import Messages
from core.language.questions import ends_with_question_mark
from core.settings.answering import AgentSettings

# Platforms show about so many suggestions, and none of more characters.
MAX_SUGGESTIONS = 4
MAX_SUGGESTION_CHARS = 150


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
