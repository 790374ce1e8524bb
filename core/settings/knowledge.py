"""The passage store: how it is filled and searched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Name, Secret, Section


class RoutingSettings(Section):
    """How questions find their agents."""

    agents: PositiveInt = Field(3, description="Agents asked per question at most")
    centroids: PositiveInt = Field(
        32, description="k-means centroids per agent at most; of n passages there are about the root of 8 n"
    )
    threshold: float = Field(0.0, ge=-1, le=1, description="Agents scoring below this are not asked")
    kind_scales: dict[Name, PositiveFloat] = Field(
        default_factory=dict,
        description="By kind of source (files, git, faq, ...): multiplies its agents' scores, beside their own scale",
    )


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
    def _check_endpoint(self) -> EmbeddingSettings:
        if self.provider == "openai" and not (self.base_url and self.model and self.dimension):
            raise ValueError("provider openai needs base_url, model and dimension")
        return self


class ChunkingSettings(Section):
    """How long passages are, in words-and-symbols tokens as the local model counts them (about 4 characters each)."""

    tokens: int = Field(200, ge=50, le=2000, description="Length of a passage at most")


class RerankerSettings(Section):
    """What a reranker works with that needs more than the scores of the search."""

    url: str = Field(
        "",
        pattern=r"^(https?://[^/\s]+\S*)?$",
        description="For api: address, such as https://api.cohere.com/v2/rerank",
    )
    model: str = Field("", description="For api: the model's name, where the service asks for one")
    api_key: Secret | None = Field(None, description="For api: leave it out where the service asks for none")
    texts_key: Literal["documents", "texts"] = Field(
        "documents", description="For api: texts for Text Embeddings Inference, documents for all others"
    )
    path: Path | None = Field(
        None, description="For cross_encoder: a folder with an ONNX model (model.onnx) and its tokenizer.json"
    )
    timeout_s: PositiveFloat = Field(2.0, description="For api: longest wait for an order, seconds")
    top_n: int = Field(
        24, ge=1, le=200, description="For all of them: passages ordered anew at most, the best of the search"
    )


class SearchSettings(Section):
    """Hybrid search and reranking."""

    alpha: float = Field(0.5, ge=0, le=1, description="Weight of the dense score against the lexical one")
    candidates: PositiveInt = Field(100, description="Taken from each side before fusion")
    rerank: Literal["embedding", "api", "model", "cross_encoder", "none"] = Field(
        "embedding", description="What orders the passages of all agents"
    )
    reranker: RerankerSettings = RerankerSettings()
    kind_weights: dict[Name, Annotated[float, Field(gt=0, le=10)]] = Field(
        default_factory=dict,
        description="By kind of document, code for all languages: what its passages' scores are multiplied with",
    )
    min_similarity: float = Field(
        0.25, ge=-1, le=1, description="Without a language model: weaker evidence is no answer"
    )

    @model_validator(mode="after")
    def _check_reranker(self) -> SearchSettings:
        if self.rerank == "api" and not self.reranker.url:
            raise ValueError("rerank api needs reranker.url")
        if self.rerank == "cross_encoder" and not self.reranker.path:
            raise ValueError("rerank cross_encoder needs reranker.path")
        return self


class WeaviateSettings(Section):
    """A Weaviate server or cluster, for passages that several machines share."""

    host: str = Field("localhost", min_length=1, description="The server's name or address")
    http_port: int = Field(8080, ge=1, le=65535, description="Its port for HTTP")
    grpc_port: int = Field(50051, ge=1, le=65535, description="Its port for gRPC")
    secure: bool = Field(False, description="Speak TLS on both ports")
    api_key: Secret | None = Field(None, description="Leave out where the server asks for none")
    collection: str = Field(
        "Kimas", pattern=r"^[A-Z][A-Za-z0-9]{0,60}$", description="How the names of its two collections begin"
    )
    tenant: str = Field(
        "",
        pattern=r"^[A-Za-z0-9_-]{0,64}$",
        description="Own part of shared collections, for several deployments; empty: the collections are not shared",
    )
    replicas: PositiveInt = Field(1, description="Machines that hold each passage; counts when a collection is made")
    consistency: Literal["one", "quorum", "all"] = Field("quorum", description="Replicas that must confirm a write")
    batch: int = Field(200, ge=1, le=5000, description="Passages sent in one request")
    connect_timeout_s: PositiveFloat = Field(5, description="Longest wait for the server at the start, seconds")
    read_timeout_s: PositiveFloat = Field(20, description="Longest time for one search or reading, seconds")
    write_timeout_s: PositiveFloat = Field(60, description="Longest time for one request that writes, seconds")

    @model_validator(mode="after")
    def _check_distinct_ports(self) -> WeaviateSettings:
        if self.http_port == self.grpc_port:
            raise ValueError("http_port and grpc_port are two different ports")
        return self


class StoreSettings(Section):
    """Where passages live."""

    provider: Literal["lance", "weaviate"] = Field("lance", description="lance: in data_dir; weaviate: on a server")
    weaviate: WeaviateSettings = WeaviateSettings()


class KnowledgeSettings(Section):
    """Everything about the passage store and how it is filled."""

    store: StoreSettings = StoreSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    routing: RoutingSettings = RoutingSettings()
    search: SearchSettings = SearchSettings()
    refresh_minutes: float = Field(
        60,
        ge=0,
        description="How often `kimas run` refreshes a source whose `refresh` says nothing else; 0: at each start only",
    )
