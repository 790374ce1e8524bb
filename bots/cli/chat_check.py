"""What `kimas check` says of chats that are unlike the others."""

from __future__ import annotations

from collections.abc import Iterator

from bots.cli.console import Finding
from core.settings import ChatSettings, LiveSource, Settings, is_private_host
from core.types import PlatformName
from knowledge.web.addresses import redact_url


def check_chat_models(settings: Settings) -> Iterator[Finding]:
    """Yield what reads the text of each chat with models of its own, and which models no chat uses."""
    for chat, chat_settings in settings.chats.items():
        if chat_settings.models is not None:
            yield from _check_chat(chat, chat_settings, chat_settings.models, settings)
    used_names = {chat_settings.models for chat_settings in settings.chats.values()}
    for name in settings.models.sets:
        if name not in used_names:
            yield Finding("warning", f"models.sets.{name}", "no chat uses it: name it in chats.CHAT.models")


def _check_chat(chat: str, chat_settings: ChatSettings, name: str, settings: Settings) -> Iterator[Finding]:
    path = f"chats.{chat}.models"
    models = settings.models.get_set(name)
    writer = models.main or models.light
    does = f"{writer.model} answers" if writer else "no model: answers are quoted"
    if not models.is_local():
        yield Finding("ok", path, f"{name}: {does}; it is outside of your network")
        return
    yield Finding("ok", path, f"{name}: {does}; no language model outside of your network reads this chat")
    if others := list(_find_other_readers(chat, chat_settings, settings)):
        text = "questions of this chat still go to " + "; ".join(others)
        yield Finding("warning", path, text)
    moderation = settings.outgoing.moderation
    is_left_out = settings.with_set(name).outgoing.moderation.base_url != moderation.base_url
    if is_left_out and PlatformName.parse(chat).platform in moderation.platforms:
        text = f"answers there are not moderated: {redact_url(moderation.base_url or '')} is outside of your network"
        yield Finding("warning", path, text)


def _find_other_readers(chat: str, chat_settings: ChatSettings, settings: Settings) -> Iterator[str]:
    embedding = settings.knowledge.embedding
    if embedding.provider == "openai" and not is_private_host(embedding.base_url):
        yield f"knowledge.embedding, {redact_url(embedding.base_url)} (its other providers run on this machine)"
    for name in chat_settings.sources or settings.sources:
        if isinstance(settings.sources[name], LiveSource):
            yield f"the live source {name} (leave it out in the chat's sources)"
    team = settings.get_drafts_chat(chat) if settings.get_mode(chat, private=False) == "draft" else None
    if team:
        models = settings.with_models_of(team).models.model_copy(update={"sets": {}, "judge": None})
        if not models.is_local():
            yield f"the models of {team}, where its drafts are decided about (give that chat the same set)"
