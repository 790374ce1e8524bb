"""The script that compares passages with their source finds what is lost, added and left."""

from __future__ import annotations

from knowledge.ports import Chunk, Document
from tests.lab.quality.residue import Findings, examine, write

SOURCE = """\
---
title: The page
---
# The page

The server listens on port 9092. <!-- not shown at all -->

```python
import rocket_engine
```

Nobody has read this line yet.
"""


def find(text: str, title: str = "The page") -> dict[str, int]:
    findings = Findings()
    examine(Document("a.md", SOURCE, "markdown"), [Chunk(text, title, 1, 9)], findings)
    return dict(findings.counts)


WHOLE = SOURCE.partition("---\n# ")[2].replace(" <!-- not shown at all -->", "")


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert find(f"# {WHOLE}") == {}


def test_what_is_lost_added_or_left_is_found() -> None:
    assert find(f"# {WHOLE.replace('Nobody has read this line yet.', '')}") == {"line lost": 1}
    assert find(f"# {WHOLE.replace('listens', 'listenson')}") == {"word added": 1}
    assert find(f"# {WHOLE.replace('```python', '```')}") == {"language lost": 1}
    assert find(f"# {WHOLE}\n\n{{{{ port }}}} {{: .lead }}") == {
        "value in braces": 1,
        "attribute list": 1,
        "word added": 1,
    }
    assert find(f"# {WHOLE}", "a.md") == {"title is a file": 1}


def test_a_passage_that_is_cited_with_other_lines_is_found() -> None:
    page = "# The page\n\nThe server listens.\n\nNobody has read this line yet."
    # The first of these lines is included: it stands where the page includes it.
    document = Document("a.md", page, "markdown", lines=(1, 1, 2, 3, 4))
    for start, end, count in ((5, 5, 0), (3, 3, 1), (3, 5, 0)):
        findings = Findings()
        examine(document, [Chunk("Nobody has read this line yet.", "The page", start, end)], findings)
        assert findings.counts["cited elsewhere"] == count
    assert write(document, Chunk("Nobody.", "The page", 5, 5)) == "=== a.md:4-4\nTITLE The page\nNobody.\n"
