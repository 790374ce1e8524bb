"""Facts of a text that have no synonyms: numbers, identifiers and negations.

Two texts may say the same with different words, but a version, a port, a limit or the name of an option is either the
same or different.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from core.language.keywords import content_words
from core.language.prose import CODE_SPAN
from core.language.tokens import LETTERS_OR_DIGITS, stem

# A number that is not part of a name (utf8, p95), with thousands separators and the parts of a version.
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])v?(\d{1,3}(?:[,_]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)*)", re.IGNORECASE)
# The version at the end of a name: python3.11.
_NAMED_VERSION = re.compile(r"(?<=[A-Za-z])\d+(?:\.\d+)+")
# A number that is part of a setting or constant: TIMEOUT_30.
_JOINED_NUMBER = re.compile(r"(?<=[_=-])\d+")
# A number that the text computes from other numbers.
_DERIVED_NUMBER = re.compile(
    r"\b(?:makes|gives|equals|in total|altogether|adds? up to|comes to|works out (?:at|as))\s+(?:\w+\s+)?[\d.,_]*\d"
    r"|=\s*[\d.,_]*\d",
    re.IGNORECASE,
)
# Numbers that only count: list items, steps, options, figures.
_ORDINAL = re.compile(
    r"(?:^|\n)[^\S\n]*\(?\d{1,2}[.)、]\s|\b(?:step|option|section|part|chapter|figure|table|point|item)s?\s+\d+|第\s*\d+",
    re.IGNORECASE,
)
_NUMBER_WORDS = {
    "zero": "0",
    "one": "1",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "eleven": "11",
    "twelve": "12",
    "fifteen": "15",
    "twenty": "20",
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "ninety": "90",
    "hundred": "100",
    "thousand": "1000",
    "once": "1",
    "twice": "2",
    "half": "0.5",
    "both": "2",
    "single": "1",
    "dozen": "12",
    "double": "2",
    "january": "1",
    "february": "2",
    "march": "3",
    "april": "4",
    "may": "5",
    "june": "6",
    "july": "7",
    "august": "8",
    "september": "9",
    "october": "10",
    "november": "11",
    "december": "12",
}
_LATIN_WORD = re.compile("[a-z]+")
_CHINESE_NUMERALS = {word: str(value) for value, word in enumerate("零一二三四五六七八九十")} | {"两": "2"}
# In seconds and bytes. The tolerance covers both meanings of a kilobyte.
UNITS = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_592_000,
    "year": 31_536_000,
    "byte": 1,
    "kilobyte": 1e3,
    "megabyte": 1e6,
    "gigabyte": 1e9,
    "kb": 1e3,
    "kib": 2**10,
    "mb": 1e6,
    "mib": 2**20,
    "gb": 1e9,
    "gib": 2**30,
    "tb": 1e12,
    "tib": 2**40,
}
CHINESE_UNITS = {
    "毫秒": 0.001,
    "秒": 1,
    "分钟": 60,
    "小时": 3600,
    "天": 86_400,
    "周": 604_800,
    "个月": 2_592_000,
    "年": 31_536_000,
    "字节": 1,
}
_RELATIVE_TOLERANCE = 0.1
# What a number without a unit may be counted in: seconds, milliseconds and minutes; bytes, kilobytes and megabytes.
_USUAL_UNITS = (1, 0.001, 60, 1e3, 2**10, 1e6, 2**20)
_QUANTITY = re.compile(
    rf"(?<![\w.])(?<!\d,)(\d+(?:[.,_]\d+)*|an?|{'|'.join(_NUMBER_WORDS)})[\s-]?({'|'.join(UNITS)})s?\b", re.IGNORECASE
)
_CHINESE_QUANTITY = re.compile(
    rf"((?<!\d)\d++(?:\.\d++)?|[{''.join(_CHINESE_NUMERALS)}])\s*+({'|'.join(CHINESE_UNITS)})"
)
_IDENTIFIER = re.compile(
    r"(?<![\w-])--?[a-z][\w-]+"
    r"|(?<![\w.])[A-Za-z]\w*(?:\.[A-Za-z_]\w*)+"
    r"|\b[A-Za-z]\w*_\w+|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z0-9]+[A-Z]\w*"
)
_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s"})
_NEGATION = re.compile(
    r"\b(?:not|no|never|cannot)\b|n[’']t\b|不|没有|无法|无需|未|勿|禁止",
    re.IGNORECASE,
)
# Words such as "no" and "not" without a negation. What the reader has not done is no statement, but a case.
_NON_NEGATION = re.compile(
    r"^\W*no\b\s*[,.:;!]|\byou have(?:n[’']t| not)\b|\bnot only\b|\bno (?:longer|more|less|fewer|later) than\b"
    r"|\bif not\b|不仅|不但|不同",
    re.IGNORECASE,
)
_CHINESE_MODALS = re.compile("不能|不可以|不会|不需要|不必|没有|无法|无需|可以|需要|必须|请勿|切勿|禁止|会|能|不|未|勿")

# Placeholders (<name>, {name}, ${NAME}), what is quoted, and the value of an argument or variable.
_PLACEHOLDER = re.compile(r"\$?\{[^{}\n]*\}|<[^<>\n]*>|\[[^\[\]\n]*\]|\.{3}|…|\"[^\"\n]*\"|'[^'\n]*'")

# A name begins only where no name goes on: the search takes linear time.
_CALLABLE = re.compile(r"(?:(?<![\w.])|(?<=[)\]]\.))([A-Za-z_][\w.]*+)\(")
_ARGUMENT = re.compile(r"(?:(?<![\w.=!<>-])|(?<=[)\]]\.))([A-Za-z_][\w.]*+)\s?=(?!=)")
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]+")
_CODE_WORD = re.compile(
    r"(?<![\w./:@-])(?:[A-Za-z]\w*(?:[-_.]\w+)+|[A-Z][a-z0-9]+[A-Z]\w*)(?![\w/:@-])",
)
_PATH_OR_URL = re.compile(r"(?<!\S)[^\s/]*+/\S*+")


def extract_numbers(text: str) -> set[str]:
    """Return the numbers of a text in one spelling: without separators, leading zeros and a leading v."""
    numbers = _NUMBER.findall(_ORDINAL.sub("\n", text)) + _NAMED_VERSION.findall(text)
    return {_normalize_number(number) for number in numbers}


def extract_stated_numbers(text: str) -> set[str]:
    """Return every number of a text: those that count items, are part of a name or are spelled out, too."""
    numbers = _NUMBER.findall(text) + _NAMED_VERSION.findall(text)
    return {_normalize_number(number) for number in numbers} | {
        *_JOINED_NUMBER.findall(text),
        *extract_number_words(text),
    }


def extract_claimed_numbers(text: str) -> set[str]:
    """Return the numbers that must be stated elsewhere: not those that the text computes itself."""
    return extract_numbers(_DERIVED_NUMBER.sub(" ", strip_literals(text)))


def extract_number_words(text: str) -> set[str]:
    """Return the numbers that a text spells out: three, March, 三."""
    words = set(_LATIN_WORD.findall(text.lower()))
    values = {value for word, value in _NUMBER_WORDS.items() if word in words or f"{word}s" in words}
    return values if text.isascii() else values | {value for word, value in _CHINESE_NUMERALS.items() if word in text}


def is_part_of_name(number: str, claim: str, text: str) -> bool:
    """Return whether a number and the word before it in the claim are one name in a text: COCO 2017 is coco2017."""
    words = re.findall(rf"(?<![A-Za-z])([A-Za-z]{{2,}})[ -]v?{re.escape(number)}(?![\w.]*\d)", claim)
    return any(re.search(rf"{word}[ _-]?v?{re.escape(number)}(?!\d)", text, re.IGNORECASE) for word in words)


def has_number(number: str, candidates: Collection[str]) -> bool:
    """Return whether a number is among others, exactly or with another precision."""
    if number in candidates:
        return True
    for candidate in candidates:
        longer = max(number, candidate, key=len)
        shorter = min(number, candidate, key=len)
        if longer.startswith(f"{shorter}.") and (longer == candidate or not longer[len(shorter) :].strip(".0")):
            return True
    return False


def extract_quantities(text: str) -> list[tuple[str, float]]:
    """Return every duration and size of a text as a pair: the number as written, and seconds or bytes."""
    number_values = []
    for number, unit in _QUANTITY.findall(text):
        value = _NUMBER_WORDS.get(number.lower(), "1" if number[0] in "aA" else _normalize_number(number))
        if value.count(".") < 2:
            number_values.append((value, float(value) * UNITS[unit.lower()]))
    for number, unit in _CHINESE_QUANTITY.findall(text):
        value = _CHINESE_NUMERALS.get(number, number)
        number_values.append((value, float(value) * CHINESE_UNITS[unit]))
    return number_values


def strip_quantities(text: str) -> str:
    """Return a text without its durations and sizes; its other numbers have no unit or an unknown one."""
    return _CHINESE_QUANTITY.sub(" ", _QUANTITY.sub(" ", text))


def has_quantity(value: float, candidates: Collection[float]) -> bool:
    """Return whether a duration or size is among others, whatever the unit."""
    return any(abs(value - candidate) <= _RELATIVE_TOLERANCE * max(value, candidate) for candidate in candidates)


def is_usual_amount(value: float, numbers: Collection[str]) -> bool:
    """Return whether a duration or size is among numbers without a unit, counted in a usual unit: 5 minutes is 300."""
    amounts = [float(number) for number in numbers if number.count(".") < 2]
    return any(abs(amount * unit - value) <= 1e-6 * value for amount in amounts for unit in _USUAL_UNITS)


def strip_literals(text: str) -> str:
    """Return a text without the values and placeholders in its code: there a number is only an example."""
    return CODE_SPAN.sub(lambda match: match[0] if _is_bare(match[1]) else " ", text)


def _is_bare(span: str) -> bool:
    return not re.search(r"[\s(=<{\[]", span.strip())


def extract_code_names(text: str) -> set[str]:
    """Return the names that code in a text uses: callables, arguments, options, and single names.

    What is only an example is none of them: the values of arguments and variables, placeholders, paths and addresses.

    >>> sorted(extract_code_names('Call `Ring.rotate(key="a", <count>)` or `tarn keys --force ./old`.'))
    ['--force', 'Ring.rotate', 'key']
    """
    names: set[str] = set()
    for span in CODE_SPAN.findall(text):
        code = _PLACEHOLDER.sub(" ", span).strip()
        if _is_bare(span):
            names.add(code)
            continue
        names.update(_CALLABLE.findall(code), _ARGUMENT.findall(code), _OPTION.findall(code))
        if "(" not in code and "=" not in code:
            names.update(_CODE_WORD.findall(_PATH_OR_URL.sub(" ", code)))
    return {name for name in names if re.search(r"[A-Za-z]{2}", name)}


def has_code_name(name: str, alnum_text: str) -> bool:
    """Return whether a text (its `to_alnum_key`) has a name; of a dotted one, its last part."""
    return to_alnum_key(name.rstrip(".").rpartition(".")[2]) in alnum_text


def extract_identifiers(text: str) -> set[str]:
    """Return the identifiers of a text: options, functions, settings, and single words in backticks."""
    code_spans = [span for span in CODE_SPAN.findall(text) if _is_bare(span)]
    text = strip_literals(text)
    identifiers = {identifier.rstrip(".") for identifier in [*_IDENTIFIER.findall(text), *code_spans]}
    return {
        identifier
        for identifier in identifiers
        if identifier.lower() not in _ABBREVIATIONS | UNITS.keys() and re.search(r"[A-Za-z]{2}", identifier)
    }


def has_identifier(identifier: str, alnum_text: str, stems: Collection[str]) -> bool:
    """Return whether a text has an identifier, in any spelling, or all parts of it.

    `alnum_text` is the text's `to_alnum_key`, `stems` are its `extract_stems`.
    """
    subtoken_stems = [stem(subtoken.lower()) for subtoken in LETTERS_OR_DIGITS.findall(identifier)]
    return to_alnum_key(identifier) in alnum_text or bool(
        subtoken_stems and all(subtoken_stem in stems for subtoken_stem in subtoken_stems)
    )


def to_alnum_key(text: str) -> str:
    """Return only the letters and digits of a text, lower-case."""
    return re.sub(r"[\W_]+", "", text.lower())


def extract_stems(text: str) -> list[str]:
    """Return the stems of a text's content words: identifiers split, Chinese, kana and Hangul as pairs."""
    # Identifiers are split at capitals, which content words no longer have: so first.
    words = content_words(" ".join(LETTERS_OR_DIGITS.findall(text)))
    return [stem(word) for word in words if len(word) > 1 and not word.isdigit()]


def extract_core_stems(text: str) -> frozenset[str]:
    """Return the stems of a clause without negations and modal verbs, which in Chinese are part of the pairs."""
    return frozenset(extract_stems(_CHINESE_MODALS.sub(" ", text)))


def is_negated(text: str) -> bool:
    """Return whether a clause is negated. Two negations in one clause cancel each other."""
    return count_negations(text) % 2 == 1


def extract_negated_stems(text: str) -> frozenset[str]:
    """Return the stems after the last negation of a clause: what it negates."""
    matches = list(_NEGATION.finditer(_NON_NEGATION.sub(lambda match: " " * len(match[0]), text)))
    return extract_core_stems(text[matches[-1].end() :]) if matches else frozenset()


def count_negations(text: str) -> int:
    """Return the number of negations in a text."""
    return len(_NEGATION.findall(_NON_NEGATION.sub(" ", text)))


def _normalize_number(number: str) -> str:
    number = number.replace(",", "").replace("_", "")
    integer_part, dot, fraction = number.partition(".")
    return (integer_part.lstrip("0") or "0") + dot + fraction
