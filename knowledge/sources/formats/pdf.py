"""PDF: the text of each page, under its number."""

from __future__ import annotations

import io
import re

from knowledge.sources.formats.limits import Allowance, FormatError, forgiving

# What would read as a Markdown heading, and words that were divided at the end of a line.
_HEADING = re.compile(r"^(\s*)#", re.MULTILINE)
_DIVIDED = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


@forgiving
def read_pdf(data: bytes) -> str:
    """Return the pages of a PDF, each headed by its number. Raises `FormatError`."""
    import pypdf

    document = pypdf.PdfReader(io.BytesIO(data))
    if document.is_encrypted and not document.decrypt(""):
        raise FormatError("it is encrypted")
    allowance, pages = Allowance(), []
    for number, page in enumerate(document.pages, 1):
        text = allowance.take(_DIVIDED.sub("", page.extract_text() or "").strip())
        if text:
            pages.append(f"# Page {number}\n\n" + _HEADING.sub(r"\1 #", text))
    if not pages:
        raise FormatError("it holds no text: a scan needs text recognition first")
    return "\n\n".join(pages)
