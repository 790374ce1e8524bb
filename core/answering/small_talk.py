"""Small talk: courtesies, who the bot is and what it can do are answered from the configuration.

No source is searched and no model is called, so such a reply cites nothing and is the same with every strategy.
"""

from __future__ import annotations

from itertools import chain, zip_longest

from core.settings import Settings
from core.text.catalogue import Messages
from core.text.courtesies import find_courtesy
from core.text.question_detection import ends_with_question_mark
from core.types import Question


def courtesy_reply(question: Question, settings: Settings, texts: Messages) -> str:
    """Return the reply to a courtesy or to a question about the bot itself; "" for every other message."""
    kind = None if question.image_loaders or question.unsupported_attachments else find_courtesy(question.text)
    if kind is None:
        return ""
    if kind == "thanks":
        return texts.you_are_welcome
    if kind == "farewell":
        return texts.goodbye
    sources = describe_sources(settings, texts)
    if kind == "greeting":
        return texts.greeting.format(name=settings.name, sources=sources)
    intro = texts.help_intro.format(name=settings.name)
    return texts.self_description.format(intro=intro, sources=sources, how_to_ask=texts.help_how_to_ask)


def describe_sources(settings: Settings, texts: Messages) -> str:
    """Return what the bot answers from, a Markdown line for each retrieval agent with its description."""
    lines = (
        f"- **{name}**" + (f": {agent.description}" if agent.description else "")
        for name, agent in settings.retrieval_agents().items()
    )
    return "\n".join(lines) or texts.help_no_sources


# Platforms show about so many suggestions, and none of more characters.
MAX_SUGGESTIONS, MAX_SUGGESTION_CHARS = 4, 150


def suggest_questions(settings: Settings, texts: Messages) -> list[str]:
    """Return questions to begin with: the configured examples of agents, of each in turn, and what the bot can do."""
    by_agent = (agent.examples for agent in settings.retrieval_agents().values())
    examples = [text.strip() for text in chain.from_iterable(zip_longest(*by_agent, fillvalue=""))]
    questions = [text for text in examples if ends_with_question_mark(text) and len(text) <= MAX_SUGGESTION_CHARS]
    examples_shown = list(dict.fromkeys(questions))[: MAX_SUGGESTIONS - 1]
    return [*examples_shown, texts.what_can_you_do]
