"""Cutting documents into chunks (KIMAs 3.3.1): by heading, by definition, by paragraph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from core.language.tokens import lexical_tokens
from core.markup.document import Block
from core.markup.markdown import read_markdown
from knowledge.chunking.code import LANGUAGES, chunk_code
from knowledge.chunking.documents import chunk_blocks
from knowledge.chunking.lines import chunk_faq, chunk_plain
from knowledge.chunking.python import chunk_python
from knowledge.formats.asciidoc import read_asciidoc
from knowledge.formats.languages import find_markup
from knowledge.formats.rst import read_rst
from knowledge.parsing.limits import FormatError
from knowledge.ports import Chunk, Document

# Documents that are read as blocks. Their passages are Markdown.
READERS: dict[str, Callable[..., tuple[Block, ...]]] = {
    "markdown": partial(read_markdown, read_rst=read_rst),
    "mdx": partial(read_markdown, read_rst=read_rst, is_mdx=True),
    "rst": read_rst,
    "asciidoc": read_asciidoc,
}
MAX_BLANK_LINES = 2

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
    starts = [document.get_line(piece.start_line) for piece in chunks]
    for piece, start, next_start in zip(chunks, starts, [*starts[1:], 0], strict=False):
        title = piece.title or document.title or document.path
        if document.edition:
            title += f" ({document.edition})"
        # The title says most about a passage, so it counts twice.
        lexical = lexical_tokens(f"{document.path}\n{title}\n{title}\n{piece.text}")
        if document.pages and not document.url:
            # Without a link, a person finds it by its title.
            title += f" (PDF page {document.get_page(piece.start_line)})"
        end = document.get_line(piece.end_line)
        # The blank lines below belong to it, so that neighbours touch, and what has another between does not.
        if end < next_start <= end + 1 + MAX_BLANK_LINES:
            end = next_start - 1
        tokenized_chunks.append(TokenizedChunk(piece.text, title, start, end, lexical, piece.kind or document.kind))
    return tokenized_chunks


def chunk(document: Document, tokens: int = 200) -> list[Chunk]:
    """Cut a document into chunks of about `tokens` (estimated: 4 characters each, 1 per CJK character).

    How is chosen by `document.kind`: what is read as blocks is written as Markdown, other texts are cut as they stand;
    an unknown kind is cut as plain text. Every line with content is in some chunk, except what the readers leave out
    and the markers of tutorial cells. No chunk exceeds twice `tokens`. Blocking: call it off the event loop.

    >>> from knowledge.ports import Document
    >>> [piece.title for piece in chunk(Document("faq.txt", "Why? Because.", "text"))]
    ['faq.txt']
    """
    # A byte order mark is no text.
    if not document.text.strip("\ufeff").strip():
        return []
    kind = _find_reader(document)
    if kind in READERS:
        return chunk_blocks(document, READERS[kind](document.text, names=document.names), tokens)
    chunkers = {"python": chunk_python, "faq": chunk_faq}
    default_chunker = chunk_code if document.kind in LANGUAGES else chunk_plain
    return chunkers.get(document.kind, default_chunker)(document, tokens)


def _find_reader(document: Document) -> str:
    """Return the kind as which a document is read: a plain text may hold directives of Sphinx."""
    path = document.path.lower()
    if document.kind == "text" and path.endswith(".txt"):
        return find_markup(document.text)
    return "mdx" if document.kind == "markdown" and path.endswith(".mdx") else document.kind
