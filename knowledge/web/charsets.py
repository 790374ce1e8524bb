"""The character set of a reply: what its header, its first bytes and its markup say, and what its bytes are."""

from __future__ import annotations

# The character sets of documents. A header can name other codecs: the time of some is quadratic (punycode), others run
# escapes.
_CHARSETS = (
    "ascii", "utf-8", "utf-16", "utf-32", "iso8859", "iso2022", "cp", "koi8", "mac", "gb", "hz", "big5", "euc",
    "shift_jis", "johab", "tis", "kz1048", "ptcp154",
)  # fmt: skip
# Where no byte order mark, header or markup names one: what browsers take in the west.
_FALLBACK_CHARSET = "cp1252"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def decode_content(content: bytes, content_type: str) -> str:
    """Return a content as text, by the character set that its type names, else UTF-8. What does not fit is replaced."""
    from w3lib.encoding import http_content_type_encoding, to_unicode

    return to_unicode(content, _accept(http_content_type_encoding(content_type)) or "utf-8")


def decode_page(content: bytes, content_type: str = "") -> str:
    """Return an HTML page as text: by its byte order mark, its header, its markup, its bytes.

    A page whose bytes are UTF-8 is read as such, whatever single-byte character set it claims: nearly nothing else is
    by accident. What does not fit is replaced.
    """
    from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom, to_unicode

    charset, bom = read_bom(content)
    if charset is not None and bom is not None:
        return to_unicode(content[len(bom) :], charset)
    charset = _accept(http_content_type_encoding(content_type)) or _accept(html_body_declared_encoding(content))
    # Markup that a parser of bytes can read names no character set of wider units.
    charset = "utf-8" if charset is not None and charset.startswith(("utf-16", "utf-32")) else charset
    if content.isascii() and charset is not None:
        return to_unicode(content, charset)
    text = content.decode("utf-8", "replace")
    if charset is None:
        # A text with a few damaged characters is still in UTF-8.
        is_utf8 = text.count(_REPLACEMENT) * 2 <= sum(not character.isascii() for character in text)
        return text if is_utf8 else to_unicode(content, _FALLBACK_CHARSET)
    return text if _REPLACEMENT not in text else to_unicode(content, charset)


def _accept(charset: str | None) -> str | None:
    return charset if charset is not None and charset.startswith(_CHARSETS) else None
