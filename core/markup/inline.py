"""Removes from prose the markup of Markdown, MyST and reStructuredText that a chat would not render."""

from __future__ import annotations

import re

from core.language.prose import SPAN, change_outside_code

# The description of a picture is not a sentence of the text.
_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^)\s]{0,500}\)")
# What is left of a badge without its picture; in code it is C++.
_CODE_OR_EMPTY_LINK = re.compile(rf"({SPAN})|\[\]\([^()\s]{{0,500}}\)")
_LINK = re.compile(r"(?<!!)\[([^\[\]\n]{1,300})\]\((?!https?://)[^()\s]{0,500}\)")
_CODE_ROLES = (
    "func|class|meth|mod|attr|exc|data|obj|option|envvar|file|command|setting|signal|reqmeta|const|program|code|samp"
)
_ROLE = re.compile(r"(?<!`)(?::((?:\w+:)?[\w-]+):|\{((?:\w+:)?[\w-]+)\})`([^`\n]{1,300})`(?!`)")
_REFERENCE = re.compile(r"(?<![`\w])`([^`<\n]{1,200}?)(?:[ ]<[^>`\n]{1,500}>)?`__?(?!\w)")
_LITERAL = re.compile(r"``([^`\n]{1,300})``")
_FOOTNOTE = re.compile(r"[ ]?\[(?:#\w*|\^[\w-]+)\]_?")
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:\s[^<>]*+)?/?>")
# In reStructuredText, an escaped blank separates markup from text, and is not shown.
_ESCAPE = re.compile(r"\\(?:[ ]|([\[\]<>_*`~#|\\.!()-]))")
_SUBSTITUTION = re.compile(r"(?<!\|)\|([A-Za-z][\w -]{0,40})\|(?!\|)")


def clean_inline(text: str) -> str:
    """Return prose without the markup that a chat would not render; links to pages, bold and code stay.

    >>> clean_inline("See :ref:`the guide <guide>` of {func}`click.echo`, ``x`` and [here](a.md).")
    'See the guide of `click.echo`, `x` and here.'
    """
    text = _CODE_OR_EMPTY_LINK.sub(r"\1", _IMAGE.sub("", text))
    text = _ROLE.sub(_replace_role, text)
    text = _LITERAL.sub(r"`\1`", text)
    text = _REFERENCE.sub(r"\1", text)
    text = _FOOTNOTE.sub("", _LINK.sub(r"\1", text))
    text = change_outside_code(text, _clean_piece).strip()
    return text[:-1] if text.endswith("::") else text


def _clean_piece(piece: str) -> str:
    return _SUBSTITUTION.sub(r"\1", _ESCAPE.sub(r"\1", strip_tags(piece)))


def strip_tags(text: str, replacement: str = "") -> str:
    """Return a text with something else, or nothing, in place of its tags of HTML."""
    return _TAG.sub(replacement, text)


def _replace_role(match: re.Match[str]) -> str:
    role = (match[1] or match[2]).rpartition(":")[2]
    content = match[3]
    name, _, _ = content.partition(" <")
    if re.fullmatch(_CODE_ROLES, role):
        return f"`{name.rpartition('.')[2] if name.startswith('~') else name.lstrip('!')}`"
    return name.strip("~!")
