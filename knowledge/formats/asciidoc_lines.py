"""The lines of AsciiDoc before they are blocks: conditions, attributes, and the names of what references lead to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from knowledge.formats.asciidoc_inline import MAX_VALUE_CHARS, resolve_attributes

ENTRY = re.compile(r":(!?)(\w[\w-]*+)[ ]*+(!?):(?:[ \t]+(.*))?$")
HEADING = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)$")
ATTRIBUTE_LINE = re.compile(r"\[(?:[\w.#%\"',+:!{*$].*)?\]$")
TITLE = re.compile(r"\.(?![\s.])(.+)$")
_ESCAPED_DIRECTIVE = re.compile(r"^\\(?=(?:include|ifdef|ifndef|ifeval|endif)::)")
_CONDITION = re.compile(r"(ifdef|ifndef|ifeval|endif)::([^\[\]]*)\[(.*)\]$")
_COMMENT_DELIMITER = re.compile(r"/{4,}$")
_COMPARISON = re.compile(r"(.*?)(==|!=|<=|>=|<|>)(.*)")
_PASSED_VALUE = re.compile(r"pass:[a-z,]*\[(.*)\]")
# The name of a part of the document, with the text of links to it.
_NAME = re.compile(
    r"\[(?:\[([^\[\],]+)(?:,([^\[\]]+))?\]|[\w-]*#([\w-]++)[^\[\]]*+"
    r"|(?:[^\[\]=]{1,100},[ ]?)?id=[\"']?([\w-]++)[^\[\]]*+)\]$"
)

# What a title has and its name does not.
_NO_PART_OF_NAME = re.compile(r"<[^<>]{1,300}>|&#?\w{2,8};|[^\w .-]")


class Line(NamedTuple):
    """A line of a document."""

    number: int
    text: str


def find_titles(lines: Iterable[str]) -> dict[str, str]:
    """Return the titles of parts of a document by the names that references have."""
    titles: dict[str, str] = {}
    names: list[str] = []
    # The title of a block may stand above its name.
    title_above = ""
    for text in lines:
        if anchor := _NAME.match(text):
            names.append(anchor[1] or anchor[3] or anchor[4])
            titles |= {names[-1]: anchor[2] or title_above} if anchor[2] or title_above else {}
        elif title := HEADING.match(text) or TITLE.match(text):
            heading = title[title.lastindex or 1]
            words = _NO_PART_OF_NAME.sub("", heading.lower())
            underscored = re.sub(r"[ ._-]+", "_", words).strip("_")
            # As the site may set them, too: without a prefix, and with hyphens.
            names += [f"_{underscored}", re.sub(r"[ .-]+", "-", words).strip("-"), heading]
            titles |= {name: heading for name in names if name not in titles}
            names = []
            title_above = heading if TITLE.match(text) else ""
        elif not ATTRIBUTE_LINE.match(text):
            title_above = ""
            names = [] if text.strip() else names
    return titles


def choose_lines(texts: Iterable[str], attributes: dict[str, str]) -> Iterator[Line]:
    """Yield the lines whose conditions are met. What a document does not set is not set."""
    conditions: list[bool] = []
    for number, text in enumerate(map(str.rstrip, texts), 1):
        condition = _CONDITION.match(text)
        if condition is None:
            if not conditions or conditions[-1]:
                if entry := ENTRY.match(text):
                    set_attribute(entry, entry[4] or "", attributes)
                yield Line(number, _ESCAPED_DIRECTIVE.sub("", text))
            continue
        is_met = _is_met(condition, attributes)
        if condition[1] == "endif":
            del conditions[-1:]
        elif condition[1] != "ifeval" and condition[3]:
            if is_met and (not conditions or conditions[-1]):
                yield Line(number, condition[3])
        else:
            conditions.append(is_met and (not conditions or conditions[-1]))


def drop_comments(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines without the comments among them."""
    delimiter = ""
    for line in lines:
        if delimiter or _COMMENT_DELIMITER.match(line.text):
            delimiter = "" if line.text == delimiter else delimiter or line.text
        elif not line.text.startswith("//"):
            yield line


def _is_met(condition: re.Match[str], attributes: Mapping[str, str]) -> bool:
    if condition[1] == "ifeval":
        text = " ".join(resolve_attributes(condition[3], attributes).split())
        comparison = _COMPARISON.match(text)
        return comparison is not None and _compare(_unquote(comparison[1]), comparison[2], _unquote(comparison[3]))
    is_set = [name.strip().lower() in attributes for name in re.split(r"[,+]", condition[2])]
    return (all(is_set) if "+" in condition[2] else any(is_set)) != (condition[1] == "ifndef")


def _unquote(text: str) -> str:
    return text.strip().strip("\"'")


def _compare(left: str, operator: str, right: str) -> bool:
    if left.isdecimal() and right.isdecimal():
        # As numbers: of those of one width, the order of the digits is theirs.
        width = max(len(left), len(right))
        left = left.rjust(width, "0")
        right = right.rjust(width, "0")
    is_less = left < right
    is_equal = left == right
    results = {"==": is_equal, "!=": not is_equal, "<": is_less, ">=": not is_less, "<=": is_less or is_equal}
    return results.get(operator, not (is_less or is_equal))


def set_attribute(entry: re.Match[str], value: str, attributes: dict[str, str]) -> None:
    """Set or unset what an entry, a match of `ENTRY`, names."""
    name = entry[2].lower()
    passed_value = _PASSED_VALUE.fullmatch(value)
    value = passed_value[1] if passed_value else value
    if entry[1] or entry[3]:
        attributes.pop(name, None)
    elif len(resolved := resolve_attributes(value, attributes)) <= MAX_VALUE_CHARS:
        attributes[name] = resolved
