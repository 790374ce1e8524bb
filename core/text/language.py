"""The language of a text, as far as its script tells: enough to speak to the asker in their own words."""

from __future__ import annotations

import re

from core.text.tokens import HAN, HANGUL, KANA

# Kana and Hangul before the Chinese characters, which Japanese and Korean texts hold as well.
_SCRIPTS = (
    ("ja", re.compile(rf"[{KANA}]")),
    ("ko", re.compile(rf"[{HANGUL}\u1100-\u11ff]")),
    ("zh", re.compile(rf"[{HAN}]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
)
# Words of prose; identifiers such as ReActAgent and GPU belong to no language.
_WORD = re.compile(r"\b[A-ZÀ-Þ]?[a-zß-ɏ]+\b")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)
# A character of these scripts says about as much as this many Latin letters.
_LETTERS_PER_CHARACTER = {"ja": 3, "ko": 3, "zh": 3}


def detect_language(text: str) -> str:
    """Return a language code (`zh`, `ja`, `ru`, ...), or an empty string for Latin script, which tells too little.

    Names and code in a question about software are Latin in every language: a script needs a part of the text only.

    >>> detect_language("怎么安装？")
    'zh'
    >>> detect_language("How do I install it?")
    ''
    """
    prose = _CODE.sub(" ", text)
    latin_letter_count = sum(len(word) for word in _WORD.findall(prose))
    for code, script in _SCRIPTS:
        letter_count = len(script.findall(prose)) * _LETTERS_PER_CHARACTER.get(code, 1)
        if letter_count and 2 * letter_count >= latin_letter_count:
            return code
    return ""
