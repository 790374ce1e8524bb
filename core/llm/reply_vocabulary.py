"""What single words mean in the replies of models: choices, yes and no, ordinals, passage ids, list items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_YES = frozenset("true yes y ok sure 1 keep relevant useful 是 是的 对 有 真 需要 相关 保留".split())  # noqa: SIM905
_NO = frozenset("false no n 0 drop irrelevant unrelated 否 不 不是 没有 无 假 不需要 无关 不相关 删除".split())  # noqa: SIM905
_ALL = re.compile(r"(?i)\b(all|every|everything|each|both)\b|全部|所有|都")
_NOTHING = re.compile(
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


def squeezed(key: str) -> str:
    """Return a key as it is compared: letters and digits alone, lower-case."""
    return re.sub(r"[\W_]+", "", key.lower())


def plain(text: str) -> str:
    """Return a text as one line without quotes or mark-up around it; empty for a placeholder."""
    line = " ".join(text.split()).strip(" \"'`“”‘’「」『』*_,，;；")
    line = re.sub(r"^<([^<>]*)>$", "", line)
    return "" if re.fullmatch(r"[\W_]*|(?i:null|none|n/?a|string|query|your query|empty|undefined|无)", line) else line


def chosen(text: str, choices: Mapping[str, tuple[str, ...]]) -> str:
    """Return the choice that a text names, by name, another word or its number; empty when it names none or several.

    What is negated is not named. In a sentence the choice `none` is not looked for: the word says too many things.
    """
    said = re.sub(r"[_\s]+", " ", text).strip().strip("\"'`*.。!！[]【】()（）<>").strip().lower()
    words = {word.lower().replace("_", " "): name for name, others in choices.items() for word in (name, *others)}
    if said in words:
        return words[said]
    ordinal = _ORDINAL.match(said)
    if ordinal and _stands_alone(ordinal, said):
        position = _POSITIONS.get(ordinal[1], len(choices))
        return list(choices)[position] if position < len(choices) else ""
    short = len(said.split()) <= 3 and len(said) < 40
    known = [word for word in words if words[word] != "none" or short]
    mentions = [(found.start(), words[word]) for word in known for found in _mentions(word, said)]
    names = {name for _, name in mentions}
    if len(names) > 1 and not re.match(r"[\w ]{1,20}\s*(?:[|/]|\bor\b|或)", said):
        # "search: the answer is missing": what it begins with is meant.
        names = {name for start, name in mentions if start == 0}
    return names.pop() if len(names) == 1 else ""


def _stands_alone(ordinal: re.Match[str], said: str) -> bool:
    """Tell `2.` and `the second option` from `2 searches` and `a direct search`."""
    if ordinal.end() == len(said) or said[ordinal.end() - 1] in ").:、）。：":
        return True
    return ordinal[1].endswith(("st", "nd", "rd", "th")) and len(said.split()) <= 3


def _mentions(word: str, text: str) -> Iterable[re.Match[str]]:
    edge = r"(?<![a-z\d])", r"(?![a-z\d])" if len(word) < 6 else r""
    pattern = f"{edge[0]}{re.escape(word)}{edge[1]}" if word.isascii() else re.escape(word)
    for match in re.finditer(pattern, text):
        before, after = text[max(0, match.start() - 40) : match.start()], text[match.end() : match.end() + 24]
        if not _NEGATED_BEFORE.search(before) and not _NEGATED_AFTER.match(after):
            yield match


def flag_of(value: object) -> bool | None:
    """Return what a value says as yes or no, or None when it is neither."""
    if isinstance(value, bool):
        return value
    word = str(value).strip(" .。!！\"'").lower()
    return True if word in _YES else False if word in _NO else None


def items_of(value: object) -> list[str]:
    """Return the items of a list, however it is written: an array, objects, numbered lines, text with semicolons."""
    if isinstance(value, Mapping):
        return [item for one in value.values() for item in items_of(one)]
    if isinstance(value, list | tuple):
        return [item for one in value for item in (_longest(one) if isinstance(one, Mapping) else _stripped(str(one)))]
    text = str(value or "")
    lines = [line for line in re.split(r"\n|(?<=[?？])\s*(?=\S)|[;；]", text) if line.strip() and "```" not in line]
    numbered = [match[1] for line in lines if (match := _ITEM.match(line))]
    # Without numbering only questions count: the rest is talk around them.
    asked = numbered or [line for line in lines if line.rstrip(" \"'*”").endswith(("?", "？"))]
    return [item for line in asked or (lines if len(lines) == 1 else []) for item in _stripped(line)]


def _longest(item: Mapping[object, object]) -> list[str]:
    """Return the text of an item that is an object: {"id": 1, "question": "..."}."""
    texts = [text for one in item.values() if isinstance(one, str) for text in _stripped(one)]
    return [max(texts, key=len)] if texts else []


def _stripped(line: str) -> list[str]:
    match = _ITEM.match(line)
    text = _LABEL.sub("", match[1] if match else line).strip()
    return [text] if text else []


def ids_of(value: object, count: int) -> tuple[int, ...] | None:
    """Return positions (from 0) of the passages that a value names; None when it says nothing about passages."""
    if isinstance(value, Mapping):
        value = [str(key) for key, said in value.items() if flag_of(said) is not False]
    if isinstance(value, list | tuple):
        if not value:
            return ()
        found = [position for item in value for position in ids_of(_identifier(item), count) or ()]
        return tuple(dict.fromkeys(found)) if found or any(_NOTHING.search(str(one)) for one in value) else None
    text = str(value if value is not None else "none")
    clauses = [clause for clause in _CLAUSE.split(text) if not _IRRELEVANT.search(clause)]
    positions = [position for clause in clauses for position in _positions(clause) if 0 <= position < count]
    if positions:
        return tuple(dict.fromkeys(positions))
    if _NOTHING.search(text):
        return ()
    return tuple(range(count)) if any(_ALL.search(clause) for clause in clauses) else None


def _identifier(item: object) -> object:
    """Return the id inside an object such as {"id": "p1", "reason": "..."}."""
    if not isinstance(item, Mapping):
        return item
    if any(flag_of(said) is False for said in item.values()):
        return "-"
    return next((str(said) for said in item.values() if _ID.search(str(said))), "-")


def _positions(clause: str) -> list[int]:
    found: list[int] = []
    for low, high in _ID.findall(clause):
        found += range(int(low) - 1, min(int(high or low), int(low) + 99))
    words = re.findall(r"(?i)\b(first|second|third|fourth|fifth|sixth)\b|第([一二三四五六])", clause)
    return found + [_POSITIONS[(one or other).lower()] for one, other in words]
