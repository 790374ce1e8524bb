"""Files of questions with answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import SourceError
from core.settings import FaqSource
from core.types import Citation
from knowledge.ports import Document
from knowledge.sources.factory import open_source
from knowledge.sources.faq import MAX_FILE_BYTES

FORMATS = {
    "a.yaml": "- question: How?\n  answer: So.\n  url: https://x.example\n  tags: [one, two]\n"
    "- question: Why?\n  answer: 42\n",
    "b.yml": "faq:\n  - {q: 'How?', a: So., link: https://x.example, tag: 'one, two'}\n  - {q: 'Why?', a: 42}\n",
    "a.csv": "Question,Answer,URL,Tags\nHow?,So.,https://x.example,one;two\nWhy?,42,,\n",
    "b.csv": "\ufeff问题;答案;链接;标签\r\nHow?;So.;https://x.example;one，two\r\nWhy?;42;;\r\n",
    "a.tsv": "title\tid\tquestion\tanswer\turl\ttags\nX\t1\tHow?\tSo.\thttps://x.example\tone,two\nY\t2\tWhy?\t42\t\t\n",
    "a.jsonl": '{"question": "How?", "answer": "So.", "url": "https://x.example", "tags": ["one", "two"]}\n\n'
    '{"question": "Why?", "answer": 42}\n',
    "a.json": '[{"question": "How?", "answer": "So.", "url": "https://x.example", "tags": ["one", "two"]},\n'
    '{"question": "Why?", "answer": 42}]',
}


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_bytes(text.encode())
    return file


async def read(path: Path, link: str = "") -> tuple[list[Document], dict[str, int]]:
    source = open_source("faq", FaqSource(kind="faq", path=path, link=link), path.parent)
    listing = await source.listing()
    return [document async for document in source.documents(listing, listing.fingerprints)], dict(listing.skipped)


@pytest.mark.parametrize("name", FORMATS)
async def test_all_formats_say_the_same(name: str, tmp_path: Path) -> None:
    (first_document, second_document), skipped_counts = await read(write(tmp_path, name, FORMATS[name]))
    assert (first_document.title, first_document.text, first_document.kind) == (
        "How?",
        "How?\n\nSo.\n\nTags: one, two",
        "faq",
    )
    assert (second_document.title, second_document.text, second_document.url) == ("Why?", "Why?\n\n42", "")
    assert first_document.url == "https://x.example"
    assert first_document.path.startswith(f"{name}#how-")
    assert skipped_counts == {}


async def test_a_mapping_is_questions_with_answers(tmp_path: Path) -> None:
    for name, text in (
        ("a.yaml", "How?: So.\n为什么？: 因为。\n"),
        ("a.json", '{"How?": "So.", "为什么？": "因为。"}'),
    ):
        documents, _ = await read(write(tmp_path, name, text))
        assert [document.text for document in documents] == ["How?\n\nSo.", "为什么？\n\n因为。"]
        assert documents[1].path.startswith(f"{name}#为什么-")


async def test_links_lead_to_the_line_of_the_entry(tmp_path: Path) -> None:
    link = "https://x.example/{path}#L{start}-L{end}"
    entries = "# Comment\n- question: How?\n  answer: |\n    So\n    it is.\n- question: Why?\n  answer: 42\n"
    yaml = write(tmp_path, "my faq.yaml", entries)
    assert [document.url for document in (await read(yaml, link))[0]] == [
        "https://x.example/my%20faq.yaml#L2-L2",
        "https://x.example/my%20faq.yaml#L6-L6",
    ]
    table = write(tmp_path, "a.csv", 'question,answer\nHow?,"So\n\nit is"\n\nWhy?,42\n')
    assert [document.url[-5:] for document in (await read(table, link))[0]] == ["L2-L2", "L6-L6"]


async def test_incomplete_and_repeated_entries_are_counted(tmp_path: Path) -> None:
    text = "- {question: 'How?', answer: So.}\n" * 2 + "- {question: 'How?', answer: Otherwise.}\n"
    text += (
        "- {question: 'Why?'}\n- {answer: So.}\n- {question: ' ', answer: So.}\n- text\n- {question: [a], answer: b}\n"
    )
    documents, skipped_counts = await read(write(tmp_path, "a.yaml", text))
    assert [document.text for document in documents] == ["How?\n\nSo.", "How?\n\nOtherwise."]
    assert len({document.path for document in documents}) == 2
    assert skipped_counts == {"incomplete entry": 5, "duplicate": 1}


async def test_paths_only_depend_on_the_question(tmp_path: Path) -> None:
    first, _ = await read(write(tmp_path, "a.yaml", "A long question about things?: So.\nWhy?: So.\n"))
    second, _ = await read(write(tmp_path, "a.yaml", "New?: X\nWhy?: Else.\nA long question about things?: So.\n"))
    assert {document.path for document in first} < {document.path for document in second}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "- question: [\n", r"a\.yaml:2:1: not valid YAML"),
        ("a.yaml", "How?: a\nHow?: b\n", r"a\.yaml:2:1: the key 'How\?' is given twice \(first on line 1\)"),
        ("a.yaml", "just text\n", r"a\.yaml:1: expected a list"),
        ("a.yaml", "", r"a\.yaml has no question with an answer"),
        ("a.csv", "a column,another\nx,y\n", r"a\.csv:1: the header names no question and answer"),
        ("a.csv", 'question,answer\nHow?,"So\n', r"a\.csv:2: not valid CSV"),
        ("a.csv", "", r"a\.csv:1: the header"),
        ("a.jsonl", '{"question": "How?", "answer": "So."}\n{oops}\n', r"a\.jsonl:2:2: not valid JSON"),
        ("a.json", '[\n{"question": 1,}]', r"a\.json:2:\d+: not valid JSON"),
        ("a.json", "[" * 100_000, r"a\.json:1: is nested too deeply"),
        ("a.txt", "How? So.", r"a\.txt: \.txt is not a known FAQ format \(known: \.yaml"),
    ],
)
async def test_broken_files_name_the_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=message):
        await read(write(tmp_path, name, text))


@pytest.mark.parametrize("name", ["a.yaml", "a.csv", "a.json"])
async def test_missing_files_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=rf"source faq: .*{name}:? cannot be read: No such file"):
        await read(tmp_path / name)


async def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "question,answer\nHow?,So.\n")
    with path.open("r+b") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(SourceError, match="is larger than 16 MB"):
        await open_source("faq", FaqSource(kind="faq", path=path), tmp_path).listing()
    write(tmp_path, "a.csv", "question,answer\nHow?,So.\n")
    assert await open_source("faq", FaqSource(kind="faq", path=path), tmp_path).listing()


async def test_people_are_told_the_file_of_an_entry_and_no_mark_behind_it(tmp_path: Path) -> None:
    text = "- {q: How?, a: So.}\n- {q: How?, a: Or so.}\n- {q: 为什么？, a: 因为。}\n- {q: '?', a: '!'}\n"
    documents, _ = await read(write(tmp_path, "my faq.yaml", text))
    places = [Citation(1, "p", "faq", document.title, document.path, "").place for document in documents]
    assert places == ["my faq.yaml"] * 4
    assert Citation(1, "p", "docs", "C#", "docs/c#-sharp.md", "").place == "docs/c#-sharp.md"
