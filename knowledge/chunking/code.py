"""Languages other than Python, by their syntax tree. The one module that imports the splitter and the grammars."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from core.language.tokens import measure_tokens
from knowledge.chunking.lines import (
    LineRange,
    Lines,
    Section,
    get_root_title,
    pack_spans,
    split_paragraphs,
    to_chunks,
)
from knowledge.ports import Chunk, Document

if TYPE_CHECKING:
    from semantic_text_splitter import CodeSplitter

# Where a kind's grammar has another name than the kind.
_GRAMMAR_NAMES = {"csharp": "c_sharp", "shell": "bash"}
# Their blocks end with a word, and nest without brackets.
_KEYWORD_BLOCK_LANGUAGES = frozenset({"ruby", "shell"})
_NEWER_LANGUAGES = frozenset({"csharp", "php", "kotlin", "swift"}) | _KEYWORD_BLOCK_LANGUAGES
LANGUAGES = frozenset({"javascript", "typescript", "go", "rust", "java", "c", "cpp"}) | _NEWER_LANGUAGES

# The splitter's time grows with the third power of the syntax tree's depth. Code beyond these limits is generated (or
# hostile); it is split by paragraphs instead.
_MAX_TEXT_LENGTH = 100_000
_MAX_LINE_LENGTH = 500
_MAX_NESTING = 60
_MAX_LINKS = 250
# What no pattern foresees shows when the splitter reads pieces of the code: where the tree is deep it makes a chunk for
# each level. Of what people write, it makes about 5 chunks of a piece, and 24 at most.
_PIECE_LENGTH = 4000
_PIECE_CAPACITY = 1000
_MAX_PIECE_CHUNKS = 40
# What does not show there either is slow, and the slower the longer it is: so it is tried with beginnings of the code,
# each twice as long. Of what people write, 8,000 characters take 0.02 s of processor time, and 100,000 take 0.15 s.
_MAX_SECONDS_PER_CHARACTER = 15e-6
_FIRST_BEGINNING_LENGTH = 2 * _PIECE_LENGTH
_BRACKET = re.compile(r"[(\[{}\])]")
_BLOCK = re.compile(
    r"^[ \t]*(?:(?P<end>(?:end|fi|done|esac)\b)|(?:if|unless|while|until|for|case|begin|def|class|module|select)\b)"
    r"|(?<!^)\bdo\b[ \t]*(?:\|[^|\n]*\|)?[ \t]*$",
    re.MULTILINE,
)
_CHAIN_LINK = re.compile(r"\belse\b|^[ \t]*[.+?:&|~!=-]|[-+!~]{3}|`|\b(?:await|typeof|new|not)\b[ \t]*$", re.MULTILINE)

_MODIFIERS = r"export|default|pub(?:\([a-z]+\))?|public|private|protected|static|abstract|final|async|unsafe|inline"
_KEYWORDS = r"class|interface|enum|struct|trait|impl(?:<[^>]*>)?|fn|function\*?|type|namespace|mod|union"
_DEFINITION = re.compile(
    rf"^[ \t]*(?:(?:{_MODIFIERS})\s+){{0,9}}"
    rf"(?:(?:{_KEYWORDS})\s+([A-Za-z_$][\w$]*)"
    r"|func\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)"
    r"|(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*(?::[^=\n]+)?=\s*(?:async\s*)?(?:function\b|\(|[\w$]+\s*=>))",
    re.MULTILINE,
)

_NAME = r"([A-Za-z_$][\w$]*)"
_QUALIFIED_NAME = rf"(?:<[^>\n]{{0,80}}>\s*)?(?:[A-Za-z_]\w*(?:<[^>\n]{{0,80}}>)?\??\.)*{_NAME}"
# Of newer languages.
_NEWER_DEFINITION = re.compile(
    rf"^[ \t]*(?:(?:{_MODIFIERS}|internal|open|override|sealed|data|suspend|partial|virtual|fileprivate|mutating"
    r"|companion|inner|infix|operator|readonly|required|convenience|@\w+)\s+){0,9}"
    rf"(?:(?:class|interface|enum|struct|trait|record|object|protocol|extension|actor|namespace|module|function)\s+{_NAME}"
    rf"|def\s+(?:self\.)?{_NAME}"
    rf"|fun[ \t]+{_QUALIFIED_NAME}"
    rf"|func\s+{_NAME}"
    # A method of C#: modifier, type, name, parameters.
    rf"|(?<=[a-z] )[A-Za-z_][\w<>,.?\[\]]*[ \t]+{_NAME}[ \t]*\([^;\n]*$)",
    re.MULTILINE,
)
# A function: its type, its name, its parameters, and no semicolon behind.
_C_DEFINITION = re.compile(
    rf"{_DEFINITION.pattern}"
    r"|^[ \t]*(?!(?:return|else|if|for|while|switch|case|new|throw|delete|using|typedef|goto|do)\b)"
    r"(?:[\w:<>,\[\]*&@.]{1,80}[ \t]+){1,8}[*&]{0,2}(?:\w{1,80}::){0,3}(~?[A-Za-z_]\w*)[ \t]*\([^;\n]*$",
    re.MULTILINE,
)
_SHELL_DEFINITION = re.compile(
    r"^[ \t]*(?:function[ \t]+([A-Za-z_][\w:.-]*)|([A-Za-z_][\w:.-]*)[ \t]*\([ \t]*\))", re.MULTILINE
)


def chunk_code(document: Document, tokens: int) -> list[Chunk]:
    """Split at the borders of the syntax tree, rounded to whole lines; the title names the definitions that start."""
    lines = Lines.from_text(document.text)
    is_parsable = find_spec(_grammar_name(document)) is not None and _is_splittable(lines, document.kind)
    candidate_spans = (
        _split_by_syntax(document, lines, tokens) if is_parsable else split_paragraphs(lines, LineRange(1, len(lines)))
    )
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
    return _NEWER_DEFINITION if kind in _NEWER_LANGUAGES else _DEFINITION


def _is_splittable(lines: Lines, kind: str) -> bool:
    """Return whether the splitter will finish in reasonable time: no long lines, deep nesting or endless chains."""
    text = "\n".join(lines.lines)
    if len(text) > _MAX_TEXT_LENGTH or max(map(len, lines.lines)) > _MAX_LINE_LENGTH:
        return False
    bracket_steps = (1 if bracket in "([{" else -1 for bracket in _BRACKET.findall(text))
    if max(accumulate(bracket_steps), default=0) > _MAX_NESTING:
        return False
    block_steps = (
        (-1 if match["end"] else 1 for match in _BLOCK.finditer(text)) if kind in _KEYWORD_BLOCK_LANGUAGES else ()
    )
    if max(accumulate(block_steps), default=0) > _MAX_NESTING:
        return False
    windows = range(0, len(text), 8 * _MAX_LINE_LENGTH)
    return all(len(_CHAIN_LINK.findall(text, start, start + 16 * _MAX_LINE_LENGTH)) <= _MAX_LINKS for start in windows)


def _split_by_syntax(document: Document, lines: Lines, tokens: int) -> Iterator[LineRange]:
    from semantic_text_splitter import CodeSplitter

    text = "\n".join(lines.lines)
    capacity = max(1, int(tokens * (len(text) + 1) / measure_tokens(f"{text}\n")))
    splitter = CodeSplitter(_load_grammar(document), capacity)
    is_flat = _is_flat(text, CodeSplitter(_load_grammar(document), _PIECE_CAPACITY))
    if not (is_flat and _is_splittable_in_time(text, splitter)):
        yield from split_paragraphs(lines, LineRange(1, len(lines)))
        return
    start = 1
    number = 1
    position = 0
    for offset, _ in splitter.chunk_indices(text):
        number += text.count("\n", position, offset)
        position = offset
        if number > start:
            yield LineRange(start, number - 1)
            start = number
    yield LineRange(start, len(lines))


def _is_flat(text: str, splitter: CodeSplitter) -> bool:
    """Return whether no piece of a code has a deep syntax tree. A short code is split quickly, however deep it is."""
    start = 0 if len(text) > _PIECE_LENGTH else len(text)
    while start < len(text):
        end = text.rfind("\n", start, start + _PIECE_LENGTH) + 1 or start + _PIECE_LENGTH
        # A statement that is not complete is an error in the tree, which has no depth.
        chunks = _split_in_time(f"{text[start:end]};", splitter)
        if chunks is None or len(chunks) > _MAX_PIECE_CHUNKS:
            return False
        start = end
    return True


def _is_splittable_in_time(text: str, splitter: CodeSplitter) -> bool:
    """Return whether the time for the beginnings of a code grows about as they do."""
    length = _FIRST_BEGINNING_LENGTH
    while length < len(text):
        if _split_in_time(text[: text.rfind("\n", 0, length) + 1], splitter) is None:
            return False
        length *= 2
    return True


def _split_in_time(text: str, splitter: CodeSplitter) -> list[str] | None:
    """Return the chunks of a code, or None where they took far longer than those of what people write."""
    started_at = time.thread_time()
    chunks: list[str] = splitter.chunks(text)
    max_seconds = _MAX_SECONDS_PER_CHARACTER * max(len(text), _FIRST_BEGINNING_LENGTH)
    return chunks if time.thread_time() - started_at <= max_seconds else None


def _grammar_name(document: Document) -> str:
    return f"tree_sitter_{_GRAMMAR_NAMES.get(document.kind, document.kind)}"


def _load_grammar(document: Document) -> Any:
    module = import_module(_grammar_name(document))
    if document.kind == "php":
        return module.language_php()
    if document.kind != "typescript":
        return module.language()
    return module.language_tsx() if PurePosixPath(document.path).suffix == ".tsx" else module.language_typescript()


def _name_spans(
    lines: Lines, spans: Iterable[LineRange], definition: re.Pattern[str]
) -> Iterator[tuple[str, LineRange]]:
    """Name each span by the first definitions that start in it, or by the unindented one that it continues."""
    enclosing_name = ""
    for span in spans:
        text = "\n".join(lines.lines[span.start - 1 : span.end])
        matches = list(definition.finditer(text))
        names = [next(filter(None, match.groups())) for match in matches]
        is_continuation = text.lstrip("\n")[:1] in (" ", "\t", "}", ")")
        yield " / ".join(list(dict.fromkeys(names))[:2]) or (enclosing_name if is_continuation else ""), span
        outer_names = [name for match, name in zip(matches, names, strict=True) if not match[0][:1].isspace()]
        enclosing_name = outer_names[-1] if outer_names else enclosing_name
