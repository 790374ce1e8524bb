"""The passage store: how it is filled and searched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from core.settings.base import Address, Name, Secret, Section


class RoutingSettings(Section):
    """How questions find their agents (docs/answering.md#routing)."""

    enabled: bool = Field(True, description="choose agents; `false` sends every question to all of them")
    agents: PositiveInt = Field(3, description="agents that a question is sent to at most")
    centroids: PositiveInt = Field(
        32, description="k-means centroids per agent at most; of n passages there are about √(8 n)"
    )
    threshold: float = Field(
        0.2,
        ge=-1,
        le=1,
        description="agents with a lower score are not asked, unless one of their passages is near the question",
    )
    kind_scales: dict[Name, PositiveFloat] = Field(
        default_factory=dict,
        description="by kind of source (`files`, `git`, `faq`, ...): multiplies the scores of its agents, in addition "
        "to their own `scale`, such as `{faq: 1.1, git: 0.9}`",
    )


class InputTypeSettings(Section):
    """How a request for vectors says whether its texts are queries or passages."""

    field: str = Field("input_type", min_length=1, description="name of the field in the request")
    query: str = Field("search_query", description="its value for questions")
    passage: str = Field("search_document", description="its value for passages")


class EmbeddingSettings(Section):
    """The embedding model: built-in, multilingual, one that fastembed runs here, or an OpenAI-compatible endpoint."""

    provider: Literal["local", "multilingual", "fastembed", "openai"] = Field(
        "local",
        description="`local` (the built-in model, for English, see docs/install.md#the-embedding-model), "
        "`multilingual` (fifteen languages, on this machine), `fastembed` (another model on this machine) or `openai` "
        "(an OpenAI-compatible endpoint)",
    )
    base_url: Address = Field("", description="for openai: the endpoint")
    model: str = Field("", description="for openai: the model's name; for fastembed: its name there")
    path: Path | None = Field(
        None,
        description="for local, multilingual and fastembed: a folder with the model's files; nothing is downloaded",
    )
    dimension: PositiveInt | None = Field(None, description="for openai: the vectors' length")
    api_key: Secret | None = Field(None, description="for openai: a secret")
    batch: PositiveInt = Field(64, description="for openai: texts per request")
    query_prefix: str | None = Field(
        None,
        description="for openai and fastembed: what precedes a question, such as `query: `; null: what is known of the "
        "model by its name (docs/configure.md#knowledgeembedding)",
    )
    passage_prefix: str | None = Field(
        None, description="the same for a passage; after a change the knowledge must be rebuilt"
    )
    input_type: InputTypeSettings | None = Field(
        None,
        description="for openai: the field of a request that tells questions from passages, such as `{query: "
        "search_query, passage: search_document}`; null: what is known of the model",
    )
    query_timeout_s: PositiveFloat = Field(
        1.5,
        description="longest wait for a question's vector, seconds; after that, the search uses the question's words "
        "alone",
    )

    @model_validator(mode="after")
    def _check_endpoint(self) -> EmbeddingSettings:
        if self.provider == "openai" and not (self.base_url and self.model and self.dimension):
            raise ValueError("provider openai needs base_url, model and dimension")
        if self.provider == "fastembed" and not (self.model or self.path):
            raise ValueError("provider fastembed needs model or path")
        return self


class ChunkingSettings(Section):
    """How documents are split."""

    tokens: int = Field(200, ge=50, le=2000, description="length of a passage at most; a token is about 4 characters")


class RerankerSettings(Section):
    """Settings for `api`, `model`, `cross_encoder` and `fastembed`."""

    url: Address = Field(
        "",
        pattern=r"^(https?://[^/\s]+\S*)?$",
        description="for api: the address, with its path: Cohere, Jina, vLLM, Infinity, Text Embeddings Inference and "
        "the like",
    )
    model: str = Field(
        "", description="for api: the model's name, if the service requires one; for fastembed: its name there"
    )
    api_key: Secret | None = Field(None, description="for api: a secret; leave it out if the service needs none")
    texts_key: Literal["documents", "texts"] = Field(
        "documents", description="for api: `texts` for Text Embeddings Inference, `documents` for all others"
    )
    path: Path | None = Field(None, description="for cross_encoder and fastembed: the folder")
    top_n: int = Field(
        24, ge=1, le=200, description="for all: how many of the best passages are reranked at most; the others follow"
    )


class SearchSettings(Section):
    """How passages are found and ordered."""

    alpha: float = Field(0.5, ge=0, le=1, description="weight of the dense score against the lexical one")
    rerank: Literal["auto", "embedding", "api", "model", "cross_encoder", "fastembed", "none"] = Field(
        "auto",
        description="how the passages of all agents are ranked: `embedding`, `api`, `model`, `cross_encoder`, "
        "`fastembed` or `none`; `auto`: by `models.light`, once for each answer, else by `embedding`",
    )
    reranker: RerankerSettings = RerankerSettings()
    kind_weights: dict[Name, Annotated[float, Field(gt=0, le=10)]] = Field(
        default_factory=dict,
        description="by kind of document: factor for its passages' scores after reranking, such as `{code: 0.9, faq: "
        "1.2}`; above 0, at most 10",
    )
    min_fit: float = Field(
        0.3,
        ge=0,
        le=1,
        description="without a language model: how well a section must fit the question to be quoted, the mean of the "
        "share of its words that the section has and their similarity; where nothing is quoted, the nearest pages are "
        "named",
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
    """A Weaviate server, for the provider `weaviate` and for `kimas store copy` (docs/weaviate.md)."""

    host: str = Field("localhost", min_length=1, description="the server's name or address")
    http_port: int = Field(8080, ge=1, le=65535, description="its port for HTTP")
    grpc_port: int = Field(50051, ge=1, le=65535, description="its port for gRPC")
    secure: bool = Field(False, description="speak TLS on both ports")
    api_key: Secret | None = Field(None, description="a secret, if the server requires one")
    collection: str = Field(
        "Kimas",
        pattern=r"^[A-Z][A-Za-z0-9]{0,60}$",
        description="how the names of its two collections begin: a capital, then letters and digits",
    )
    tenant: str = Field(
        "",
        pattern=r"^[A-Za-z0-9_-]{0,64}$",
        description="a separate part of shared collections, for several deployments on one cluster: letters, digits, - "
        "and _",
    )
    deployment: str = Field(
        "",
        pattern=r"^[A-Za-z0-9_-]{0,64}$",
        description="the deployment that the passages belong to, for machines that have no common journal; empty: an "
        "id that the journal keeps (docs/weaviate.md#several-deployments-on-one-cluster)",
    )
    replicas: PositiveInt = Field(
        1, description="machines that hold each passage; takes effect only when a collection is created"
    )
    consistency: Literal["one", "quorum", "all"] = Field(
        "quorum", description="replicas that must confirm a write: `one`, `quorum` or `all`"
    )
    read_timeout_s: PositiveFloat = Field(20, description="longest time for one search or reading, seconds")
    write_timeout_s: PositiveFloat = Field(60, description="longest time for one request that writes, seconds")

    @model_validator(mode="after")
    def _check_distinct_ports(self) -> WeaviateSettings:
        if self.http_port == self.grpc_port:
            raise ValueError("http_port and grpc_port must differ")
        return self


class StoreSettings(Section):
    """Where passages are stored."""

    provider: Literal["sqlite", "weaviate"] = Field(
        "sqlite", description="`sqlite` (a file in `data_dir`) or `weaviate` (a server, see docs/weaviate.md)"
    )
    weaviate: WeaviateSettings = WeaviateSettings()

    @property
    def place(self) -> str:
        """What tells this store from others that a deployment may have had, whatever way leads to it; "" for files."""
        server = self.weaviate
        return f"{server.collection} {server.tenant}" if self.provider == "weaviate" else ""


class ParsingSettings(Section):
    """The worker processes that read and split documents. A document beyond a limit is skipped and named."""

    workers: int = Field(
        2, ge=1, le=32, description="worker processes at most; they start when they are needed, and end when they idle"
    )
    memory_mb: int = Field(256, ge=64, description="memory of one worker, MB, from 64 on (on Linux)")
    cpu_s: PositiveInt = Field(60, description="processor time for one document, seconds")
    wall_s: PositiveFloat = Field(180, description="longest time for one document, seconds")
    max_passages: PositiveInt = Field(10_000, description="passages that one document may yield")


class KnowledgeSettings(Section):
    """How passages are made, stored and found."""

    store: StoreSettings = StoreSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    parsing: ParsingSettings = ParsingSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    routing: RoutingSettings = RoutingSettings()
    search: SearchSettings = SearchSettings()
    refresh_minutes: float = Field(
        60,
        ge=0,
        description="how often `kimas run` refreshes a source whose `refresh` says nothing else; 0: at each start only",
    )
