"""Languages other than Python, by their syntax tree. The one module that imports the parser and the grammars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from knowledge.chunking.lines import (
    LineRange,
    Lines,
    Section,
    get_root_title,
    pack_spans,
    spans_from,
    split_paragraphs,
    to_chunks,
)
from knowledge.ports import Chunk, Document

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

# Where a kind's grammar has another name than the kind.
_GRAMMAR_NAMES = {"csharp": "c_sharp", "shell": "bash"}
_NEWER_LANGUAGES = frozenset({"csharp", "php", "kotlin", "swift", "ruby", "shell"})
LANGUAGES = frozenset({"javascript", "typescript", "go", "rust", "java", "c", "cpp"}) | _NEWER_LANGUAGES

# Code beyond this is generated: it is cut by paragraphs.
_MAX_TEXT_LENGTH = 100_000
# Where code is broken, the parser follows many readings at once, in time and memory that grow with the square of its
# length. So it is given parts of the code, and its work is counted: of what people write, it takes at most 0.023 steps
# for a byte (9,000 files), and of what is made to be slow 0.047 and more.
_PART_LENGTH = 4000
_MAX_STEPS_PER_BYTE = 0.03
_FREE_STEPS = 30

_MODIFIERS = (
    r"export|default|pub(?:\([^)\n]{1,40}\))?|public|private|protected|static|abstract|final|async|unsafe|inline"
    r"|const|override|declare|sealed|non-sealed|extern(?:[ \t]+\"[^\"\n]{0,20}\")?"
)
_KEYWORDS = r"class|interface|enum|struct|trait|impl(?:<[^>]*>)?|fn|function\*?|type|namespace|mod|union"
_DEFINITION = re.compile(
    rf"^[ \t]*(?:(?:{_MODIFIERS})\s+){{0,9}}"
    rf"(?:(?:{_KEYWORDS})\s+([A-Za-z_$][\w$]*)"
    r"|func\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)"
    r"|(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*(?::[^=\n]+)?=\s*(?:async\s*)?(?:function\b|\(|[\w$]+\s*=>))",
    re.MULTILINE,
)

# A method of JavaScript: its name, its parameters, and the brace behind.
_SCRIPT_DEFINITION = re.compile(
    rf"{_DEFINITION.pattern}"
    rf"|^[ \t]+(?:(?:{_MODIFIERS}|get|set|readonly)[ \t]+){{0,9}}[*#]{{0,2}}[ \t]?"
    r"(?!(?:if|for|while|switch|catch|with|function|return|super)\b)([A-Za-z_$][\w$]*)[ \t]?"
    r"(?:<[^>\n]{0,80}>)?\([^()\n]*\)[ \t]*(?::[^;{}=\n]*)?\{[^\n]*$",
    re.MULTILINE,
)
_NAME = r"([A-Za-z_$][\w$]*)"
_QUALIFIED_NAME = rf"(?:<[^>\n]{{0,80}}>\s*)?(?:[A-Za-z_]\w*(?:<[^>\n]{{0,80}}>)?\??\.)*{_NAME}"
# Of newer languages.
_NEWER_DEFINITION = re.compile(
    rf"^[ \t]*(?:(?:{_MODIFIERS}|internal|open|override|sealed|data|suspend|partial|virtual|fileprivate|mutating"
    r"|companion|inner|infix|operator|readonly|required|convenience|@\w+)\s+){0,9}"
    r"(?:(?:class|interface|enum|struct|trait|record(?:[ \t]+(?:class|struct))?|object|protocol|extension|actor"
    rf"|namespace|module|function)\s+{_NAME}"
    rf"|def\s+(?:self\.)?{_NAME}"
    rf"|fun[ \t]+{_QUALIFIED_NAME}"
    rf"|func\s+{_NAME}"
    # A method of C#: modifier, type, name, parameters.
    rf"|(?<=[a-z] )[A-Za-z_][\w<>,.?\[\]]*[ \t]+{_NAME}[ \t]*\([^;\n]*$)",
    re.MULTILINE,
)
# A function: its type, which may have a line of its own, its name, its parameters, and no semicolon behind.
_C_DEFINITION = re.compile(
    rf"{_DEFINITION.pattern}"
    r"|^[ \t]*(?!(?:return|else|if|for|while|switch|case|new|throw|delete|using|typedef|goto|do)\b)"
    r"(?:[\w:<>,\[\]*&@.]{1,80}[ \t]+){1,8}[*&]{0,2}(?:\w{1,80}::){0,3}"
    r"(?!__attribute__)(~?[A-Za-z_]\w*)(?:<[^>\n]{0,80}>)?[ \t]*\([^;\n]*$"
    r"|^(?!(?:return|if|for|while|switch)\b)([A-Za-z_]\w*)\([^;\n]*$",
    re.MULTILINE,
)
_SHELL_DEFINITION = re.compile(
    r"^[ \t]*(?:function[ \t]+([A-Za-z_][\w:.-]*)|([A-Za-z_][\w:.-]*)[ \t]*\([ \t]*\))", re.MULTILINE
)


def chunk_code(document: Document, tokens: int) -> list[Chunk]:
    """Split at the borders of the syntax tree, rounded to whole lines; the title names the definitions that start."""
    lines = Lines.from_text(document.text)
    candidate_spans = _split_by_syntax(document, lines, tokens) or split_paragraphs(lines, LineRange(1, len(lines)))
    root = get_root_title(document)
    sections = [
        Section((root, name) if name else (root,), span.start, span.end)
        for name, span in _name_spans(
            lines, pack_spans(lines, candidate_spans, tokens), _definition_pattern(document.kind)
        )
    ]
    return to_chunks(lines, sections, tokens, lambda section: [section.span])


def _definition_pattern(kind: str) -> re.Pattern[str]:
    if kind in ("c", "cpp", "java"):
        return _C_DEFINITION
    if kind == "shell":
        return _SHELL_DEFINITION
    if kind in ("javascript", "typescript"):
        return _SCRIPT_DEFINITION
    return _NEWER_DEFINITION if kind in _NEWER_LANGUAGES else _DEFINITION


def _split_by_syntax(document: Document, lines: Lines, tokens: int) -> list[LineRange]:
    """Return whole lines, or none where the grammar is not installed or the code takes too long to parse."""
    spans: list[LineRange] = []
    is_written = len(document.text) <= _MAX_TEXT_LENGTH and max(map(len, lines.lines)) <= _PART_LENGTH
    for part in _cut_into_parts(lines) if is_written and find_spec(_grammar_name(document)) else ():
        part_lines = Lines(lines.lines[part.start - 1 : part.end])
        tree = _parse(document, "\n".join(part_lines.lines))
        if tree is None:
            return []
        offset = part.start - 1
        part_spans = _divide(tree.root_node, part_lines, tokens)
        spans += [LineRange(span.start + offset, span.end + offset) for span in part_spans]
    return spans


def _cut_into_parts(lines: Lines) -> list[LineRange]:
    """Return parts of about equal length, each from one of the least indented lines that follow a blank one."""
    starts = [1]
    length = 0
    best_start = 0
    best_indent = 0
    for number in range(2, len(lines) + 1):
        line = lines[number]
        length += len(lines[number - 1]) + 1
        indent = len(line) - len(line.lstrip())
        is_border = line.strip() and not lines[number - 1].strip()
        if length > _PART_LENGTH / 2 and is_border and (not best_start or indent <= best_indent):
            best_start = number
            best_indent = indent
        if length + len(line) > _PART_LENGTH:
            starts.append(best_start or number)
            length = sum(len(lines[later]) + 1 for later in range(starts[-1], number))
            best_start = 0
    return spans_from(starts, len(lines))


def _parse(document: Document, text: str) -> Tree | None:
    """Return the syntax tree of a part of a code, or None where it takes far more steps than what people write."""
    from tree_sitter import Language, Parser

    data = text.encode()
    steps = count()
    try:
        return Parser(Language(_load_grammar(document, text))).parse(
            lambda offset, _: data[offset:],
            progress_callback=lambda offset, _: next(steps) > _FREE_STEPS + _MAX_STEPS_PER_BYTE * offset,
        )
    except ValueError:
        return None


def _divide(root: Node, lines: Lines, tokens: int) -> Iterator[LineRange]:
    """Yield whole lines, each the largest part of the syntax tree there that fits into a chunk."""
    pending = [([root], LineRange(1, len(lines)))]
    while pending:
        nodes, span = pending.pop()
        children = [child for node in nodes for child in node.children]
        if not children or lines.size(span.start, span.end) <= tokens:
            yield span
            continue
        groups = _group_by_line(children, span.start)
        spans = spans_from(list(groups), span.end)
        pending += reversed(list(zip(groups.values(), spans, strict=True)))


def _group_by_line(nodes: Iterable[Node], start: int) -> dict[int, list[Node]]:
    """Return consecutive nodes by the line where they begin.

    Brackets and keywords begin none, and neither does what a comment is about.
    """
    groups: dict[int, list[Node]] = {start: []}
    last_comment_line = start
    for node in nodes:
        line = node.start_point.row + 1
        if node.is_named and line > max(start, last_comment_line + 1):
            start = line
        groups.setdefault(start, []).append(node)
        last_comment_line = node.end_point.row + 1 if node.is_extra else 0
    return groups


def _grammar_name(document: Document) -> str:
    return f"tree_sitter_{_GRAMMAR_NAMES.get(document.kind, document.kind)}"


def _load_grammar(document: Document, text: str) -> Any:
    module = import_module(_grammar_name(document))
    if document.kind == "php":
        return module.language_php() if "<?" in text else module.language_php_only()
    if document.kind != "typescript":
        return module.language()
    return module.language_tsx() if PurePosixPath(document.path).suffix == ".tsx" else module.language_typescript()


def _name_spans(
    lines: Lines, spans: Iterable[LineRange], definition: re.Pattern[str]
) -> Iterator[tuple[str, LineRange]]:
    """Name each span by the unindented definition that it continues, and by the first ones that start in it."""
    enclosing_name = ""
    for span in spans:
        text = "\n".join(lines.lines[span.start - 1 : span.end])
        matches = list(definition.finditer(text))
        names = [next(filter(None, match.groups())) for match in matches]
        is_continuation = text.lstrip("\n")[:1] in (" ", "\t", "{", "}", ")")
        outer_name = [enclosing_name] if is_continuation and enclosing_name else []
        yield " / ".join(dict.fromkeys(outer_name + list(dict.fromkeys(names))[:2])), span
        outer_names = [name for match, name in zip(matches, names, strict=True) if not match[0][:1].isspace()]
        enclosing_name = outer_names[-1] if outer_names else enclosing_name
