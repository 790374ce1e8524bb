"""Blocks are written as Markdown that a reader takes for the same blocks."""

from __future__ import annotations

import pytest

from core.markup.document import Block, to_plain
from core.markup.markdown import read_markdown
from core.markup.writer import write_markdown


def paragraph(text: str) -> Block:
    return Block("paragraph", text)


def test_prose_is_never_read_as_another_block() -> None:
    text = "# install\n> more\n1. first\n---\n| a |\n|---|\n```\n<div>\n+ plus\n[a]: b\n#tag -5 a_b"
    assert write_markdown([paragraph(text)]) == (
        "\\# install  \n\\> more  \n1\\. first  \n\\---  \n| a |  \n\\|---|  \n\\```  \n\\<div>  \n\\+ plus  \n"
        "[a]: b  \n#tag -5 a_b"
    )


def test_what_begins_no_block_there_needs_no_escape() -> None:
    lines = {
        "in May\n2. x": "in May  \n2. x",
        "| a |\n| b |": "| a |  \n\\| b |",
        "==1\n===": "==1  \n\\===",
        "***so** it*": "***so** it*",
        "[a]: b": "\\[a]: b",
        ":a": ":a",
        "~~~a": "\\~~~a",
    }
    assert {text: write_markdown([paragraph(text)]) for text in lines} == lines


def test_prose_is_never_read_as_a_tab_or_an_admonition() -> None:
    text = "=== Level 2\n!!! note\n??? More\n:::tip\n=== \n==1"
    assert write_markdown([paragraph(text)]) == (
        "\\=== Level 2  \n\\!!! note  \n\\??? More  \n\\:::tip  \n\\===  \n==1"
    )


def test_a_sign_that_nothing_pairs_with_needs_no_escape() -> None:
    lone = ("it\\`s", "`a`, it\\`s", "\\* a", "\\`\\`\\`")
    assert [write_markdown([paragraph(text)]) for text in lone] == ["it`s", "`a`, it`s", "\\* a", "\\```"]
    paired = ("\\`a\\`", "it\\`s `a`", "(\\*) a (\\*)")
    assert [write_markdown([paragraph(text)]) for text in paired] == list(paired)
    rows = (("\\*.py", "code"), ("x (\\*)", "(\\*) y"))
    table = write_markdown([Block("table", header=("a", "b"), rows=rows)])
    assert table.split("\n")[2:] == ["| *.py | code |", "| x (\\*) | (\\*) y |"]


def test_a_fence_is_longer_than_those_in_its_code() -> None:
    assert write_markdown([Block("code", "```\nx\n````", language="md")]) == "`````md\n```\nx\n````\n`````"


def test_lists_hold_lists_code_and_numbers() -> None:
    inner = Block("list", children=(Block("item", "b"),))
    code = Block("code", "c\n\nd")
    assert write_markdown([Block("list", children=(Block("item", "a", (inner,)), Block("item", "e")))]) == (
        "- a\n  - b\n- e"
    )
    assert write_markdown([Block("list", level=3, children=(Block("item", "a", (code,)), Block("item", "b")))]) == (
        "3. a\n\n   ```\n   c\n\n   d\n   ```\n\n4. b"
    )


def test_lines_of_a_cell_are_told_apart() -> None:
    cells = ("Avg.\nfactor", "Limit\nRate", "It is\nso long\n(at most)", "**Two:**\nA. \n B", "`a`\n\n`b`")
    written = write_markdown([Block("table", header=cells, rows=(cells,))]).split("\n")
    assert written[0] == "| Avg. factor | Limit Rate | It is so long (at most) | **Two:** A. B | `a` `b` |"
    assert written[2] == "| Avg. factor | Limit; Rate | It is so long (at most) | **Two:** A. B | `a`; `b` |"


def test_lists_beside_each_other_are_one() -> None:
    row = ("• a\n• # b\ngoes on", "• c\n◦ d", "")
    assert write_markdown([Block("table", rows=(row,))]) == "- a\n- \\# b\n  goes on\n- c\n  - d"
    assert write_markdown([Block("table", rows=(("It", "• a\n• b"),))]) == "- It: • a • b"


def test_a_table_that_markdown_cannot_hold_is_a_list() -> None:
    rows = (("`a`", "1", "It\nIs"), ("Is it?", "", "yes"), ("", "", "only"), ("1. x",))
    assert write_markdown([Block("table", rows=rows)]) == "- `a`: 1; It; Is\n- Is it? yes\n- only\n- 1\\. x"
    row = ("a", "Run:\n```sh\nx\n\n````\n```\nor\nStop", "b")
    item = "- a\n\n  In: Run:\n\n  ```sh\n  x\n\n  ````\n  ```\n\n  or; Stop\n\n  Out: b"
    assert write_markdown([Block("table", header=("N", "In", "Out"), rows=(row,))]) == item
    code_first = ("a", "```\nx\ny\n```", "b")
    assert "In:\n\n  ```\n  x" in write_markdown([Block("table", header=("N", "In", "Out"), rows=(code_first,))])


def test_what_is_a_sentence_gets_no_colon() -> None:
    assert write_markdown([Block("definition", "**Wait.**", (paragraph("Now."),))]) == "**Wait.** Now."


def test_tables_quotations_tabs_and_definitions() -> None:
    table = Block("table", header=("Key", "Value"), rows=(("a|b", "1\n2"), ("c",)))
    assert write_markdown([table]) == "| Key | Value |\n|---|---|\n| a\\|b | 1; 2 |\n| c |  |"
    warning = Block("admonition", "Warning", (paragraph("Stop."), Block("code", "x")))
    assert write_markdown([warning]) == "> **Warning**\n>\n> Stop.\n>\n> ```\n> x\n> ```"
    assert write_markdown([Block("quote", "", (paragraph("One\nTwo"),))]) == "> One  \n> Two"
    assert write_markdown([Block("tab", "npm", (Block("code", "npm i"),))]) == "**npm**\n\n```\nnpm i\n```"
    assert write_markdown([Block("definition", "`--all`", (paragraph("Everything."),))]) == "**`--all`**: Everything."
    assert write_markdown([Block("definition", "**All**", (paragraph("Everything."),))]) == "**All**: Everything."
    assert write_markdown([Block("admonition", "**Note**", (paragraph("Stop."),))]) == "> **Note**\n>\n> Stop."
    assert write_markdown([Block("tab", "A **new** *b*", (paragraph("C"),))]) == "**A new *b***\n\nC"
    assert write_markdown([Block("tab", "`f(**a, **b)`", (paragraph("C"),))]) == "**`f(**a, **b)`**\n\nC"


def test_a_term_that_ends_itself_gets_no_colon() -> None:
    terms = {"Speed": "**Speed**: x", "From:": "**From:** x", "**Why?**": "**Why?** x", "作者：": "**作者：** x"}
    for term, expected in terms.items():
        assert write_markdown([Block("definition", term, (paragraph("x"),))]) == expected
    assert write_markdown([Block("definition", "From:", (Block("code", "x"),))]) == "**From:**\n\n```\nx\n```"


def test_links_in_a_row_are_about_nothing_else() -> None:
    row = ("[A](https://a.example)", "[B](https://b.example)")
    assert write_markdown([Block("table", rows=(row, ("Name", row[1])))]) == (
        "- [A](https://a.example)\n- [B](https://b.example)\n- Name: [B](https://b.example)"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("py/\\_run, f(\\*args)", "py/_run, f(*args)"),
        ("\\_\\_init\\_\\_ or \\*a\\*", "\\_\\_init\\_\\_ or \\*a\\*"),
        ("*so*, f(\\*args)", "*so*, f(*args)"),
        ("**so** = //\\*[local()], a_b or \\_c", "**so** = //*[local()], a_b or _c"),
        ("https://x.org/#\\_a_b and \\<a_b>, \\<a b>", "https://x.org/#_a_b and \\<a_b>, \\<a b>"),
        ("it \\<= 3 and /\\<a_b>", "it <= 3 and /<a_b>"),
        ("`*` \\`*` or \\`", "`*` \\`*` or \\`"),
        ("\\*\\*注意：\\*\\*请看", "\\*\\*注意：\\*\\*请看"),
        ("中\\_文\\_字", "中_文_字"),
        ("`a\\_b` and \\_c", "`a\\_b` and _c"),
        ("\\* no item", "\\* no item"),
        ("C:\\\\\\_x", "C:\\\\_x"),
    ],
)
def test_an_escape_stands_where_its_sign_could_be_one_of_a_pair(text: str, expected: str) -> None:
    written = write_markdown([Block("paragraph", text)])
    assert written == expected
    [block] = read_markdown(written)
    assert to_plain(block.text) == to_plain(text)


def test_a_term_and_what_it_explains_are_one_text() -> None:
    terms = {"(\\*)": "**(*)**: 1. x", "\\*a": "**\\*a**: 1. x\\*"}
    for term, expected in terms.items():
        text = expected.partition(": ")[2]
        assert write_markdown([Block("definition", term, (paragraph(text),))]) == expected


def test_escapes_of_cells_stay_for_a_row_may_be_quoted_in_one_line() -> None:
    table = Block("table", header=("A", "B"), rows=(("\\*a", "b\\*"),))
    assert write_markdown([table]).endswith("| \\*a | b\\* |")
