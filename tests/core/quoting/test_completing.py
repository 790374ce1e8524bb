"""What of its page is shown with a cut: the section from its beginning, a short page whole, of a long one two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from core.citations.markers import resolve_markers
from core.errors import StoreError
from core.quoting.cuts import PAGE_CHARS
from core.quoting.extractive import MAX_PAGE_PASSAGES, extract
from core.types import Passage
from tests.support.fixtures import InMemoryLibrary, passage

FILLER = "Other things of tarn are told here, and they are long. "


def make_page(*texts: str) -> list[Passage]:
    """Return passages of one page, each below the last heading before it, as they are stored."""
    title = "Guide"
    page = []
    for number, text in enumerate(texts):
        if text.startswith("#"):
            title = f"Guide > {text.partition(chr(10))[0].lstrip('# ')}"
        page.append(replace(passage(f"tarn{number}", text, source="docs"), path="guide.md", title=title))
    return page


async def quote(question: str, page: Sequence[Passage], *found: int) -> str:
    return (await extract([question], [page[number] for number in found], InMemoryLibrary(page), 0.3)).text


async def test_a_section_is_shown_from_its_beginning_in_another_passage() -> None:
    page = make_page(
        f"# Tarn\n\n{FILLER * 30}",
        "## Remove tarn\n\nStop the server first.",
        "Then delete the folder of tarn.",
        f"## Something else\n\n{FILLER * 30}",
    )
    assert await quote("How do I delete the tarn folder?", page, 2) == (
        "> **Remove tarn**\n>\n> Stop the server first.\n>\n> Then delete the folder of tarn. [p1]"
    )


async def test_a_short_page_is_shown_whole() -> None:
    page = make_page("# Remove tarn\n\nRemoves a table.", "## Example\n\n```sh\ntarn remove lake\n```")
    text = await quote("tarn example of lake?", page, 1)
    assert text.startswith("> **Remove tarn**\n>\n> Removes a table.\n>\n> **Example** [p1]")
    assert "tarn remove lake" in text


async def test_sections_below_the_one_that_is_shown_follow_it_and_others_do_not() -> None:
    page = make_page(
        f"# Tarn\n\n{FILLER * 30}",
        "## Default server\n\nHow to set the default server of tarn.",
        "### On Linux\n\nWrite it into `tarn.conf`.",
        "## Colours\n\nThey can be chosen.",
    )
    text = await quote("default server of tarn", page, 1)
    assert "**On Linux**" in text
    assert "tarn.conf" in text
    assert "Colours" not in text


async def test_of_a_long_section_its_beginning_and_the_cut_are_shown() -> None:
    page = make_page(
        "# Limits\n\nThese are the limits of tarn.",
        *[f"{FILLER * 9}" for _ in range(4)],
        "A lake has at most seven boats.",
    )
    text = await quote("How many boats has a lake?", page, 5)
    assert text.startswith("> **Limits**\n>\n> These are the limits of tarn.")
    assert text.endswith("> …\n>\n> A lake has at most seven boats. [p1]")
    assert len(text) < 2 * PAGE_CHARS


async def test_a_second_quote_of_the_same_section_does_not_begin_again() -> None:
    page = make_page(
        "# Boats\n\nBoats of tarn are on lakes.",
        *[f"{FILLER * 9}" for _ in range(4)],
        "A lake has at most seven boats of tarn.",
        f"{FILLER * 9}",
        "Boats of tarn on a lake are blue.",
    )
    text = await quote("Boats of tarn on a lake?", page, 5, 7)
    assert text.count("Boats of tarn are on lakes.") == 1


async def test_without_the_page_the_cut_stays() -> None:
    class BrokenLibrary(InMemoryLibrary):
        async def read_page(self, source: str, path: str) -> Sequence[Passage]:
            raise StoreError("the disk is full")

    page = make_page("# Tarn\n\nTarn is small.", "## Remove tarn\n\nDelete the folder of tarn.")
    found = await extract(["Delete the folder of tarn?"], [page[1]], BrokenLibrary(page), 0.3)
    assert found.text == "> **Remove tarn**\n>\n> Delete the folder of tarn. [p1]"


@pytest.mark.parametrize("kind", ["python", "text"])
async def test_code_is_not_completed(kind: str) -> None:
    page = [replace(item, kind=kind, path="tarn.yaml") for item in make_page("a: 1", "boats: 7")]
    assert "a: 1" not in await quote("boats of the lake?", page, 1)


async def test_a_label_whose_code_has_no_room_is_left_out() -> None:
    page = make_page(
        f"# Send\n\nSend a message of tarn:\n\n**Shell:**\n\n```sh\ntarn send {'a' * 700}\n```",
        f"**Shell**\n\n```sh\ntarn send {'b' * 700}\n```\n\n**Python:**\n\n```py\ntarn.send('{'c' * 700}')\n```",
    )
    text = await quote("How do I send a message of tarn?", page, 0)
    assert text.count("> **Shell**:") == 1
    assert text.count("```sh") == 2
    assert "Python" not in text


async def test_the_part_of_the_page_that_answers_is_quoted_though_it_was_not_found() -> None:
    page = make_page(
        f"# Lakes of tarn\n\nA lake of tarn is deep. {FILLER * 30}",
        f"## Colours of lakes\n\nLakes are blue. {FILLER * 30}",
        "## Boats on a lake\n\nA lake has at most seven boats, and each of the boats has a rudder.",
        f"## Something else\n\n{FILLER * 30}",
    )
    found = await extract(["How many boats has a lake of tarn?"], [page[0]], InMemoryLibrary(page), 0.3)
    assert found.text.startswith("> **Boats on a lake**\n>\n> A lake has at most seven boats")
    cited = resolve_markers(found.text, found.passages).citations
    assert [citation.title for citation in cited] == ["Guide > Boats on a lake"], "the part itself is cited"


async def test_other_parts_of_the_page_follow_below_their_headings() -> None:
    page = make_page(
        f"# Tarn\n\n{FILLER * 30}",
        "## Empty a lake\n\nEmpty a lake of tarn with the sluice.",
        f"## Something else\n\n{FILLER * 30}",
        "## Empty a lake by night\n\nAt night, empty a lake of tarn with the pump.",
    )
    other = replace(passage("pools", "## Pools\n\nA pool of tarn is no lake. Empty it."), path="pools.md")
    found = await extract(["How do I empty a lake of tarn?"], [page[1], other], InMemoryLibrary([*page, other]), 0.3)
    first, second = found.text.split("\n\n> **Pools**")
    assert "> **Empty a lake**" in first
    assert "> **Empty a lake by night**" in first
    assert first.count("[p") == second.count("[p") == 1


async def test_another_part_is_shown_from_the_beginning_of_its_section() -> None:
    page = make_page(
        "# Lakes of tarn\n\nEmpty a lake of tarn with the sluice.",
        f"## Something else\n\n{FILLER * 30}",
        f"## Pumps\n\n| Lake | Pump |\n|---|---|\n| Big | Blue |\n\n{'A pump is loud. ' * 4}",
        f"Empty a lake of tarn with the pump by night. {'Sleep is good. ' * 20}",
        f"## Last\n\n{FILLER * 30}",
    )
    text = await quote("How do I empty a lake of tarn?", page, 0)
    assert text.index("sluice") < text.index("> **Pumps**") < text.index("Pump: Blue") < text.index("by night")


async def test_what_announces_something_is_left_out_with_it() -> None:
    page = make_page(
        "# Limits\n\nThese are the limits of tarn.",
        f"The pump of tarn is started like this:\n\n```sh\n{'pump --start # loud' * 80}\n```",
        *[f"{FILLER * 9}" for _ in range(3)],
        "A lake has at most seven boats.",
    )
    text = await quote("How many boats has a lake?", page, 5)
    assert text.startswith("> **Limits**\n>\n> These are the limits of tarn.")
    assert "seven boats" in text
    assert "started like this" not in text


async def test_of_a_book_the_passages_around_the_one_that_was_found_are_looked_at() -> None:
    page = make_page(*[f"## Lake {number}\n\n{FILLER * 9}" for number in range(2000)])
    near = replace(page[1100], text="## Lake of boats\n\nA lake has at most seven boats, and each has a rudder.")
    far = replace(page[10], text="## Lake of rudders\n\nA lake has at most seven boats, and each has a rudder.")
    page = [*page[:10], far, *page[11:1100], near, *page[1101:]]
    found = await extract(["How many boats has a lake?"], [page[1000]], InMemoryLibrary(page), 0.3)
    assert found.text.startswith("> **Lake of boats**")
    assert far not in found.passages
    assert len(found.passages) <= 1 + MAX_PAGE_PASSAGES


async def test_results_without_a_path_are_pages_of_their_own() -> None:
    results = [
        replace(passage(name, f"A lake of {name} has seven boats.", source="web"), path="", url=f"https://{name}.test/")
        for name in ("tarn", "mere")
    ]
    found = await extract(["How many boats has a lake?"], results, InMemoryLibrary(), 0.3)
    first, second = found.text.split("\n\n")
    assert ("tarn" in first, "mere" in first) == ("mere" in second, "tarn" in second)
    assert {first[-4:], second[-4:]} == {"[p1]", "[p2]"}
