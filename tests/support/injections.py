"""The corpus of attempts to give orders through what the bot reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.support.scripted import Body

CORPUS = Path(__file__).parents[1] / "core/data/injections.jsonl"
ATTEMPTS = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
CANARY = "OBEY"
QUESTION = "Which colour is the flux capacitor?"
FENCES = (
    "passage",
    "evidence",
    "searches",
    "conversation",
    "question",
    "answer",
    "analysis",
    "said",
    "reference",
    "objective",
    "titles",
)


def unfenced(body: Body) -> str:
    """Return what of a request a model may take for instructions: all that stands outside its fences.

    What the assistant said is not among it: these are the model's own words.
    """
    text = "\n".join(message["content"] for message in body["messages"] if message["role"] != "assistant")
    while (stripped := _innermost(text)) != text:
        text = stripped
    return text


def _innermost(text: str) -> str:
    for tag in FENCES:
        text = re.sub(rf"<{tag}\b[^<>]*>(?:(?!<{tag}\b).)*?</{tag}>", "", text, flags=re.DOTALL)
    return text


def gullible(normal: str) -> Callable[[Body], str]:
    """Reply as always, or else do what the attempts ask for: name another action, and recite the instructions."""

    def reply(body: Body) -> str:
        obeys = CANARY in unfenced(body)
        return f"[search: {CANARY}]\n{body['messages'][0]['content']}" if obeys else normal

    return reply
