"""Python by definition."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from knowledge.chunking.lines import SLACK, Lines, Section, Span, chunk_plain, chunks_of, root_name, spans_from
from knowledge.chunking.tutorial import chunk_tutorial, is_tutorial
from knowledge.ports import Chunk, Document

_HEADER = re.compile(r"#!|#.*coding[:=]")
_MAX_SIGNATURE = 100

# Warning filters belong to the whole process: two threads saving and restoring them at once would leave them changed.
_PARSING = threading.Lock()

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def chunk_python(document: Document, tokens: int) -> list[Chunk]:
    """Split by function, method and class; a tutorial script by its prose; what does not parse as plain text."""
    lines = Lines.of(document.text)
    tree = _parse("\n".join(lines.lines))
    if tree is None:
        return chunk_plain(document, tokens)
    first = 1
    while first < len(lines) and first <= 2 and _HEADER.match(lines[first]):
        first += 1
    if is_tutorial(lines, tree):
        return chunk_tutorial(document, lines, tree, first, tokens)
    walk = _Walk(lines, tokens)
    walk.add(tree.body, first, len(lines), (_module(document),))
    return chunks_of(lines, walk.sections, tokens, walk.split)


def _parse(text: str) -> ast.Module | None:
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _module(document: Document) -> str:
    path = PurePosixPath(document.path)
    if document.title or path.stem not in ("__init__", "__main__") or not path.parent.name:
        return root_name(document)
    return f"{path.parent.name}/{path.name}"


class _Walk:
    """Collects sections: one per function, per class or method, and per run of other statements."""

    def __init__(self, lines: Lines, tokens: int) -> None:
        self.lines = lines
        self.tokens = tokens
        self.sections: list[Section] = []
        self._bodies: dict[Section, Sequence[ast.stmt]] = {}

    def add(self, body: Sequence[ast.stmt], start: int, end: int, path: tuple[str, ...]) -> None:
        run: list[ast.stmt] = []
        for node, span in _regions(self.lines, body, start, end):
            if not isinstance(node, Definition):
                run.append(node)
                continue
            self._keep(Section(path, start, span.start - 1), run)
            run, start = [], span.end + 1
            self._define(node, span, path)
        self._keep(Section(path, start, end), run)

    def _define(self, node: Definition, span: Span, path: tuple[str, ...]) -> None:
        if not isinstance(node, ast.ClassDef):
            inner = (*path, node.name)
            self._keep(Section(inner, span.start, span.end, _signature(node)), [node])
            return
        inner = (*path, f"class {node.name}")
        whole = self.lines.size(span.start, span.end) <= self.tokens * SLACK
        if whole or node.body[0].lineno <= node.lineno:
            self._keep(Section(inner, span.start, span.end), [node])
        else:
            self.add(node.body, span.start, span.end, inner)

    def _keep(self, section: Section, body: Sequence[ast.stmt]) -> None:
        if section.start <= section.end:
            self.sections.append(section)
            self._bodies[section] = body

    def split(self, section: Section) -> list[Span]:
        """Return the statement borders of a section."""
        return list(self._statements(self._bodies[section], section.start, section.end))

    def _statements(self, body: Sequence[ast.stmt], start: int, end: int) -> Iterator[Span]:
        regions = list(_regions(self.lines, body, start, end))
        if not regions:
            yield Span(start, end)
            return
        if regions[0][1].start > start:
            yield Span(start, regions[0][1].start - 1)
        for node, span in regions:
            inner = _inner(node)
            # Text below the first statement's line can be divided; statements that share one line cannot.
            if self.lines.size(span.start, span.end) > self.tokens and inner and inner[0].lineno > node.lineno:
                yield from self._statements(inner, span.start, span.end)
            else:
                yield span


def _regions(lines: Lines, body: Sequence[ast.stmt], start: int, end: int) -> Iterator[tuple[ast.stmt, Span]]:
    """Pair each statement with its lines: from the comments and decorators above it up to the next statement."""
    nodes: list[ast.stmt] = []
    starts: list[int] = []
    last = start - 1
    for node in body:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        if first > last and not (nodes and _describes(node, nodes[-1])):
            nodes.append(node)
            starts.append(_with_comments(lines, first, last + 1, node.col_offset))
        last = max(last, node.end_lineno or first)
    if starts:
        yield from zip(nodes, spans_from(starts, end), strict=True)


def _describes(node: ast.stmt, before: ast.stmt) -> bool:
    """Tell whether a statement is the docstring of the attribute before it."""
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return text and isinstance(before, ast.Assign | ast.AnnAssign)


def _with_comments(lines: Lines, first: int, lowest: int, column: int) -> int:
    """Return the first line of the comments above a statement that are indented like it."""
    number = first
    while number > lowest:
        text = lines[number - 1]
        if text.lstrip().startswith("#") and len(text) - len(text.lstrip()) == column:
            first = number - 1
        elif text.strip():
            break
        number -= 1
    return first


def _inner(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements directly inside a compound statement, in the order of their lines."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            found += child.body
    return sorted(found, key=lambda statement: statement.lineno)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    signature = f"{node.name}({ast.unparse(node.args)}){returns}"
    if len(signature) > _MAX_SIGNATURE:
        names = (child.arg for child in ast.walk(node.args) if isinstance(child, ast.arg))
        signature = f"{node.name}({', '.join(names)})"
    return signature if len(signature) <= _MAX_SIGNATURE else signature[: _MAX_SIGNATURE - 1] + "…"
