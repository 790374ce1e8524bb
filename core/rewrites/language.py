"""Which language a short text is in, as far as rules can tell: by its script, then by its commonest words."""

from __future__ import annotations

import re

from core.language import language_of

# By code, the names that a configuration may use. The first ones have a script of their own.
_NAMES = {
    "zh": "chinese mandarin 中文 汉语",
    "ja": "japanese 日本語",
    "ko": "korean 한국어",
    "ru": "russian русский",
    "el": "greek ελληνικά",
    "ar": "arabic العربية",
    "he": "hebrew עברית",
    "th": "thai ไทย",
    "hi": "hindi हिन्दी",
    "en": "english",
    "de": "german deutsch",
    "fr": "french français francais",
    "es": "spanish español espanol",
    "it": "italian italiano",
    "pt": "portuguese português portugues",
    "nl": "dutch nederlands",
}
_COMMONEST = {
    "en": "the is are do does how what which why where when can to of in for and my with it this not",
    "de": "der die das ist sind wie was welche warum wo wann kann ich zu von für und mit ein eine nicht wird den",
    "fr": "le la les est sont comment que quel quelle pourquoi où quand peut je de des du pour et avec un une ne pas",
    "es": "el la los las es son cómo como qué cuál por dónde cuándo puedo de del para y con un una no se",
    "it": "il lo gli è sono come che quale perché dove quando posso di del per e con un una non si",
    "pt": "o os as é são como que qual porque onde quando posso de do da para e com um uma não se",
    "nl": "de het is zijn hoe wat welke waarom waar wanneer kan ik van voor en met een niet wordt",
}
_WORDS = {code: frozenset(words.split()) for code, words in _COMMONEST.items()}


def code_of(language: str) -> str:
    """Return the code of a language given as a code or a name, or nothing when it is not known here."""
    said = language.strip().lower()
    short = said.split("-")[0].split("_")[0]
    return next((code for code, names in _NAMES.items() if short == code or said in names.split()), "")


def is_in(text: str, language: str) -> bool | None:
    """Say whether a text is in a language; None where neither its script nor its words tell."""
    wanted, script = code_of(language), language_of(text)
    if not wanted:
        return None
    if script or wanted not in _WORDS:
        return script == wanted
    words = re.findall(r"[^\W\d_]+", text.lower())
    hits = {code: sum(word in known for word in words) for code, known in _WORDS.items()}
    best = max(hits.values())
    if hits[wanted] < best:
        return False
    return True if best and list(hits.values()).count(best) == 1 else None


def same_script(one: str, other: str) -> bool:
    """Say whether two texts are in the same script."""
    return language_of(one) == language_of(other)
