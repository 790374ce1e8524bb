"""What a passage says: prose, items, rows and code, without what states nothing."""

from __future__ import annotations

import pytest

from core.markup.statements import read_statements


def statements(text: str) -> list[tuple[str, str]]:
    return [(statement.kind, statement.text) for statement in read_statements(text)]


def test_a_block_quote_is_prose_without_its_marks() -> None:
    assert statements("> [!TIP]\n> Keep the key.\n>\n> - one\n> - two\n\n> Later") == [
        ("prose", "Keep the key."),
        ("item", "one"),
        ("item", "two"),
        ("prose", "Later"),
    ]


def test_what_the_writer_makes_of_a_note_has_no_title_of_its_own() -> None:
    assert statements("> **Warning**\n>\n> Stop it.") == [("prose", "Stop it.")]


def test_a_line_in_bold_is_the_label_of_what_follows() -> None:
    text = "**Fedora**\n\nRun it.\n\n**It is small.**\n\nOn."
    assert [kind for kind, _ in statements(text)] == ["label", "prose", "prose", "prose"]


@pytest.mark.parametrize(
    "signature",
    [
        "[Docs](a.md) / [pinia](b.md) / getActivePinia",
        "[**Docs**](a.md) • **API**",
        "▸ **storeToRefs**<`SS`\\>(`store`): `StoreToRefs`<`SS`\\>",
        "> **createPinia**(): `Pinia`",
        "Pinia.install",
    ],
)
def test_a_signature_or_the_way_to_a_page_is_no_statement(signature: str) -> None:
    assert [text for _, text in statements(f"{signature}\n\nMakes a store.") if text] == ["Makes a store."]
    assert statements("**run**(x): it runs what you give it.") == [("prose", "**run**(x): it runs what you give it.")]


def test_a_table_of_contents_states_nothing() -> None:
    assert statements("- [Install](#install)\n- [Use](use.md)\n- A real item") == [("item", "A real item")]


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("| Key | Type | Description |\n|---|---|---|\n| `ttl` | int | The days. |", "`ttl`: Type: int; The days."),
        ("|| A | **B** |\n|---|---|---|\n|| one | `x\\|y` |", "one: B: `x|y`"),
        ("| A | B |\n|---|---|\n| one | two |", "one: B: two"),
        ("|  |  |\n|---|---|\n| one | two |", "one: two"),
        ("| A | B |\n|---|---|\n| | |\n| - | - |", ""),
    ],
)
def test_columns_name_what_does_not_speak_for_itself(table: str, row: str) -> None:
    assert read_statements(table)[-1].quotation == row


def test_empty_cells_of_a_row_are_left_out() -> None:
    table = "| Module | Name | About |\n|---|---|---|\n| - | `ttl` | The days that data is kept. |\n"
    assert read_statements(table)[-1].text == "`ttl`: The days that data is kept."


def test_a_term_that_ends_itself_gets_no_colon() -> None:
    assert statements("Limit:\n: Two.\n\nWhy?\n: So.") == [("prose", "**Limit:** Two."), ("prose", "**Why?** So.")]


def test_what_only_leads_to_another_page_states_nothing() -> None:
    assert statements("- → Start\n- It runs → it stops") == [("item", "It runs → it stops")]
