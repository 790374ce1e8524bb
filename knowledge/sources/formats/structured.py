"""Text formats with a structure of their own: HTML, notebooks, AsciiDoc, CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from knowledge.parsing.limits import FormatError, ParseLimits, map_parser_errors
from knowledge.sources.formats.office import format_records

_ASCIIDOC_TITLE = re.compile(r"^(={1,6})[ \t]+(\S.*)$", re.MULTILINE)
_ASCIIDOC_LISTING = re.compile(
    r"^(?:\[source(?:,([\w+-]+))?[^\]\n]*\]\n)?-{4,}\n(.*?)^-{4,}[ \t]*$", re.MULTILINE | re.DOTALL
)
_ASCIIDOC_ATTRIBUTE = re.compile(r"^(?::[\w-]+!?:.*|//(?!/).*|\[\[?[\w.,=# \"-]+\]?\])$\n?", re.MULTILINE)


@map_parser_errors
def read_html(text: str) -> str:
    """Return the main text of a page. Raises `FormatError`."""
    from knowledge.sources.formats.html import read_page

    page = read_page(text.encode(), "file:///")
    if not page.text:
        raise FormatError("it holds no text")
    has_heading = page.text.lstrip().startswith("#") or not page.title
    return page.text if has_heading else f"# {page.title}\n\n{page.text}"


@map_parser_errors
def read_notebook(text: str) -> str:
    """Return a Jupyter notebook: its prose, and its code in fences. Outputs are left out. Raises `FormatError`."""
    notebook = json.loads(text)
    language = str(notebook.get("metadata", {}).get("kernelspec", {}).get("language") or "python")
    limits, parts = ParseLimits(), []
    for cell in notebook["cells"]:
        source = cell.get("source", "")
        content = ("".join(source) if isinstance(source, list) else str(source)).strip()
        if content and cell.get("cell_type") == "code":
            content = f"```{language}\n{content}\n```"
        if content and cell.get("cell_type") in ("markdown", "code"):
            parts.append(limits.consume(content))
    return "\n\n".join(parts)


@map_parser_errors
def read_asciidoc(text: str) -> str:
    """Return AsciiDoc with Markdown's headings and code fences; the rest reads alike."""
    text = _ASCIIDOC_LISTING.sub(lambda match: f"```{match[1] or ''}\n{match[2]}```", text)
    parts = re.split(r"(```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [
        _ASCIIDOC_TITLE.sub(lambda match: "#" * len(match[1]) + " " + match[2], _ASCIIDOC_ATTRIBUTE.sub("", part))
        for part in parts[::2]
    ]
    return "".join(parts)


@map_parser_errors
def read_csv(text: str) -> str:
    """Return a table of values, each row with the names of its columns. Raises `FormatError`."""
    try:
        dialect: Any = csv.Sniffer().sniff(text[:8192], delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel
    rows = ([" ".join(value.split()) for value in row] for row in csv.reader(io.StringIO(text), dialect))
    return format_records(rows, ParseLimits())
