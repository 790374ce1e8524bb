"""What holds for every chunker: nothing lost, exact lines, bounded sizes, readable titles, bounded time."""

import random
import re
import time

import pytest
from markdown_it import MarkdownIt

from core.language.tokens import estimate_tokens
from knowledge.chunking import chunk
from knowledge.chunking.documents import MAX_HEADING_LENGTH
from knowledge.ports import Chunk, Document
from tests.support.growth import measure

KINDS = [
    "markdown",
    "rst",
    "python",
    "javascript",
    "typescript",
    "go",
    "rust",
    "java",
    "c",
    "cpp",
    "text",
    "faq",
    "nim",
]

# Building blocks of random documents, separated by lines of two percent signs.
FRAGMENTS = {
    "markdown": """# Title
%%
## Part `two`
%%
Setext
======
%%
para one
para two
%%
- item
  - nested

  more
%%
```python
# no heading
x = 1
```
%%
| a | b |
|---|---|
| 1 | 2 |
%%
<!-- # hidden
-->
%%
> quote
> # not a heading
%%
***
%%
~~~
%%
1. one
2. two
%%
\tindented
%%
中文段落，没有空格。""",
    "rst": """Title
=====
%%
Part
----
%%
=====
Over
=====
%%
.. note:: text

   body
%%
para::

    literal
    ====
%%
- item
  more
%%
.. _label:
%%
+---+
| a |
+---+""",
    "python": """'Doc.'
%%
import os
%%
@wrap
async def f(a: int, *, b: str = 'x') -> None:
    'Doc.'
    if a:
        return None
    # note
    return b
%%
class A(B):
    'Doc.'

    x: int = 1
    'About x.'

    def m(self):
        pass

    class Inner:
        def n(self): return 1
%%
X = [
    1,

    2,
]
%%
a = 1; b = 2
%%
# %%
# Prose
# -----
# text
%%
try:
    pass
except E:
    x = 1
else:
    y = 2
%%
def broken(
%%
s = '''

def no():
'''""",
    "javascript": """import a from 'b';
%%
export function f(a) {
  return { a };
}
%%
class A {
  m() {
    return 1;
  }
}
%%
/* c
 * d */
%%
const g = async (x) => x;
%%
} ) ]""",
}


def random_text(kind: str, seed: int) -> str:
    generator = random.Random(seed)
    fragments = FRAGMENTS.get(kind, FRAGMENTS["javascript"]).split("\n%%\n")
    parts = []
    for _ in range(generator.randint(0, 60)):
        roll = generator.random()
        if roll < 0.7:
            parts.append(generator.choice(fragments))
        elif roll < 0.9:
            words = "".join(generator.choices("abcdefg .,_()", k=generator.randint(1, 400)))
            parts.append("\n".join(words[start : start + 70] for start in range(0, len(words), 70)))
        elif roll < 0.95:
            parts.append("long" + "x y，。" * generator.randint(100, 900))
        else:
            parts.append("".join(generator.choices("\x0c\x85\u2028\0 \t#=`é好", k=20)))
    newline = generator.choice(["\n", "\r\n", "\r"])
    glue = generator.choice([newline, newline * 2, newline * 2 + " " + newline])
    return glue.join(parts).replace("\n", newline) if newline != "\r\n" else glue.join(parts)


def strip_markup(text: str) -> str:
    """What must survive: the characters that are neither blank nor marks of comments, quotes and cells."""
    return "".join(text.split()).replace("#", "").replace("%%", "").replace('"', "").replace("'", "")


def check(document: Document, chunks: list[Chunk], tokens: int) -> None:
    lines = document.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    covered: dict[int, str] = {}
    last = 0
    for piece in chunks:
        assert piece.text.strip()
        assert piece.title.strip()
        assert 1 <= piece.start_line <= piece.end_line <= len(lines)
        assert piece.start_line >= last, "chunks overlap or are out of order"
        last = piece.end_line if piece.start_line == piece.end_line else piece.end_line + 1
        assert estimate_tokens(piece.text) <= 2 * tokens
        source = "\n".join(lines[piece.start_line - 1 : piece.end_line])
        if piece.start_line == piece.end_line:
            assert strip_markup(piece.text) in strip_markup(source)
        else:
            assert strip_markup(piece.text) == strip_markup(source), "the text is not what stands on its lines"
        for number in range(piece.start_line, piece.end_line + 1):
            covered[number] = covered.get(number, "") + piece.text
    for number, line in enumerate(lines, 1):
        if strip_markup(line) and not ("coding:" in line and number < 3):
            assert number in covered, f"line {number} is lost: {line[:60]!r}"
            if len(line) > 4 * tokens and number in covered:
                assert strip_markup(line) in strip_markup(covered[number]), f"a part of the long line {number} is lost"


def get_words(text: str) -> list[str]:
    return re.findall(r"[^\W_]{3,}", text)


def check_blocks(document: Document, chunks: list[Chunk], tokens: int) -> None:
    """What was read as blocks stands on its lines, and no word of it is lost."""
    lines = document.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    previous_start = 1
    for piece in chunks:
        assert piece.text.strip()
        assert piece.title.strip()
        assert previous_start <= piece.start_line <= piece.end_line <= len(lines)
        previous_start = piece.start_line
        assert estimate_tokens(piece.text) <= 2 * tokens
        # Where a comment within code was left out, the lines are a few off.
        source = set(get_words("\n".join(lines[max(0, piece.start_line - 4) : piece.end_line + 3])))
        # A long line may be cut within a word.
        inner_words = get_words(piece.text)[1:-1] if piece.start_line < piece.end_line else []
        assert set(inner_words) <= source, "the text is not what stands on its lines"
    words = set(get_words(document.text.replace("hidden", "")))
    shown = "\n".join(piece.text for piece in chunks)
    assert words <= set(get_words(shown)) | {word for word in words if len(word) > 20}


def test_no_word_is_lost_of_what_is_read_as_blocks() -> None:
    for seed in range(30):
        document = Document("folder/file.x", random_text("markdown", seed), "markdown")
        for tokens in (50, 200):
            check_blocks(document, chunk(document, tokens), tokens)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("markdown", "rst")])
def test_nothing_is_lost_and_lines_are_exact(kind: str) -> None:
    for seed in range(12):
        document = Document("folder/file.x", random_text(kind, seed), kind)
        for tokens in (50, 200):
            pieces = chunk(document, tokens)
            check(document, pieces, tokens)
            assert bool(pieces) == bool(strip_markup(document.text))


@pytest.mark.parametrize("kind", KINDS)
def test_blank_documents_have_no_chunks(kind: str) -> None:
    for text in ("", "\n", " \n\t\r\n", "\ufeff", "\ufeff\r\n"):
        assert chunk(Document("a", text, kind)) == []


@pytest.mark.parametrize("kind", ["markdown", "rst", "python", "javascript", "text", "faq"])
def test_a_line_of_one_megabyte_is_cut_without_loss(kind: str) -> None:
    for line in ("word " * 200_000, "中文，" * 100_000):
        document = Document("a", line, kind)
        chunks = chunk(document)
        assert max(estimate_tokens(piece.text) for piece in chunks) <= 400
        assert {(piece.start_line, piece.end_line) for piece in chunks} == {(1, 1)}
        assert strip_markup("".join(piece.text for piece in chunks)) == strip_markup(line)


HOSTILE = {
    "brackets": "[\n" * 40_000,
    "calls": "f((\n" * 10_000 + "))\n" * 10_000,
    "braces": "{\n" * 10_000 + "}\n" * 10_000,
    "branches": "if (a) {}\n" + "else if (a) { b }\n" * 5_000,
    "signs": "x = " + "-" * 50_000 + "1",
    "chain": "x = a" + "\n.b()" * 10_000,
    "dots": "a.\n" * 16_500,
    "calls in lines": "(a)\n" * 12_000,
    "arrows": "a=>\n" * 12_000,
    "headings": "# a\n" * 5_000,
    "underlines": "a\n===\n" * 5_000,
    "fences": "```\n" * 20_000,
    "comments": "<!--\n" * 10_000,
    "links": "# " + "[" * 5_000 + "\n# " + "*" * 3_000 + "\n# " + "<a" * 3_000,
    "front matter": "---\na: b\n" * 5_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_bounded_time(name: str) -> None:
    for kind in ("markdown", "rst", "python", "javascript", "c"):
        started_at = time.thread_time()
        chunks = chunk(Document("a", HOSTILE[name], kind))
        assert time.thread_time() - started_at < 2.5, kind
        assert max((estimate_tokens(piece.text) for piece in chunks), default=0) <= 400


def test_rst_of_too_many_headings_keeps_its_text() -> None:
    text = "".join(f"Part {number}\n----\n\nIt has *words*.\n\n" for number in range(6_000))
    chunks = chunk(Document("a.rst", text, "rst"))
    assert "Part 5999  \n\\----" in chunks[-1].text
    assert chunks[-1].end_line == text.count("\n") - 1


def test_reading_and_cutting_take_little_more_than_the_library_does() -> None:
    section = "## Heading {}\n\nSome words about `things` in a paragraph.\nAnd a line more of the same kind.\n\n"
    text = "# Guide\n\n" + "".join(
        section.format(number) + "- item one\n- item two\n\n```\ncode\n```\n\n" for number in range(500)
    )
    document = Document("a.md", text, "markdown")
    library = MarkdownIt("commonmark").enable("table")
    ratios = [measure(lambda _: chunk(document), text) / measure(library.parse, text) for _ in range(5)]
    assert min(ratios) < 4


def test_an_estimate_counts_four_characters_or_one_ideograph() -> None:
    assert estimate_tokens("a" * 399) == 100
    assert 100 <= estimate_tokens("中" * 100) <= 101
    assert estimate_tokens("été " * 100) == pytest.approx(100, abs=1)


def test_paragraphs_are_packed_up_to_the_size() -> None:
    text = "\n\n".join(f"Paragraph {number} " + "with words " * 10 for number in range(12))
    chunks = chunk(Document("notes/a.txt", text, "text"), 100)
    assert 3 <= len(chunks) <= 6
    assert all(60 <= estimate_tokens(piece.text) <= 150 for piece in chunks)
    assert {piece.title for piece in chunks} == {"a.txt"}
    assert chunks[0].text.startswith("Paragraph 0")
    assert chunks[1].text.startswith("Paragraph")


def test_a_question_and_its_answer_stay_together() -> None:
    document = Document("faq.yaml#x", "How?\n\n" + "Like this. " * 60, "faq", "How?")
    (piece,) = chunk(document)
    assert (piece.title, piece.start_line, piece.end_line) == ("How?", 1, 3)
    long_document = Document("faq.yaml#y", "How?\n\n" + ("Like this. " * 30 + "\n\n") * 10, "faq", "How?")
    pieces = chunk(long_document)
    assert len(pieces) > 3
    assert {piece.title for piece in pieces} == {"How?"}


def test_a_heading_is_cut() -> None:
    """What patterns look at is as short as a heading should be."""
    (piece,) = chunk(Document("a.md", f"# {'word ' * 20_000}\n\nText.", "markdown"))[:1]
    assert len(piece.title) <= MAX_HEADING_LENGTH + 10
