"""Languages other than Python, by their syntax tree. The one module that imports the splitter and the grammars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any

from knowledge.chunking.lines import Lines, Section, Span, chunks_of, estimate, pack, paragraphs, root_name
from knowledge.ports import Chunk, Document

# Where a kind's grammar has another name than the kind.
_GRAMMARS = {"csharp": "c_sharp", "shell": "bash"}
# Their blocks end with a word, and nest without brackets.
_WORDY = frozenset({"ruby", "shell"})
_LATER = frozenset({"csharp", "php", "kotlin", "swift"}) | _WORDY
LANGUAGES = frozenset({"javascript", "typescript", "go", "rust", "java", "c", "cpp"}) | _LATER

# The splitter's time grows with the third power of the syntax tree's depth. Code beyond these limits is generated (or
# hostile); it is split by paragraphs instead.
_LONGEST_TEXT = 100_000
_LONGEST_LINE = 500
_DEEPEST_NESTING = 60
_MOST_LINKS = 250
_BRACKET = re.compile(r"[(\[{}\])]")
_BLOCK = re.compile(
    r"^[ \t]*(?:(?P<end>(?:end|fi|done|esac)\b)|(?:if|unless|while|until|for|case|begin|def|class|module|select)\b)"
    r"|(?<!^)\bdo\b[ \t]*(?:\|[^|\n]*\|)?[ \t]*$",
    re.MULTILINE,
)
_LINK = re.compile(r"\belse\b|^[ \t]*[.+?:&|~!=-]|[-+!~]{3}|`|\b(?:await|typeof|new|not)\b[ \t]*$", re.MULTILINE)

_MODIFIERS = r"export|default|pub(?:\([a-z]+\))?|public|private|protected|static|abstract|final|async|unsafe|inline"
_KEYWORDS = r"class|interface|enum|struct|trait|impl(?:<[^>]*>)?|fn|function\*?|type|namespace|mod|union"
_DEFINITION = re.compile(
    rf"^[ \t]*(?:(?:{_MODIFIERS})\s+)*"
    rf"(?:(?:{_KEYWORDS})\s+([A-Za-z_$][\w$]*)"
    r"|func\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)"
    r"|(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*(?::[^=\n]+)?=\s*(?:async\s*)?(?:function\b|\(|[\w$]+\s*=>))",
    re.MULTILINE,
)

_NAME = r"([A-Za-z_$][\w$]*)"
_OWNERS = rf"(?:<[^>\n]{{0,80}}>\s*)?(?:[A-Za-z_]\w*(?:<[^>\n]{{0,80}}>)?\??\.)*{_NAME}"
# Of what came later than the expression above, which is left alone: another title means reading everything again.
_LATER_DEFINITION = re.compile(
    rf"^[ \t]*(?:(?:{_MODIFIERS}|internal|open|override|sealed|data|suspend|partial|virtual|fileprivate|mutating"
    r"|companion|inner|infix|operator|readonly|required|convenience|@\w+)\s+)*"
    rf"(?:(?:class|interface|enum|struct|trait|record|object|protocol|extension|actor|namespace|module|function)\s+{_NAME}"
    rf"|def\s+(?:self\.)?{_NAME}"
    rf"|fun[ \t]+{_OWNERS}"
    rf"|func\s+{_NAME}"
    # A method of C#: modifier, type, name, parameters.
    rf"|(?<=[a-z] )[A-Za-z_][\w<>,.?\[\]]*[ \t]+{_NAME}[ \t]*\([^;\n]*$)",
    re.MULTILINE,
)
_SHELL_DEFINITION = re.compile(
    r"^[ \t]*(?:function[ \t]+([A-Za-z_][\w:.-]*)|([A-Za-z_][\w:.-]*)[ \t]*\([ \t]*\))", re.MULTILINE
)


def chunk_code(document: Document, tokens: int) -> list[Chunk]:
    """Split at the borders of the syntax tree, rounded to whole lines; the title names the definitions that start."""
    lines = Lines.of(document.text)
    by_syntax = find_spec(_grammar_name(document)) is not None and _tame(lines, document.kind)
    borders = _spans(document, lines, tokens) if by_syntax else paragraphs(lines, Span(1, len(lines)))
    root = root_name(document)
    sections = [
        Section((root, name) if name else (root,), span.start, span.end)
        for name, span in _named(lines, pack(lines, borders, tokens), _definition(document.kind))
    ]
    return chunks_of(lines, sections, tokens, lambda section: [section.span])


def _definition(kind: str) -> re.Pattern[str]:
    if kind == "shell":
        return _SHELL_DEFINITION
    return _LATER_DEFINITION if kind in _LATER else _DEFINITION


def _tame(lines: Lines, kind: str) -> bool:
    """Tell whether the splitter will be done in reasonable time: no long lines, deep nesting or endless chains."""
    text = "\n".join(lines.lines)
    if len(text) > _LONGEST_TEXT or max(map(len, lines.lines)) > _LONGEST_LINE:
        return False
    steps = (1 if bracket in "([{" else -1 for bracket in _BRACKET.findall(text))
    if max(accumulate(steps), default=0) > _DEEPEST_NESTING:
        return False
    blocks = (-1 if match["end"] else 1 for match in _BLOCK.finditer(text)) if kind in _WORDY else ()
    if max(accumulate(blocks), default=0) > _DEEPEST_NESTING:
        return False
    windows = range(0, len(text), 8 * _LONGEST_LINE)
    return all(len(_LINK.findall(text, start, start + 16 * _LONGEST_LINE)) <= _MOST_LINKS for start in windows)


def _spans(document: Document, lines: Lines, tokens: int) -> Iterator[Span]:
    from semantic_text_splitter import CodeSplitter

    text = "\n".join(lines.lines)
    capacity = max(1, int(tokens * (len(text) + 1) / (estimate(text) or 1)))
    splitter = CodeSplitter(_grammar(document), capacity)
    start, number, position = 1, 1, 0
    for offset, _ in splitter.chunk_indices(text):
        number += text.count("\n", position, offset)
        position = offset
        if number > start:
            yield Span(start, number - 1)
            start = number
    yield Span(start, len(lines))


def _grammar_name(document: Document) -> str:
    return f"tree_sitter_{_GRAMMARS.get(document.kind, document.kind)}"


def _grammar(document: Document) -> Any:
    module = import_module(_grammar_name(document))
    if document.kind == "php":
        return module.language_php()
    if document.kind != "typescript":
        return module.language()
    return module.language_tsx() if PurePosixPath(document.path).suffix == ".tsx" else module.language_typescript()


def _named(lines: Lines, spans: Iterable[Span], definition: re.Pattern[str]) -> Iterator[tuple[str, Span]]:
    """Name each span by the first definitions that start in it, or by the unindented one that it continues."""
    enclosing = ""
    for span in spans:
        text = "\n".join(lines.lines[span.start - 1 : span.end])
        found = list(definition.finditer(text))
        names = list(dict.fromkeys(next(filter(None, match.groups())) for match in found))
        continues = text.lstrip("\n")[:1] in (" ", "\t", "}", ")")
        yield " / ".join(names[:2]) or (enclosing if continues else ""), span
        outer = [name for match, name in zip(found, names, strict=False) if not match[0][:1].isspace()]
        enclosing = outer[-1] if outer else enclosing
