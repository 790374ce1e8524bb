"""Evidence that fits the model that reads it: passages are shortened together, the longest ones first."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from core.types import Passage

Layout = Literal["structured", "flat"]

# Every tag that our prompts fence data with. Common tags of HTML and XML are none: passages hold code.
FENCES = (
    "passages?|evidence|questions?|conversation|answers?|searches|analysis|related_messages|messages|said|judgement"
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# What is not seen, and could stand inside a tag so that only the model reads it as one.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_OPENING = r"(?:[<＜﹤]|&lt;|&#0*60;|&#x0*3c;)"
# Blanks are never given back: thousands of them would otherwise take seconds.
_FENCE = re.compile(rf"{_OPENING}\s*+([/／\\]*)\s*+({FENCES})\b", re.IGNORECASE)
# The marks of chat templates: a server that reads them inside a message takes them for its own.
_TEMPLATE = re.compile(
    rf"{_OPENING}(?=[|｜][\w▁][\w\s▁]{{0,40}}[|｜])|{_OPENING}(?=/?(?:s|bos|eos|(?:start|end)_of_turn|SYS)>)"
    rf"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])",
    re.IGNORECASE,
)
# Without one of these no tag begins.
_OPENS = re.compile(r"[<&\[]")
_ATTRIBUTE_CHARS = 200
# What most paths and titles consist of; the rest of them is looked at with care, which takes ten times as long.
_HARMLESS = re.compile(rf"[A-Za-z0-9_./:,()#+@ -]{{0,{_ATTRIBUTE_CHARS}}}")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer: one per CJK character, one per four other characters."""
    wide = 0 if text.isascii() else len(_CJK.findall(text))
    return wide + (len(text) - wide + 3) // 4


def handle(position: int) -> str:
    """Return the id under which the summarizer knows the passage at a position (from 0)."""
    return f"p{position + 1}"


def render(passages: Sequence[Passage], tokens: int, layout: Layout = "structured") -> str:
    """Return the passages as one context, each fenced as data.

    `structured` says in a header where a passage is from, of which kind it is and how well it fits; `flat` gives its
    id alone, which a citation needs. A passage longer than `tokens` is shortened. What looks like one of our fences
    inside a passage is broken, so that its text cannot pretend to end.
    """
    return "\n".join(
        f"{header(passage, position, layout)}\n{defuse(_shorten(passage.text, tokens))}\n</passage>"
        for position, passage in enumerate(passages)
    )


def header(passage: Passage, position: int, layout: Layout = "structured") -> str:
    """Return the tag that opens a passage in a context."""
    if layout == "flat":
        return f'<passage id="{handle(position)}">'
    named = {"source": passage.source, "path": passage.path, "title": passage.title, "kind": passage.kind}
    attributes = " ".join(f'{name}="{_attribute(value)}"' for name, value in named.items())
    return f'<passage id="{handle(position)}" {attributes} score="{passage.score:.2f}">'


def defuse(text: str) -> str:
    """Break tags that could close or open our fences or the turns of a chat template, however they are disguised."""
    if text.isascii() and not _OPENS.search(text):
        return text
    text = _broken(text)
    # What is open to see is broken by now. Joiners belong to emoji and to some scripts, wide letters to others: they
    # are replaced only where a tag still hides behind them.
    plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    if plain == text:
        return text
    return _broken(plain) if _FENCE.search(plain) or _TEMPLATE.search(plain) else text


def _broken(text: str) -> str:
    text = _FENCE.sub(lambda match: f"‹{match[1]}{match[2]}", text)
    return _TEMPLATE.sub(lambda match: "⁅" if match[0] == "[" else "‹", text)


def _shorten(text: str, tokens: int) -> str:
    if estimate_tokens(text) <= tokens:
        return text
    return text[: max(tokens, 1) * (1 if len(_CJK.findall(text)) * 2 > len(text) else 4)].rstrip() + " …"


@lru_cache(maxsize=1024)
def _attribute(text: str) -> str:
    """Return what can stand between two quotation marks of a header, and nowhere else."""
    seen = " ".join(text.split())
    if _HARMLESS.fullmatch(seen):
        return seen
    if not seen.isprintable():
        seen = "".join(character for character in seen if unicodedata.category(character)[0] != "C")
    seen = re.sub(r'["＂“”„‟]|&(?:quot|#0*34|#x0*22);', "'", seen, flags=re.IGNORECASE)
    seen = defuse(seen).replace("<", "‹").replace(">", "›").replace("＜", "‹").replace("＞", "›")
    return seen if len(seen) <= _ATTRIBUTE_CHARS else f"{seen[:_ATTRIBUTE_CHARS]}…"


# Of a passage that is shown at all so much is left: a header without a text says nothing.
LEAST_TOKENS = 8


def render_within(
    passages: Sequence[Passage], tokens: int, layout: Layout = "structured", *, most: int | None = None
) -> str:
    """Return passages as one context of about `tokens` tokens, headers included.

    Where they are longer together, the longest are shortened to one length, so that short ones stay whole. `most` is
    how long one may be in any case.
    """
    lengths = [estimate_tokens(passage.text) for passage in passages]
    headers = sum(estimate_tokens(header(passage, at, layout)) for at, passage in enumerate(passages))
    longest = longest_within(lengths, tokens - headers)
    return render(passages, longest if most is None else min(longest, most), layout)


def longest_within(lengths: Sequence[int], total: int) -> int:
    """Return the length to which texts of these lengths are shortened so that they have `total` together at most."""
    left = total
    for position, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - position)
        if length > share:
            return max(LEAST_TOKENS, share)
        left -= length
    return max(lengths, default=LEAST_TOKENS)
