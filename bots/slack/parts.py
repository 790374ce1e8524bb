"""Messages of a length that Slack takes: mrkdwn split at its structure, code blocks closed and opened again."""

from __future__ import annotations

import re

# chat.update refuses more than 4,000 characters; chat.postMessage cuts off after 40,000 without a word.
LIMIT = 3900
# One call of the stream methods takes 12,000 characters of Markdown; the rest of a long answer comes at its end.
STREAM_LIMIT = 12000

FENCE = "```"
# What must not be torn apart: links, escaped characters, code within a line.
_ATOM = re.compile(r"<[^<>\n]*>|&\w{1,6};|`[^`\n]{1,200}`|.", re.DOTALL)


def split(text: str, limit: int = LIMIT) -> list[str]:
    """Split into parts of at most `limit` characters: between blocks, else lines, words, characters.

    Nothing visible gives no parts.
    """
    parts: list[str] = []
    current = ""
    for block in _blocks(text):
        joined = f"{current}\n\n{block}" if current else block
        if len(joined) <= limit:
            current = joined
            continue
        if current:
            parts.append(current)
        *whole, current = _pieces(block, limit)
        parts += whole
    return [part for part in [*parts, current] if part.strip()]


def _blocks(text: str) -> list[str]:
    """Return what stands between empty lines; a code block is one, whatever is in it."""
    blocks: list[str] = []
    for number, piece in enumerate(re.split(r"(?m)^```$", text)):
        if number % 2:
            blocks.append(f"{FENCE}\n{piece.strip(chr(10))}\n{FENCE}")
        else:
            blocks += [block for block in re.split(r"\n{2,}", piece.strip("\n")) if block.strip()]
    return blocks


def _pieces(block: str, limit: int) -> list[str]:
    """Split one block, at least into one piece."""
    if len(block) <= limit:
        return [block]
    fenced = block.startswith(f"{FENCE}\n")
    lines = block.split("\n")[1:-1] if fenced else block.split("\n")
    room = limit - (2 * len(FENCE) + 2 if fenced else 0)
    pieces: list[str] = []
    current: str | None = None
    for line in lines:
        for part in _chunks(line, room):
            joined = part if current is None else f"{current}\n{part}"
            if current is not None and len(joined) > room:
                pieces.append(current)
                joined = part
            current = joined
    pieces.append(current or "")
    return [f"{FENCE}\n{piece}\n{FENCE}" for piece in pieces] if fenced else pieces


def _chunks(line: str, room: int) -> list[str]:
    """Split one line after words where it has any."""
    if len(line) <= room:
        return [line]
    chunks: list[str] = []
    current, word_end = "", 0
    for atom in _ATOM.findall(line):
        for piece in [atom[at : at + room] for at in range(0, len(atom), room)]:
            if len(current) + len(piece) > room:
                cut = word_end if word_end > room // 3 else len(current)
                chunks.append(current[:cut].rstrip())
                current, word_end = current[cut:], 0
            current += piece
            word_end = len(current) if piece == " " else word_end
    return [*chunks, current]
