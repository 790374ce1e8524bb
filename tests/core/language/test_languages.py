"""Which language a text is in, and what a translation keeps."""

from __future__ import annotations

import pytest

from core.answering.rewriting.query_reply import QUERY_SCHEMA, is_refusal
from core.language.languages import extract_names, identify_document_language, is_in_language
from core.llm.structured_output import parse_structured_reply


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("iptables那几条规则怎么写", {"iptables"}),
        ("token要去哪里拿", {"token"}),
        ("用 Docker-Compose 启动 k8s.io 的v1.30", {"dockercompose", "k8sio", "v130"}),
        ("Пакет pip_tools не работает", {"piptools"}),
    ],
)
def test_names_end_where_another_script_begins(text: str, names: set[str]) -> None:
    assert extract_names(text) == names


def test_one_word_that_another_language_has_too_says_nothing() -> None:
    assert is_in_language("Old songs have no tags at all", "en") is None


def test_words_of_two_other_languages_are_not_in_a_third() -> None:
    assert is_in_language("How do I add a website as a source", "de") is False


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("quiet: no\nresume: ask\nas: com\nmove: no", ""),
        ("# el nombre de la carpeta", ""),
        ("# The name of the folder where the files are\nfolder: no", "en"),
        ("# 文件夹的名字\nfolder: no", "zh"),
    ],
)
def test_words_of_a_configuration_are_no_romance_language(text: str, code: str) -> None:
    assert identify_document_language(text, is_prose=False) == code
    assert identify_document_language("# el nombre de la carpeta", is_prose=True) == "es"


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("I cannot help with that.", True),
        ("I don't have access to the documents", True),
        ("I'm sorry, but I need more context", True),
        ("I do not notice errors in production until users complain", False),
        ("I can't start the server after an upgrade", False),
    ],
)
def test_what_a_person_cannot_do_is_no_refusal(text: str, is_refused: bool) -> None:
    assert is_refusal(text, "我在生产环境里看不到错误") is is_refused


@pytest.mark.parametrize("reply", ['{"query": null}', '```json\n{"query": null}\n```', '{"query": ""}'])
def test_a_query_of_nothing_is_no_query(reply: str) -> None:
    assert not parse_structured_reply(reply, QUERY_SCHEMA, lambda parsed: parsed.get_text("query"))
