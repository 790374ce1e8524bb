"""Messages of a length that Telegram takes: split without breaking markup, and turned back into plain text.

Works on the HTML that `markup` writes: balanced tags, and every `<`, `>` and `&` of the text escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape

LIMIT = 4096
# Besides the text's length Telegram bounds the raw size of a message with its tags (32768 bytes).
LIMIT_BYTES = 30000

_ATOM = re.compile(r"<[^>]*>|&[#\w]{1,10};|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a part may end: before the atom `index`, after so many UTF-16 units of text."""

    index: int
    units: int


def split(html: str, limit: int = LIMIT) -> list[str]:
    """Split into parts of at most `limit` UTF-16 units of text: between blocks, else lines, words, characters.

    Tags that are open at a split are closed there and opened again in the next part. Nothing visible gives no parts.
    """
    atoms: list[str] = _ATOM.findall(html)
    parts: list[str] = []
    opened: list[str] = []
    start = 0
    while start < len(atoms):
        end = _end(atoms, start, opened, limit)
        while end < len(atoms) and atoms[end].startswith("</"):
            end += 1
        piece = atoms[start:end]
        head = "".join(opened)
        opened = _open_after(opened, piece)
        part = (head + "".join(piece)).strip() if not head else head + "".join(piece).rstrip()
        part += "".join(_closing(tag) for tag in reversed(opened))
        if plain(part).strip():
            parts.append(part)
        start = end
    return parts


def plain(html: str) -> str:
    """Return the text alone, for a message whose markup was rejected."""
    return unescape(re.sub(r"<[^>]*>", "", html))


def length(text: str) -> int:
    """Return how many UTF-16 units a text has, which is how Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _end(atoms: list[str], start: int, opened: list[str], limit: int) -> int:
    """Return where the part that begins at `start` ends."""
    units, size, depth = 0, sum(2 * len(tag) for tag in opened), len(opened)
    block = line = word = _Place(start, 0)
    for index in range(start, len(atoms)):
        atom = atoms[index]
        size += len(atom.encode())
        if atom.startswith("<") and len(atom) > 1:
            depth += -1 if atom.startswith("</") else 1
            continue
        units += length(unescape(atom))
        if units > limit or size > LIMIT_BYTES:
            return _best(atoms, start, index, units, (block, line, word))
        if atom == "\n":
            line = _Place(index + 1, units)
            block = line if depth == 0 and atoms[index - 1 : index] == ["\n"] else block
        elif atom == " ":
            word = _Place(index + 1, units)
    return len(atoms)


def _best(atoms: list[str], start: int, full: int, units: int, places: tuple[_Place, ...]) -> int:
    """Return the best place to end before the part is full; a place that would waste most of the part is none."""
    for place in places:
        if place.index > start and place.units > units // 3:
            return place.index
    # Tags right before the full mark belong to what comes next, or a part could end where it began.
    return max(full, start + 1)


def _open_after(opened: list[str], piece: list[str]) -> list[str]:
    now = list(opened)
    for atom in piece:
        if atom.startswith("</"):
            now.pop()
        elif atom.startswith("<") and len(atom) > 1:
            now.append(atom)
    return now


def _closing(tag: str) -> str:
    return f"</{tag[1:-1].split(maxsplit=1)[0]}>"
