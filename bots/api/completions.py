"""Writes answers as OpenAI's API does: whole, or in chunks. Sources stand in the text: clients show nothing else."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bots.common.markdown import is_web_url
from core.catalogue import messages_for
from core.language.languages import detect_language
from core.storage.usage import total_usage
from core.types import Citation, Reply


@dataclass(frozen=True, slots=True)
class Completion:
    """One chat completion: all of its chunks have the same id and time."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def make_whole(self, reply: Reply) -> Mapping[str, Any]:
        """Return the completion that has the whole answer."""
        message = {"role": "assistant", "content": to_markdown(reply), "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": finish_reason(reply), "logprobs": None}
        return {**self._make("chat.completion", [choice]), "usage": to_usage(reply), "citations": _to_list(reply)}

    def make_chunk(
        self, delta: Mapping[str, str], reason: str | None = None, reply: Reply | None = None
    ) -> Mapping[str, Any]:
        """Return a part of the answer; the last one has the reason of the end, and the citations."""
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        citations = {"citations": _to_list(reply)} if reply else {}
        return {**self._make("chat.completion.chunk", [choice]), "usage": None, **citations}

    def make_part(self, text: str) -> Mapping[str, Any]:
        """Return a part of the text."""
        return self.make_chunk({"content": text})

    def make_usage_chunk(self, usage: Mapping[str, int]) -> Mapping[str, Any]:
        """Return the chunk that says what the answer took, for clients that ask for it."""
        return {**self._make("chat.completion.chunk", []), "usage": usage}

    def _make(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}


def finish_reason(reply: Reply) -> str:
    """Return why an answer ended: `length` where the model's was cut short; quotes in its place are whole."""
    return "length" if "write" in reply.trace.degraded and not reply.is_extractive else "stop"


def to_usage(reply: Reply) -> Mapping[str, int]:
    """Return the tokens of all model calls for an answer."""
    usage = total_usage(reply.trace.tokens, reply.trace.cost)
    tokens = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
    return {**tokens, "total_tokens": usage.prompt_tokens + usage.completion_tokens}


def to_markdown(reply: Reply, sent_text: str = "") -> str:
    """Return an answer with its sources, without what was sent already.

    What was sent cannot be taken back. So where a citation was moved or removed since, the whole answer follows.
    """
    text = "\n\n".join(filter(None, (reply.text, _list_sources(reply))))
    if text.startswith(sent_text):
        return text[len(sent_text) :]
    return f"\n\n---\n\n{messages_for(detect_language(reply.text)).checked_answer}\n\n{text}"


def _list_sources(reply: Reply) -> str:
    """Return the sources as a Markdown list, with links."""
    return "\n".join(f"- [{citation.n}] {_link(citation)}" for citation in reply.citations)


def _link(citation: Citation) -> str:
    title = (citation.title or citation.path).translate({ord(sign): f"\\{sign}" for sign in "\\[]<>`*_"})
    is_linkable = is_web_url(citation.url) and not set("<>\n") & set(citation.url)
    return f"[{title}](<{citation.url}>)" if is_linkable else f"{title} ({citation.source}: {citation.path})"


def _to_list(reply: Reply) -> list[dict[str, Any]]:
    return [asdict(citation) for citation in reply.citations]
