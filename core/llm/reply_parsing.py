"""Reads the replies of models: JSON, also damaged, and words for choices, yes and no, passage ids and lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from core.llm.reasoning import remove_reasoning, remove_tags

_TRUE_WORDS = frozenset("true yes y ok sure 1 keep relevant useful 是 是的 对 有 真 需要 相关 保留".split())  # noqa: SIM905
_FALSE_WORDS = frozenset("false no n 0 drop irrelevant unrelated 否 不 不是 没有 无 假 不需要 无关 不相关 删除".split())  # noqa: SIM905
_ALL = re.compile(r"(?i)\b(all|every|everything|each|both)\b|全部|所有|都")
_NONE = re.compile(
    r"(?i)\b(none|nothing|empty|neither|no (?:relevant )?passages?|null)\b|没有|都不|均不|无相关|^\W*无\W*$"
)
# A clause that denies something may deny the choice that it names.
_NEGATION = re.compile(
    r"(?i)\b(?:no|not|never|without|cannot|needn't|unnecessary)\b|n't\b|无需|不需|不用|不必|不要|无法|不能|没有"
)
_IRRELEVANT = re.compile(
    r"(?i)\b(?:not|no|n't|irrelevant|unrelated|drop|ignore|discard|exclude)\b|n't|无关|不相关|不|排除"
)
_CLAUSE = re.compile(r"(?i)[.;；。\n]|\bbut\b|\bwhile\b|\bwhereas\b|但是?|，|, ")
_ID = re.compile(
    r"(?i)(?<![a-z\d.])(?:passages?\s{0,9}|第|\[)?\s{0,9}p?\s?(\d{1,3})(?:\s{0,9}(?:-|–|to|到|至)\s{0,9}p?\s?(\d{1,3}))?(?![\d%])"
)
_ITEM = re.compile(
    r"^\s*(?:[-*+•·>]+|[(（]?\d{1,2}[.)）、:：]|[a-h][.)]|第[一二三四五六七八]个?[、:：]?|Q\d{1,2}[.:：)]?)\s*(.+)$",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?i)^\W*+(?:sub[\s_-]*+)?(?:questions?|quer(?:y|ies)|step|search|子问题|问题|步骤|查询)\s*+(?:\d{1,2}\s*+)?[:：]\s*"
)
MAX_CHARS = 4_000
MAX_VALUES = 20
_BRACKETS = re.compile(r"[{\[｛［]")
# json-repair takes most of a second for thousands of brackets within each other. No decision has so many.
MAX_REPAIRED_BRACKETS = 60
# What stands for the punctuation of JSON where a keyboard is Chinese.
_TO_ASCII = str.maketrans("｛｝［］：，“”＂", '{}[]:,"""')
# Of chat templates, and what a model writes that half remembers one; a pattern to build others with.
TEMPLATE_MARK = r"<\|[^|<>\n]{0,40}\|>|<\|\w{1,40}>|<｜[^｜<>\n]{0,40}｜>|</?s>"
_SPECIAL_TOKEN = re.compile(rf"{TEMPLATE_MARK}|</?(?:tool_call|function_call|output|response|json)>")


def normalize_key(key: str) -> str:
    """Return a key for comparison: only its letters and digits, lower-case."""
    return re.sub(r"[\W_]+", "", key.lower())


def clean_line(text: str) -> str:
    """Return a text as one line without quotes or mark-up around it; empty for a placeholder."""
    line = " ".join(text.split()).strip(" \"'`“”‘’「」『』*_,，;；")
    line = re.sub(r"^<([^<>]*)>$", "", line)
    return (
        ""
        if re.fullmatch(r"[\W_]*|(?i:null|none|n/?a|string|query|your query(?: here)?|empty|undefined|无)", line)
        else line
    )


def match_choice(text: str, choices: Mapping[str, tuple[str, ...]]) -> str:
    """Return the choice that a text names, by name or synonym; an empty string for none or several.

    In a clause with a negation no choice counts, nor does the choice `none` in a sentence, where the word has too many
    meanings.
    """
    normalized = re.sub(r"[_\s]+", " ", text).strip().strip("\"'`*.。!！[]【】()（）<>").strip().lower()
    words = {word.lower().replace("_", " "): name for name, aliases in choices.items() for word in (name, *aliases)}
    if normalized in words:
        return words[normalized]
    clauses = [clause for clause in _CLAUSE.split(normalized) if not _NEGATION.search(clause)]
    is_short = len(normalized.split()) <= 3 and len(normalized) < 40
    mentions = [
        (_has_word(word, clause, at_start=True) and normalized.startswith(clause), name)
        for word, name in words.items()
        for clause in clauses
        if (name != "none" or is_short) and _has_word(word, clause)
    ]
    names = {name for _, name in mentions}
    if len(names) > 1 and not re.match(r"[\w ]{1,20}\s*(?:[|/]|\bor\b|或)", normalized):
        # "search: the answer is missing": the first word counts.
        names = {name for is_first, name in mentions if is_first}
    return names.pop() if len(names) == 1 else ""


def _has_word(word: str, text: str, *, at_start: bool = False) -> bool:
    """Return whether a text has, or begins with, a word or a longer form of it."""
    if not word.isascii():
        return text.startswith(word) if at_start else word in text
    start = "" if at_start else r"(?<![a-z\d])"
    end = r"(?![a-z\d])" if len(word) < 6 else ""
    pattern = re.compile(f"{start}{re.escape(word)}{end}")
    return bool(pattern.match(text) if at_start else pattern.search(text))


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
            for item in _strip_item(longest_text(element) if isinstance(element, Mapping) else str(element))
        ]
    text = str(value or "")
    lines = [line for line in re.split(r"\n|(?<=[?？])\s*(?=\S)|[;；]", text) if line.strip() and "```" not in line]
    numbered_items = [match[1] for line in lines if (match := _ITEM.match(line))]
    # Without numbering only questions count: the other lines are prose around them.
    item_lines = numbered_items or [line for line in lines if line.rstrip(" \"'*”").endswith(("?", "？"))]
    return [item for line in item_lines or (lines if len(lines) == 1 else []) for item in _strip_item(line)]


def longest_text(value: object) -> str:
    """Return the longest text among the values of an object: {"id": 1, "question": "..."}; "" where there is none."""
    texts = [text for text in value.values() if isinstance(text, str)] if isinstance(value, Mapping) else []
    return max(texts, key=len, default="")


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
    return positions


def strip_reasoning(reply: str) -> str:
    """Return a reply without reasoning, special tokens and invisible characters, and of bounded length.

    >>> strip_reasoning("<think>Hm, two steps.<" "/think>Run it.")
    'Run it.'
    """
    text = reply.replace("\ufeff", "").replace("\u200b", "").replace("\r\n", "\n")
    # The decision is at the beginning or at the end of a very long text.
    if len(text) > MAX_CHARS:
        text = f"{text[: MAX_CHARS // 2]}\n{text[-MAX_CHARS // 2 :]}"
    # Only reasoning, probably cut off: it may still contain the decision.
    decision = remove_reasoning(text).strip() or remove_tags(text)
    return _SPECIAL_TOKEN.sub("", decision).strip()


def extract_json(text: str) -> Iterator[object]:
    """Yield every JSON object or array of a text, in order; from the first damaged one on, json-repair reads the rest.

    Never raises.

    >>> next(extract_json("Sure: {'action': 'answer', 'reason': 'known',}"))
    {'action': 'answer', 'reason': 'known'}
    """
    decoder = json.JSONDecoder(strict=False)
    position = 0
    for _ in range(MAX_VALUES):
        bracket = _BRACKETS.search(text, position)
        if bracket is None:
            return
        try:
            value, position = decoder.raw_decode(text, bracket.start())
        except (ValueError, RecursionError):
            yield from _repair(text[bracket.start() :])
            return
        if value not in ({}, []):
            yield value


def _repair(text: str) -> Sequence[object]:
    """Return the objects and arrays of a text that begins with a damaged one."""
    from json_repair import loads

    if len(_BRACKETS.findall(text)) > MAX_REPAIRED_BRACKETS:
        return []
    try:
        value = loads(text.translate(_TO_ASCII) if text[0] in "｛［" else text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return []
    # Several values come as a list, too.
    values = value if isinstance(value, list) and text[0] in "{｛" else [value]
    return [item for item in values if isinstance(item, Mapping | list) and item]
