"""Tries at reaching what the configuration names, for `kimas check --live`."""

from __future__ import annotations

from functools import partial

from bots.adapters import place_of
from bots.check import Probe
from core.endpoint import Endpoint
from core.settings import (
    DiscordSettings,
    EmbeddingSettings,
    FallbackSettings,
    ModelSettings,
    Settings,
    SlackSettings,
    TelegramSettings,
)


def make_probes(settings: Settings) -> list[Probe]:
    """Return a probe per configured service. Each sends one small request and changes nothing."""
    probes: list[Probe] = []
    for role in ("main", "light", "vision"):
        model: ModelSettings | None = getattr(settings.models, role)
        if model is not None:
            probes.append(Probe(f"models.{role}", partial(_model, model)))
            spare = model.fallbacks.items()
            probes += [Probe(f"models.{role}.fallbacks.{name}", partial(_model, one)) for name, one in spare]
    embedding = settings.knowledge.embedding
    if embedding.provider == "openai":
        probes.append(Probe("knowledge.embedding", lambda: _embedding(embedding)))
    for name, platform, section in settings.bots_on():
        place = place_of(name, platform)
        if isinstance(section, TelegramSettings):
            probes.append(Probe(place, partial(_telegram, section)))
        elif isinstance(section, DiscordSettings):
            probes.append(Probe(place, partial(_discord, section)))
        elif isinstance(section, SlackSettings):
            probes.append(Probe(place, partial(_slack, section)))
    return probes


async def _model(settings: FallbackSettings) -> str:
    key = settings.api_key.value() if settings.api_key else ""
    endpoint = Endpoint.open(settings.base_url, key, settings.timeout_s)
    try:
        request = {"model": settings.model, "messages": [{"role": "user", "content": "Say yes."}]}
        reply = await endpoint.complete(request)
    finally:
        await endpoint.close()
    return f"{settings.model} at {settings.base_url} answers ({reply.completion_tokens} tokens)"


async def _embedding(settings: EmbeddingSettings) -> str:
    key = settings.api_key.value() if settings.api_key else ""
    endpoint = Endpoint.open(settings.base_url, key, settings.timeout_s)
    try:
        vector = (await endpoint.embed(settings.model, ["yes"]))[0]
    finally:
        await endpoint.close()
    if len(vector) != settings.dimension:
        raise ValueError(f"{settings.model} sends {len(vector)} numbers per text, dimension says {settings.dimension}")
    return f"{settings.model} at {settings.base_url} answers"


async def _telegram(settings: TelegramSettings) -> str:
    from bots.telegram.adapter import identify

    return f"the token belongs to @{await identify(settings)}"


async def _discord(settings: DiscordSettings) -> str:
    from bots.discord.adapter import identify

    return f"the token belongs to {await identify(settings)}"


async def _slack(settings: SlackSettings) -> str:
    from bots.slack.adapter import identify

    return f"the tokens belong to {await identify(settings)}"
