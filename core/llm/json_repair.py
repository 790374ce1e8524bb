"""Reading what small models write when they were asked for JSON: objects with any kind of damage, and no exceptions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

MAX_CHARS = 4_000
MAX_DEPTH = 12
MAX_OBJECTS = 20

# Opening quotes with what closes them; models mix the kinds.
_QUOTES = {'"': '"”＂', "'": "'’", "“": '”"', "‘": "’'", "＂": '＂"', "「": "」", "『": "』", "`": "`"}
_OPEN, _CLOSE = "{｛[［", "}｝]］"
_COMMA, _COLON = ",，;；", ":：="
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|(?<=\s)#[^\n]*", re.DOTALL)
_SPACE = re.compile(r"[\s\u3000]+")
_KEY = re.compile(
    r"[\s\u3000]*(?:[\"'“‘＂「`][^\n\"'”’＂」`]{1,40}[\"'”’＂」`]|[\w\u3400-\u9fff-]{1,40})[\s\u3000]*[:：]"
)
_THOUGHT_END = re.compile(r"<\s*/\s*(?:think|thinking|thought|reasoning|reflection)\s*>", re.IGNORECASE)
_THOUGHT_START = re.compile(r"<\s*(?:think|thinking|thought|reasoning|reflection)\s*>", re.IGNORECASE)
_TOKEN = re.compile(
    r"<\|[^|<>\n]{0,40}\|>|<｜[^｜<>\n]{0,40}｜>|</?(?:s|tool_call|function_call|output|response|json)>"
)
_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "none": None, "undefined": None}


def cleaned(reply: str) -> str:
    """Return a reply without its thoughts, special tokens and invisible characters, and no longer than is sensible."""
    text = reply.replace("\ufeff", "").replace("\u200b", "").replace("\r\n", "\n")
    # What a decision is worth stands at the beginning or at the end of a very long text.
    if len(text) > MAX_CHARS:
        text = f"{text[: MAX_CHARS // 2]}\n{text[-MAX_CHARS // 2 :]}"
    return _TOKEN.sub("", _without_thoughts(text)).strip()


def _without_thoughts(text: str) -> str:
    ends = [match.end() for match in _THOUGHT_END.finditer(text)]
    start = _THOUGHT_START.search(text)
    if ends and text[ends[-1] :].strip():
        return text[ends[-1] :]
    if start and text[: start.start()].strip():
        return text[: start.start()]
    # Nothing but thoughts, most likely cut off: they may still say what was decided.
    return _THOUGHT_START.sub("\n", _THOUGHT_END.sub("\n", text))


def objects(text: str) -> Iterator[object]:
    """Yield every JSON object or array of a text, in order, however broken. Never raises.

    Accepts single, typographic and full-width quotes, quotes inside strings, unquoted keys and values, comments,
    missing or trailing commas, Python's words, and objects that break off.
    """
    position = found = 0
    while found < MAX_OBJECTS:
        starts = [at for at in (text.find(mark, position) for mark in _OPEN) if at >= 0]
        if not starts:
            return
        position = min(starts)
        value, end = _strict(text, position)
        if end < 0:
            reader = _Reader(text, position)
            value, end = reader.value(0), reader.position
        if value not in ({}, []):
            yield value
        found += 1
        position = max(end, position + 1)


def _strict(text: str, position: int) -> tuple[object, int]:
    """Return a value and where it ends, or -1 when the standard parser does not understand it."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, position)
    except (ValueError, RecursionError):
        return None, -1
    return value, end


class _Reader:
    """A recursive descent that always goes forward and takes what it can."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    def value(self, depth: int) -> object:
        self._skip()
        mark = self._here()
        if mark and mark in "{｛" and depth < MAX_DEPTH:
            return self._object(depth)
        if mark and mark in "[［" and depth < MAX_DEPTH:
            return self._array(depth)
        return self._string() if mark in _QUOTES else self._bare(_COMMA + "}｝]］")

    def _object(self, depth: int) -> dict[str, object]:
        self.position += 1
        found: dict[str, object] = {}
        while self._more():
            key = self._string() if self._here() in _QUOTES else self._bare(_COLON + _COMMA + "}｝\n", key=True)
            self._skip()
            if self._here() and self._here() in _COLON:
                self.position += 1
                if self._here() == ">":  # Ruby's and PHP's arrow
                    self.position += 1
                found.setdefault(str(key).strip(), self.value(depth + 1))
            elif not key:
                self.position += 1
        return found

    def _array(self, depth: int) -> list[object]:
        self.position += 1
        found: list[object] = []
        while self._more():
            before = self.position
            value = self.value(depth + 1)
            if value not in ("", None):
                found.append(value)
            if self.position == before:
                self.position += 1
        return found

    def _more(self) -> bool:
        """Go to the next item; false at the end of the object, the array or the text."""
        while True:
            self._skip()
            mark = self._here()
            if not mark:
                return False
            if mark in _CLOSE:
                self.position += 1
                return False
            if mark not in _COMMA:
                return True
            self.position += 1

    def _skip(self) -> None:
        while match := _SPACE.match(self.text, self.position) or _COMMENT.match(self.text, self.position):
            self.position = match.end()

    def _here(self) -> str:
        return self.text[self.position : self.position + 1]

    def _string(self) -> str:
        """Read to the closing quote: the first that something follows which may stand behind a string."""
        closing = _QUOTES[self._here()]
        self.position += 1
        begin = at = self.position
        while at < len(self.text):
            mark = self.text[at]
            if mark == "\\":
                at += 2
                continue
            if mark in closing and self._ends_string(at + 1):
                break
            at += 1
        self.position = at + 1
        return _unescaped(self.text[begin:at]).strip()

    def _ends_string(self, at: int) -> bool:
        match = _SPACE.match(self.text, at)
        after = match.end() if match else at
        mark = self.text[after : after + 1]
        if not mark or mark in _CLOSE + ":：" or self.text.startswith(("//", "/*", "=", "#"), after):
            return True
        if mark in _COMMA:
            # A comma ends a string only when an item follows it, and not when the sentence goes on.
            rest = self.text[after + 1 :].lstrip()
            return (
                not rest
                or rest[0] in _QUOTES
                or rest[0] in _OPEN + _CLOSE + "-/#"
                or rest[0].isdigit()
                or bool(_KEY.match(rest))
            )
        return "\n" in self.text[at:after] or bool(_KEY.match(self.text, at))

    def _bare(self, stops: str, *, key: bool = False) -> object:
        begin = self.position
        while mark := self._here():
            if mark == "\n" or (mark in stops and not self._continues(mark, key)):
                break
            self.position += 1
        word = self.text[begin : self.position].strip().strip("\"'”’")
        return word if key else _WORDS.get(word.lower(), word)

    def _continues(self, mark: str, key: bool) -> bool:
        """Say whether a comma belongs to an unquoted value: no key follows it."""
        return not key and mark in _COMMA and not _KEY.match(self.text, self.position + 1) and self._in_object()

    def _in_object(self) -> bool:
        before = self.text[: self.position]
        return max(before.rfind("{"), before.rfind("｛")) > max(before.rfind("["), before.rfind("［"))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = {"n": "\n", "t": "\t", "r": " ", "/": "/", '"': '"', "'": "'", "\\": "\\"}
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\(.)", lambda match: plain.get(match[1], match[0]), text, flags=re.DOTALL)
