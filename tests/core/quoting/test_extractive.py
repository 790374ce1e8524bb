"""Answers without a model: what is cut out of the passages, with what belongs to it, and what is left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from core.citations.markers import get_readable_title, resolve_markers
from core.quoting.cuts import MAX_CODE_LINES, SECTION_CHARS, cut_passage
from core.quoting.extractive import MAX_LINE_CHARS, MIN_NEARNESS, Extract, NearPage, extract
from core.quoting.subject import Subject, tokenize
from core.types import Passage
from tests.support.fixtures import INSTALL, InMemoryLibrary, passage

MIN_FIT = 0.55
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


class DistantLibrary(InMemoryLibrary):
    """Has nothing that is near to a question by its vector."""

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        return [0.1] * len(texts)


async def find(question: str, *passages: Passage) -> Extract:
    return await extract([question], passages, InMemoryLibrary(), MIN_FIT)


async def quote(question: str, *texts: str, kind: str = "markdown") -> str:
    pages = [replace(passage(f"page{number}", text, kind=kind), title="") for number, text in enumerate(texts)]
    return (await find(question, *pages)).text


def cut(text: str) -> list[str]:
    return ["\n".join(item.quotation for item in cut.statements) for cut in cut_passage(passage("a", text), 0)]


async def test_a_section_is_quoted_with_its_heading_and_its_code() -> None:
    assert await quote("How do I install tarn?", INSTALL_PAGE) == (
        "> **Install**\n>\n> Install it with pip: [p1]\n\n```bash\npip install tarn\n```\n\n> Then start the server."
    )


async def test_fences_within_quoted_code_stay() -> None:
    code = "```{note}\nTarn needs a note.\n```"
    quotes = await quote(
        "How do I write a note in tarn?", f"Write a note in tarn like this:\n\n````markdown\n{code}\n````\n"
    )
    assert quotes.endswith(f"\n\n````markdown\n{code}\n````")


async def test_a_list_stands_below_what_announces_it() -> None:
    text = "A backup of tarn has two parts:\n\n- the data folder\n- the configuration file\n\nThat is all."
    assert await quote("tarn backup?", text) == (
        "> A backup of tarn has two parts:\n>\n> - the data folder\n> - the configuration file\n>\n> That is all. [p1]"
    )


async def test_steps_keep_their_numbers() -> None:
    text = "A backup of tarn has these steps:\n\n3. Stop the server.\n   - With its command.\n4. Go back to step 3."
    assert await quote("tarn backup?", text) == (
        "> A backup of tarn has these steps:\n>\n> 3. Stop the server.\n> - With its command.\n"
        "> 4. Go back to step 3. [p1]"
    )


def test_a_long_section_is_cut_where_something_else_begins() -> None:
    paragraphs = [f"{name} is a part of tarn. {'It has a long description. ' * 9}".strip() for name in "ABCDE"]
    cuts = cut("\n\n".join(paragraphs))
    assert [text[0] for text in cuts] == ["A", "B", "C", "D"]
    assert all(len(text) <= SECTION_CHARS for text in cuts)
    code = "\n".join(f"line({number})" for number in range(20))
    assert cut(f"{paragraphs[0]}\n\n{paragraphs[1]}\n\n```\n{code}\n```")[-1].endswith("line(19)"), "code stays"


async def test_chinese_commands_are_quoted_as_well() -> None:
    text = "# 备份\n\n停止服务后，执行以下命令备份数据：\n\n```shell\ntarn backup out.tar\n```\n\n完成。"
    quotes = await quote("怎么备份数据？", text)
    assert quotes.startswith(
        "> **备份**\n>\n> 停止服务后，执行以下命令备份数据： [p1]\n\n```shell\ntarn backup out.tar\n```"
    )


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
    found = await extract(["Start the server's telemetry?"], [page], WeightedLibrary(), MIN_FIT)
    assert "telemetry" in found.text
    other = passage("page", "Start the server with tarn serve on any machine.")
    assert (await extract(["Start the server's telemetry?"], [other], WeightedLibrary(), MIN_FIT)).text == ""


async def test_the_best_passage_comes_first() -> None:
    text = "The key is rotated every night. Old keys stay valid for a day after the key was rotated."
    quotes = await quote("When is the key rotated?", text, "A key is rotated by hand on demand, too.")
    assert quotes.startswith("> The key is rotated every night.")
    assert quotes.index("[p1]") < quotes.index("[p2]")


async def test_a_passage_that_was_found_first_is_preferred() -> None:
    first = replace(passage("a", "The key is rotated every night."), score=0.6)
    second = replace(passage("b", "The key is rotated when it is lost."), score=0.3)
    assert (await find("When is the key rotated?", first, second)).text.startswith(
        "> **A**\n>\n> The key is rotated every"
    )
    assert "[p2]" in (await find("When is the key rotated?", second, first)).text.split("\n\n")[0]


async def test_the_better_wording_of_a_question_counts() -> None:
    page = passage("page", "The key is rotated every night.")
    assert (await extract(["密钥怎么轮换？"], [page], InMemoryLibrary(), MIN_FIT)).text == ""
    found = await extract(["密钥怎么轮换？", "How is the key rotated?"], [page], InMemoryLibrary(), MIN_FIT)
    assert "every night" in found.text


async def test_chinese_lines_are_joined_without_blanks() -> None:
    quotes = await quote("密钥怎么轮换？", "密钥由服务器在每天\n夜里轮换。旧的密钥再保留一天。")
    assert "> 密钥由服务器在每天夜里轮换。旧的密钥再保留一天。 [p1]" in quotes


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
        ("Guide > To install it: > 步骤：", "Guide > To install it > 步骤"),
    ],
)
def test_titles_of_links_are_names(title: str, readable: str) -> None:
    assert get_readable_title(title) == readable


def test_marks_are_numbered_in_the_order_of_their_first_use() -> None:
    passages = [passage(name, "text") for name in ("a", "b", "c")]
    assert resolve_markers("One [p3][p1]. Two [p2, p3].", passages).text == "One [1][2]. Two [1][3]."
    assert resolve_markers("One [p3]. Two [p2, p3].", passages).text == "One [1]. Two [1][2]."


def test_cutting_is_linear() -> None:
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
    lines = (
        "| a\n" * 5_000,
        "```\n" * 5_001,
        ".. note::\n" * 3_000,
        "a:\n\n" * 3_000,
        "=====\na\n" * 3_000,
        "a word.\n\n" * 5_000,
    )
    for text in (*hard, *lines):
        started_at = time.thread_time()
        cut(text)
        assert time.thread_time() - started_at < 3, text[:20]


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
    assert cut(text)[0] == quotation


@pytest.mark.parametrize("heading", ["4. Check the configuration", "4.11.0 (2025-01-15)", "10 minutes of checks"])
async def test_code_without_a_sentence_is_announced_by_its_heading(heading: str) -> None:
    guide = replace(passage("a", f"## {heading}\n\n```sh\nkimas check\n```"), title=f"Guide > {heading}")
    found = await find("How do I check the configuration with kimas?", guide)
    assert found.text == f"> **{heading}** [p1]\n\n```sh\nkimas check\n```"


async def test_a_definition_is_named_without_its_signature() -> None:
    text = 'def rotate(self, key: str = "") -> None:\n    """Rotate the key that signs all tokens."""'
    code = replace(
        passage("core", text, kind="python"), title="core.py > class Ring > rotate(self, key: str = '') -> None"
    )
    assert (await find("rotate key", code)).text == f"> `rotate` [p1]\n\n```python\n{text}\n```"


async def test_labels_of_tabs_stay_with_their_code() -> None:
    code = "    ```sh\n    {} tarn\n    ```\n"
    tabs = (f'=== "{name}"\n\n{code.format(command)}' for name, command in (("pip", "pip install"), ("uv", "uv add")))
    text = "# Install tarn\n\n" + "\n".join(tabs)
    quotes = await quote("How do I install tarn?", text)
    assert quotes.startswith("> **Install tarn**\n>\n> **pip**: [p1]\n\n```sh\npip install tarn\n```\n\n> **uv**:")


async def test_of_long_code_the_first_lines_are_quoted() -> None:
    settings = "\n".join(f"  {name}: 1" for name in ["port", *map(str, range(60))])
    page = replace(passage("page", f"server:\n{settings}", kind="text"), path="conf/tarn.yaml", title="conf/tarn.yaml")
    quotes = (await find("Which port?", page)).text
    assert "```yaml\nserver:\n  port: 1\n" in quotes
    assert quotes.endswith("  28: 1\n…\n```".replace("28", str(MAX_CODE_LINES - 3)))


async def test_a_page_that_comes_close_is_named_once_with_a_line() -> None:
    first = replace(passage("a", "Tarn keeps the tokens of all people."), path="keys.md")
    second = replace(passage("b", "Tokens are small."), path="keys.md")
    third = passage("c", "The signature of tokens can be read by all.")
    found = await find("Who signs tokens for mirrors?", first, second, third)
    assert found.text == ""
    assert [(page.position, page.line) for page in found.pages] == [
        (0, "Tarn keeps the tokens of all people."),
        (2, "The signature of tokens can be read by all."),
    ]
    far = [replace(each, similarity=MIN_NEARNESS - 0.01, score=0.3) for each in (first, second, third)]
    assert await extract(["Who signs tokens for mirrors?"], far, DistantLibrary(), MIN_FIT) == Extract()


async def test_what_is_far_by_its_vector_is_not_quoted_for_its_words() -> None:
    page = passage("a", "Tarn rotates the signing keys every month.")
    question = "How often are the signing keys rotated?"
    assert (await find(question, page)).text
    far = replace(page, similarity=MIN_NEARNESS - 0.01, score=MIN_NEARNESS - 0.01)
    assert await extract([question], [far], DistantLibrary(), MIN_FIT) == Extract()
    assert (await find(question, far)).text, "a part of it is near"
    fitting = replace(far, score=MIN_NEARNESS)
    assert (await extract([question], [fitting], DistantLibrary(), MIN_FIT)).pages, "its words fit"


async def test_pages_stand_in_the_order_of_the_passages_not_of_their_words() -> None:
    better = replace(passage("a", "Keys are turned over monthly."), score=0.6)
    wordier = replace(passage("b", "Rotation of mirrors."), score=0.4)
    found = await extract(["rotation of mirrors?"], (wordier, better), InMemoryLibrary(), 1.1)
    assert [page.position for page in found.pages] == [1, 0]


async def test_no_more_pages_are_named_than_can_be_read() -> None:
    pages = [passage(name, f"Rotate the key of page {name}.") for name in "abcdefgh"]
    found = await extract(["rotate all the mirrors?"], pages, InMemoryLibrary(), 0.5)
    assert [page.position for page in found.pages] == [0, 1, 2]


async def test_the_line_of_a_page_is_short_and_has_no_marker() -> None:
    text = f"See [the guide](https://example.org/{'x' * 200}) on rotation [1], {'which is long ' * 24}."
    page = replace(passage("a", text), title="")
    line = (await extract(["rotation mirrors?"], [page], InMemoryLibrary(), 0.6)).pages[0].line
    assert line.startswith("See the guide on rotation (1), which is")
    assert line.endswith(" …")
    assert len(line) <= MAX_LINE_CHARS + 2


async def test_a_page_of_code_alone_is_named_without_a_line() -> None:
    code = replace(passage("a", "rotation = 1\n", kind="python"), title="")
    found = await extract(["rotation mirrors?"], [code], InMemoryLibrary(), 0.6)
    assert found.pages == (NearPage(0, ""),)


async def test_a_row_is_quoted_with_the_names_of_its_columns() -> None:
    table = "| 功能 | Nacos | Apollo |\n|---|---|---|\n| 灰度发布 | 支持 | 不支持 |\n| 审计 | 支持 | - |\n"
    assert await quote("灰度发布支持吗？", table) == (
        "> - 灰度发布: Nacos: 支持; Apollo: 不支持\n> - 审计: Nacos: 支持 [p1]"
    )


@pytest.mark.parametrize(
    ("text", "question", "quoted"),
    [
        ("# Keys\n\nThe key is rotated every night by the scheduler.", "When is the key rotated?", "every night"),
        ("Intro.\n\n.. note:: x\n\nThe key is rotated every night.", "When is the key rotated?", "every night"),
        (
            "| code | meaning |\n|---|---|\n| 69 | a service is unavailable |",
            "Is it unavailable at 69?",
            "69: a service is",
        ),
        ("# 备份\n\n请停止服务，复制数据目录，然后重新启动服务。", "怎么备份数据目录？", "复制数据目录"),
        ("# Ключ\n\nКлюч меняется каждую ночь.", "Когда меняется ключ?", "каждую ночь"),
    ],
)
async def test_prose_is_found_behind_headings_in_tables_and_in_other_scripts(
    text: str, question: str, quoted: str
) -> None:
    assert quoted in await quote(question, text)


async def test_a_short_answer_of_a_faq_is_quoted_whole() -> None:
    quotes = await quote("How to plant?", "How to plant?\n\nDig a deep hole.", kind="faq")
    assert quotes == "> **How to plant?**\n>\n> Dig a deep hole. [p1]"


async def test_marks_of_a_source_are_not_taken_for_ours() -> None:
    quotes = await quote("Who proposed the method?", "The method was proposed by Smith [2] and improved later [p3].")
    assert "by Smith (2) and improved later (p3). [p1]" in quotes


async def test_what_a_picture_shows_is_not_quoted() -> None:
    text = "The pump. ![How the pump connects to the tank of the house.](pump.svg) It needs a valve for the tank."
    quotes = await quote("How does the pump connect to the tank?", text)
    assert quotes == "> The pump. It needs a valve for the tank. [p1]"


async def test_quoting_by_meaning_has_a_limit_and_words_stand_in() -> None:
    class Hanging(InMemoryLibrary):
        async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
            await asyncio.sleep(30)
            return []

    async with asyncio.timeout(20):
        found = await extract(["How do I install the package?"], [INSTALL], Hanging(), MIN_FIT, timeout_s=0.05)
    assert "pip" in found.text


async def test_nothing_is_quoted_from_nothing() -> None:
    assert await quote("How?") == ""
    assert await quote("Which headings?", "# Only\n\n## Headings\n\n|---|---|") == ""


async def test_nothing_is_quoted_from_a_near_page_of_headings_alone() -> None:
    """Also where everything fits well enough."""
    page = replace(passage("a", "# Only\n\n## Headings\n\n|---|---|"), score=1.0)
    assert (await extract(["Which headings?"], [page], InMemoryLibrary(), min_fit=0.0)).text == ""
