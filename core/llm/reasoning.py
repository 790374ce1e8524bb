"""Removes the reasoning that some models write into their replies, from whole texts and from streams.

Known forms: `<think>` and its synonyms, `[THINK]`, `◁think▷`, begin and end tokens of a thought, and Harmony's
channels, of which only the final one is for people. A closing tag without an opening one ends a block that the chat
template began: all before it is reasoning. A block that is never closed hides the rest. Tags within code are text.
"""

from __future__ import annotations

import re

# In a stream, this takes back all that came before it in the reply.
TAKE_BACK = "\x00"
_TOKEN = re.compile(
    r"<[ \t]{0,2}(?P<open>(?:seed:)?(?:think|thinking|thought|reasoning|reflection))[ \t]{0,2}>"
    r"|<[ \t]{0,2}/[ \t]{0,2}(?P<close>(?:seed:)?(?:think|thinking|thought|reasoning|reflection))[ \t]{0,2}>"
    r"|(?P<open_mark>\[THINK\]|◁think▷|<\|begin_of_thought\|>)"
    r"|(?P<close_mark>\[/THINK\]|◁/think▷|<\|end_of_thought\|>)"
    r"|<\|(?P<channel>start|channel|message|end|return|call)\|>"
    r"|(?P<newline>\n)|(?P<ticks>`+)",
    re.IGNORECASE,
)
_SPECIAL = re.compile(r"[<\[◁`\n\x00]")
_TAG_OPENING = re.compile(r"[<\[◁][^<\[◁>\]▷\n]{0,24}\Z")
# What some servers leave of Harmony when they drop its tokens: `analysisThe user ... assistantfinalThe answer`.
_BARE_ANALYSIS = "analysis"
_BARE_FINAL = "assistantfinal"
_BARE_START = re.compile(rf"{_BARE_ANALYSIS}[^\Wa-z_]")
_MARK = "mark"
_MAX_TAG_CHARS = 26
_MAX_HEADER_CHARS = 100


class ReasoningFilter:
    """Takes a reply piece by piece and returns what people may see of it, however it is split.

    With `starts_inside` the reply begins within a block whose opening tag was not sent. `is_inside` says that a block
    is open, `has_stray_end` that one ended that had not been opened.
    """

    def __init__(self, *, starts_inside: bool = False) -> None:
        self.has_stray_end = False
        # The name of the tag that ends the open block.
        self._block = "think" if starts_inside else ""
        self._is_any_end = starts_inside
        self._channel: str | None = None
        self._pending = ""
        self._has_begun = starts_inside
        self._trims_blanks = starts_inside
        self._is_line_blank = True
        self._is_in_fence = False
        self._code_ticks = 0

    @property
    def is_inside(self) -> bool:
        """Return whether what comes next is hidden."""
        return bool(self._block) or self._channel is not None

    def feed(self, piece: str) -> str:
        """Return what is certain to be for people after this piece; "" for nothing."""
        is_open = self._has_begun and not (self._pending or self.is_inside or self._trims_blanks)
        if is_open and not _SPECIAL.search(piece):
            # Nearly every token of an answer: with hundreds of streams at once this matters.
            return self._show(piece)
        text = self._pending + piece.replace(TAKE_BACK, "")
        if not self._has_begun:
            beginning = text.lstrip()
            if len(beginning) <= len(_BARE_ANALYSIS) and _BARE_ANALYSIS.startswith(beginning):
                self._pending = text
                return ""
            self._has_begun = True
            if _BARE_START.match(beginning):
                self._block = _BARE_FINAL
                self._trims_blanks = True
        length = _certain_length(text, is_bare=self._block == _BARE_FINAL)
        self._pending = text[length:]
        return self._process(text[:length])

    def flush(self) -> str:
        """Return what was held back, at the end of the reply."""
        text = self._pending
        self._pending = ""
        return self._process(text)

    def _process(self, text: str) -> str:
        visible_parts: list[str] = []
        position = 0
        while position < len(text):
            if self._block == _BARE_FINAL:
                end = text.find(_BARE_FINAL, position)
                position = len(text) if end < 0 else end + len(_BARE_FINAL)
                self._block = self._block if end < 0 else ""
                continue
            match = _TOKEN.search(text, position)
            visible_parts.append(self._show(text[position : match.start() if match else len(text)]))
            if match is None:
                break
            visible_parts.append(self._handle(match))
            position = match.end()
        return "".join(visible_parts)

    def _handle(self, match: re.Match[str]) -> str:
        """Apply a token; return what is seen of it."""
        if self._block:
            name = (match["close"] or "").lower() or (_MARK if match["close_mark"] else "")
            if name and (name == self._block or self._is_any_end):
                self._block = ""
                self._is_any_end = False
            return ""
        if self._channel is None and (match["newline"] or match["ticks"] or self._is_in_fence or self._code_ticks):
            self._track_code(match)
            return self._show(match[0])
        if match["channel"]:
            self._switch_channel(match["channel"].lower())
        elif self._channel is not None:
            return self._show(match[0])
        elif match["open"] or match["open_mark"]:
            self._block = (match["open"] or _MARK).lower()
            self._trims_blanks = True
        else:
            self.has_stray_end = True
            self._trims_blanks = True
            return TAKE_BACK
        return ""

    def _switch_channel(self, marker: str) -> None:
        """Follow Harmony's tokens: a header is between `start` or `channel` and `message`."""
        self._trims_blanks = True
        if marker == "channel":
            self._channel = ""
        elif marker == "start":
            self._channel = "final "
        elif marker == "message":
            is_final = (self._channel or "final").split()[:1] == ["final"]
            self._channel = None if is_final else "hidden "
        else:
            self._channel = None

    def _track_code(self, match: re.Match[str]) -> None:
        if match["newline"]:
            self._is_line_blank = True
            self._code_ticks = 0
        elif match["ticks"] and self._is_line_blank and len(match["ticks"]) >= 3:
            self._is_in_fence = not self._is_in_fence
        elif match["ticks"] and not self._is_in_fence:
            ticks = len(match["ticks"])
            self._code_ticks = ticks if not self._code_ticks else 0 if ticks == self._code_ticks else self._code_ticks

    def _show(self, text: str) -> str:
        if self._channel is not None:
            # Only its first word matters.
            self._channel = (self._channel + text)[:_MAX_HEADER_CHARS]
            return ""
        if self._block or not text:
            return ""
        if self._trims_blanks:
            text = text.lstrip()
            self._trims_blanks = not text
        self._is_line_blank = self._is_line_blank and not text.strip()
        return text


def _certain_length(text: str, *, is_bare: bool) -> int:
    """Return how much of a text cannot become part of a tag, or of a longer run of backticks, by what follows."""
    if is_bare:
        return max(0, len(text) - len(_BARE_FINAL) + 1) if _BARE_FINAL not in text else len(text)
    match = _TAG_OPENING.search(text[-_MAX_TAG_CHARS:])
    return len(text) - (match.end() - match.start()) if match else len(text.rstrip("`"))


def append_visible(text: str, piece: str) -> str:
    """Return the visible text of a stream after one more piece of it."""
    return (text + piece).rpartition(TAKE_BACK)[2]


def remove_reasoning(text: str, *, starts_inside: bool = False) -> str:
    """Return a whole reply without its reasoning; "" where nothing else is left.

    >>> remove_reasoning("<think>Hm, two steps.</think>\\n\\nRun it."), remove_reasoning("Two steps.</think>Run it.")
    ('Run it.', 'Run it.')
    """
    reasoning_filter = ReasoningFilter(starts_inside=starts_inside)
    return append_visible(reasoning_filter.feed(text), reasoning_filter.flush())


def remove_tags(text: str) -> str:
    """Return a whole reply with its reasoning, but without the tags around it."""
    return _TOKEN.sub(lambda match: match[0] if match["newline"] or match["ticks"] else "\n", text)
