"""What a reader sees of the attributes of a component: its label and its text, its items, its rows, its code."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import dedent

from core.markup.inline import escape_tags, write_code

# An object of JavaScript: the name that it may have in another one, its text, and how many lines it is below its tag.
Object = tuple[str, str, int]
# An object in braces, as the items of a component are written, with the name that it may have in another one.
_OBJECT = re.compile(
    # In a string, as of a type, braces are text.
    r"=[ ]?\"[^\"]{0,2000}\"|(?:(?<=[{,\s])[\"']?([\w.$-]{1,100})[\"']?\s*:\s*|(?<=[\[,{\s]))"
    r"(\{(?>(?:[^{}\"'`]{1,1000}|\"[^\"]{0,1000}\"|'[^'\n]{0,1000}'|`[^`]{0,1000}`){0,100})\}|\{[^{}]{0,2000}\})"
)
_ATTRIBUTE = re.compile(
    r"(?<![\w-])([A-Za-z]+)[\"']?\s*[=:]"
    r"\s*(?:\"([^\"]*)\"|'([^']*)'|\{\s*[\"'`]([^\"'`{}]*)[\"'`]\s*\}|\{\s*(\[[^\[\]{}]*\])\s*\})"
)
# What stands for a sign in a string.
_ESCAPE = re.compile(r"\\([n\"'])")
_QUOTE = "\ue000"
_SIGNS = {"n": " ", '"': _QUOTE, "'": "’"}
# What is said of a field by a word alone, and where a parameter stands in a request.
_FLAG = re.compile(r"(?<![\w-])(required|deprecated)(?![\w-])(?!=\{\s{0,9}false)")
_PLACES = ("path", "query", "body", "header")
_STRING = re.compile(r"[\"']([^\"']+)[\"']")
# Code that a component has as an attribute; a single word in quotes is the number of an error, or the like.
_CODE_ATTRIBUTE = re.compile(
    r"(?s)\s(?:code|snippet)=(?:\{\s*`((?:[^`\\]|\\.){1,20000})`\s*\}|\{?\s*(?:\"([^\"]{1,2000})\"|'([^']{1,2000})'))"
)
# The name and the text that a reader sees, best first.
_LABELS = (
    "label",
    "title",
    "tab",
    "header",
    "heading",
    "question",
    "summary",
    "name",
    "path",
    "query",
    "body",
    "value",
)
_TEXTS = ("description", "text", "caption", "content", "answer", "tip")
# What a table of fields has, beside their names.
_FIELD_COLUMNS = {"Type": ("type",), "Default": ("default", "defaultvalue"), "Description": _TEXTS}


def show_attributes(attributes: str) -> dict[str, str]:
    """Return what a reader sees of the attributes of a component, as attributes of a tag of HTML."""
    return _show(read_attributes(attributes)) | {"end": "1" if attributes.endswith("/>") else ""}


def _show(values: Mapping[str, str]) -> dict[str, str]:
    title = next((values[name] for name in _LABELS if values.get(name)), "")
    text = next((values[name] for name in _TEXTS if values.get(name)), "")
    if title.startswith("/") and title == values.get("path") and values.get("method"):
        # It is no name of what follows it, as a title is.
        operation = write_code(f"{values['method'].upper()} {title}")
        title = ""
        text = f"{operation}: {text}" if text else operation
    return {
        "title": title,
        "text": text,
        "type": values.get("type") or values.get("style", ""),
        "items": "|".join(_STRING.findall(values.get("items", ""))),
        "href": values.get("href", ""),
    }


def read_attributes(attributes: str) -> dict[str, str]:
    """Return the values of attributes by their names in lower case."""
    # As in HTML, signs may have names in them.
    attributes = html.unescape(attributes).replace("\u00ad", "") if "&" in attributes else attributes
    return {match[1].lower(): next(filter(None, match.groups()[1:]), "") for match in _ATTRIBUTE.finditer(attributes)}


def describe_field(title: str, attributes: str) -> str:
    """Return the name of a parameter or a field, with what a page shows beside it.

    >>> describe_field("id", ' path="id" type="string" required default="x"')
    'id (path, string, required, default: x)'
    """
    values = read_attributes(attributes)
    flags = set(_FLAG.findall(_STRING.sub('""', attributes)))
    facts = [
        *(place for place in _PLACES if values.get(place) == title),
        *filter(None, [values.get("type", "")]),
        *(flag for flag in ("required", "deprecated") if flag in flags and values.get(flag) != "false"),
        *(f"default: {values[name]}" for name in ("default",) if values.get(name)),
    ]
    return f"{title} ({', '.join(facts)})" if title and facts else title


def find_commands(attributes: str) -> list[tuple[str, str]]:
    """Return the commands that a component shows for several tools, each by the tool that begins it: `npm="npm i"`."""
    values = {name: value.strip() for name, value in read_attributes(attributes).items()}
    commands = [(name, _dedent_below(value)) for name, value in values.items() if " " in value]
    lines = ((name, line.lstrip()) for name, value in commands for line in value.split("\n"))
    return commands if any(line.startswith(f"{name} ") for name, line in lines) else []


def find_code(attributes: str) -> Iterator[str]:
    """Yield the code that a component shows, whatever it is called."""
    for match in _CODE_ATTRIBUTE.finditer(attributes):
        code = match[1].replace("\\`", "`") if match[1] else html.unescape(match[2] or match[3])
        if match[1] or len(code.split()) > 1:
            yield _dedent_below(code.strip())


def _dedent_below(text: str) -> str:
    first, newline, rest = text.partition("\n")
    return first + newline + dedent(rest)


def find_strings(text: str) -> list[str]:
    """Return what stands in quotes.

    >>> find_strings("a='b c' 'd'")
    ['b c', 'd']
    """
    return _STRING.findall(text)


def strip_objects(attributes: str) -> tuple[str, list[Object]]:
    """Return attributes without their code and the objects in them, and these."""
    bare = _CODE_ATTRIBUTE.sub(lambda match: " " + "\n" * match[0].count("\n"), attributes)
    objects: list[Object] = []
    line = position = 0
    for match in filter(lambda found: found[2], _OBJECT.finditer(bare)):
        line += bare.count("\n", position, match.start())
        position = match.start()
        objects.append((match[1] or "", match[2], line))
    return _OBJECT.sub(lambda match: "" if match[2] else match[0], bare), objects


def show_objects(objects: Sequence[Object]) -> Iterator[dict[str, str]]:
    """Yield what a reader sees of objects, as attributes of a card; of an operation of an API its method and path.

    >>> [item["text"] for item in show_objects([("", '{ path: "/a", method: "get" }', 0)])]
    ['`GET /a`']
    """
    for _, text, _ in objects:
        item = _show(_read_object(text))
        if item["title"] or item["text"]:
            yield item | {"type": "", "end": "1"}


def split_fields(objects: Sequence[Object]) -> tuple[list[list[str]], list[int], list[Object]]:
    """Return the objects that describe a field each as the rows of a table, below the names of its columns.

    Beside it are the lines of the rows below its names, and the other objects.

    >>> split_fields([("size", '{ type: "int", text: "As \\\\"big\\\\"" }', 4), ("", '{ name: "b" }', 5)])[:2]
    ([['Prop', 'Type', 'Description'], ['`size`', '`int`', 'As "big"']], [4])
    """
    fields: list[tuple[str, dict[str, str]]] = []
    lines: list[int] = []
    others: list[Object] = []
    for key, text, line in objects:
        values = _read_object(text)
        if key and values.get("type"):
            fields.append((key, values))
            lines.append(line)
        else:
            others.append((key, text, line))
    if not fields:
        return [], [], others
    names = [write_code(key) for key, _ in fields]
    columns = [["Prop", *names]]
    for column, keys in _FIELD_COLUMNS.items():
        texts = [next((values[key] for key in keys if values.get(key)), "") for _, values in fields]
        if any(texts):
            is_code = column != "Description"
            columns.append([column, *(write_code(text) if is_code and text else escape_tags(text) for text in texts)])
    rows = [[cell.replace("|", "\\|") for cell in row] for row in zip(*columns, strict=True)]
    return rows, lines, others


def _read_object(text: str) -> dict[str, str]:
    """Return the values of an object of JavaScript by their names in lower case, each in one line."""
    values = read_attributes(_ESCAPE.sub(lambda match: _SIGNS[match[1]], text))
    return {name: " ".join(value.replace(_QUOTE, '"').split()) for name, value in values.items()}
