"""Links whose address stands elsewhere by a name, and notes that stand in the text itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Code, also between two ticks each, within which one is a sign of the code.
CODE = r"(?<!`)``(?:[^`]|(?<!`)`(?!`)){1,300}``(?!`)|`+[^`]*`+"
# A link to a name that another tool knows, as those of mdBook, MkDocs and rustdoc do; the text may be the name.
_NAMED_LINK = re.compile(
    r"(?<![\w\]\\!])\[([^\[\]\n]{1,300})\]"
    r"\[(`[^`\n]{1,200}`|(?![\d ]*\]|\^)[^\[\]{}\x22\n]{1,200}|(?<=[\w`*.]\]\[))\]"
    r"|(?<![\w\]\\!])\[(?P<name>`[A-Za-z_][^`\n]{0,200}`|\w{1,100}(?:::\w{1,100}){1,10}(?:!|\(\))?)\](?![\[(:])"
    rf"|{CODE}"
)
_NAME_SIGN = re.compile(r"[ `.:/#-]")
# Python-Markdown takes a blank, or the end of a line, between a text and its name.
_PARTED_LINK = re.compile(
    rf"({CODE})|(?<![\w\]\\!])\[(?!\^)([^\[\]]{{1,300}})\](?:[ ]|[ ]?\n[ ]*)\[(?!\^)([^\[\]]{{1,200}})\](?![\[(:])"
)
# So it does where the mark of a note is right behind a name.
_NAME_BEFORE_NOTE = re.compile(rf"({CODE})|(?<![\w\]\\!])\[(?!\^)([^\[\]]{{1,300}})\](?=\[\^[^\[\]\s]{{1,100}}\])")
# A note that stands in its place.
_NOTE = re.compile(
    rf"({CODE})"
    r"|(?<=[\w.,;:!?)`*\"'])\^\[(?=[^\[\]\s]{1,100}[ ])"
    r"((?:[^\[\]`]|`[^`]{0,300}`|\[[^\[\]]{0,300}\](?:\([^()\s]{0,500}\))?){1,1000})\]"
)


def write_named_links(text: str, references: Mapping[str, Any]) -> str:
    """Return inline Markdown with links to names in one form; of a name that is not in `references`, the text stays.

    >>> write_named_links("The [`a.Size`][], [here] [Here], [to]\\n[b.to]", {"HERE": ""})
    'The `a.Size`, [here][Here], to'
    """
    if "]" in text:
        text = _PARTED_LINK.sub(lambda match: _join_parts(match, references), text)
    if "][^" in text:
        text = _NAME_BEFORE_NOTE.sub(lambda match: _part_from_note(match, references), text)
    return _NAMED_LINK.sub(lambda match: _write_named_link(match, references), text)


def write_notes(text: str) -> str:
    """Return a text with its notes in brackets.

    >>> write_notes("It grows^[Not `^[here]`.] and 2^[3].")
    'It grows (Not `^[here]`.) and 2^[3].'
    """
    return _NOTE.sub(lambda match: match[1] or f" ({match[2].strip()})", text) if "^[" in text else text


def _normalize(label: str) -> str:
    from markdown_it.common.utils import normalizeReference  # whoever only writes Markdown does without the parser

    return normalizeReference(label)


def _join_parts(match: re.Match[str], references: Mapping[str, Any]) -> str:
    """Return a text beside the name of its link, unless both only happen to stand beside each other."""
    if match[1]:
        return match[0]
    text, label = match[2].replace("`", "").lower(), match[3].replace("`", "").lower()
    last = label.rpartition(".")[2]
    is_name = _normalize(match[3]) in references or (last != label and not label.endswith("."))
    is_near = text[:3] == last[:3] or last in text
    return f"[{match[2]}][{' '.join(match[3].split())}]" if is_name and is_near else match[0]


def _part_from_note(match: re.Match[str], references: Mapping[str, Any]) -> str:
    return f"{match[0]}[]" if match[2] and _normalize(match[2]) in references else match[0]


def _write_named_link(match: re.Match[str], references: Mapping[str, Any]) -> str:
    text = match[1] or match["name"]
    label = match[2] or text
    if text and not match[2] and text.isdecimal():
        return match[0]
    # The words of a usage, as in `[from][to]`, have nothing in common.
    is_named = bool(text) and (bool(_NAME_SIGN.search(text + label)) or text[:3].lower() == label[:3].lower())
    return text if is_named and _normalize(label) not in references else match[0]
