"""What Open WebUI sends besides plain questions: tasks for its own use, and questions inside its templates.

It tells a task from a question by metadata that it does not send. So its own templates are known by their words.
"""

from __future__ import annotations

import json
import re

MAX_TITLE_WORDS = 6
MAX_TITLE_CHARS = 60
_TASK = re.compile(r"\s*###\s*Task:")
# A task wants JSON with one of these keys, whose value is a list or a text.
_TASK_KEY = re.compile(r'\{\s*"(title|tags|follow_ups|queries|prompt|text)"\s*:\s*(\[|")')
_USER_LINE = re.compile(r"^USER:\s*(.+)$", re.MULTILINE)
# Behind these words people speak, who may write JSON, too.
_HISTORY = "<chat_history>"
_SUMMARY = "### Previous Summary:"
# What a person attached stands before the question.
_CONTEXT = "<context>"
_CONTEXT_END = "</context>"
_TOOLS = "Available Tools:"
_NO_TOOLS = '{"tool_calls": []}'
_EMOJI = "Your task is to reflect the speaker's"
_NEUTRAL_EMOJI = "🙂"
# It has the answers of several models merged: ours is the one to the question.
_MERGE = "You have been provided with a set of responses from various models"
_MERGED_QUERY = 'query: "'
_MERGE_END = '"\n\nYour task is to'


def answer_task(text: str, instructions: str = "") -> str | None:
    """Return what Open WebUI wants for its own use, or None for a question of somebody.

    A text in place of JSON is empty where it helps itself then, as for the summary of a long chat. `instructions` are
    those of the system.

    >>> answer_task('### Task:\\nSuggest tags. JSON format: { "tags": ["tag1"] }')
    '{"tags": []}'
    """
    if instructions.startswith(_TOOLS) and '"tool_calls"' in instructions:
        return _NO_TOOLS
    if text.startswith(_EMOJI):
        return _NEUTRAL_EMOJI
    if not _TASK.match(text) or _find_attached(text):
        return None
    wish = text.partition(_HISTORY)[0].partition(_SUMMARY)[0]
    key = _TASK_KEY.search(wish)
    if key is None:
        # People begin so, too, but they do not go on with a conversation.
        return "" if len(wish) < len(text) else None
    question = _USER_LINE.search(text)
    words = question[1].split() if question and key[1] in ("title", "prompt") else []
    title = " ".join(words[:MAX_TITLE_WORDS])[:MAX_TITLE_CHARS]
    return json.dumps({key[1]: [] if key[2] == "[" else title}, ensure_ascii=False)


def unwrap_question(text: str) -> tuple[str, str]:
    """Return the question that a person asked, and the text of what was attached to it.

    >>> unwrap_question("### Task: use it. <context> <source>a</source> </context> Why?")
    ('Why?', '<source>a</source>')
    """
    if text.startswith(_MERGE):
        question = text.partition(_MERGED_QUERY)[2].partition(_MERGE_END)[0].strip()
        return question or text, ""
    return _find_attached(text) or (text, "")


def _find_attached(text: str) -> tuple[str, str] | None:
    """Return the question and what is attached to it, or None where nothing is."""
    start = text.find(_CONTEXT)
    end = text.rfind(_CONTEXT_END)
    if not _TASK.match(text) or not 0 <= start < end or 0 <= text.find(_HISTORY) < start:
        return None
    question = text[end + len(_CONTEXT_END) :].strip()
    return (question, text[start + len(_CONTEXT) : end].strip()) if question else None
