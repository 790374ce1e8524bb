"""The meaning of words in the replies of models: choices, yes and no, ordinals, passage ids, list items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_TRUE_WORDS = frozenset("true yes y ok sure 1 keep relevant useful 是 是的 对 有 真 需要 相关 保留".split())  # noqa: SIM905
_FALSE_WORDS = frozenset("false no n 0 drop irrelevant unrelated 否 不 不是 没有 无 假 不需要 无关 不相关 删除".split())  # noqa: SIM905
_ALL = re.compile(r"(?i)\b(all|every|everything|each|both)\b|全部|所有|都")
_NONE = re.compile(
    r"(?i)\b(none|nothing|empty|neither|no (?:relevant )?passages?|null)\b|没有|都不|均不|无相关|^\W*无\W*$"
)
_ORDINALS = (
    ("1", "first", "one", "一", "①", "a"),
    ("2", "second", "two", "二", "②", "b"),
    ("3", "third", "three", "三", "③", "c"),
    ("4", "fourth", "four", "四", "④", "d"),
    ("5", "fifth", "five", "五", "⑤", "e"),
    ("6", "sixth", "six", "六", "⑥", "f"),
)
_POSITIONS = {word: position for position, words in enumerate(_ORDINALS) for word in words}
_ORDINAL = re.compile(
    r"(?i)^\W*(?:the\s+|option\s*|choice\s*|number\s*|no\.?\s*|第|选项?\s*)?[(（#]?\s*"
    r"(\d|first|second|third|fourth|fifth|sixth|one|two|three|four|five|six|[一二三四五六①-⑥]|[a-f])"
    r"\s*[)）.。:：、]?\s*(?:one|option|choice|个|种|项)?(?=\W|$)"
)
_NEGATED_BEFORE = re.compile(
    r"(?i)(?:\b(?:no|not|never|without|cannot|can't|isn't|insufficient|needn't|unnecessary)\b|n't\b|无需|不需|不用|不必|不要|无法|不能|没有|不)"
    r"[^.。;；,，\n]{0,24}$"
)
_NEGATED_AFTER = re.compile(
    r"(?i)^\w*\W+(?:is|are|was|would be)?\s*(?:not\b|n't|unnecessary|unneeded|needless)|^\w*n't"
)
_IRRELEVANT = re.compile(
    r"(?i)\b(?:not|no|n't|irrelevant|unrelated|drop|ignore|discard|exclude)\b|n't|无关|不相关|不|排除"
)
_CLAUSE = re.compile(r"(?i)[.;；。\n]|\bbut\b|\bwhile\b|\bwhereas\b|但是?|，|, ")
_ID = re.compile(
    r"(?i)(?<![a-z\d.])(?:passages?\s*|第|\[)?\s*p?\s?(\d{1,3})(?:\s*(?:-|–|to|到|至)\s*p?\s?(\d{1,3}))?(?![\d%])"
)
_ITEM = re.compile(
    r"^\s*(?:[-*+•·>]+|[(（]?\d{1,2}[.)）、:：]|[a-h][.)]|第[一二三四五六七八]个?[、:：]?|Q\d{1,2}[.:：)]?)\s*(.+)$",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?i)^\W*(?:sub[\s_-]*)?(?:questions?|quer(?:y|ies)|step|search|子问题|问题|步骤|查询)\s*\d{0,2}\s*[:：]\s*"
)


def normalize_key(key: str) -> str:
    """Return a key for comparison: only its letters and digits, lower-case."""
    return re.sub(r"[\W_]+", "", key.lower())


def clean_line(text: str) -> str:
    """Return a text as one line without quotes or mark-up around it; empty for a placeholder."""
    line = " ".join(text.split()).strip(" \"'`“”‘’「」『』*_,，;；")
    line = re.sub(r"^<([^<>]*)>$", "", line)
    return "" if re.fullmatch(r"[\W_]*|(?i:null|none|n/?a|string|query|your query|empty|undefined|无)", line) else line


def match_choice(text: str, choices: Mapping[str, tuple[str, ...]]) -> str:
    """Return the choice that a text names, by name, synonym or number; an empty string for none or several.

    A negated choice does not count, nor does the choice `none` in a sentence, where the word has too many meanings.
    """
    normalized = re.sub(r"[_\s]+", " ", text).strip().strip("\"'`*.。!！[]【】()（）<>").strip().lower()
    words = {word.lower().replace("_", " "): name for name, aliases in choices.items() for word in (name, *aliases)}
    if normalized in words:
        return words[normalized]
    ordinal = _ORDINAL.match(normalized)
    if ordinal and _is_standalone_ordinal(ordinal, normalized):
        position = _POSITIONS.get(ordinal[1], len(choices))
        return list(choices)[position] if position < len(choices) else ""
    is_short = len(normalized.split()) <= 3 and len(normalized) < 40
    candidates = [word for word in words if words[word] != "none" or is_short]
    mentions = [(mention.start(), words[word]) for word in candidates for mention in _find_mentions(word, normalized)]
    names = {name for _, name in mentions}
    if len(names) > 1 and not re.match(r"[\w ]{1,20}\s*(?:[|/]|\bor\b|或)", normalized):
        # "search: the answer is missing": the first word counts.
        names = {name for start, name in mentions if start == 0}
    return names.pop() if len(names) == 1 else ""


def _is_standalone_ordinal(ordinal: re.Match[str], text: str) -> bool:
    """Tell `2.` and `the second option` from `2 searches` and `a direct search`."""
    if ordinal.end() == len(text) or text[ordinal.end() - 1] in ").:、）。：":
        return True
    return ordinal[1].endswith(("st", "nd", "rd", "th")) and len(text.split()) <= 3


def _find_mentions(word: str, text: str) -> Iterable[re.Match[str]]:
    boundaries = r"(?<![a-z\d])", r"(?![a-z\d])" if len(word) < 6 else r""
    pattern = f"{boundaries[0]}{re.escape(word)}{boundaries[1]}" if word.isascii() else re.escape(word)
    for match in re.finditer(pattern, text):
        before, after = text[max(0, match.start() - 40) : match.start()], text[match.end() : match.end() + 24]
        if not _NEGATED_BEFORE.search(before) and not _NEGATED_AFTER.match(after):
            yield match


def parse_bool(value: object) -> bool | None:
    """Return a value as a boolean, or None when it is neither yes nor no."""
    if isinstance(value, bool):
        return value
    word = str(value).strip(" .。!！\"'").lower()
    return True if word in _TRUE_WORDS else False if word in _FALSE_WORDS else None


def parse_list(value: object) -> list[str]:
    """Return the items of a list in any form: an array, objects, numbered lines, text with semicolons."""
    if isinstance(value, Mapping):
        return [item for element in value.values() for item in parse_list(element)]
    if isinstance(value, list | tuple):
        return [
            item
            for element in value
            for item in (_longest_text(element) if isinstance(element, Mapping) else _strip_item(str(element)))
        ]
    text = str(value or "")
    lines = [line for line in re.split(r"\n|(?<=[?？])\s*(?=\S)|[;；]", text) if line.strip() and "```" not in line]
    numbered_items = [match[1] for line in lines if (match := _ITEM.match(line))]
    # Without numbering only questions count: the other lines are prose around them.
    item_lines = numbered_items or [line for line in lines if line.rstrip(" \"'*”").endswith(("?", "？"))]
    return [item for line in item_lines or (lines if len(lines) == 1 else []) for item in _strip_item(line)]


def _longest_text(item: Mapping[object, object]) -> list[str]:
    """Return the text of an item that is an object: {"id": 1, "question": "..."}."""
    texts = [text for value in item.values() if isinstance(value, str) for text in _strip_item(value)]
    return [max(texts, key=len)] if texts else []


def _strip_item(line: str) -> list[str]:
    match = _ITEM.match(line)
    text = _LABEL.sub("", match[1] if match else line).strip()
    return [text] if text else []


def parse_ids(value: object, count: int) -> tuple[int, ...] | None:
    """Return positions (from 0) of the passages that a value names; None when it says nothing about passages."""
    if isinstance(value, Mapping):
        value = [str(key) for key, verdict in value.items() if parse_bool(verdict) is not False]
    if isinstance(value, list | tuple):
        if not value:
            return ()
        listed_positions = [position for item in value for position in parse_ids(_find_identifier(item), count) or ()]
        return (
            tuple(dict.fromkeys(listed_positions))
            if listed_positions or any(_NONE.search(str(item)) for item in value)
            else None
        )
    text = str(value if value is not None else "none")
    clauses = [clause for clause in _CLAUSE.split(text) if not _IRRELEVANT.search(clause)]
    positions = [position for clause in clauses for position in _parse_positions(clause) if 0 <= position < count]
    if positions:
        return tuple(dict.fromkeys(positions))
    if _NONE.search(text):
        return ()
    return tuple(range(count)) if any(_ALL.search(clause) for clause in clauses) else None


def _find_identifier(item: object) -> object:
    """Return the id inside an object such as {"id": "p1", "reason": "..."}."""
    if not isinstance(item, Mapping):
        return item
    if any(parse_bool(value) is False for value in item.values()):
        return "-"
    return next((str(value) for value in item.values() if _ID.search(str(value))), "-")


def _parse_positions(clause: str) -> list[int]:
    positions: list[int] = []
    for low, high in _ID.findall(clause):
        positions += range(int(low) - 1, min(int(high or low), int(low) + 99))
    words = re.findall(r"(?i)\b(first|second|third|fourth|fifth|sixth)\b|第([一二三四五六])", clause)
    return positions + [_POSITIONS[(english or chinese).lower()] for english, chinese in words]
