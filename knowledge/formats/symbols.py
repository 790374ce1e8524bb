"""The signs of fonts that have their own: what they show as characters of Unicode."""

from __future__ import annotations

import re

# Each a first code and the characters from there on, a space where none is known.
_RANGES = {
    "symbol": (
        (0x41, "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ"),
        (0x61, "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"),
        (0xA3, "≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…"),
        (0xC4, "⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓"),
        (0xE5, "∑"),
        (0xF2, "∫"),
    ),
    "wingdings": (
        (0x6C, "●❍■□"),
        (0x76, "❖"),
        (0x9F, "•"),
        (0xA7, "▪☐"),
        (0xDF, "←→↑↓↖↗↙↘"),
        (0xEF, "⇦⇨⇧⇩"),
        (0xFB, "✗✓☒☑"),
    ),
}
_SIGNS = {
    font: {first + offset: sign for first, signs in ranges for offset, sign in enumerate(signs) if sign != " "}
    for font, ranges in _RANGES.items()
}
# Where Word keeps the codes of such a font.
_PRIVATE = re.compile(r"[\uf000-\uf0ff]")
_CODE = re.compile(r"[0-9A-Fa-f]{1,4}$")


def read_symbol(font: str, code: str) -> str:
    """Return what a font shows for a code in hexadecimal digits; nothing where that is not known.

    >>> read_symbol("Symbol", "F0B0"), read_symbol("Wingdings", "F0FC"), read_symbol("Arial", "2022")
    ('°', '✓', '•')
    """
    character = chr(int(code, 16)) if _CODE.match(code) else ""
    return read_symbols(font, character) if character.isprintable() or has_symbols(character) else ""


def has_symbols(text: str) -> bool:
    """Return whether a text holds codes that only a font gives a meaning."""
    return _PRIVATE.search(text) is not None


def read_symbols(font: str, text: str) -> str:
    """Return a text with what a font shows for its codes, without those that are not known.

    >>> read_symbols("Wingdings", "\uf0fc Done\uf000")
    '✓ Done'
    """
    signs = _SIGNS.get(font.lower(), {})
    return _PRIVATE.sub(lambda code: signs.get(ord(code[0]) & 0xFF, ""), text)
