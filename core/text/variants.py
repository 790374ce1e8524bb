"""Traditional Chinese characters as simplified ones, for rules and searches that know only these."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

_FILE = "traditional_characters.txt"


def simplify(text: str) -> str:
    """Return a text with simplified in place of traditional Chinese characters; its length stays.

    >>> simplify("請問如何設定？")
    '请问如何设定？'
    """
    return text if text.isascii() else text.translate(_load_characters())


@cache
def _load_characters() -> Mapping[int, str]:
    lines = resources.files(__package__).joinpath(_FILE).read_text("utf-8").splitlines()
    return {ord(pair[0]): pair[1] for line in lines if not line.startswith("#") for pair in line.split()}
