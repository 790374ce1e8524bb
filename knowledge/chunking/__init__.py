"""Cutting documents into chunks (KIMAs 3.1): by heading, by definition, by paragraph."""

from __future__ import annotations

from dataclasses import dataclass

from core.language.tokens import lexical_tokens
from knowledge.chunking.code import LANGUAGES, chunk_code
from knowledge.chunking.lines import chunk_faq, chunk_plain
from knowledge.chunking.markdown import chunk_markdown
from knowledge.chunking.python import chunk_python
from knowledge.chunking.rst import chunk_rst
from knowledge.parsing.limits import FormatError
from knowledge.ports import Chunk, Document

__all__ = ["TokenizedChunk", "chunk", "chunk_and_tokenize"]


@dataclass(frozen=True, slots=True)
class TokenizedChunk:
    """A chunk ready for the store: `title` is never empty, `tokens` are those of path, title (twice) and text.

    `kind` is that of the text: a tutorial script is prose.
    """

    text: str
    title: str
    start_line: int
    end_line: int
    tokens: str
    kind: str


def chunk_and_tokenize(document: Document, tokens: int, max_chunks: int) -> list[TokenizedChunk]:
    """Cut a document into chunks of about `tokens`, and each chunk into lexical tokens. Blocking.

    Raises `FormatError` for a document of more than `max_chunks`.
    """
    chunks = chunk(document, tokens)
    if len(chunks) > max_chunks:
        raise FormatError(f"it makes more than {max_chunks} passages")
    tokenized_chunks = []
    for piece in chunks:
        title = piece.title or document.title or document.path
        if document.edition:
            title += f" ({document.edition})"
        # The title says most about a passage, so it counts twice.
        lexical = lexical_tokens(f"{document.path}\n{title}\n{title}\n{piece.text}")
        start = document.get_line(piece.start_line)
        end = document.get_line(piece.end_line)
        tokenized_chunks.append(TokenizedChunk(piece.text, title, start, end, lexical, piece.kind or document.kind))
    return tokenized_chunks


def chunk(document: Document, tokens: int = 200) -> list[Chunk]:
    """Cut a document into chunks of about `tokens` (estimated: 4 characters each, 1 per CJK character).

    How is chosen by `document.kind`; an unknown kind is cut as plain text. Every line with content is in some chunk,
    except front matter and the markers of tutorial cells. No chunk exceeds twice `tokens`. A chunk's text comes from
    its lines; lines that are cut inside share their number. Blocking: call it off the event loop.

    >>> from knowledge.ports import Document
    >>> [piece.title for piece in chunk(Document("faq.txt", "Why? Because.", "text"))]
    ['faq.txt']
    """
    if not document.text.strip():
        return []
    chunkers = {"markdown": chunk_markdown, "rst": chunk_rst, "python": chunk_python, "faq": chunk_faq}
    default_chunker = chunk_code if document.kind in LANGUAGES else chunk_plain
    return chunkers.get(document.kind, default_chunker)(document, tokens)
