"""Default values in tables: a claim that gives a parameter another default than its row contradicts the passage."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.language.prose import CODE_SPAN
from core.markup.statements import read_tables

_DEFAULT_HEADER = re.compile(r"defaults?(?: values?)?|默认值?", re.IGNORECASE)
_CLAIMS_DEFAULT = re.compile(r"\bdefaults?\b|默认", re.IGNORECASE)
_BOOLEANS = {
    True: re.compile(r"\b(?:true|enabled|on)\b|开启|启用|打开", re.IGNORECASE),
    False: re.compile(r"\b(?:false|disabled|off)\b|关闭|禁用", re.IGNORECASE),
}
# What turns a claim around, or makes it one about something else than the default.
_UNCLEAR = re.compile(
    r"\b(?:not?|never|unless|instead|if|when|change[ds]?|set)\b|n['’]t\b|不|没|未|除非|如果|改|设", re.IGNORECASE
)


def gives_other_default(claim: str, text: str) -> bool:
    """Return whether a claim gives one parameter a default that differs from the table of a text.

    >>> table = "| Name | Default |\\n|---|---|\\n| `retries` | 3 |\\n| `gzip` | false |"
    >>> gives_other_default("`gzip` is on by default.", table), gives_other_default("`gzip` is off by default.", table)
    (True, False)
    """
    if not _CLAIMS_DEFAULT.search(claim) or _UNCLEAR.search(claim):
        return False
    names = list(dict.fromkeys(CODE_SPAN.findall(claim)))
    defaults = dict(_iter_defaults(text)) if names else {}
    known_names = [name for name in names if name in defaults]
    if len(known_names) != 1:
        return False
    default = defaults[known_names[0]]
    values = [name for name in names if name not in defaults]
    if values:
        return len(values) == 1 and bool(default) and values[0].strip("\"'").lower() != default
    claimed_values = [value for value, pattern in _BOOLEANS.items() if pattern.search(CODE_SPAN.sub(" ", claim))]
    return default in ("true", "false") and len(claimed_values) == 1 and claimed_values[0] != (default == "true")


def _iter_defaults(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first cell and the default of each row of each table that has a column of defaults."""
    for table in read_tables(text):
        column = next((index for index, cell in enumerate(table.header) if _DEFAULT_HEADER.fullmatch(cell)), 0)
        for cells in table.rows if column else ():
            if len(cells) > column:
                yield cells[0], cells[column].strip("\"'").lower()
