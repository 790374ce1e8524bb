"""The lexical tokens: what a search must find, whatever way it is written, and what a store may rely on."""

from __future__ import annotations

import random
import re
import time

import pytest

from core.language.tokens import distinct_words, lexical_tokens, query_tokens, query_words, simplify, weigh_words
from tests.support.growth import measure


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("MsgHub", "msghub msg hub"),
        ("OpenAIChatModel", "openaichatmodel open ai chat model"),
        ("HTTPServer", "httpserver http server"),
        ("SOME_CONSTANT", "someconst constant"),
        ("asyncio.gather", "asynciogath asyncio gather"),
        ("__init__", "init"),
        ("LLMs", "llm"),
        ("GPUs gpus gpu", "gpu gpu gpu"),
        ("gpt4 gpt-4", "gpt4 gpt 4 gpt4 gpt 4"),
        ("utf8", "utf8 utf 8"),
        ("x86_64", "x8664 x86 64"),
        ("v2 k8s", "v2 k8s k8"),
        ("version 3.11", "version 311 3 11"),
        ("multi-agent", "multiag multi agent"),
        ("src/agents/hub.py", "src agent hubpi hub py"),
        ("What is the answer?", "answer"),
        ("it doesn't", ""),
        ("", ""),
        ("  \n\t ?! ", ""),
    ],
)
def test_tokens_of_words_and_identifiers(text: str, tokens: str) -> None:
    assert lexical_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("检索代理", "检索 索代 代理"),
        ("的", "的"),
        ("使用MsgHub的方法。", "使用 msghub msg hub 的方 方法"),
        ("ガイドブック", "ガイ イド ドブ ブッ ック"),
        ("対話する", "対话 话す する"),
        ("대한민국 만세", "대한 한민 민국 만세"),
        ("ＡＢＣ　１２３", "abc 123"),
        ("Café naïve Ørsted ﬁn", "cafe naiv orst fin"),
        ("Straße", "strass"),
        ("Ёлка и ЩИ", "елка и щи"),
        ("e\u0301tude", "etud"),
    ],
)
def test_tokens_of_other_scripts(text: str, tokens: str) -> None:
    assert lexical_tokens(text) == tokens


@pytest.mark.parametrize(
    "family",
    [
        "readFile ReadFile read_file READ_FILE read-file read.file",
        "route routes routed routing",
        "embed embeds embedded embedding embeddings",
        "query queries queried querying",
        "match matches matched matching",
        "class classes",
        "cache caches cached caching",
        "setting settings",
        "status statuses",
        "configure configured configuring configuration configurations",
        "LLM LLMs",
    ],
)
def test_words_of_a_family_meet(family: str) -> None:
    assert len({lexical_tokens(word).split()[0] for word in family.split()}) == 1


def test_unrelated_words_stay_apart() -> None:
    words = ["string", "strong", "thing", "bus", "business", "process", "need", "code", "node", "red", "reed", "agent"]
    assert len({lexical_tokens(word) for word in words}) == len(words)


@pytest.mark.parametrize(
    "noise", ["a" * 65, "0123456789abcdef" * 5, "iVBORw0KGgo+AAAA/NSUhEUg" * 40 + "==", "x_" * 2 + "y" * 100]
)
def test_encoded_data_is_dropped(noise: str) -> None:
    tokens = lexical_tokens(f"before {noise} after").split()
    assert tokens[0] == "befor"
    assert tokens[-1] == "after"
    assert all(len(token) <= 2 for token in tokens[1:-1])


def test_a_commit_and_a_digest_can_be_searched() -> None:
    commit = "9fceb02d0ae598e95dc970b74767f19372d61af8"
    digest = "53aa51172d142c89" * 4
    assert {commit, digest} <= set(lexical_tokens(f"{commit} {digest}").split())


def test_output_is_words_and_single_spaces_for_any_input() -> None:
    chance = random.Random(7)
    alphabets = ["aZ09_.-/+' \n", "éßŁıİﬁ²½ŉΐ", "检カがガ한々ー", "\u0301\u3099\ud83d\udc4d\U0001f600\u200d", "हि्ثَไท"]
    for _ in range(3000):
        text = "".join(chance.choice(chance.choice(alphabets)) for _ in range(chance.randrange(30)))
        text += "".join(chr(chance.randrange(0x110000)) for _ in range(3))
        tokens = lexical_tokens(text)
        assert re.fullmatch(r"([^\W_]+( [^\W_]+)*)?", tokens), (text, tokens)
        assert tokens == tokens.lower(), (text, tokens)
        # An index that takes every token as it is, and a query for the same text, agree.
        assert distinct_words(text, 1000) == set(tokens.split())
        assert set(query_tokens(text, 1000).split()) >= set(tokens.split())


def test_traditional_chinese_is_searched_simplified_and_as_stored() -> None:
    assert lexical_tokens("設定權限") == lexical_tokens("设定权限") == "设定 定权 权限"
    assert query_tokens("設定權限") == "设定 設定 定权 定權 权限 權限"
    assert query_tokens("设定权限") == "设定 定权 权限"
    # As it is written does not matter, so both count as one word.
    assert query_words("權限 权限 頭髮 頭發") == [("权限", "權限"), ("头发", "頭髮", "頭發")]
    assert query_words("权限 權限") == [("权限", "權限")]


def test_a_long_question_in_traditional_chinese_is_searched_as_far() -> None:
    question = "請問如何設定這個專案的權限並且讓其他使用者無法存取我們團隊的資料庫伺服器還有備份檔案以及記錄檔"
    question += "因為我們最近發現有些人員離職之後仍然可以登入系統查看所有內容所以想要知道應該怎麼處理比較好"
    assert set(query_tokens(simplify(question)).split()) <= set(query_tokens(question).split())
    assert query_tokens(question, limit=2) == "请问 請問 问如 問如"


def test_a_word_in_two_scripts_weighs_as_much_as_its_more_frequent_form() -> None:
    words = query_words("權限 設定 proxy")
    assert weigh_words(words, {"權限": 2.0, "权限": 5.0, "设定": 1.0}, 5.0) == [2.0, 1.0, 5.0]


def test_query_tokens_are_unique_in_order_and_limited() -> None:
    assert query_tokens("the hub, the MsgHub and the hub") == "hub msghub msg"
    assert query_tokens("one two three four", limit=2) == "one two"
    assert query_tokens("MsgHub", limit=1) == "msghub"
    assert query_tokens("what is it?") == ""


@pytest.mark.parametrize(
    "unit", ["word ", "_", "a_", "a.b-", "Aa", "a" * 127 + " ", "检", "é", "\u0301", "a+/", "1", "'s "]
)
def test_no_input_is_slow(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    started_at = time.thread_time()
    lexical_tokens(text)
    query_tokens(text)
    assert time.thread_time() - started_at < 2


def test_ordinary_text_costs_little_more_than_splitting_it() -> None:
    chance = random.Random(3)
    letters = "etaoinshrdlucmfw"
    words = ["".join(chance.choices(letters, k=chance.randrange(2, 11))) for _ in range(20_000)]
    text = " ".join(chance.choice(words) for _ in range(80_000))

    def split(text: str) -> str:
        return " ".join(word.lower() for word in re.findall(r"\w+", text))

    pairs = [(measure(lexical_tokens, text), measure(split, text)) for _ in range(3)]
    tokens_s, splitting_s = (min(seconds) for seconds in zip(*pairs, strict=True))
    assert tokens_s < 10 * splitting_s


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("Kon\u00adfi\u00adgu\u00adra\u00adtion", "Konfiguration"),
        ("\u0627\u0644\u0639\u0640\u0640\u0640\u0631\u0628\u064a\u0629", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629"),
        ("time\u2060zone", "timezone"),
        ("\u0646\u0645\u06cc\u200c\u062f\u0627\u0646\u0645", "\u0646\u0645\u06cc\u062f\u0627\u0646\u0645"),
    ],
)
def test_signs_that_nobody_sees_do_not_cut_a_word(written: str, word: str) -> None:
    assert lexical_tokens(written) == lexical_tokens(word)
