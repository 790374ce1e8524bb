"""Docstrings as Markdown: what their authors take from reStructuredText is translated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from core.language.prose import change_outside_code
from core.markup.inline import write_role

# Directives within directives that are read.
MAX_DEPTH = 8

_DIRECTIVE = re.compile(r"([ \t]*)\.\.(?:[ \t]+(?:([\w:-]+)::[ \t]*(.*)|.*))?$")
_CODE_DIRECTIVES = frozenset(("code", "code-block", "sourcecode", "prompt", "parsed-literal", "click:example"))
_ARGUMENT_DIRECTIVES = frozenset(
    ("note", "warning", "tip", "hint", "important", "attention", "caution", "danger", "seealso", "rubric")
)
_PROSE_DIRECTIVES = _ARGUMENT_DIRECTIVES | frozenset(
    """
    admonition versionadded versionchanged deprecated topic tab tab-item tab-set container only describe
    """.split()  # noqa: SIM905
)
# Those that describe what they name, in Sphinx's domains.
_OBJECT_DIRECTIVES = frozenset(
    """
    class exception function decorator method classmethod staticmethod property attribute data option cmdoption envvar
    confval setting signal reqmeta
    """.split()  # noqa: SIM905 (one word a line would hide the code)
)
_OBJECT_NAME = re.compile(r"(?:class )?([\w.-]+)")
_OPTION = re.compile(r"[ \t]*:[\w-]+:")
_UNDERLINE = re.compile(r"([=\-~^\"'`*+#.])\1{2,}[ \t]*$")
_FIELD = re.compile(r":(?:param|parameter|arg|argument|keyword|kwarg)(?: [\w.\[\], |]+)? (\*{0,2}\w+): *")
_OTHER_FIELD = re.compile(r":(?:type|rtype|meta|raises?|returns?|var|ivar)\b[^:\n]*: *")
_ROLE = re.compile(r"(?<!`):([\w:+-]{1,60}):`([^`\n]{1,300})`(?!`)")
_REFERENCE = re.compile(r"(?<![`\w])`([^`<\n]{1,200}?)(?:[ ]<[^>`\n]{1,500}>)?`__?(?!\w)")
_LITERAL = re.compile(r"``([^`\n]{1,300})``")
_FOOTNOTE = re.compile(r"[ ]?\[#\w*\]_")
_SUBSTITUTION = re.compile(r"(?<!\|)\|([A-Za-z][\w -]{0,40})\|(?!\|)")


def translate_docstring(text: str) -> str:
    """Return a docstring as Markdown in which all code has fences, so that what is indented is prose.

    >>> translate_docstring("Call :func:`run`.\\n\\n:param host: Where to.")
    'Call `run()`.\\n\\n\\n`host`: Where to.'
    """
    return "\n".join(_translate(text.replace("\t", "    ").split("\n"), 0))


def _translate(lines: Sequence[str], depth: int) -> Iterator[str]:
    """Yield lines as Markdown in which all code has fences."""
    number = 0
    while number < len(lines):
        line = lines[number]
        stripped_line = line.strip()
        directive = _DIRECTIVE.match(line) if stripped_line.startswith("..") else None
        next_line = lines[number + 1].strip() if number + 1 < len(lines) else ""
        if stripped_line.startswith(("```", "~~~")):
            end = _find_fence_end(lines, number)
            yield from lines[number:end]
        elif directive:
            body, end = _take_indented(lines, _skip_options(lines, number + 1), len(directive[1]))
            yield from _translate_directive(directive, body, depth)
        elif stripped_line.startswith(">>>"):
            end = next((end for end in range(number, len(lines)) if not lines[end].strip()), len(lines))
            yield from _fence(_dedent(lines[number:end]), "python")
        elif stripped_line.endswith("::") and not next_line:
            body, end = _take_indented(lines, number + 1, len(line) - len(line.lstrip()))
            yield _translate_inline(stripped_line[:-1])
            yield from _fence(body, "")
        elif stripped_line and not line[0].isspace() and _UNDERLINE.match(next_line):
            end = number + 2
            yield from ("", f"## {_translate_inline(stripped_line)}", "")
        else:
            end = number + 1
            yield from _translate_line(line)
        number = end


def _translate_line(line: str) -> Iterator[str]:
    stripped_line = line.strip()
    if _FIELD.match(stripped_line) or _OTHER_FIELD.match(stripped_line):
        yield ""
        stripped_line = _OTHER_FIELD.sub("", _FIELD.sub(r"`\1`: ", stripped_line))
        yield _translate_inline(stripped_line)
    elif not _UNDERLINE.match(stripped_line):
        yield line[: len(line) - len(line.lstrip())] + _translate_inline(stripped_line)


def _translate_inline(text: str) -> str:
    text = _LITERAL.sub(r"`\1`", _ROLE.sub(write_role, text))
    text = _FOOTNOTE.sub("", _REFERENCE.sub(r"\1", text))
    # An escaped blank separates markup from text, and is not shown.
    return change_outside_code(text, lambda piece: _SUBSTITUTION.sub(r"\1", piece.replace("\\ ", "")))


def _translate_directive(directive: re.Match[str], body: list[str], depth: int) -> Iterator[str]:
    """Yield the lines of a directive; comments and labels have none."""
    name = (directive[2] or "").lower()
    argument = directive[3] or ""
    if name in _CODE_DIRECTIVES:
        yield from _fence(body, "python" if name == "click:example" else argument.partition(" ")[0].lower())
        return
    yield ""
    if depth >= MAX_DEPTH:
        yield from body
    elif name.rpartition(":")[2] in _OBJECT_DIRECTIVES and body:
        described_object = _OBJECT_NAME.match(argument)
        subject = f"`{described_object[1].rpartition('.')[2]}`: " if described_object else ""
        yield from _translate([f"{subject}{body[0]}", *body[1:]], depth + 1)
    elif name in _PROSE_DIRECTIVES:
        yield from _translate([argument if name in _ARGUMENT_DIRECTIVES else "", *body], depth + 1)
    yield ""


def _fence(code: Sequence[str], language: str) -> Iterator[str]:
    longest_run = max((len(run) for line in code for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest_run + 1)
    if code:
        yield from ("", f"{fence}{language}", *code, fence, "")


def _find_fence_end(lines: Sequence[str], start: int) -> int:
    mark = re.match(r"`+|~+", lines[start].strip())
    closing = mark[0] if mark else ""
    ends = (end + 1 for end in range(start + 1, len(lines)) if lines[end].strip().startswith(closing))
    return next(ends, len(lines))


def _skip_options(lines: Sequence[str], start: int) -> int:
    while start < len(lines) and _OPTION.match(lines[start]):
        start += 1
    return start


def _take_indented(lines: Sequence[str], start: int, indent: int) -> tuple[list[str], int]:
    """Return the lines from `start` that are blank or deeper than `indent`, dedented, and the line after them."""
    end = start
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
        end += 1
    return _dedent(lines[start:end]), end


def _dedent(lines: Sequence[str]) -> list[str]:
    widths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(widths, default=0)
    return "\n".join(line[margin:].rstrip() for line in lines).strip("\n").split("\n") if widths else []
