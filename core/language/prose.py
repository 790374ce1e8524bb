"""What a text in Markdown is made of: code, links and sentences. One definition of each."""

from __future__ import annotations

import re
from collections.abc import Callable

from core.language.keywords import content_words

# For patterns of their own, with DOTALL and MULTILINE. Tildes are a fence only alone on a line: 好的~~~ is not one.
FENCED = r"```.*?(?:```|\Z)|^[ \t]*~~~[\w+.-]*[ \t]*$.*?(?:^[ \t]*~~~|\Z)"
SPAN = r"`[^`\n]+`"
FENCED_CODE = re.compile(FENCED, re.DOTALL | re.MULTILINE)
# Its group is what stands between the backticks.
CODE_SPAN = re.compile(r"`([^`\n]+)`")
CODE = re.compile(f"{FENCED}|{SPAN}", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"https?://\S+")
# Code, headings and table rows are not sentences.
_NON_PROSE = re.compile(rf"{FENCED}|^[ \t]*(?:#{{1,6}}\s|\|)[^\n]*$", re.DOTALL | re.MULTILINE)
# Inline code is one piece.
_SENTENCE = re.compile(rf"(?:{SPAN}|[.!?](?=\w)|[^.!?。！？\n])+(?:[.!?。！？]+[\"'”’」』）)*_]*)?")


def strip_code_and_links(text: str) -> str:
    """Return a text with a blank in place of its code and its addresses: what is left is in some language."""
    return LINK.sub(" ", CODE.sub(" ", text))


def change_outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return a text with each piece of it that is not code changed."""
    pieces: list[str] = []
    end = 0
    for code in CODE.finditer(text):
        pieces += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, change(text[end:])])


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, unchanged; code blocks, headings and table rows are not sentences.

    >>> split_sentences("Install it first. Then run it [1]. 完成。")
    ['Install it first.', 'Then run it [1].', '完成。']
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence of `split_sentences(text)`."""
    prose = _NON_PROSE.sub(lambda match: "\n" * len(match[0]), text)
    spans: list[tuple[int, int]] = []
    for match in _SENTENCE.finditer(prose):
        body = match[0].strip()
        if content_words(body):
            start = match.start() + match[0].index(body)
            spans.append((start, start + len(body)))
    return spans
