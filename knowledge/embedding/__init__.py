"""Embedders: the built-in MiniLM, the multilingual encoder, a model in fastembed, or an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.llm.client import OpenAIClient
from core.settings import EmbeddingSettings
from knowledge.embedding.centring import CentredEmbedder, get_centred_name
from knowledge.embedding.families import find_instructions
from knowledge.embedding.fastembed_models import FastEmbedder, get_model_languages
from knowledge.embedding.local import LOCAL_DIMENSION, LOCAL_LANGUAGES, LOCAL_NAME, LocalEmbedder
from knowledge.embedding.multilingual import (
    MULTILINGUAL_DIMENSION,
    MULTILINGUAL_LANGUAGES,
    MULTILINGUAL_NAME,
    MultilingualEmbedder,
)
from knowledge.embedding.remote import TIMEOUT_S, RemoteEmbedder
from knowledge.ports import Embedder

__all__ = ["get_known_languages", "name_model", "open_embedder"]


def get_known_languages(settings: EmbeddingSettings) -> tuple[str, ...]:
    """Return the codes of the languages that the model knows; empty where nobody says so. May import fastembed."""
    if settings.provider == "local":
        return LOCAL_LANGUAGES
    if settings.provider == "multilingual":
        return MULTILINGUAL_LANGUAGES
    return get_model_languages(settings.model) if settings.provider == "fastembed" and settings.model else ()


async def open_embedder(settings: EmbeddingSettings, cache_dir: Path) -> Embedder:
    """Open the embedder that the settings name. `cache_dir` keeps the local models.

    Raises `EmbeddingError` when a local model is missing or damaged, or cannot be cached.
    """
    if settings.provider == "local":
        return await LocalEmbedder.open(cache_dir, settings.path)
    if settings.provider == "multilingual":
        return await MultilingualEmbedder.open(settings.path)
    if settings.provider == "fastembed":
        return CentredEmbedder(await FastEmbedder.open(settings, cache_dir), cache_dir)
    key = await asyncio.to_thread(settings.api_key.value) if settings.api_key else ""
    client = OpenAIClient.open(settings.base_url, key, TIMEOUT_S)
    return CentredEmbedder(RemoteEmbedder(client, settings), cache_dir)


def name_model(settings: EmbeddingSettings) -> tuple[str, int] | None:
    """Return the name and the dimension with which a store labels the vectors; None for what has to be loaded first."""
    if settings.provider == "openai" and settings.dimension:
        return get_centred_name(settings.model + find_instructions(settings).identity), settings.dimension
    if settings.provider == "multilingual":
        return MULTILINGUAL_NAME, MULTILINGUAL_DIMENSION
    return (LOCAL_NAME, LOCAL_DIMENSION) if settings.provider == "local" else None
