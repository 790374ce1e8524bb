"""Facts of a text that have no synonyms: numbers, amounts, names in code, and negations.

Two texts may say the same with different words, but a version, a port, a limit or the name of an option is either the
same or different.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from core.language.keywords import content_words
from core.language.lexicon import get_values
from core.language.prose import CODE_SPAN
from core.language.tokens import LETTERS_OR_DIGITS, stem

# A number that is not part of a name (utf8, p95), with thousands separators and the parts of a version.
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])v?(\d{1,3}(?:[,_]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)*)", re.IGNORECASE)
# What ends a name: a version (python3.11), or a number behind a joint (TIMEOUT_30).
_NAMED_NUMBER = re.compile(r"(?<=[A-Za-z])\d+(?:\.\d+)+|(?<=[_=-])\d+")
# Numbers that only count: list items, steps, figures.
_UNCLAIMED_NUMBER = re.compile(
    r"(?:^|\n)[^\S\n]*\(?\d{1,2}[.)、]\s|\b(?:step|option|section|part|chapter|figure|table|point|item)s?\s+\d+|第\s*\d+",
    re.IGNORECASE,
)
_UNITS = {unit: float(factor) for unit, factor in get_values("en", "units").items()}
_CHINESE_UNITS = {unit: float(factor) for unit, factor in get_values("zh", "units").items()}
_NUMBER_WORDS = get_values("en", "number_words")
_CHINESE_NUMERALS = get_values("zh", "number_words")
_LATIN_WORD = re.compile("[a-z]+")
# Covers both meanings of a kilobyte.
_RELATIVE_TOLERANCE = 0.1
# What a number without a unit may be counted in: seconds, milliseconds and minutes; bytes, kilobytes and megabytes.
_USUAL_UNITS = (1, 0.001, 60, 1e3, 2**10, 1e6, 2**20)
_QUANTITY = re.compile(
    rf"(?<![\w.])(?<!\d,)(\d+(?:[.,_]\d+)*|an?|{'|'.join(_NUMBER_WORDS)})[\s-]?({'|'.join(_UNITS)})s?\b", re.IGNORECASE
)
_CHINESE_QUANTITY = re.compile(
    rf"((?<!\d)\d++(?:\.\d++)?|[{''.join(_CHINESE_NUMERALS)}])\s*+({'|'.join(_CHINESE_UNITS)})"
)
_NEGATION = re.compile(r"\b(?:not|no|never|cannot)\b|n[’']t\b|不|没有|无法|无需|未|勿|禁止", re.IGNORECASE)
# Words such as "no" and "not" without a negation. What the reader has not done is no statement, but a case.
_NON_NEGATION = re.compile(
    r"^\W*no\b\s*[,.:;!]|\byou have(?:n[’']t| not)\b|\bnot only\b|\bno (?:longer|more|less|fewer|later) than\b"
    r"|\bif not\b|不仅|不但|不同",
    re.IGNORECASE,
)
# Placeholders (<name>, {name}, ${NAME}), what is quoted, and the value of an argument or variable.
_PLACEHOLDER = re.compile(r"\$?\{[^{}\n]*\}|<[^<>\n]*>|\[[^\[\]\n]*\]|\.{3}|…|\"[^\"\n]*\"|'[^'\n]*'")
# A name begins only where no name goes on: the search takes linear time.
_CALL_OR_ARGUMENT = re.compile(r"(?:(?<![\w.=!<>-])|(?<=[)\]]\.))([A-Za-z_][\w.]*+)(?:\(|\s?=(?!=))")
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]+")
_LONG_OPTION = re.compile(r"(?<![\w-])--[A-Za-z][\w-]+")
_FILE_NAME = re.compile(r"[^/]+\.(?:py|sh|js|ts|rs|go|md|rst|txt|cfg|ini|conf|json|toml|ya?ml|lock|xml|html?)")
_CODE_WORD = re.compile(r"(?<![\w./:@-])(?:[A-Za-z]\w*(?:[-_.]\w+)+|[A-Z][a-z0-9]+[A-Z]\w*)(?![\w/:@-])")
_CONSTANTS = frozenset({"True", "False", "None", "true", "false", "null", "nil"})
_PATH_OR_URL = re.compile(r"(?<!\S)[^\s/]*+/\S*+")


def extract_numbers(text: str) -> set[str]:
    """Return the numbers that a text claims, in one spelling: without separators, leading zeros and a leading v."""
    return set(map(_normalize_number, _NUMBER.findall(_UNCLAIMED_NUMBER.sub("\n", text)))) | {
        number for number in map(_normalize_number, _NAMED_NUMBER.findall(text)) if "." in number
    }


def extract_stated_numbers(text: str) -> set[str]:
    """Return every number of a text: those that count items, are part of a name or are spelled out, too."""
    words = set(_LATIN_WORD.findall(text.lower()))
    numbers = set(map(_normalize_number, [*_NUMBER.findall(text), *_NAMED_NUMBER.findall(text)]))
    numbers |= {value for word, value in _NUMBER_WORDS.items() if word in words or f"{word}s" in words}
    return (
        numbers
        if text.isascii()
        else numbers | {_CHINESE_NUMERALS[sign] for sign in set(text) & _CHINESE_NUMERALS.keys()}
    )


def has_number(number: str, candidates: Collection[str]) -> bool:
    """Return whether a number is among others, exactly or with zeros more or less: 2.0 is 2, and 3.11 is in 3.11.4."""
    shorter = number.rstrip("0").rstrip(".") if "." in number else number
    return bool({number, shorter, f"{number}.0"}.intersection(candidates)) or any(
        candidate.startswith(f"{number}.") for candidate in candidates if number.count(".") == 1
    )


def extract_quantities(text: str) -> list[tuple[str, float]]:
    """Return every duration and size of a text as a pair: the number as written, and seconds or bytes."""
    quantities = []
    for number, unit in _QUANTITY.findall(text):
        value = _NUMBER_WORDS.get(number.lower(), "1" if number[0] in "aA" else _normalize_number(number))
        if value.count(".") < 2:
            quantities.append((value, float(value) * _UNITS[unit.lower()]))
    for number, unit in _CHINESE_QUANTITY.findall(text):
        value = _CHINESE_NUMERALS.get(number, number)
        quantities.append((value, float(value) * _CHINESE_UNITS[unit]))
    return quantities


def strip_quantities(text: str) -> str:
    """Return a text without its durations and sizes; its other numbers have no unit or an unknown one."""
    return _CHINESE_QUANTITY.sub(" ", _QUANTITY.sub(" ", text))


def has_quantity(value: float, quantities: Collection[float], numbers: Collection[str]) -> bool:
    """Return whether a duration or size is among others, or among numbers without a unit: 5 minutes are 300."""
    if any(abs(value - quantity) <= _RELATIVE_TOLERANCE * max(value, quantity) for quantity in quantities):
        return True
    amounts = [float(number) for number in numbers if number.count(".") < 2]
    return any(abs(amount * unit - value) <= 1e-6 * value for amount in amounts for unit in _USUAL_UNITS)


def strip_literals(text: str) -> str:
    """Return a text without the values and placeholders in its code: there a number is only an example."""
    return CODE_SPAN.sub(lambda match: match[0] if _is_bare(match[1]) else " ", text)


def _is_bare(span: str) -> bool:
    return not re.search(r"[\s(=<{\[]", span.strip())


def extract_code_names(text: str) -> set[str]:
    """Return the names that code in a text uses: callables, arguments, options (in prose, too), and single names.

    What is only an example is none of them: the values of arguments and variables, placeholders, paths and addresses.

    >>> sorted(extract_code_names('Call `Ring.rotate(key="a", <count>)` or `tarn keys --force ./old`.'))
    ['--force', 'Ring.rotate', 'key']
    """
    names = set(_LONG_OPTION.findall(CODE_SPAN.sub(" ", text)))
    for span in CODE_SPAN.findall(text):
        code = _PLACEHOLDER.sub(" ", span).strip()
        if _is_bare(span):
            names.add(code)
            continue
        names.update(_CALL_OR_ARGUMENT.findall(code), _OPTION.findall(code))
        if "(" not in code and "=" not in code:
            names.update(_CODE_WORD.findall(_PATH_OR_URL.sub(" ", code)))
    return {name for name in names if re.search(r"[A-Za-z]{2}", name) and name not in _CONSTANTS}


def has_code_name(name: str, alnum_text: str) -> bool:
    """Return whether a text (its `to_alnum_key`) has a name; of a dotted one its last part, of a path the file's."""
    file_name = name.rpartition("/")[2]
    is_file = _FILE_NAME.fullmatch(file_name)
    return to_alnum_key(file_name if is_file else re.split(r"[.:]", name.rstrip(".:"))[-1]) in alnum_text


def to_alnum_key(text: str) -> str:
    """Return only the letters and digits of a text, lower-case."""
    return re.sub(r"[\W_]+", "", text.lower())


def extract_stems(text: str) -> list[str]:
    """Return the stems of a text's content words: identifiers split, Chinese, kana and Hangul as pairs."""
    # Identifiers are split at capitals, which content words no longer have: so first.
    words = content_words(" ".join(LETTERS_OR_DIGITS.findall(text)))
    return [stem(word) for word in words if len(word) > 1 and not word.isdigit()]


def count_negations(text: str) -> int:
    """Return the number of negations in a text."""
    return len(_NEGATION.findall(_NON_NEGATION.sub(" ", text)))


def _normalize_number(number: str) -> str:
    number = number.replace(",", "").replace("_", "")
    integer_part, dot, fraction = number.partition(".")
    return (integer_part.lstrip("0") or "0") + dot + fraction
