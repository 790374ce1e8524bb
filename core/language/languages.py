"""Languages: names, codes, and which one a text is in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from core.language.lexicon import get_words
from core.language.prose import strip_code_and_links
from core.language.tokens import HAN, HANGUL, KANA
from core.types import Question

# Of the texts whose language is known, a language needs this share to be one of theirs.
MIN_LANGUAGE_SHARE = 0.2
# Two common words of one language, and fewer of every other: names and code have none.
MIN_COMMON_WORDS = 2
MAX_CHARS = 2000
# So many words in Latin script are no name or number, which people write in every language.
MIN_TELLING_WORDS = 4
# A word that stands alone: no part of a command (`/help`), a path, a version, an option or an identifier.
_LONE_WORD = re.compile(r"(?<![\w/.\-])[^\W\d_]+(?![\w/\-]|\.\w)")
# Kana and Hangul before Chinese characters, which Japanese and Korean texts contain as well.
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
_PROSE_WORD = re.compile(r"\b[A-ZÀ-Þ]?[a-zß-ɏ]+\b")
# A character of these scripts stands for about this many Latin letters.
_LETTERS_PER_CHARACTER = {"ja": 3, "ko": 3, "zh": 3}
_NAME_SIGNS = re.compile(r"[._-]")
_LATIN_NAME = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9_.\-]*[A-Za-z0-9_]")

# The names that a configuration may use, by language code. The first nine languages have their own script.
_LANGUAGE_NAMES = {
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
_COMMON_WORDS = {
    "en": "the is are do does how what which why where when can to of in for and my with it this not",
    "de": "der die das ist sind wie was welche welchen welcher welches warum wo wann kann ich zu von für und mit ein "
    "eine einen nicht wird den dem im auf bei mein meine man gibt muss geht",
    "fr": "le la les est sont comment que quel quelle pourquoi où quand peut je de des du pour et avec un une ne pas",
    "es": "el la los las es son cómo como qué cuál cuáles por dónde cuándo puedo puede hay de del para y con un una no "
    "se mi en",
    "it": "il lo gli è sono come che quale perché dove quando posso di del per e con un una non si",
    "pt": "o os as é são como que qual porque onde quando posso de do da para e com um uma não se",
    "nl": "de het is zijn hoe wat welke waarom waar wanneer kan ik van voor en met een niet wordt",
}
_COMMON_WORD_SETS = {code: frozenset(words.split()) for code, words in _COMMON_WORDS.items()}


def to_language_code(language: str) -> str:
    """Return the code of a language from its code or name; an empty string for an unknown language."""
    language_name = language.strip().lower()
    primary_tag = language_name.split("-")[0].split("_")[0]
    return next(
        (code for code, names in _LANGUAGE_NAMES.items() if primary_tag == code or language_name in names.split()), ""
    )


def is_in_language(text: str, language: str) -> bool | None:
    """Return whether a text is in a language; None when neither its script nor its words show it."""
    expected_code = to_language_code(language)
    if not expected_code:
        return None
    if identify_language(text, min_words=1) == expected_code:
        return True
    hit_counts = _count_common_words(text)
    max_hits = max(hit_counts.values())
    is_other = max_hits >= MIN_COMMON_WORDS and hit_counts[expected_code] < max_hits
    return False if is_other or detect_language(text) or expected_code not in _COMMON_WORD_SETS else None


def language_name(code: str) -> str:
    """Return the English name of a language, or the code where none is known."""
    return _LANGUAGE_NAMES[code].split()[0].capitalize() if code in _LANGUAGE_NAMES else code


def detect_language(text: str) -> str:
    """Return a language code (`zh`, `ja`, `ru`, ...), or an empty string for Latin script, which many languages share.

    Names and code are Latin in every language: another script needs only a part of the text.

    >>> detect_language("怎么安装？")
    'zh'
    >>> detect_language("How do I install it?")
    ''
    """
    prose = strip_code_and_links(text)
    latin_letter_count = sum(len(word) for word in _PROSE_WORD.findall(prose))
    for code, script in _SCRIPTS:
        letter_count = len(script.findall(prose)) * _LETTERS_PER_CHARACTER.get(code, 1)
        if letter_count and 2 * letter_count >= latin_letter_count:
            return code
    return ""


def identify_language(text: str, min_words: int = MIN_COMMON_WORDS) -> str:
    """Return the code of the language that a text is in by its script or its common words; "" when they do not tell.

    It needs so many words of one language, and fewer of every other.

    >>> [identify_language(text) for text in ("Wie installiere ich das Paket?", "怎么安装？", "pip 3.1")]
    ['de', 'zh', '']
    """
    text = text[:MAX_CHARS]
    if script_code := detect_language(text):
        return script_code
    first, second = _count_common_words(strip_code_and_links(text)).most_common(2)
    return first[0] if first[1] >= min_words and first[1] > second[1] else ""


def identify_document_language(text: str, *, is_prose: bool) -> str:
    """Return the code of the language of a document's text; of code only English, or a language of another script.

    Without sentences, the words of a configuration ("no", "as", "com") look like Portuguese.
    """
    code = identify_language(text)
    return code if is_prose or code not in _COMMON_WORD_SETS or code == "en" else ""


def get_main_languages(counts: Counter[str]) -> tuple[str, ...]:
    """Return the languages that have their share of the texts, the most frequent first."""
    return tuple(code for code, count in counts.most_common() if count >= MIN_LANGUAGE_SHARE * counts.total())


def detect_language_of_any(texts: Iterable[str]) -> str | None:
    """Return what `detect_language` says of the first text that shows its language; None when none does.

    >>> detect_language_of_any(["/help", "OOM?", "怎么安装？", "How do I install it?"])
    'zh'
    >>> detect_language_of_any(["How to upgrade?", "怎么安装？"])
    ''
    """
    for text in texts:
        code = detect_language(text)
        if code or _has_latin_prose(text[:MAX_CHARS]):
            return code
    return None


def get_asker_language(question: Question) -> str:
    """Return the language to answer in: the chat's, the question's, or that of the asker's last message.

    A question may show none: a picture, `OOM?`.
    """
    if question.language:
        return to_language_code(question.language)
    own_turns = (turn for turn in reversed(question.history) if turn.role == "user")
    own_texts = (turn.text for turn in own_turns if turn.author_id == question.author_id)
    return detect_language_of_any((question.text, *own_texts)) or ""


def _has_latin_prose(text: str) -> bool:
    """Return whether a text in Latin script is in some language: names, codes, commands and numbers are in none."""
    words = [word.lower() for word in _LONE_WORD.findall(strip_code_and_links(text))]
    is_prose = len(words) >= MIN_TELLING_WORDS or not get_words("en", "telling_words").isdisjoint(words)
    return is_prose or bool(identify_language(" ".join(words)))


def extract_names(text: str) -> set[str]:
    """Return the Latin words of a text of another script: they are names, which a translation keeps.

    Writers differ in capitals and signs: h265 is H.265.

    >>> sorted(extract_names("H.265 的 go2rtc 流"))
    ['go2rtc', 'h265']
    """
    return {_NAME_SIGNS.sub("", name.lower()) for name in _LATIN_NAME.findall(text)}


def _count_common_words(text: str) -> Counter[str]:
    words = re.findall(r"[^\W\d_]+", text.lower())
    return Counter({code: sum(word in common for word in words) for code, common in _COMMON_WORD_SETS.items()})
