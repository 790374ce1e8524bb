"""Masks secrets and personal data in a question before anything is searched for it or sent to a model."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import TypeVar
from urllib.parse import urlsplit

from core.language.secrets import Masker, mask_secrets
from core.settings import HttpApiSource, McpSource, RemoteRagSource, SearchApiSource, Settings, SourceSettings
from core.settings.base import API_PLATFORM, is_loopback
from core.types import Question

Asked = TypeVar("Asked", bound=Question)


def mask_question(question: Asked, settings: Settings, key: bytes) -> Asked:
    """Return the question as models and services may read it, with its conversation: one value has one mark there.

    The `key` is secret: from a mark made with it, nobody can find a value by trying.
    """
    if not _is_masked(settings):
        return question
    masker = Masker(_make_conversation_key(question, key))
    history = tuple(replace(turn, text=mask_secrets(turn.text, masker)) for turn in question.history)
    return replace(question, text=mask_secrets(question.text, masker), history=history)


def _make_conversation_key(question: Question, key: bytes) -> bytes:
    """Return a key for a conversation: how much of it is still read does not matter."""
    place = question.key
    parts = [place.platform, place.chat, place.thread] if place else []
    if place is None or place.platform == API_PLATFORM:
        # Of programs and visitors nothing tells conversations apart but their beginning.
        parts.append(question.history[0].text if question.history else question.text)
    return hmac.new(key, "\0".join(parts).encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def _is_masked(settings: Settings) -> bool:
    mode = settings.privacy.mask
    return mode == "always" or (mode == "remote" and _leaves_machine(settings))


def _leaves_machine(settings: Settings) -> bool:
    """Return whether a model or a live source that questions reach is not on this machine."""
    knowledge = settings.knowledge
    addresses = [
        # The judge reads what `kimas eval` asks.
        *(model.base_url for path, model in settings.models.iter_endpoints() if not path.startswith("models.judge")),
        knowledge.embedding.base_url,
        knowledge.search.reranker.url,
    ]
    return any(map(_is_remote, filter(None, addresses))) or any(map(_is_remote_source, settings.sources.values()))


def _is_remote_source(source: SourceSettings) -> bool:
    if isinstance(source, SearchApiSource):
        # Without an address it is the service's own.
        return not source.base_url or _is_remote(source.base_url)
    if isinstance(source, McpSource):
        # A program asks whom it likes.
        return not source.url or _is_remote(source.url)
    if isinstance(source, HttpApiSource):
        return _is_remote(source.url)
    return isinstance(source, RemoteRagSource) and _is_remote(source.base_url)


def _is_remote(address: str) -> bool:
    try:
        return not is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return True
