"""A parser for the JSON of small models: it accepts objects with any kind of damage and never raises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

MAX_CHARS = 4_000
MAX_DEPTH = 12
MAX_OBJECTS = 20

# Opening quotes with the quotes that may close them; models mix the kinds.
_QUOTES = {'"': '"”＂', "'": "'’", "“": '”"', "‘": "’'", "＂": '＂"', "「": "」", "『": "』", "`": "`"}
_OPENING_BRACKETS, _CLOSING_BRACKETS = "{｛[［", "}｝]］"
_COMMAS, _COLONS = ",，;；", ":：="
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|(?<=\s)#[^\n]*", re.DOTALL)
_SPACE = re.compile(r"\s+")
_KEY = re.compile(r"\s*(?:[\"'“‘＂「`][^\n\"'”’＂」`]{1,40}[\"'”’＂」`]|[\w-]{1,40})\s*[:：]")
_REASONING_END = re.compile(r"<\s*/\s*(?:think|thinking|thought|reasoning|reflection)\s*>", re.IGNORECASE)
_REASONING_START = re.compile(r"<\s*(?:think|thinking|thought|reasoning|reflection)\s*>", re.IGNORECASE)
_SPECIAL_TOKEN = re.compile(
    r"<\|[^|<>\n]{0,40}\|>|<｜[^｜<>\n]{0,40}｜>|</?(?:s|tool_call|function_call|output|response|json)>"
)
_LITERALS: dict[str, object] = {"true": True, "false": False, "null": None, "none": None, "undefined": None}


def strip_reasoning(reply: str) -> str:
    """Return a reply without reasoning, special tokens and invisible characters, and of bounded length.

    >>> strip_reasoning("<think>Hm, two steps.</think>Run it.")
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
    position = count = 0
    while count < MAX_OBJECTS:
        starts = [index for index in (text.find(bracket, position) for bracket in _OPENING_BRACKETS) if index >= 0]
        if not starts:
            return
        position = min(starts)
        value, end = _parse_strict(text, position)
        if end < 0:
            parser = _LenientParser(text, position)
            value, end = parser.parse_next(0), parser.position
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
        """Say whether a comma belongs to an unquoted value: no key follows it."""
        return (
            not is_key
            and character in _COMMAS
            and not _KEY.match(self.text, self.position + 1)
            and self._is_in_object()
        )

    def _is_in_object(self) -> bool:
        before = self.text[: self.position]
        return max(before.rfind("{"), before.rfind("｛")) > max(before.rfind("["), before.rfind("［"))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    escapes = {"n": "\n", "t": "\t", "r": " ", "/": "/", '"': '"', "'": "'", "\\": "\\"}
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[0]), text, flags=re.DOTALL)
