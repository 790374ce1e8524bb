"""Facts of a text that have no synonyms: numbers, names in code and commands.

Two texts may say the same with different words, but a version, a port, a limit or the name of an option is either the
same or different.
"""

from __future__ import annotations

import re

from core.language.prose import CODE_SPAN

# A number that is not part of a name (utf8, p95), with thousands separators and the parts of a version.
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])v?(\d{1,3}(?:[,_]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)*)", re.IGNORECASE)
# A name alone, which may have dots, and a long option.
_NAME = re.compile(r"(?:--?)?[^\W\d][\w.-]*")
_LONG_OPTION = re.compile(r"(?<![\w-])--[A-Za-z][\w-]+")
# A call, an assignment, a command or a placeholder.
_EXAMPLE_SIGN = re.compile(r"[\s(=<{\[]")
# A program and what it is told to do.
_COMMAND = re.compile(r"`(?:\$ )?([a-z][a-z-]+ [a-z][a-z-]+)(?= [^`\n]*`|`)")


def extract_numbers(text: str) -> set[str]:
    """Return the numbers of a text in one spelling: without separators, leading zeros and a leading v."""
    return set(map(_normalize_number, _NUMBER.findall(text)))


def strip_examples(text: str) -> str:
    """Return a text without its code, except names that stand alone: a value in code is only an example.

    >>> strip_examples("`v2.1` or `pip install a==3` after 5 s")
    '`v2.1` or   after 5 s'
    """
    return CODE_SPAN.sub(lambda match: " " if _EXAMPLE_SIGN.search(match[1].strip()) else match[0], text)


def extract_code_names(text: str) -> set[str]:
    """Return the names that stand alone in the code of a text, and its long options, those in prose, too.

    >>> sorted(extract_code_names('Set `Ring.size` to `<count>` or call `tarn keys --force ./old`.'))
    ['--force', 'Ring.size']
    """
    names = {*_LONG_OPTION.findall(text), *filter(_NAME.fullmatch, map(str.strip, CODE_SPAN.findall(text)))}
    return {name for name in names if re.search(r"[A-Za-z]{2}", name)}


def extract_commands(text: str) -> set[str]:
    """Return the first two words of each command in the code of a text, as its letters.

    >>> extract_commands("Run `tarn keys --force`.")
    {'tarnkeys'}
    """
    return set(map(to_alnum_key, _COMMAND.findall(text)))


def has_code_name(name: str, alnum_text: str) -> bool:
    """Return whether a text (its `to_alnum_key`) has a name; of a dotted one or a path its last part."""
    return to_alnum_key(re.split(r"[./:]", name.rstrip("./:"))[-1]) in alnum_text


def to_alnum_key(text: str) -> str:
    """Return only the letters and digits of a text, lower-case."""
    return re.sub(r"[\W_]+", "", text.lower())


def _normalize_number(number: str) -> str:
    number = number.replace(",", "").replace("_", "")
    integer_part, dot, fraction = number.partition(".")
    return (integer_part.lstrip("0") or "0") + dot + fraction
