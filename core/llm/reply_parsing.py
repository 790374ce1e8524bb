"""Reads the replies of models: JSON, however broken, and words for choices, yes and no, passage ids and lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

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
    r"(?i)^\W*+(?:the\s{1,9}|option\s{0,9}|choice\s{0,9}|number\s{0,9}|no\.?\s{0,9}|第|选项?\s{0,9})?[(（#]?\s{0,9}"
    r"(\d|first|second|third|fourth|fifth|sixth|one|two|three|four|five|six|[一二三四五六①-⑥]|[a-f])"
    r"\s{0,9}[)）.。:：、]?\s{0,9}(?:one|option|choice|个|种|项)?(?=\W|$)"
)
_NEGATED_BEFORE = re.compile(
    r"(?i)(?:\b(?:no|not|never|without|cannot|can't|isn't|insufficient|needn't|unnecessary)\b|n't\b|无需|不需|不用|不必|不要|无法|不能|没有|不)"
    r"[^.。;；,，\n]{0,24}$"
)
_NEGATED_AFTER = re.compile(
    r"(?i)^\w*+\W++(?:(?:is|are|was|would be)\s*+)?(?:not\b|n't|unnecessary|unneeded|needless)|^\w*n't"
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
MAX_DEPTH = 12
MAX_OBJECTS = 20
# Opening quotes with the quotes that may close them; models mix the kinds.
_QUOTES = {'"': '"”＂', "'": "'’", "“": '”"', "‘": "’'", "＂": '＂"', "「": "」", "『": "』", "`": "`"}
_OPENING_BRACKETS = "{｛[［"
_CLOSING_BRACKETS = "}｝]］"
_COMMAS = ",，;；"
_COLONS = ":：="
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|(?<=\s)#[^\n]*", re.DOTALL)
_SPACE = re.compile(r"\s+")
_KEY = re.compile(r"\s*(?:[\"'“‘＂「`][^\n\"'”’＂」`]{1,40}[\"'”’＂」`]|[\w-]{1,40})\s*[:：]")
_REASONING_END = re.compile(r"<\s*/\s*(?:think|thinking|thought|reasoning|reflection)\s*>", re.IGNORECASE)
_REASONING_START = re.compile(r"<\s*(?:think|thinking|thought|reasoning|reflection)\s*>", re.IGNORECASE)
_SPECIAL_TOKEN = re.compile(
    r"<\|[^|<>\n]{0,40}\|>|<｜[^｜<>\n]{0,40}｜>|</?(?:s|tool_call|function_call|output|response|json)>"
)
_LITERALS: dict[str, object] = {"true": True, "false": False, "null": None, "none": None, "undefined": None}


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
        text_before = text[max(0, match.start() - 40) : match.start()]
        text_after = text[match.end() : match.end() + 24]
        if not _NEGATED_BEFORE.search(text_before) and not _NEGATED_AFTER.match(text_after):
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


def strip_reasoning(reply: str) -> str:
    """Return a reply without reasoning, special tokens and invisible characters, and of bounded length.

    >>> strip_reasoning("<think>Hm, two steps.<" "/think>Run it.")
    'Run it.'
    """
    text = reply.replace("\ufeff", "").replace("\u200b", "").replace("\r\n", "\n")
    # The decision is at the beginning or at the end of a very long text.
    if len(text) > MAX_CHARS:
        text = f"{text[: MAX_CHARS // 2]}\n{text[-MAX_CHARS // 2 :]}"
    return _SPECIAL_TOKEN.sub("", _remove_reasoning(text)).strip()


def _remove_reasoning(text: str) -> str:
    ends = [match.end() for match in _REASONING_END.finditer(text)]
    start = _REASONING_START.search(text)
    if ends and text[ends[-1] :].strip():
        return text[ends[-1] :]
    if start and text[: start.start()].strip():
        return text[: start.start()]
    # Only reasoning, probably cut off: it may still contain the decision.
    return _REASONING_START.sub("\n", _REASONING_END.sub("\n", text))


def extract_json(text: str) -> Iterator[object]:
    """Yield every JSON object or array of a text, in order, however broken. Never raises.

    Accepts single, typographic and full-width quotes, quotes inside strings, unquoted keys and values, comments,
    missing or trailing commas, Python's words, and objects that break off.

    >>> next(extract_json("Sure: {'action': 'answer', 'reason': 'known',}"))
    {'action': 'answer', 'reason': 'known'}
    """
    position = 0
    count = 0
    while count < MAX_OBJECTS:
        starts = [index for index in (text.find(bracket, position) for bracket in _OPENING_BRACKETS) if index >= 0]
        if not starts:
            return
        position = min(starts)
        value, end = _parse_strict(text, position)
        if end < 0:
            parser = _LenientParser(text, position)
            value = parser.parse_next(0)
            end = parser.position
        if value not in ({}, []):
            yield value
        count += 1
        position = max(end, position + 1)


def _parse_strict(text: str, position: int) -> tuple[object, int]:
    """Return a value and its end, or -1 when the standard parser does not accept it."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, position)
    except (ValueError, RecursionError):
        return None, -1
    return value, end


class _LenientParser:
    """A recursive descent parser that always goes forward and accepts what it can."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    def parse_next(self, depth: int) -> object:
        self._skip_blanks()
        character = self._peek()
        if character and character in "{｛" and depth < MAX_DEPTH:
            return self._parse_object(depth)
        if character and character in "[［" and depth < MAX_DEPTH:
            return self._parse_array(depth)
        return self._parse_string() if character in _QUOTES else self._parse_unquoted(_COMMAS + "}｝]］")

    def _parse_object(self, depth: int) -> dict[str, object]:
        self.position += 1
        result: dict[str, object] = {}
        while self._advance_to_item():
            key = (
                self._parse_string()
                if self._peek() in _QUOTES
                else self._parse_unquoted(_COLONS + _COMMAS + "}｝\n", is_key=True)
            )
            self._skip_blanks()
            if self._peek() and self._peek() in _COLONS:
                self.position += 1
                if self._peek() == ">":  # Ruby's and PHP's arrow
                    self.position += 1
                result.setdefault(str(key).strip(), self.parse_next(depth + 1))
            elif not key:
                self.position += 1
        return result

    def _parse_array(self, depth: int) -> list[object]:
        self.position += 1
        items: list[object] = []
        while self._advance_to_item():
            start = self.position
            value = self.parse_next(depth + 1)
            if value not in ("", None):
                items.append(value)
            if self.position == start:
                self.position += 1
        return items

    def _advance_to_item(self) -> bool:
        """Go to the next item; false at the end of the object, the array or the text."""
        while True:
            self._skip_blanks()
            character = self._peek()
            if not character:
                return False
            if character in _CLOSING_BRACKETS:
                self.position += 1
                return False
            if character not in _COMMAS:
                return True
            self.position += 1

    def _skip_blanks(self) -> None:
        while match := _SPACE.match(self.text, self.position) or _COMMENT.match(self.text, self.position):
            self.position = match.end()

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _parse_string(self) -> str:
        """Read to the closing quote: the first one before text that may follow a string."""
        closing_quotes = _QUOTES[self._peek()]
        self.position += 1
        start = index = self.position
        while index < len(self.text):
            character = self.text[index]
            if character == "\\":
                index += 2
                continue
            if character in closing_quotes and self._ends_string(index + 1):
                break
            index += 1
        self.position = index + 1
        return _unescape(self.text[start:index]).strip()

    def _ends_string(self, index: int) -> bool:
        match = _SPACE.match(self.text, index)
        next_index = match.end() if match else index
        character = self.text[next_index : next_index + 1]
        if (
            not character
            or character in _CLOSING_BRACKETS + ":："
            or self.text.startswith(("//", "/*", "=", "#"), next_index)
        ):
            return True
        if character in _COMMAS:
            # A comma ends a string only when an item follows, not when the sentence continues.
            rest = self.text[next_index + 1 :].lstrip()
            return (
                not rest
                or rest[0] in _QUOTES
                or rest[0] in _OPENING_BRACKETS + _CLOSING_BRACKETS + "-/#"
                or rest[0].isdigit()
                or bool(_KEY.match(rest))
            )
        return "\n" in self.text[index:next_index] or bool(_KEY.match(self.text, index))

    def _parse_unquoted(self, stop_characters: str, *, is_key: bool = False) -> object:
        start = self.position
        while character := self._peek():
            if character == "\n" or (character in stop_characters and not self._continues_value(character, is_key)):
                break
            self.position += 1
        word = self.text[start : self.position].strip().strip("\"'”’")
        return word if is_key else _LITERALS.get(word.lower(), word)

    def _continues_value(self, character: str, is_key: bool) -> bool:
        """Return whether a comma belongs to an unquoted value: no key follows it."""
        return (
            not is_key
            and character in _COMMAS
            and not _KEY.match(self.text, self.position + 1)
            and self._is_in_object()
        )

    def _is_in_object(self) -> bool:
        prefix = self.text[: self.position]
        return max(prefix.rfind("{"), prefix.rfind("｛")) > max(prefix.rfind("["), prefix.rfind("［"))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    escapes = {"n": "\n", "t": "\t", "r": " ", "/": "/", '"': '"', "'": "'", "\\": "\\"}
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[0]), text, flags=re.DOTALL)
