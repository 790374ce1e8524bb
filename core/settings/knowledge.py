"""The passage store: how it is filled and searched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Name, Secret, Section


class RoutingSettings(Section):
    """How a question is routed to agents."""

    agents: PositiveInt = Field(3, description="Maximum number of agents per question")
    centroids: PositiveInt = Field(
        32, description="Maximum number of k-means centroids per agent; n passages give about sqrt(8 n)"
    )
    threshold: float = Field(
        0.2, ge=-1, le=1, description="Agents with a lower score are not used, unless one of their passages is near"
    )
    kind_scales: dict[Name, PositiveFloat] = Field(
        default_factory=dict,
        description="By kind of source (files, git, faq, ...): factor for the scores of its agents, besides scale",
    )


class EmbeddingSettings(Section):
    """The embedding model: the built-in MiniLM, one that fastembed runs here, or an OpenAI-compatible endpoint."""

    provider: Literal["local", "fastembed", "openai"] = Field(
        "local",
        description="local: built in, for English; fastembed: another model on this machine; openai: an endpoint",
    )
    base_url: str = Field("", description="For openai: the endpoint, for example http://localhost:11434/v1")
    model: str = Field("", description="For openai: the model's name; for fastembed: its name there")
    path: Path | None = Field(
        None, description="For local, fastembed: a folder with the model's files; nothing is downloaded"
    )
    dimension: PositiveInt | None = Field(None, description="For openai: length of a vector")
    api_key: Secret | None = None
    batch: PositiveInt = Field(64, description="For openai: texts per request")
    timeout_s: PositiveFloat = Field(30, description="For openai: time limit for one request, seconds")
    query_timeout_s: PositiveFloat = Field(1.5, description="Maximum wait for a question's vector, seconds")

    @model_validator(mode="after")
    def _check_endpoint(self) -> EmbeddingSettings:
        if self.provider == "openai" and not (self.base_url and self.model and self.dimension):
            raise ValueError("provider openai needs base_url, model and dimension")
        if self.provider == "fastembed" and not (self.model or self.path):
            raise ValueError("provider fastembed needs model or path")
        return self


class ChunkingSettings(Section):
    """The length of passages in tokens of the local embedding model (about 4 characters each)."""

    tokens: int = Field(200, ge=50, le=2000, description="Maximum length of a passage, tokens")


class RerankerSettings(Section):
    """The service or model of a reranker that needs one."""

    url: str = Field(
        "",
        pattern=r"^(https?://[^/\s]+\S*)?$",
        description="For api: the endpoint, such as https://api.cohere.com/v2/rerank",
    )
    model: str = Field("", description="For api: the model's name, if the service needs one; for fastembed: its name")
    api_key: Secret | None = Field(None, description="For api: omit it if the service needs none")
    texts_key: Literal["documents", "texts"] = Field(
        "documents", description="For api: texts for Text Embeddings Inference, documents for all others"
    )
    path: Path | None = Field(
        None, description="For cross_encoder, fastembed: a folder with an ONNX model (model.onnx) and tokenizer.json"
    )
    timeout_s: PositiveFloat = Field(2.0, description="For api: time limit for one call, seconds")
    top_n: int = Field(
        24, ge=1, le=200, description="For all: maximum number of passages to rerank, the best of the search"
    )


class SearchSettings(Section):
    """Hybrid search and reranking."""

    alpha: float = Field(0.5, ge=0, le=1, description="Weight of the dense score against the lexical one")
    candidates: PositiveInt = Field(100, description="Candidates from each search (dense, lexical) before fusion")
    rerank: Literal["embedding", "api", "model", "cross_encoder", "fastembed", "none"] = Field(
        "embedding", description="How the passages of all agents are reranked"
    )
    reranker: RerankerSettings = RerankerSettings()
    kind_weights: dict[Name, Annotated[float, Field(gt=0, le=10)]] = Field(
        default_factory=dict,
        description="By kind of document (code for all languages): factor for the scores of its passages",
    )
    min_similarity: float = Field(
        0.25, ge=-1, le=1, description="Without a language model: minimum similarity of the evidence for an answer"
    )

    @model_validator(mode="after")
    def _check_reranker(self) -> SearchSettings:
        if self.rerank == "api" and not self.reranker.url:
            raise ValueError("rerank api needs reranker.url")
        if self.rerank == "cross_encoder" and not self.reranker.path:
            raise ValueError("rerank cross_encoder needs reranker.path")
        if self.rerank == "fastembed" and not (self.reranker.model or self.reranker.path):
            raise ValueError("rerank fastembed needs reranker.model or reranker.path")
        return self


class WeaviateSettings(Section):
    """A Weaviate server or cluster, for passages that several machines share."""

    host: str = Field("localhost", min_length=1, description="The server's name or address")
    http_port: int = Field(8080, ge=1, le=65535, description="Its HTTP port")
    grpc_port: int = Field(50051, ge=1, le=65535, description="Its gRPC port")
    secure: bool = Field(False, description="Use TLS on both ports")
    api_key: Secret | None = Field(None, description="Omit it if the server needs none")
    collection: str = Field(
        "Kimas", pattern=r"^[A-Z][A-Za-z0-9]{0,60}$", description="Prefix of the names of its two collections"
    )
    tenant: str = Field(
        "",
        pattern=r"^[A-Za-z0-9_-]{0,64}$",
        description="Tenant in collections that several deployments share; empty: the collections are not shared",
    )
    deployment: str = Field(
        "",
        pattern=r"^[A-Za-z0-9_-]{0,64}$",
        description="Deployment that the passages belong to, for machines without a common journal; "
        "empty: that of the journal",
    )
    replicas: PositiveInt = Field(1, description="Number of replicas; used when a collection is created")
    consistency: Literal["one", "quorum", "all"] = Field("quorum", description="Replicas that must confirm a write")
    batch: int = Field(200, ge=1, le=5000, description="Passages sent in one request")
    connect_timeout_s: PositiveFloat = Field(5, description="Maximum wait for the server at the start, seconds")
    read_timeout_s: PositiveFloat = Field(20, description="Time limit for one search or read, seconds")
    write_timeout_s: PositiveFloat = Field(60, description="Time limit for one write request, seconds")

    @model_validator(mode="after")
    def _check_distinct_ports(self) -> WeaviateSettings:
        if self.http_port == self.grpc_port:
            raise ValueError("http_port and grpc_port must differ")
        return self


class StoreSettings(Section):
    """Where passages are stored."""

    provider: Literal["sqlite", "weaviate"] = Field("sqlite", description="sqlite: in data_dir; weaviate: on a server")
    weaviate: WeaviateSettings = WeaviateSettings()


class ParsingSettings(Section):
    """The worker processes that read and cut documents. A document beyond a limit is skipped, counted and named."""

    workers: int = Field(2, ge=1, le=32, description="Maximum number of worker processes; they start when needed")
    memory_mb: int = Field(256, ge=64, description="Memory of one worker, MB (on Linux)")
    cpu_s: PositiveInt = Field(60, description="Processor time for one document, seconds")
    wall_s: PositiveFloat = Field(180, description="Time limit for one document, seconds")
    output_mb: PositiveInt = Field(32, description="Text that one document may yield, MB")
    max_passages: PositiveInt = Field(10_000, description="Passages that one document may yield")


class KnowledgeSettings(Section):
    """Everything about the passage store and how it is filled."""

    store: StoreSettings = StoreSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    parsing: ParsingSettings = ParsingSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    routing: RoutingSettings = RoutingSettings()
    search: SearchSettings = SearchSettings()
    refresh_minutes: float = Field(
        60,
        ge=0,
        description="Minutes between two refreshes of a source without its own `refresh`; 0: only at the start",
    )
