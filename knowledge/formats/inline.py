"""Plain text as inline Markdown."""

from __future__ import annotations

import html
import re

from core.markup.inline import MAX_ADDRESS_CHARS

# What Markdown would read as emphasis, code, a link, a tag, a character's name, or an escape.
_MARK = re.compile(
    r"`|\\(?=[!-/:-@\[-`{-~])|\*(?=\S)|(?<=\S)\*|(?<!\w)_+(?=[^\s_])|(?<=[^\s_])_+(?!\w)|<(?=[A-Za-z/!?])|\](?=[(\[:])|&(?=#?\w+;)"
)
# What Unicode has above and below the line; without them, ten to the power of six would be a hundred and six.
_SHIFTED = re.compile(r"[+\-−]?[0-9n]{1,6}")
_RAISED = str.maketrans("0123456789n+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ⁺⁻⁻")
_LOWERED = str.maketrans("0123456789n+-−", "₀₁₂₃₄₅₆₇₈₉ₙ₊₋₋")
_BACKTICKS = re.compile(r"`+")
_ADDRESS = re.compile(r"(?:https?://|mailto:)[^\s<>()]+$")


def escape(text: str) -> str:
    r"""Return plain text as inline Markdown that reads as the same text, with more escapes than its writer leaves.

    >>> escape("*.py and <name>, 2 * 3, a_b")
    '\\*.py and \\<name>, 2 * 3, a_b'
    """
    return _MARK.sub(_escape_mark, text)


def _escape_mark(mark: re.Match[str]) -> str:
    return "".join(f"\\{sign}" for sign in mark[0])


def shift(text: str, *, is_raised: bool) -> str:
    """Return the digits and signs of a text above or below the line; a text that holds others, as it is.

    >>> shift("10", is_raised=True), shift("2", is_raised=False), shift("st", is_raised=True)
    ('¹⁰', '₂', 'st')
    """
    if not _SHIFTED.fullmatch(text):
        return text
    return text.translate(_RAISED if is_raised else _LOWERED)


def make_code(text: str) -> str:
    """Return a text as inline code: its lines joined, its backticks kept."""
    content = " ".join(text.split())
    runs = {len(run) for run in _BACKTICKS.findall(content)}
    ticks = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    padding = " " if content.startswith("`") or content.endswith("`") else ""
    return f"{ticks}{padding}{content}{padding}{ticks}" if content else ""


def find_sign(name: str) -> str:
    """Return the sign that docutils' own definitions give to a name between bars, or an empty string.

    >>> find_sign("|reg|"), find_sign("|version|")
    ('®', '')
    """
    sign = html.unescape(f"&{name.strip('|')};")
    return sign if len(sign) == 1 else ""


def make_link(text: str, address: str) -> str:
    """Return inline Markdown that leads to an address of the web or of mail; without one, or with data, the text."""
    target = address.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
    is_address = len(address) <= MAX_ADDRESS_CHARS and _ADDRESS.match(target)
    is_useful = text.strip() and is_address and text.strip() != address
    return f"[{text}]({target})" if is_useful else text
