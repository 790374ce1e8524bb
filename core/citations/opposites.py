"""Words with an opposite: enabled and disabled, before and after, 最大 and 最小.

Two clauses that differ only in such a word say the opposite, although they share nearly all their words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from core.language.tokens import stem

# Words that mean the same are grouped; each line has both sides.
_ENGLISH_PAIRS = (
    ("enable enabled", "disable disabled"),
    ("before", "after"),
    ("minimum minimal min smallest", "maximum maximal max largest"),
    ("minimize minimise", "maximize maximise"),
    ("low lower lowest", "high higher highest"),
    ("shorter shortest", "longer longest"),
    ("slower slowest", "faster fastest"),
    ("fewer fewest less", "more most"),
    ("decrease reduce", "increase"),
    ("open opened", "close closed"),
    ("ascending", "descending"),
    ("exclude excluding", "include including"),
    ("allow permit", "forbid prohibit"),
    ("optional optionally", "required mandatory"),
    ("bounded", "unbounded"),
    ("above", "below"),
    ("negative", "positive"),
    ("false", "true"),
    ("synchronous synchronously", "asynchronous asynchronously"),
    ("automatic automatically", "manual manually"),
    ("earlier earliest", "later latest"),
    ("offline", "online"),
    ("succeed success successful successfully", "fail failed failure"),
)
_CHINESE_PAIRS = (
    ("开启 启用 打开", "关闭 禁用 停用"),
    ("最大", "最小"),
    ("最多", "最少 至少"),
    ("之前 以前", "之后 以后"),
    ("调高 调大 增大 增加 提高 升高", "调低 调小 减小 减少 降低"),
    ("大于 高于 超过", "小于 低于"),
    ("越大", "越小"),
    ("越高", "越低"),
    ("越多", "越少"),
    ("越快", "越慢"),
    ("更大", "更小"),
    ("更高", "更低"),
    ("更多", "更少"),
    ("更快", "更慢"),
    ("升序", "降序"),
    ("必须 必填", "可选 选填"),
    ("允许", "禁止"),
    ("在线", "离线"),
    ("同步", "异步"),
    ("自动", "手动"),
    ("成功", "失败"),
)
# A part of an identifier is no word of the sentence.
_ENGLISH_WORD = re.compile(r"(?<![\w.-])[A-Za-z]{3,}(?![\w-])")


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a pair, and the word that represents both sides."""

    pair: int
    is_second: bool
    common_word: str


@cache
def _list_sides() -> tuple[Mapping[str, _Side], Mapping[str, _Side], re.Pattern[str]]:
    """Return the sides by the stem of an English word, those by a Chinese word, and the pattern of the latter."""
    english, chinese = (
        {
            stem(word) if word.isascii() else word: _Side(pair, is_second, sides[0].split()[0])
            for pair, sides in enumerate(pairs, offset)
            for is_second, side in zip((False, True), sides, strict=True)
            for word in side.split()
        }
        for offset, pairs in ((0, _ENGLISH_PAIRS), (len(_ENGLISH_PAIRS), _CHINESE_PAIRS))
    )
    return english, chinese, re.compile("|".join(chinese))


def unify_opposites(text: str) -> tuple[str, Mapping[int, bool | None]]:
    """Return a text with one word for both sides of every pair, and of each pair whether the text has its second side.

    It is None for a pair of which the text has both sides.

    >>> unify_opposites("Caching is disabled by default")
    ('Caching is enable by default', {0: True})
    """
    english, chinese, chinese_pattern = _list_sides()
    sides_by_pair: dict[int, set[bool]] = {}

    def replace(match: re.Match[str]) -> str:
        word = match[0]
        side = english.get(stem(word.lower())) if word.isascii() else chinese[word]
        if side is None:
            return word
        sides_by_pair.setdefault(side.pair, set()).add(side.is_second)
        return side.common_word

    text = _ENGLISH_WORD.sub(replace, text)
    if not text.isascii():
        text = chinese_pattern.sub(replace, text)
    return text, {pair: next(iter(sides)) if len(sides) == 1 else None for pair, sides in sides_by_pair.items()}


def count_opposites(sides: Mapping[int, bool | None], other_sides: Mapping[int, bool | None]) -> int:
    """Return of how many pairs two texts have different sides."""
    pairs = [(sides[pair], other_sides[pair]) for pair in sides.keys() & other_sides.keys()]
    return sum(side is not other_side for side, other_side in pairs if None not in (side, other_side))
