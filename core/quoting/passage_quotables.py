"""Finds what can be quoted of a passage, by its kind: prose, entries of a FAQ, settings, what code says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from core.evidence.ranking import NON_CODE_KINDS
from core.language.tokens import lexical_tokens
from core.quoting.configuration import get_configuration_language, get_pieces
from core.quoting.quotable import Quotable, get_quotables
from core.types import Passage

MAX_CODE_LINES = 30
MIN_CODE_LINES = 3
MAX_FAQ_CHARS = 400

_CONFIGURATION_KINDS = frozenset({"text", "yaml", "toml", "ini"})
_IMPORT = re.compile(r"\s*(?:import|from|package|use|using|#include)\b")
_DOCSTRING = re.compile(r'(?s)[rRbBuUfF]?("""|\'\'\')(.*?)\1')
_COMMENT = re.compile(r"(?m)^[^\S\n]*(?:#|//|\*)\s?(?!!)(.*)$")
# Where a star begins no line of a comment, but an item of a docstring whose beginning is in another passage.
_HASH_COMMENT = re.compile(r"(?m)^[^\S\n]*#\s?(?!!)(.*)$")
_HASH_LANGUAGES = frozenset({"python", "ruby", "bash", "shell", "yaml", "toml", "r", "perl", "julia", "make", "docker"})


def get_passage_quotables(passage: Passage) -> list[Quotable]:
    """Return everything that can be quoted of a passage, by its kind."""
    title = passage.title.rpartition(" > ")[2]
    if passage.kind == "faq":
        question, _, answer = passage.text.partition("\n\n")
        answer_line = " ".join(answer.split())
        # A short answer is one piece, unless it has blocks.
        if answer_line and len(answer_line) <= MAX_FAQ_CHARS and "```" not in answer:
            return [Quotable(answer_line, question, sentences=frozenset((0,)))]
        return [quotable for quotable in get_quotables(answer, question) if _is_quotable(quotable)]
    language = get_configuration_language(passage.path) if passage.kind in _CONFIGURATION_KINDS else ""
    if language and (settings := list(_get_settings(passage.text, language))):
        return settings
    if passage.kind in NON_CODE_KINDS:
        return [
            quotable
            for quotable in get_quotables(passage.text, title, is_docstring=passage.kind == "rst")
            if _is_quotable(quotable)
        ]
    return list(_get_code_quotables(passage, title))


def _get_settings(text: str, language: str) -> Iterator[Quotable]:
    """Yield the settings of a configuration file, and the sentences of its comments; none where it has no settings."""
    for piece in get_pieces(text, language):
        if piece.code:
            yield Quotable("", piece.path, piece.code, language, sentences=piece.lines, is_setting=True)
        for quotable in get_quotables(piece.comment, piece.path):
            # What ends without a sign is a title.
            if quotable.text.endswith((".", "!", "?", "。", "！", "？")) and _is_quotable(quotable):
                yield replace(quotable, code="", items=(), sentences=piece.lines)


def _get_code_quotables(passage: Passage, title: str) -> Iterator[Quotable]:
    """Yield what a passage of code says in its docstrings and comments; the first piece brings a short definition."""
    docstrings = [_dedent_docstring(match[2]) for match in _DOCSTRING.finditer(passage.text)]
    rest = _DOCSTRING.sub("", passage.text)
    comment = _HASH_COMMENT if passage.kind in _HASH_LANGUAGES else _COMMENT
    comments = "\n".join(match[1] for match in comment.finditer(rest))
    definition = _get_definition(rest) if docstrings else ""
    for quotable in get_quotables("\n\n".join([*docstrings, comments]), title, is_docstring=True):
        if _is_quotable(quotable):
            is_first = 0 in quotable.sentences and not quotable.code and not quotable.items
            yield replace(quotable, code=definition, language=passage.kind) if is_first and definition else quotable


def _dedent_docstring(text: str) -> str:
    first, _, rest = text.partition("\n")
    lines = rest.split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join([first.strip(), *(line[margin:] for line in lines)])


def _get_definition(code: str) -> str:
    lines = [line for line in code.split("\n") if line.strip() and not _IMPORT.match(line)]
    return "\n".join(lines) if MIN_CODE_LINES <= len(lines) <= MAX_CODE_LINES else ""


def _is_quotable(quotable: Quotable) -> bool:
    if quotable.code:
        return True
    # A character of Chinese says about as much as three of Latin script.
    tokens = lexical_tokens(quotable.content).split()
    return len(tokens) > 2
