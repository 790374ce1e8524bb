"""What a component of MDX shows that a file of JSX makes: text that is always the same, commands for several tools, or
code that it picks by a name.

A component that decides, counts or asks shows what only a browser knows.
"""

from __future__ import annotations

import re
from textwrap import dedent

SUFFIXES = (".tsx", ".jsx", ".js")
MAX_STRING_CHARS = 20_000

_STRING = rf"`(?:[^`\\$]|\\.|\$(?!\{{)){{0,{MAX_STRING_CHARS}}}`|'[^'\n]{{0,2000}}'|\"[^\"\n]{{0,2000}}\""
_CONSTANT = re.compile(rf"(?s)^(?:export[ ])?const[ ](\w{{1,100}})(?::[ ]string)?[ ]=\s({_STRING});?$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"(?<![\w-])(\w{1,100})=\"([^\"]{0,2000})\"")
# Where a part that begins a line ends.
_END = re.compile(r"^[)}]", re.MULTILINE)
# What it returns is in brackets, of which the closing one is below the line that opens them, or on one line.
_RETURN = re.compile(r"^([ \t]*)(?:return|export[^\n]{0,500}?=>)[ ](?:\($|(<[^\n]{1,2000}>);?$)", re.MULTILINE)
_VALUE = re.compile(r"\{\s{0,100}(?:props\.)?(\w{1,100})\s{0,100}\}")
_DECISION = re.compile(r"\{[^{}'\"`]{0,1000}(?:=>|\?|&&|\|\||\()")
# Of a tag of HTML, only where it leads says something.
_TAG = re.compile(r"<([a-z][\w-]{0,20})\s([^<>]{0,5000}?)(/?)>")
_ADDRESS = re.compile(r"\bhref=(?:\"[^\"]{0,2000}\"|'[^']{0,2000}')")
_INLINE = r"(?:a|b|code|em|i|span|strong|Link)"
_MARGIN = re.compile(rf"(</?{_INLINE}(?: [^<>]{{0,2000}})?>)\n[ \t]*(?=[^<{{\s])|\n[ \t]*(?=</{_INLINE}>)")
_ANY_TAG = re.compile(r"</?(?:[a-z][^<>]{0,5000})?>")
_WORD = re.compile(r"\w")
_COMPONENT = re.compile(r"\s{0,100}<[A-Z]\w{0,100}[ ][^<>]{0,2000}/>\s{0,100}")
# A command by the tool that begins it, with the value that it is made for.
_COMMAND = re.compile(r"\b(\w{1,30}):\s{1,100}`(\1 [^`$]{0,200})\$\{(?:props\.)?(\w{1,100})\}([^`$]{0,200})`")
# What is made of a value by putting another text in place of each that parts it.
_REPARTED = re.compile(
    r"\bconst (\w{1,100}) =[^;]{0,500}`([^`$]{0,200})\$\{(?:props\.)?(\w{1,100})"
    r"\.split\('([^'\n]{1,20})'\)\.join\('([^'\n]{0,50})'\)\}([^`$]{0,200})`;"
)
# Code in a list of objects, below what says which it is.
_PICKED_CODE = re.compile(
    rf"(?s)\{{([^{{}}`]{{1,1000}})\bcode:\s{{1,100}}`((?>(?:[^`\\$]|\\.|\$(?!\{{)){{1,{MAX_STRING_CHARS}}}))`"
)
_FIELD = re.compile(r"\b(\w{1,30}): (?:'([^'\n]{1,200})'|\"([^\"\n]{1,200})\")")


def read_component(source: str, name: str, attributes: str) -> list[str]:
    r"""Return as lines of MDX what a component shows, which a file of JSX makes; none where that is not known.

    `attributes` are those of its tag.

    >>> source = "export function Note() {\n  return (\n    <p>Back up {place}.</p>\n  );\n}\n"
    >>> read_component(source, "Note", 'place="it"')
    ['<p>Back up {"it"}.</p>']
    """
    definition = re.search(rf"^export\b[^\n=(]{{0,100}}\b(?:function|const) {re.escape(name)}\b", source, re.MULTILINE)
    end = _END.search(source, definition.end()) if definition else None
    if definition is None or end is None:
        return []
    body = source[definition.start() : end.end()]
    given = dict(_ATTRIBUTE.findall(attributes))
    values = {**dict(_CONSTANT.findall(source)), **{key: f'"{value}"' for key, value in given.items()}}
    text = _TAG.sub(_write_tag, _find_text(body))
    code = _find_picked_code(source, text if _COMPONENT.fullmatch(text) else attributes)
    if code:
        return code
    if _WORD.search(_ANY_TAG.sub("", text)) and not _DECISION.search(text):
        # Beside a tag, the end of a line is no blank; a line of a string may go on in the next one.
        text = _VALUE.sub(lambda match: f"{{{values.get(match[1], match[1])}}}", _MARGIN.sub(r"\1", text))
        return dedent(text.replace("\\\n", "")).strip("\n").split("\n")
    for made, before, value, old, new, after in _REPARTED.findall(body):
        given |= {made: before + given[value].replace(old, new) + after} if value in given else {}
    found = (match for match in _COMMAND.finditer(body) if match[3] in given)
    commands = [f'{match[1]}="{match[2]}{given[match[3]]}{match[4]}"' for match in found]
    return [f"<{name} {' '.join(commands)} />"] if commands else []


def _find_picked_code(source: str, attributes: str) -> list[str]:
    """Return the only code of a file that some attributes name, as a block."""
    names = {value for _, value in _ATTRIBUTE.findall(attributes)}
    blocks: list[list[str]] = []
    for match in _PICKED_CODE.finditer(source) if names else ():
        fields = {field[1]: field[2] or field[3] for field in _FIELD.finditer(match[1])}
        if not names.isdisjoint(fields.values()):
            title = f' title="{fields["title"]}"' if "title" in fields else ""
            code = match[2].replace("\\`", "`").strip("\n")
            blocks.append([f"````{fields.get('language', '')}{title}", *code.split("\n"), "````"])
    return blocks[0] if len(blocks) == 1 else []


def _find_text(body: str) -> str:
    """Return the JSX that the body of a component returns."""
    opening = _RETURN.search(body) if body.count("return") < 2 else None
    if opening is None or opening[2]:
        return opening[2] if opening else ""
    closing = re.compile(rf"^{opening[1]}\)", re.MULTILINE).search(body, opening.end())
    return body[opening.end() + 1 : closing.start()] if closing else ""


def _write_tag(tag: re.Match[str]) -> str:
    address = _ADDRESS.search(tag[2])
    return f"<{tag[1]}{f' {address[0]}' if address else ''}{' ' + tag[3] if tag[3] else ''}>"
