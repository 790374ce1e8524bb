"""Small talk: courtesies, who the bot is and what it can do are answered from the configuration.

No source is searched and no model is called, so such a reply cites nothing and is the same with every strategy.
"""

from __future__ import annotations

from core.answering.introduction import describe_agents, list_agents
from core.catalogue import Messages
from core.language.courtesies import find_courtesy
from core.ports import Library
from core.settings import Settings
from core.types import Question


def courtesy_reply(question: Question, settings: Settings, library: Library, texts: Messages) -> str:
    """Return the reply to a courtesy or to a question about the bot itself; "" for every other message."""
    kind = None if question.has_attachments else find_courtesy(question.text)
    if kind is None:
        return ""
    if kind == "thanks":
        return texts.you_are_welcome
    if kind == "farewell":
        return texts.goodbye
    sources = describe_agents(list_agents(settings, library), texts)
    if kind == "greeting":
        return texts.greeting.format(name=settings.name, sources=sources)
    intro = texts.help_intro.format(name=settings.name)
    # Only an adapter can spell its commands; Slack alone has a name before them that people need.
    prefix = "/kimas " if question.key and question.key.platform == "slack" else "/"
    how_to_ask = texts.help_how_to_ask.format(ask=f"`{prefix}ask`")
    return texts.self_description.format(intro=intro, sources=sources, how_to_ask=how_to_ask, help=f"`{prefix}help`")
