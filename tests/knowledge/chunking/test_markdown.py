"""Markdown and reStructuredText: headings, paths, what stays whole."""

from textwrap import dedent

import pytest

from core.language.tokens import estimate_tokens
from knowledge.chunking import chunk
from knowledge.ports import Chunk, Document

WORDS = "Some words that fill the section with plain content. " * 6


def markdown(text: str, tokens: int = 200, path: str = "docs/guide.md", title: str = "") -> list[Chunk]:
    return chunk(Document(path, dedent(text).strip("\n"), "markdown", title), tokens)


def rst(text: str, tokens: int = 200) -> list[Chunk]:
    return chunk(Document("docs/guide.rst", dedent(text).strip("\n"), "rst"), tokens)


def titles(chunks: list[Chunk]) -> list[str]:
    return [piece.title for piece in chunks]


def test_the_heading_path_is_kept() -> None:
    chunks = markdown(
        f"# Guide\n{WORDS}\n## Install\n{WORDS}\n### Linux ###\n{WORDS}\n"
        f"### `Mac` {{#mac}}\n{WORDS}\n## [Use](u.md)\n{WORDS}"
    )
    assert titles(chunks) == [
        "Guide",
        "Guide > Install",
        "Guide > Install > Linux",
        "Guide > Install > Mac",
        "Guide > Use",
    ]
    assert [(piece.start_line, piece.end_line) for piece in chunks] == [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10)]
    assert chunks[2].text == f"### Linux\n\n{WORDS}".rstrip()


def test_the_anchor_of_a_heading_in_mdx_is_no_part_of_its_title() -> None:
    chunks = markdown(f"# 渲染列表 {{/*rendering-lists*/}}\n{WORDS}\n## Why keys? {{/*why-keys*/}}\n{WORDS}")
    assert titles(chunks) == ["渲染列表", "渲染列表 > Why keys?"]


def test_setext_headings_count() -> None:
    chunks = markdown(
        f"Guide\n=====\n\n{WORDS}\n\nTwo lines\nof title\n---\n{WORDS}\n\n- item\n---\n\n| a |\n---\n{WORDS}"
    )
    assert titles(chunks) == ["Guide", "Guide > Two lines of title", "Guide > Two lines of title"][: len(chunks)]
    assert len(chunks) >= 2


def test_hashes_in_code_and_comments_are_no_headings() -> None:
    text = (
        f"# Guide\n{WORDS}\n```sh\n# install\n## really\n```\n\n~~~~\n~~~\n# x\n~~~~\n"
        f"<!--\n# gone\n-->\n- a\n  ```\n  # b\n  ```\n#hashtag\n{WORDS}"
    )
    assert set(titles(markdown(text))) == {"Guide"}


def test_front_matter_gives_the_title_and_is_left_out() -> None:
    chunks = markdown(f'---\ntitle: "The Guide"\ntags: [a]\n---\n{WORDS}\n## Part\n{WORDS}')
    assert titles(chunks) == ["The Guide", "The Guide > Part"]
    assert all("tags:" not in piece.text for piece in chunks)
    assert chunks[0].text.startswith("# The Guide\n\nSome words")
    assert chunks[1].start_line == 6
    rules = markdown("---\n\nText between rules.\n\n---\n\nMore.")
    assert "Text between rules." in rules[0].text


def test_documents_without_one_top_heading_have_the_name_of_file_or_title() -> None:
    text = f"## One\n{WORDS}\n## Two\n{WORDS}"
    assert titles(markdown(text)) == ["guide > One", "guide > Two"]
    assert titles(markdown(text, title="Handbook")) == ["Handbook > One", "Handbook > Two"]
    assert titles(markdown("Just text.")) == ["guide"]


def test_small_siblings_are_joined_under_both_names() -> None:
    text = "# Log\n" + WORDS * 4 + "\n## Added\n- a\n## Fixed\n- b\n\n# Other\n" + WORDS
    results = list(dict.fromkeys(titles(markdown(text))))
    assert results == ["Log", "Log > Added / Fixed", "Other"]


def test_what_opens_subsections_is_with_them() -> None:
    text = f"# Log\n\n## 1.1\n\n{WORDS}\n\n- b {WORDS}\n\n## 1.0\n\n_May 1_\n\n### General\n\n{WORDS}\n\n- a {WORDS}"
    pieces = markdown(text)
    assert [piece.title for piece in pieces if "May 1" in piece.text] == ["Log > 1.0 > General"]
    assert not any("## 1.0" in piece.text for piece in pieces if "1.1" in piece.title)


def test_a_heading_without_a_body_opens_its_first_subsection() -> None:
    chunks = markdown(f"# Guide\n\n## Part\n\n### First\n{WORDS}\n### Second\n{WORDS}")
    assert titles(chunks) == ["Guide > Part > First", "Guide > Part > Second"]
    assert chunks[0].text.startswith("# Guide\n\n## Part\n\n### First")


def test_long_sections_are_split_but_fences_and_tables_stay_whole() -> None:
    fence = "```python\n" + "\n\n".join(f"value_{number} = compute({number})" for number in range(24)) + "\n```"
    table = "| name | use |\n|---|---|\n" + "\n".join(f"| option {number} | what it is for |" for number in range(20))
    chunks = markdown(f"# Guide\n\n{WORDS}\n\nRun this:\n\n{fence}\n\n{WORDS}\n\n{table}\n\n{WORDS}")
    assert any(fence in piece.text for piece in chunks)
    assert any(table in piece.text for piece in chunks)
    assert all("Run this:" not in piece.text or "```python" in piece.text for piece in chunks)
    assert all(estimate_tokens(piece.text) <= 300 for piece in chunks)


@pytest.mark.parametrize("caption", ["Table 1", "All options:"])
def test_a_table_that_is_cut_keeps_its_caption(caption: str) -> None:
    table = "| name | use |\n|---|---|\n" + "\n".join(f"| option {number} | {WORDS} |" for number in range(9))
    texts = [piece.text for piece in markdown(f"# Guide\n\n{WORDS}\n\n{WORDS}\n\n{caption}\n\n{table}")]
    assert [text.startswith(f"{caption}\n\n| name") for text in texts].count(True) == 1
    assert all(caption not in text or "| option 0 |" in text for text in texts)


def test_a_row_that_is_cut_has_no_marks_of_a_table() -> None:
    sentences = " ".join(f"Sentence {number} says what it is for." for number in range(99))
    head = "| name | default | what it is |\n|---|---|---|\n"
    table = f"{head}| `a` | 1 | short |\n| `b` | 2 | {sentences} |\n| `c` | 3 | x |"
    first, *parts, last = [piece.text for piece in markdown(f"# Guide\n\n{table}\n\nEnd.")]
    assert "| `a` | 1 | short |" in first
    assert parts[0].startswith("`b`: default: 2; Sentence 0 says")
    assert "|" not in "".join(parts)
    assert " ".join(parts).endswith(sentences)
    assert last.startswith(f"{head}| `c` | 3 | x |")


def test_code_of_one_long_line_stays_code() -> None:
    line = ", ".join(f"'{number}'" for number in range(400))
    pieces = markdown(f"# Guide\n\n```json\n[{line}]\nlast\n```\n\nEnd.")
    assert len(pieces) > 3
    assert all(piece.text.count("```") == 2 for piece in pieces)
    assert sum(piece.text.count("'") for piece in pieces) == 800
    assert [piece.start_line for piece in pieces][1:3] == [4, 4]


def test_list_items_are_not_cut() -> None:
    items = [f"- item {number}: " + "word " * 20 + "\n  - detail one\n  - detail two" for number in range(12)]
    for piece in markdown("# List\n\n" + "\n".join(items), 100):
        assert piece.text.count("detail one") == piece.text.count("detail two") == piece.text.count("- item")


def test_numbers_from_zero_go_on_in_the_next_passage() -> None:
    items = [f"{number}. item {number}: " + "word " * 20 for number in range(12)]
    pieces = markdown("# List\n\n" + "\n".join(items), 100)
    lines = [line for piece in pieces for line in piece.text.split("\n") if "item" in line]
    assert len(pieces) > 2
    assert [line.split(".")[0] for line in lines] == [str(number) for number in range(12)]


def test_an_item_whose_text_is_in_another_passage_is_no_empty_item() -> None:
    inner = "".join(f"    - word word word word {number}\n" for number in range(40))
    chunks = chunk(Document("a.md", f"- top\n  - one\n{inner}  - two\n- end\n", "markdown"), 60)
    assert [piece.text for piece in chunks if "- - " in piece.text] == []
    assert chunks[1].text.startswith("- word word")
    assert chunks[-1].text.endswith("39\n  - two\n- end")


@pytest.mark.parametrize(("item", "shown"), [("Share it", "Share it"), ("Share it " * 20, "…")])
def test_items_of_an_inner_list_stay_inside_their_item(item: str, shown: str) -> None:
    inner = "".join(f"   {number}. {'Admins do it. ' * 5}\n" for number in range(1, 9))
    last = chunk(Document("a.md", f"6. Log in\n7. {item}\n{inner}8. Save it.\n", "markdown"), 60)[-1]
    assert last.text.startswith(f"7. {shown}\n   7. Admins do it. ")
    assert last.text.endswith("\n8. Save it.")


def test_a_heading_is_with_its_text_also_where_that_is_long() -> None:
    chunks = chunk(
        Document("a.md", f"# Start\n\n{'Ten words say what it does, and no more. ' * 30}\n", "markdown"), 200
    )
    assert chunks[0].text.startswith("# Start\n\nTen words")


def test_a_link_is_not_cut() -> None:
    links = " | ".join(f"[name{number}](https://example.org/search?q=some+long+words+{number})" for number in range(60))
    chunks = chunk(Document("a.md", f"# People\n\n{links}\n", "markdown"), 100)
    assert sum(piece.text.count("](https://example.org/search?q=some+long+words+") for piece in chunks) == 60
    assert [piece.text for piece in chunks if piece.text.count("[") != piece.text.count(")")] == []


def test_rst_levels_follow_their_first_appearance() -> None:
    chunks = rst(
        f"=====\nGuide\n=====\n\n{WORDS}\n\nInstall\n=======\n{WORDS}\n\nLinux\n^^^^^\n{WORDS}\n\n"
        f":ref:`Use <x>` ``it``\n======================\n{WORDS}"
    )
    assert titles(chunks) == ["Guide", "Guide > Install", "Guide > Install > Linux", "Guide > Use it"]


def test_rst_labels_belong_to_the_heading_below() -> None:
    chunks = rst(f"Guide\n=====\n{WORDS}\n\n.. _part:\n\nPart\n----\n{WORDS}")
    assert titles(chunks) == ["Guide", "Guide > Part"]
    assert chunks[1].text.startswith("## Part")


def test_rst_tables_and_literals_are_no_headings() -> None:
    text = (
        f"Guide\n=====\n{WORDS}\n\n====  ====\na     b\n====  ====\n1     2\n====  ====\n\n"
        f"like this::\n\n    Not\n    ===\n\n{WORDS}\n\n----\n\n{WORDS}"
    )
    assert set(titles(rst(text))) == {"Guide"}


def test_rst_directives_keep_their_body() -> None:
    code = "\n\n".join(f"value_{number} = compute({number})" for number in range(22))
    block = ".. code-block:: python\n\n" + "\n\n".join(f"    {line}" for line in code.split("\n\n"))
    chunks = rst(f"Guide\n=====\n\n{WORDS}\n\n{block}\n\n{WORDS}")
    assert any(f"```python\n{code}\n```" in piece.text for piece in chunks)


@pytest.mark.parametrize("directive", ["toctree::\n   :maxdepth: 2", "minigallery:: pkg.Class"])
def test_galleries_and_lists_of_files_are_no_passages(directive: str) -> None:
    text = f"Guide\n=====\n\n{WORDS}\n\n.. {directive}\n\n   <div>generated</div>\n\n   more/generated\n\nAfter it.\n"
    chunks = rst(text)
    assert all("generated" not in piece.text and "::" not in piece.text for piece in chunks)
    assert chunks[-1].text.endswith("After it.")
    assert chunks[-1].end_line == text.rstrip().count("\n") + 1, "lines keep their numbers"
    assert rst(f".. {directive}\n\n   generated\n") == []


def test_chinese_headings_and_sizes() -> None:
    chunks = markdown("# 指南\n\n" + "这是一个说明。" * 60 + "\n\n## 安装\n\n" + "请先安装依赖。" * 20)
    assert titles(chunks)[-1] == "指南 > 安装"
    assert all(estimate_tokens(piece.text) <= 400 for piece in chunks)


def test_the_title_of_front_matter_is_above_all_headings() -> None:
    text = "---\ntitle: Switch\n---\n\nTurns on.\n\n# Reference\n\n" + "Words of it. " * 60
    assert {piece.title for piece in chunk(Document("switch.md", text, "markdown"), 60)} == {
        "Switch",
        "Switch > Reference",
    }


def test_a_file_of_mdx_is_read_as_such() -> None:
    text = "Wait:\n    ```py\n    a\n    ```"
    assert chunk(Document("a.mdx", text, "markdown"))[0].text == "Wait:\n\n```py\na\n```"
    assert chunk(Document("a.md", text, "markdown"))[0].text == "Wait: `py a `"


def test_a_heading_with_a_slash_is_one_name_in_a_title() -> None:
    names = ["Console of the program", "Python package of it all", "JavaScript package", "Python / JavaScript types"]
    text = "# Log\n\n" + "\n\n".join(f"## {name}\n\nShort." for name in names)
    titles = [passage.title for passage in chunk(Document("log.md", text, "markdown"), 200)]
    assert titles == ["Log > Console of the program / Python package of it all / 2 more"]
