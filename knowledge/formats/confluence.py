"""The storage format of Confluence: XHTML with macros, links and tasks in elements of its own."""

from __future__ import annotations

import html
import re
from typing import Any

from knowledge.formats.html_markdown import render_markdown
from knowledge.parsing.limits import FormatError, map_parser_errors

AC = "{ac}"
RI = "{ri}"
CODE_MACROS = frozenset(("code", "noformat"))
# They stand out from the text around them; a title may be above.
PANELS = frozenset(("info", "note", "tip", "warning", "panel", "expand", "details", "ui-expand"))
# They say what the page shows by an attribute or a parameter.
DROPPED = frozenset(
    f"{AC}{name}"
    for name in (
        "parameter",
        "default-parameter",
        "task-id",
        "task-uuid",
        "task-status",
        "placeholder",
        "adf-attribute",
    )
)
RENAMED = {f"{AC}task-list": "ul", f"{AC}task": "li", f"{AC}rich-text-body": "div", f"{AC}layout-cell": "div"}
_CDATA = "<![CDATA["
_XML_ENTITIES = frozenset(("amp", "lt", "gt", "quot", "apos"))
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{0,30});")


@map_parser_errors
def read_storage(storage: str) -> str:
    """Return a page in the storage format as Markdown. Macros that only a server can run are left out.

    Raises `FormatError` for what is nothing like it.
    """
    from lxml import etree

    page = f'<div xmlns:ac="ac" xmlns:ri="ri" xmlns:at="at">{_resolve_entities(storage)}</div>'
    # What is damaged in one place is read in all others; nothing is loaded from elsewhere.
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    root = etree.fromstring(page.encode("utf-8", "replace"), parser)
    if root is None:
        raise FormatError("it is not in the storage format")
    etree.strip_tags(root, etree.Entity)
    for element in list(root.iter(f"{AC}*", f"{RI}*")):
        _translate(element)
    return render_markdown(root)


def _resolve_entities(storage: str) -> str:
    """Return the text with the named characters of HTML as they are, which XML does not know; code stays."""
    parts = []
    for part in storage.split("]]>"):
        text, start, code = part.partition(_CDATA)
        parts.append(_ENTITY.sub(_resolve_entity, text) + start + code)
    return "]]>".join(parts)


def _resolve_entity(match: re.Match[str]) -> str:
    return match[0] if match[1] in _XML_ENTITIES else html.escape(html.unescape(match[0]))


def _translate(element: Any) -> None:
    """Turn an element of Confluence into one of HTML, or into nothing but the text behind it."""
    name = element.tag.removeprefix(AC)
    if element.tag == f"{AC}structured-macro":
        _translate_macro(element)
    elif element.tag == f"{AC}link":
        _replace(element, "span", _read_link(element))
    elif element.tag == f"{AC}emoticon":
        _replace(element, "span", element.get(f"{AC}emoji-fallback") or "")
    elif element.tag == f"{AC}image":
        _replace(element, "span", element.get(f"{AC}alt") or "")
    elif element.tag in DROPPED or element.tag.startswith(RI):
        _replace(element, "span", "")
    else:
        element.tag = RENAMED.get(element.tag, "div" if name.startswith("layout") else "span")


def _translate_macro(macro: Any) -> None:
    name = macro.get(f"{AC}name", "")
    parameters = {child.get(f"{AC}name"): _read_text(child) for child in macro.iterchildren(f"{AC}parameter")}
    code = macro.find(f"{AC}plain-text-body")
    if name in CODE_MACROS and code is not None:
        _replace(macro, "pre", _read_text(code))
        macro.set("data-language", parameters.get("language", ""))
    elif name == "status":
        _replace(macro, "span", parameters.get("title", ""))
    elif macro.find(f"{AC}rich-text-body") is None:
        _replace(macro, "span", "")
    else:
        macro.tag = "div"
        title = macro.find(f"{AC}parameter[@{AC}name='title']")
        if name in PANELS:
            macro.set("class", "admonition")
        if title is not None and name in PANELS:
            title.tag = "p"
            title.set("class", "title")


def _read_link(link: Any) -> str:
    """Return what a link shows: its own words, or the title of the page or file that it leads to. A person has none."""
    for body in link.iterchildren(f"{AC}link-body", f"{AC}plain-text-link-body"):
        if text := _read_text(body):
            return text
    targets = (target.get(f"{RI}content-title") or target.get(f"{RI}filename") for target in link.iterchildren())
    return next(filter(None, targets), "")


def _read_text(element: Any) -> str:
    return "".join(element.itertext())


def _replace(element: Any, tag: str, text: str) -> None:
    """Make an element one of HTML that holds nothing but a text."""
    tail = element.tail
    element.clear()
    element.tag, element.text, element.tail = tag, text, tail
