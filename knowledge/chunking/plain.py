"""Plain text, and everything that has no better chunker: paragraphs, packed up to the size."""

from __future__ import annotations

from knowledge.chunking.lines import Lines, Section, Span, chunks_of, paragraphs, root_name
from knowledge.ports import Chunk, Document


def chunk_plain(document: Document, tokens: int) -> list[Chunk]:
    """Split at blank lines, then at lines, then inside lines."""
    lines = Lines.of(document.text)
    whole = Section((root_name(document),), 1, len(lines))
    return chunks_of(lines, [whole], tokens, lambda section: paragraphs(lines, section.span))


def chunk_faq(document: Document, tokens: int) -> list[Chunk]:
    """Keep a question and its answer in one chunk, up to twice the size; longer answers are split at paragraphs."""
    lines = Lines.of(document.text)
    title = root_name(document)
    if lines.size(1, len(lines)) <= 2 * tokens and not lines.blank(1, len(lines)):
        first = next(number for number in range(1, len(lines) + 1) if lines[number].strip())
        end = max(number for number in range(1, len(lines) + 1) if lines[number].strip())
        return [Chunk("\n".join(lines.lines[first - 1 : end]).rstrip(), title, first, end)]
    whole = Section((title,), 1, len(lines))
    return chunks_of(lines, [whole], tokens, lambda section: [Span(1, len(lines))])
