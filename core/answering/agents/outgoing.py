"""What of a model's text may be shown: no special tokens, no tags of the prompt, no turns but its own, and no addresses
that it never read.

Code stays as it is: it may be about just these.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from core.citations.markers import find_markers
from core.language.prose import CODE, change_outside_code
from core.llm.reply_parsing import TEMPLATE_MARK

# The tags with which our prompts fence what others wrote, and chat templates their turns.
_TAG = re.compile(
    rf"{TEMPLATE_MARK}|\[/?INST\]|<</?SYS>>"
    r"|</?(?:evidence|passage|question|said|analysis|judgement|start_of_turn|end_of_turn|bos|eos|unk|pad)\b[^<>\n]{0,400}(?:>|\Z)",
    re.IGNORECASE,
)
# Right after one of these a turn may begin in the middle of a line.
_MARK = rf"(?:{TEMPLATE_MARK}|</?(?:start_of_turn|end_of_turn|evidence|question|said)>)"
# Where a chat template begins a turn, also one whose special tokens the server left out, or our prompts their evidence:
# a small model plays on in everybody's place, or says again what it was told.
_TURN = re.compile(
    rf"(?:^|{_MARK})(?:[ \t]|{_MARK}){{0,9}}(?:(?P<own>assistant|model)|user|system)"
    rf"(?:{TEMPLATE_MARK})?[ \t]{{0,9}}$|^[ \t]{{0,9}}<(?:evidence|passage)\b|<(?:\|(?:user|system)\||｜User｜)>",
    re.MULTILINE,
)
# Around a role that is named in an answer: a line of one word before it, or another role or a definition after it.
_LISTED_WORD = re.compile(r"\W{0,9}[\w-]+", re.ASCII)
_LISTED_REST = re.compile(r"\n(?:(?:assistant|model|user|system)[ \t]{0,9}$|[ \t]{0,9}(?::|--|==))", re.MULTILINE)
# What may become one: not shown while it is written.
_PARTIAL_TAG = re.compile(r"<[|/\w｜][^<>\n]{0,400}\Z")
_LINK = re.compile(
    r"!?\[(?P<text>[^\[\]\n]{0,300})\]\(\s?<?(?P<target>[^\s()<>]{1,2000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,200})?)>?"
    r"(?:\s[\"'(][^\n\"')]{0,200}[\"')])?\s?\)"
    r"|<?(?P<address>https?://[^\s<>\[\]\"'`，。；、）】》]{1,2000})>?",
    re.IGNORECASE,
)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]{0,30}:|//|www\.", re.IGNORECASE)
_SCHEME = re.compile(r"^[a-z]{1,12}://(?:www\.)?", re.IGNORECASE)
_END_SIGNS = ".,;:!?)*_"


class OutgoingText:
    """Cleans the text of one answer. `read` returns all that its model read: addresses in it may be written."""

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read

    @cached_property
    def _read_text(self) -> str:
        return self._read().lower()

    def clean(self, text: str, *, is_partial: bool = False) -> str:
        """Return the text that may be shown. Of one that is still being written, the end may be held back."""
        text, _ = _take_own_turn(text)
        if is_partial:
            text = _PARTIAL_TAG.sub("", text)
        return change_outside_code(text, self._clean_prose)

    def has_ended(self, text: str) -> bool:
        """Return whether what is written after this text is another's turn, which only a whole line of it shows."""
        return "\n" in _take_own_turn(text[: text.rfind("\n") + 1])[1].strip()

    def _clean_prose(self, text: str) -> str:
        return _LINK.sub(self._replace_link, _TAG.sub("", text))

    def _replace_link(self, match: re.Match[str]) -> str:
        """Return a link as it stands if it was read; else its text, or an address that leads nowhere."""
        if match["address"] is None:
            # A citation resolves its own link.
            is_kept = find_markers(match[0]) or not _ABSOLUTE.match(match["target"]) or self._was_read(match["target"])
            return match[0] if is_kept else match["text"]
        address = match["address"].rstrip(_END_SIGNS)
        rest = match["address"][len(address) :]
        return match[0] if self._was_read(address) else f"`{address}`{rest}"

    def _was_read(self, address: str) -> bool:
        key = _SCHEME.sub("", address).rstrip("/").lower()
        return bool(key) and key in self._read_text


def _take_own_turn(text: str) -> tuple[str, str]:
    """Return the model's own turn, and what follows it: the next turn, with its mark."""
    prose = CODE.sub(lambda code: "`" * len(code[0]), text)
    begin = 0
    are_words_turns: bool | None = None
    for mark in _TURN.finditer(prose):
        if mark[0].strip().isalpha():
            # The first one decides: where it is only named, the answer is about roles.
            if are_words_turns is None:
                are_words_turns = _is_turn(prose, mark)
            if not are_words_turns:
                continue
        if not mark["own"] or prose[begin : mark.start()].strip():
            return text[begin : mark.start()].strip("\n"), text[mark.start() :]
        begin = mark.end()
    return text[begin:], ""


def _is_turn(prose: str, mark: re.Match[str]) -> bool:
    """Return whether the bare name of a role stands where a turn begins, and is no word of a list or of code."""
    before = prose[: mark.start()].rstrip()
    line = before[before.rfind("\n") + 1 :]
    is_indented = bool(before) and mark[0][0].isspace()
    is_named = is_indented or line.endswith((":", "：")) or _LISTED_WORD.fullmatch(line)
    return not is_named and not _LISTED_REST.match(prose, mark.end())
