"""The passage store: how it is filled and searched."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Secret, Section


class RoutingSettings(Section):
    """How questions find their agents."""

    agents: PositiveInt = Field(3, description="Agents asked per question at most")
    centroids: PositiveInt = Field(16, description="k-means centroids per agent at most")
    threshold: float = Field(0.0, ge=-1, le=1, description="Agents scoring below this are not asked")


class EmbeddingSettings(Section):
    """Which model makes the vectors: the built-in MiniLM, or an OpenAI-compatible endpoint."""

    provider: Literal["local", "openai"] = Field("local", description="local needs nothing and knows English only")
    base_url: str = Field("", description="For openai: the endpoint, for example http://localhost:11434/v1")
    model: str = Field("", description="For openai: the model's name")
    dimension: PositiveInt | None = Field(None, description="For openai: the vectors' length")
    api_key: Secret | None = None
    batch: PositiveInt = Field(64, description="For openai: texts per request")
    timeout_s: PositiveFloat = Field(30, description="For openai: longest time for one request, seconds")
    query_timeout_s: PositiveFloat = Field(1.5, description="Longest wait for a question's vector; then words alone do")

    @model_validator(mode="after")
    def _complete(self) -> EmbeddingSettings:
        if self.provider == "openai" and not (self.base_url and self.model and self.dimension):
            raise ValueError("provider openai needs base_url, model and dimension")
        return self


class ChunkingSettings(Section):
    """How long passages are, in words-and-symbols tokens as the local model counts them (about 4 characters each)."""

    tokens: int = Field(200, ge=50, le=2000, description="Length of a passage at most")


class SearchSettings(Section):
    """Hybrid search and reranking."""

    alpha: float = Field(0.5, ge=0, le=1, description="Weight of the dense score against the lexical one")
    candidates: PositiveInt = Field(100, description="Taken from each side before fusion")
    rerank: Literal["embedding", "none"] = Field("embedding", description="What orders the passages of all agents")
    min_similarity: float = Field(
        0.25, ge=-1, le=1, description="Without a language model: weaker evidence is no answer"
    )


class KnowledgeSettings(Section):
    """Everything about the passage store and how it is filled."""

    embedding: EmbeddingSettings = EmbeddingSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    routing: RoutingSettings = RoutingSettings()
    search: SearchSettings = SearchSettings()
    refresh_minutes: float = Field(
        60, ge=0, description="How often `kimas run` refreshes all sources, beginning at its start; 0 means only then"
    )
