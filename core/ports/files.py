"""Files that people attach to their questions."""

from __future__ import annotations

from typing import Protocol

from core.types import FileExcerpt


class FileReader(Protocol):
    """Reads an attached file where it can do no harm."""

    async def read(self, name: str, data: bytes, question: str, max_chars: int) -> FileExcerpt:
        """Return the lines that matter for a question, without secrets, in about `max_chars` characters.

        Where it cannot be read, the excerpt says why.
        """
        ...
