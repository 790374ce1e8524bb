"""Python by definition."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from knowledge.chunking.documents import chunk_blocks
from knowledge.chunking.lines import (
    SOFT_MAX,
    LineRange,
    Lines,
    Section,
    chunk_plain,
    get_root_title,
    spans_from,
    to_chunks,
)
from knowledge.chunking.tutorial import is_tutorial, read_tutorial
from knowledge.ports import Chunk, Document

_HEADER = re.compile(r"#!|#.*coding[:=]")

# Warning filters belong to the whole process: two threads saving and restoring them at once would leave them changed.
_PARSE_LOCK = threading.Lock()

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def chunk_python(document: Document, tokens: int) -> list[Chunk]:
    """Split by function, method and class; a tutorial script by its prose; what does not parse as plain text."""
    lines = Lines.from_text(document.text)
    tree = _parse("\n".join(lines.lines))
    if tree is None:
        return chunk_plain(document, tokens)
    first_line = 1
    while first_line < len(lines) and first_line <= 2 and _HEADER.match(lines[first_line]):
        first_line += 1
    if is_tutorial(lines, tree):
        return chunk_blocks(document, read_tutorial(lines, tree, first_line), tokens)
    collector = _SectionCollector(lines, tokens)
    collector.collect(tree.body, first_line, len(lines), (_module_title(document),))
    return to_chunks(lines, collector.sections, tokens, collector.split)


def _parse(text: str) -> ast.Module | None:
    try:
        with _PARSE_LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _module_title(document: Document) -> str:
    path = PurePosixPath(document.path)
    if document.title or path.stem not in ("__init__", "__main__") or not path.parent.name:
        return get_root_title(document)
    return f"{path.parent.name}/{path.name}"


class _SectionCollector:
    """Collects sections: one per function, per class or method, wherever it is, and per run of other statements."""

    def __init__(self, lines: Lines, tokens: int) -> None:
        self.lines = lines
        self.tokens = tokens
        self.sections: list[Section] = []
        self._bodies: dict[Section, Sequence[ast.stmt]] = {}

    def collect(self, body: Sequence[ast.stmt], start: int, end: int, path: tuple[str, ...]) -> None:
        statements: list[ast.stmt] = []
        for node, span in _statement_regions(self.lines, body, start, end):
            if not _has_definition(node):
                statements.append(node)
                continue
            self._add_section(Section(path, start, span.start - 1), statements)
            statements = []
            start = span.end + 1
            if isinstance(node, Definition):
                self._add_definition(node, span, path)
            else:
                # Such as a class in the branches of `try` and `except`.
                self.collect(_child_statements(node), span.start, span.end, path)
        self._add_section(Section(path, start, end), statements)

    def _add_definition(self, node: Definition, span: LineRange, path: tuple[str, ...]) -> None:
        if not isinstance(node, ast.ClassDef):
            self._add_section(Section((*path, node.name), span.start, span.end), [node])
            return
        definition_path = (*path, f"class {node.name}")
        fits_in_chunk = self.lines.size(span.start, span.end) <= self.tokens * SOFT_MAX
        if fits_in_chunk or node.body[0].lineno <= node.lineno:
            self._add_section(Section(definition_path, span.start, span.end), [node])
        else:
            self.collect(node.body, span.start, span.end, definition_path)

    def _add_section(self, section: Section, body: Sequence[ast.stmt]) -> None:
        if section.start <= section.end:
            self.sections.append(section)
            self._bodies[section] = body

    def split(self, section: Section) -> list[LineRange]:
        """Return the statement borders of a section."""
        return list(self._split_statements(self._bodies[section], section.start, section.end))

    def _split_statements(self, body: Sequence[ast.stmt], start: int, end: int) -> Iterator[LineRange]:
        regions = list(_statement_regions(self.lines, body, start, end))
        if not regions:
            yield LineRange(start, end)
            return
        if regions[0][1].start > start:
            yield LineRange(start, regions[0][1].start - 1)
        for node, span in regions:
            children = _child_statements(node)
            # Text below the first statement's line can be divided; statements that share one line cannot.
            if self.lines.size(span.start, span.end) > self.tokens and children and children[0].lineno > node.lineno:
                yield from self._split_statements(children, span.start, span.end)
            else:
                yield span


def _statement_regions(
    lines: Lines, body: Sequence[ast.stmt], start: int, end: int
) -> Iterator[tuple[ast.stmt, LineRange]]:
    """Pair each statement with its lines: from the comments and decorators above it up to the next statement."""
    nodes: list[ast.stmt] = []
    starts: list[int] = []
    last_line = start - 1
    for node in body:
        first_line = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        if first_line > last_line and not (nodes and _is_attribute_docstring(node, nodes[-1])):
            nodes.append(node)
            starts.append(_first_comment_line(lines, first_line, last_line + 1, node.col_offset))
        last_line = max(last_line, node.end_lineno or first_line)
    if starts:
        yield from zip(nodes, spans_from(starts, end), strict=True)


def _is_attribute_docstring(node: ast.stmt, previous: ast.stmt) -> bool:
    """Return whether a statement is the docstring of the attribute before it."""
    is_string = (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return is_string and isinstance(previous, ast.Assign | ast.AnnAssign)


def _first_comment_line(lines: Lines, first_line: int, min_line: int, column: int) -> int:
    """Return the first line of the comments above a statement that are indented like it."""
    number = first_line
    while number > min_line:
        text = lines[number - 1]
        if text.lstrip().startswith("#") and len(text) - len(text.lstrip()) == column:
            first_line = number - 1
        elif text.strip():
            break
        number -= 1
    return first_line


def _has_definition(node: ast.stmt) -> bool:
    """Return whether a statement is a definition, or has one on lines of its own in its branches."""
    if isinstance(node, Definition):
        return True
    children = _child_statements(node)
    return bool(children) and children[0].lineno > node.lineno and any(map(_has_definition, children))


def _child_statements(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements directly inside a compound statement, in the order of their lines."""
    statements: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            statements.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            statements += child.body
    return sorted(statements, key=lambda statement: statement.lineno)
