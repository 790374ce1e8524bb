"""What Pandoc and Quarto refer to within a page: its headings by their texts, and what they number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from markdown_it.common.utils import normalizeReference

from core.markup.generators import CROSS_KINDS

# The text of a heading, and the name of what a link may be given by.
_HEADING = re.compile(r"#{1,6}[ \t]++([^\n{]{1,300})(?:\{[^{}\n]*\}[ \t]*)?$")
_DEFINED = re.compile(r"[ ]{0,3}\[([^\[\]\n]{1,300})\]:")
_CROSS_LABEL = re.compile(r"(?:\{[^{}\n]{0,200}#|[#/%-]\|[ \t]*label:[ \t]*[\"']?)((fig|tbl|lst|eq)-[\w-]{1,100})")


def name_headings(lines: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the links to the headings of a document that Pandoc makes of their texts in brackets.

    >>> list(name_headings(["# Set up {.a}", "[Use]: b.md", "## Use"]))
    ['SET UP']
    """
    names = {normalizeReference(heading[1]) for line in lines if (heading := _HEADING.match(line))}
    defined = {normalizeReference(match[1]) for line in lines if (match := _DEFINED.match(line))}
    return {name: {"href": "#", "title": ""} for name in names - defined}


def number_references(lines: Sequence[str]) -> dict[str, str]:
    """Return what Quarto shows for references to the figures, tables and more of a page: each kind is numbered.

    >>> number_references(["![a](a.png){#fig-a}", "#| label: tbl-b", "{#fig-c}"])
    {'fig-a': 'Figure 1', 'tbl-b': 'Table 1', 'fig-c': 'Figure 2'}
    """
    counts: Counter[str] = Counter()
    numbers: dict[str, str] = {}
    for match in (match for line in lines for match in _CROSS_LABEL.finditer(line)):
        if match[1] not in numbers:
            counts[match[2]] += 1
            numbers[match[1]] = f"{CROSS_KINDS[match[2]]} {counts[match[2]]}"
    return numbers
