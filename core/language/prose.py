"""What a text in Markdown is made of: code, links and sentences. One definition of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

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
# The blanks between two sentences, or the end of a Chinese one with the quotes and brackets that it closes.
_PIECE_BOUNDARY = re.compile(r"(?<=[.!?])[ ]+(?=[\"'(`*_A-Z0-9])|[。！？][。！？」』）”’】》)\]]*+")
_CLOSING = re.compile(r"[。！？」』）”’】》)\]]*+[ ]*+")
# They begin and end with the same sign.
_PAIRED_SIGNS = ("**", '"')


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


def cut_into_sentences(line: str) -> list[str]:
    """Return the sentences of a line with the blanks after them: joined, they are the line again.

    What is quoted must not begin in the middle of a sentence, so a full stop before a small letter (e.g. here) is no
    end, and a Chinese sentence takes the bold and the quotation with it that its end closes.

    >>> cut_into_sentences("他说「好。」然后走了。**注意。**One. Two")
    ['他说「好。」', '然后走了。', '**注意。**', 'One. ', 'Two']
    """
    sentences: list[str] = []
    start = 0
    counted = 0
    is_open = dict.fromkeys(_PAIRED_SIGNS, False)
    for match in _PIECE_BOUNDARY.finditer(line):
        end = match.end()
        if end <= start:
            continue
        for sign in _PAIRED_SIGNS:
            is_open[sign] ^= line.count(sign, counted, end) % 2 == 1
        counted = end
        if not match[0].isspace():
            end = _skip_closing(line, end, is_open)
        sentences.append(line[start:end])
        start = end
    return [sentence for sentence in (*sentences, line[start:]) if sentence.strip()]


def _skip_closing(line: str, end: int, is_open: Mapping[str, bool]) -> int:
    """Return where a Chinese sentence ends: after the bold or the quotation that its end closes, and blanks."""
    for sign in _PAIRED_SIGNS:
        if is_open[sign] and line.startswith(sign, end):
            end += len(sign)
    closing = _CLOSING.match(line, end)
    return closing.end() if closing else end
