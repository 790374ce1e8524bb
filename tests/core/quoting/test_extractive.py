"""Answers without a model: what is quoted, with what it announces, and what is left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from core.citations.markers import get_readable_title, resolve_markers
from core.quoting.extractive import MAX_SIMILAR_QUOTES, extract_answer, extract_similar
from core.quoting.nearest import MAX_LINE_CHARS, NearPage, find_nearest_pages
from core.quoting.quotable import WINDOW_SENTENCES, get_quotables
from core.quoting.subject import Subject, tokenize
from core.types import Passage
from tests.support.fixtures import INSTALL, InMemoryLibrary, passage

INSTALL_PAGE = """\
# Tarn

Tarn keeps tables. It is small.

## Install

Install it with pip:

```bash
pip install tarn
```

Then start the server.
"""


async def quote(question: str, *texts: str, kind: str = "markdown") -> str:
    passages = [passage(f"page{number}", text, kind=kind) for number, text in enumerate(texts)]
    return await extract_answer(question, passages, InMemoryLibrary())


async def test_a_colon_brings_the_command_that_it_announces() -> None:
    quotes = await quote("How do I install tarn?", INSTALL_PAGE)
    assert "> Install it with pip: [p1]\n\n```bash\npip install tarn\n```" in quotes


async def test_fences_within_quoted_code_stay() -> None:
    code = "```{note}\nTarn needs a note.\n```"
    quotes = await quote(
        "How do I write a note in tarn?", f"Write a note in tarn like this:\n\n````markdown\n{code}\n````\n"
    )
    assert quotes.endswith(f"\n\n````markdown\n{code}\n````")


async def test_a_colon_brings_the_list_that_it_announces() -> None:
    text = (
        "A backup of tarn has two parts:\n\n- the data folder\n- the configuration file of the server\n\nThat is all."
    )
    assert "> A backup of tarn has two parts:\n> - the data folder\n> - the conf" in await quote("tarn backup?", text)


async def test_a_colon_that_announces_nothing_is_not_quoted() -> None:
    assert await quote("How do I install tarn?", "Install tarn with pip:") == ""
    quotes = await quote("How do I install tarn?", "Tarn needs Python to install. Install tarn with pip:")
    assert quotes == "> Tarn needs Python to install. [p1]"


async def test_who_asks_how_gets_the_code_that_follows_in_the_section() -> None:
    text = (
        "# Spiders\n\nA spider of tarn is small.\n\n```python\nspider = None\n```\n\n"
        "# Run a spider from a script\n\nTarn can run a spider from a script of yours.\n\n"
        "It needs its own process, which ends with the last page.\n\n"
        "Begin and end it yourself.\n\n```python\nprocess.crawl(MySpider)\nprocess.start()\n```\n"
    )
    quotes = await quote("How do I run a spider from a script?", text)
    assert quotes.startswith("> Tarn can run a spider from a script of yours. [p1]\n\n")
    assert quotes.endswith("process.start()\n```")
    assert "process" not in await quote("Can tarn run a spider from a script?", text)


async def test_who_asks_how_many_gets_the_number_alone() -> None:
    text = "# Workers\n\nTarn has up to eight workers.\n\nBy the way:\n\n- tea is green\n- coffee is black\n"
    assert await quote("How many workers can tarn have?", text) == "> Tarn has up to eight workers. [p1]"


async def test_who_asks_how_gets_the_list_that_follows_where_there_is_no_code() -> None:
    text = (
        "# Avoiding getting banned\n\nTo avoid getting banned, make yourself known.\n\n"
        "Where that is not enough, these help:\n\n- space out the requests\n- disable the cookies of the client\n"
    )
    quotes = await quote("How do I avoid getting banned?", text)
    assert quotes.endswith("these help:\n> - space out the requests\n> - disable the cookies of the client [p1]")


async def test_chinese_commands_are_quoted_as_well() -> None:
    text = "# 备份\n\n停止服务后，执行以下命令备份数据：\n\n```shell\ntarn backup out.tar\n```\n\n完成。"
    quotes = await quote("怎么备份数据？", text)
    assert quotes == "> 停止服务后，执行以下命令备份数据： [p1]\n\n```shell\ntarn backup out.tar\n```"


@pytest.mark.parametrize("kind", ["web", "issue", "release", "html", "asciidoc", "text"])
async def test_every_kind_of_prose_is_quoted(kind: str) -> None:
    assert "rotated every night" in await quote(
        "When is the key rotated?", "The key is rotated every night.", kind=kind
    )


@pytest.mark.parametrize(
    "question",
    ["How do I configure nginx for WordPress?", "Who won the football match yesterday?", "红烧肉怎么做好吃？"],
)
async def test_nothing_is_quoted_about_what_the_sources_do_not_know(question: str) -> None:
    pages = (
        "Configure the server with tarn.toml. Who may read it is yours to say.",
        "怎么做备份？停止服务，复制数据目录。",
    )
    assert await quote(question, *pages) == ""


async def test_a_rare_word_weighs_more_than_common_ones() -> None:
    class WeightedLibrary(InMemoryLibrary):
        async def term_weights(self, query: str) -> Mapping[str, float]:
            return {"server": 0.2, "start": 0.3, "telemetri": 6.0}

    page = passage("page", "The telemetry goes to a file that you name.")
    assert "telemetry" in await extract_answer("Start the server's telemetry?", [page], WeightedLibrary())
    other = passage("page", "Start the server with tarn serve on any machine.")
    assert await extract_answer("Start the server's telemetry?", [other], WeightedLibrary()) == ""


async def test_the_best_passage_comes_first_and_nothing_twice() -> None:
    text = "The key is rotated every night. Old keys stay valid for a day after the key was rotated."
    quotes = await quote(
        "When is the key rotated?", text, f"Keys\n\n{text}", "A key is rotated by hand on demand, too."
    )
    assert quotes.startswith("> The key is rotated every night.")
    assert quotes.count("every night") == 1
    assert quotes.index("[p1]") < quotes.index("[p3]")


async def test_what_stands_below_the_question_itself_comes_first() -> None:
    pages = (
        "# storeToRefs\n\nCreates refs of a store: what the store is, and what a store has.",
        "# Start\n\n## What is a Store?\n\nAn entity that holds state and is bound to no component.",
    )
    assert (await quote("what is a store", *pages)).startswith("> An entity that holds state")


async def test_the_language_of_the_question_comes_before_another() -> None:
    pages = ("Set `LIMIT` to change how large uploads may be.", "用 `LIMIT` 设置上传的限制，单位是兆字节。")
    quotes = await quote("LIMIT 怎么用？", *pages)
    assert "兆字节" in quotes
    assert "how large" not in quotes


async def test_a_sentence_that_only_refers_elsewhere_is_not_the_answer() -> None:
    pages = ("For more on how keys rotate, see the guide.", "Old keys rotate out of the ring after a day of grace.")
    quotes = await quote("How do keys rotate?", *pages)
    assert "after a day" in quotes
    assert "see the guide" not in quotes


async def test_chinese_lines_are_joined_without_blanks() -> None:
    quotes = await quote("密钥怎么轮换？", "密钥由服务器在每天\n夜里轮换。旧的密钥再保留一天。")
    assert "> 密钥由服务器在每天夜里轮换。旧的密钥再保留一天。 [p1]" in quotes


async def test_a_setting_is_quoted_with_its_name() -> None:
    text = "max_peers\n---------\n\nThe number of peers that may connect to the server at the same time."
    assert (await quote("How many peers may connect?", text, kind="rst")).startswith("> `max_peers`: The number")


async def test_a_definition_is_named_without_its_signature() -> None:
    code = passage("core", '"""Rotate the key that signs all tokens."""', kind="python")
    code = replace(code, title="core.py > class Ring > rotate(self, key: str = '') -> None")
    assert await extract_answer("rotate key", [code], InMemoryLibrary()) == (
        "> `rotate`: Rotate the key that signs all tokens. [p1]"
    )


async def test_a_longer_quote_that_has_the_words_of_a_short_one_says_more() -> None:
    quotes = await quote(
        "How do I set the user agent?",
        "# User agent\n\nTarn sets the user agent.",
        "# Requests\n\nThe user agent of tarn is set with `AGENT`, beside the address and the language of a client.",
    )
    assert quotes.startswith("> Tarn sets the user agent. [p1]\n\n> The user agent of tarn is set with `AGENT`")


def test_a_chinese_pair_over_the_border_of_two_words_does_not_count() -> None:
    subject = Subject.from_question("量化支持", {"量化": 1.0, "化支": 6.0, "支持": 1.0})
    assert subject.get_coverage({"量化", "支持"}) == 1


@pytest.mark.parametrize(
    ("question", "tokens"),
    [
        ("Rocket 是什么东西呀？", {"rocket"}),
        ("灰度发布咋用啊", {"灰度", "发布"}),
        ("空数组是啥意思嘛", {"空数", "数组"}),
        ("請問權限怎麼設定？", {"权限", "设定"}),
        ("請問權限怎麼設定？", {"權限", "設定"}),
    ],
)
def test_chinese_function_words_are_not_part_of_a_subject(question: str, tokens: set[str]) -> None:
    assert Subject.from_question(question, {}).get_coverage(tokens) == 1


@pytest.mark.parametrize("question", ["權限設定", "权限设定", "誰？"])
@pytest.mark.parametrize("text", ["誰？權限設定", "谁？权限设定"])
def test_a_subject_in_chinese_is_found_in_both_scripts(question: str, text: str) -> None:
    assert Subject.from_question(question, {}).get_coverage(tokenize(text)) == 1


@pytest.mark.parametrize(
    ("title", "readable"),
    [
        ("client.py > class Client(Base) > connect(self, host: str) -> Session", "client.py > Client > connect"),
        ("docs/zh_cn/get_started.md", "get_started.md"),
        ("Guide > Install (Linux) / Windows", "Guide > Install (Linux) / Windows"),
        ("def run", "run"),
    ],
)
def test_titles_of_links_are_names(title: str, readable: str) -> None:
    assert get_readable_title(title) == readable


def test_marks_are_numbered_in_the_order_of_their_first_use() -> None:
    passages = [passage(name, "text") for name in ("a", "b", "c")]
    assert resolve_markers("One [p3][p1]. Two [p2, p3].", passages).text == "One [1][2]. Two [1][3]."
    assert resolve_markers("One [p3]. Two [p2, p3].", passages).text == "One [1]. Two [1][2]."


def test_reading_blocks_is_linear() -> None:
    hard = (
        "。」" * 10_000,
        "。**" * 10_000,
        ">" * 20_000,
        "> " * 10_000,
        "`" * 20_000,
        "|" * 20_000,
        "[" * 20_000,
        ":a" * 10_000,
        "<a " * 10_000,
        "``a" * 8_000,
        "- " * 10_000,
    )
    lines = ("| a\n" * 5_000, "```\n" * 5_001, ".. note::\n" * 3_000, "a:\n\n" * 3_000, "=====\na\n" * 3_000)
    for text in (*hard, *lines):
        started_at = time.thread_time()
        get_quotables(text)
        assert time.thread_time() - started_at < 3, text[:20]


def test_a_run_of_marks_ends_one_sentence() -> None:
    assert [quotable.sentences for quotable in get_quotables("好。！！下一句。")] == [frozenset({0, 1})]


@pytest.mark.parametrize(
    ("text", "quotation"),
    [
        ("密钥**由服务器轮换。** 它每天轮换。", "密钥**由服务器轮换。** 它每天轮换。"),
        ("密钥由服务器轮换。**注意：**每天一次。", "密钥由服务器轮换。**注意：**每天一次。"),
        ("（密钥由服务器轮换。）\nTarn 每天做。", "（密钥由服务器轮换。）Tarn 每天做。"),
        ("密钥由服务器轮换。\nTarn 每天做，\nAPI （旧）也是。", "密钥由服务器轮换。Tarn 每天做，API（旧）也是。"),
        ("他说“密钥要轮换。”然后走了。", "他说“密钥要轮换。”然后走了。"),
        ("密钥在这里轮换： https://tarn.org 每天。", "密钥在这里轮换： https://tarn.org 每天。"),
        ("密钥可以参见 {ref}`轮换 <x>` 一节（`key`）。", "密钥可以参见轮换一节（`key`）。"),
        ("> >注：密钥由服务器轮换。", "注：密钥由服务器轮换。"),
        (">> 密钥由服务器\n>> 每天轮换。", "密钥由服务器每天轮换。"),
        ("열쇠는 매일 바뀝니다", "열쇠는 매일 바뀝니다"),
    ],
)
def test_no_blank_and_no_mark_is_put_into_chinese_text(text: str, quotation: str) -> None:
    assert get_quotables(text)[0].text == quotation


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("密钥有两种。它们「每天轮换。」", "它们「每天轮换。」"),
        ("密钥有两种。**它们每天轮换。**", "**它们每天轮换。**"),
        ("密钥有两种。（它们每天轮换！）", "（它们每天轮换！）"),
        (f"**{'密钥很长' * 80}。它们每天轮换。**", "它们每天轮换。"),
        (f"`**kwargs` {'is long ' * 40}here. It takes `**kwargs`, too.", "It takes `**kwargs`, too."),
    ],
)
def test_what_closes_after_a_sentence_belongs_to_it(text: str, last: str) -> None:
    assert get_quotables(text)[-1].text.endswith(last)
    assert get_quotables(text)[-1].text.count("**") != 1 or "`" in last
    assert not any(quotable.text.startswith(("」", "）", "** ")) for quotable in get_quotables(text))


async def test_a_quote_does_not_end_in_a_comma() -> None:
    text = "密钥由服务器轮换。\n\n对于轮换密钥的客户端，\n\n# 其他\n\n- 轮换旧的密钥，\n- 新的"
    assert "客户端" not in await quote("密钥怎么轮换？", text)
    assert [quotable.text for quotable in get_quotables(text)] == ["密钥由服务器轮换。", "轮换旧的密钥", "新的"]
    listed = get_quotables("对于轮换密钥的客户端，\n\n- 关闭它\n- 再打开它")[0]
    assert (listed.text, listed.items) == ("对于轮换密钥的客户端，", ("关闭它", "再打开它"))


def test_tiny_sentences_do_not_make_large_windows() -> None:
    quotables = get_quotables("a。" * 500)
    assert len(quotables) > 400
    assert max(len(quotable.sentences) for quotable in quotables) == WINDOW_SENTENCES


async def test_code_without_a_sentence_is_announced_by_its_heading() -> None:
    guide = replace(passage("a", "## 4. Check the configuration\n\n```sh\nkimas check\n```"), title="Guide > 4. Check")
    extract = await extract_answer("How do I check the configuration?", [guide], InMemoryLibrary())
    assert extract == "> Check the configuration: [p1]\n\n```sh\nkimas check\n```"


@pytest.mark.parametrize("announcement", ["Example:", "For example:", "Here is a simple example:", "示例："])
async def test_a_sentence_that_only_says_example_gives_way_to_the_heading(announcement: str) -> None:
    page = passage("page", f"{announcement}\n\n```sh\nrocket keys rotate\n```")
    page = replace(page, title="Guide > Rotating keys")
    extract = await extract_answer("How do I rotate the rocket keys?", [page], InMemoryLibrary())
    assert extract == "> Rotating keys: [p1]\n\n```sh\nrocket keys rotate\n```"


async def test_items_of_a_docstring_from_another_passage_are_not_comments() -> None:
    text = '* ``black`` (might be a gray)\n* ``red``\n"""\n# Colours are codes of the terminal.\nreturn code'
    page = replace(passage("page", text, kind="python"), title="term.py > style")
    extract = await extract_answer("Which colours has style?", [page], InMemoryLibrary())
    assert "gray" not in extract
    assert "Colours are codes of the terminal." in extract


async def near(question: str, *passages: Passage, min_similarity: float = 0.45) -> list[NearPage]:
    return await find_nearest_pages(question, passages, InMemoryLibrary(), min_similarity)


async def test_a_near_page_is_named_once_with_its_closest_line() -> None:
    first = replace(passage("a", "Tarn is a small server."), path="keys.md", similarity=0.6)
    second = replace(passage("b", "It signs. The server signs tokens with a key."), path="keys.md", similarity=0.3)
    third = replace(passage("c", "The signature of a token can be read by all."), similarity=0.5)
    pages = await near("Who signs the tokens?", first, second, third)
    assert pages == [
        NearPage(0, "Tarn is a small server."),
        NearPage(2, "The signature of a token can be read by all."),
    ]
    nearer = replace(second, similarity=0.5)
    assert (await near("Who signs the tokens?", first, nearer))[0].position == 1


async def test_pages_far_from_the_question_or_without_vectors_are_not_named() -> None:
    page = replace(passage("a", "The key is rotated every night."), similarity=0.44)
    assert await near("When is the key rotated?", page, replace(page, similarity=0.0)) == []
    assert await near("When is the key rotated?") == []


async def test_no_more_pages_are_named_than_can_be_read() -> None:
    pages = [passage(name, f"Rotate the key of {name}.") for name in "abcdefgh"]
    assert [page.position for page in await near("How do I rotate?", *pages)] == [0, 1, 2]


async def test_the_line_of_a_page_is_short_and_has_no_marker() -> None:
    text = f"See [the guide](https://example.org/{'x' * 200}) on rotation [1], {'which is long ' * 12}."
    line = (await near("rotation?", replace(passage("a", text), similarity=0.9)))[0].line
    assert line.startswith("See the guide on rotation (1), which is")
    assert line.endswith(" …")
    assert len(line) <= MAX_LINE_CHARS + 2


async def test_a_page_of_code_alone_is_named_without_a_line() -> None:
    code = replace(passage("a", "x = 1\ny = 2\nz = 3\n", kind="python"), similarity=0.9)
    assert await near("What is x?", code) == [NearPage(0, "")]


@dataclass
class MeaningLibrary(InMemoryLibrary):
    """A library in which some words make a text mean what is asked."""

    words: tuple[str, ...] = ()

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return [0.6 if any(word in text for word in self.words) else 0.3 for text in texts]


async def similar(question: str, *texts: str, words: tuple[str, ...], similarity: float = 0.6) -> str:
    passages = [passage(f"page{number}", text, similarity=similarity) for number, text in enumerate(texts)]
    return await extract_similar(question, passages, MeaningLibrary(words=words), 0.45)


async def test_a_sentence_that_means_the_question_is_quoted_in_other_words() -> None:
    text = "Tarn signs with a key. A mirror of the store serves machines that are cut off. It is small, too."
    question = "our server has no internet, is there any mirror of packages?"
    assert await quote(question, text) == ""
    assert await similar(question, text, words=("cut off",)) == (
        "> Tarn signs with a key. A mirror of the store serves machines that are cut off. It is small, too. [p1]"
    )
    assert await similar(question, text, words=("cut off",), similarity=0.4) == "", "the passage is too far away"
    assert await similar(question, text, words=("cloud",)) == "", "no sentence is near"
    assert await similar("where are my packages?", text, words=("cut off",)) == "", "no word is shared"


@pytest.mark.parametrize("text", ["mirror: a mirror # for all", "The examples below show a mirror in use."])
async def test_what_is_no_sentence_or_announces_others_is_not_similar(text: str) -> None:
    assert await similar("is there a mirror?", text, words=("mirror",)) == ""


async def test_few_sentences_are_quoted_for_their_meaning() -> None:
    texts = ("North has a mirror for images.", "Use a mirror when links fail.", "A mirror keeps every package at hand.")
    assert (await similar("is there a mirror?", *texts, words=("mirror",))).count("> ") == MAX_SIMILAR_QUOTES


@pytest.mark.parametrize(
    ("problem", "solution"), [("Problem", "Resolution"), ("问题", "解决方法"), ("Symptoms", "Fix:")]
)
async def test_a_problem_is_quoted_with_its_solution(problem: str, solution: str) -> None:
    page = f"# Clock\n\n## {problem}\n\nThe charts stay empty while traces arrive.\n\n## Reason\n\nClocks differ.\n\n"
    page += f"## {solution}\n\nSynchronize all machines with one time server."
    quoted = await quote("why do my charts stay empty while traces arrive", page)
    assert quoted == (
        "> The charts stay empty while traces arrive. [p1]\n\n> Synchronize all machines with one time server. [p1]"
    )


async def test_a_row_is_quoted_with_the_names_of_its_columns() -> None:
    table = "| 功能 | Nacos | Apollo |\n|---|---|---|\n| 灰度发布 | 支持 | 不支持 |\n| 审计 | 支持 | - |\n"
    row = "灰度发布: Nacos: 支持; Apollo: 不支持"
    assert await quote("灰度发布支持吗？", table) == f"> {row} [p1]"
    assert await near("灰度发布支持吗？", replace(passage("a", table), similarity=0.9)) == [NearPage(0, row)]


async def test_prose_is_quoted_by_sentence_and_code_by_block() -> None:
    code = passage(
        "client",
        "def connect(host):\n"
        '    """Connect to the host and return a session that is ready to use.\n\n    Raises.\n    """\n'
        "    session = Session(host)\n    return session",
        kind="python",
    )
    extract = await extract_answer("How do I connect to the host?", [code, INSTALL], InMemoryLibrary())
    assert "> `Client`: Connect to the host and return a session that is ready to use. [p1]" in extract
    assert "```python\ndef connect(host):\n    session = Session(host)\n    return session\n```" in extract
    assert "pip" not in extract, "a sentence that fits far less is left out"


@pytest.mark.parametrize(
    ("text", "question", "quoted"),
    [
        ("# Keys\n\nThe key is rotated every night by the scheduler.", "When is the key rotated?", "every night"),
        ("Intro.\n\n.. note:: x\n\nThe key is rotated every night.", "When is the key rotated?", "every night"),
        ("| code | meaning |\n|---|---|\n| 69 | a service is unavailable |", "What means code 69?", "69: a service is"),
        ("# 备份\n\n请停止服务，复制数据目录，然后重新启动服务。", "怎么备份数据目录？", "复制数据目录"),
        ("# Ключ\n\nКлюч меняется каждую ночь.", "Когда меняется ключ?", "каждую ночь"),
    ],
)
async def test_prose_is_found_behind_headings_in_tables_and_in_other_scripts(
    text: str, question: str, quoted: str
) -> None:
    assert quoted in await extract_answer(question, [passage("page", text)], InMemoryLibrary())


async def test_a_short_answer_of_a_faq_is_quoted_whole() -> None:
    entry = passage("faq", "How to plant?\n\nDig a deep hole.", kind="faq")
    assert await extract_answer("How to plant?", [entry], InMemoryLibrary()) == "> Dig a deep hole. [p1]"


async def test_marks_of_a_source_are_not_taken_for_ours() -> None:
    cited_passage = passage("paper", "The method was proposed by Smith [2] and improved later [p3].")
    assert "by Smith (2) and improved later (p3). [p1]" in await extract_answer(
        "Who proposed the method?", [cited_passage], InMemoryLibrary()
    )


async def test_what_a_picture_shows_is_not_quoted() -> None:
    text = "The pump. ![How the pump connects to the tank of the house.](pump.svg) It needs a valve for the tank."
    extract = await extract_answer("How does the pump connect to the tank?", [passage("page", text)], InMemoryLibrary())
    assert extract == "> The pump. It needs a valve for the tank. [p1]"


async def test_imports_are_no_code_worth_quoting() -> None:
    module = passage("module", "import os\nimport sys\nfrom typing import Any\n\nimport re", kind="python")
    assert await extract_answer("Which imports?", [module], InMemoryLibrary()) == ""


async def test_quoting_by_meaning_has_a_limit_and_words_stand_in() -> None:
    class Hanging(InMemoryLibrary):
        async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
            await asyncio.sleep(30)
            return []

    async with asyncio.timeout(20):
        assert "pip" in await extract_answer("How do I install the package?", [INSTALL], Hanging(), timeout_s=0.05)


async def test_nothing_is_quoted_from_nothing() -> None:
    assert await extract_answer("How?", [], InMemoryLibrary()) == ""
    headings = passage("headings", "# Only\n\n## Headings\n\n|---|---|")
    assert await extract_answer("Which headings?", [headings], InMemoryLibrary()) == ""
