"""Notices that a reply is no answer: that it goes round in a circle, or only says again what the model was told.

Small models and base models do that. What is compared are runs of words; each word of a reply is looked at once.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from core.errors import ModelError

RUN_WORDS = 6
# A circle: of so many runs in a row, this share has been there so often before. Code that is shown twice is none.
WINDOW_RUNS = 60
REPEATED_SHARE = 0.9
REPEATED_TIMES = 3
# So often no answer has the same line, one below the other, but in code.
SAME_LINES = 8
LINE_CHARACTERS = 200
# An echo: this share of all runs of a reply is in the prompt. Shorter replies may well use the question's words.
ECHO_SHARE = 0.7
MIN_ECHO_RUNS = 8
# Chinese is written without blanks: each of its characters counts as a word.
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
_UNFINISHED_WORD = re.compile(r"[^\W\u3400-\u9fff]{1,100}\Z")
Run = tuple[str, ...]


class RepeatingReply(ModelError):
    """The reply only repeats itself or the prompt: it is no answer."""


class RepetitionDetector:
    """Takes a reply piece by piece. `prompts` are the texts that it must not consist of, the instructions first."""

    def __init__(self, prompts: Sequence[str]) -> None:
        instructions, *questions = prompts or ("",)
        self._prompt_runs = _find_runs(instructions).union(*(_iter_runs(_split(question)) for question in questions))
        self._pending = ""
        self._line = ""
        self._previous_line = ""
        self._same_count = 0
        self._is_code = False
        self._words = deque[str](maxlen=RUN_WORDS)
        self._counts = Counter[Run]()
        self._window = deque[bool](maxlen=WINDOW_RUNS)
        self._repeated_count = 0
        self._run_count = 0
        self._echo_count = 0

    def feed(self, piece: str) -> None:
        """Look at the next piece of a reply. Raises `RepeatingReply` when it goes round in a circle."""
        self._note_lines(piece)
        text = self._pending + piece
        unfinished = _UNFINISHED_WORD.search(text)
        self._pending = unfinished[0] if unfinished else ""
        self._read(text.removesuffix(self._pending) if unfinished else text)

    def finish(self) -> None:
        """Look at the reply as a whole. Raises `RepeatingReply` when it only says the prompt again."""
        self._read(self._pending)
        self._pending = ""
        if self._run_count >= MIN_ECHO_RUNS and self._echo_count >= ECHO_SHARE * self._run_count:
            raise RepeatingReply("the model only repeated its instructions or the question")

    def _note_lines(self, piece: str) -> None:
        *ends, rest = piece.split("\n")
        for end in ends:
            line = f"{self._line}{end}"[:LINE_CHARACTERS].strip()
            self._line = ""
            if line.startswith("```"):
                self._is_code = not self._is_code
            if self._is_code or not _WORD.search(line):
                continue
            self._same_count = self._same_count + 1 if line == self._previous_line else 1
            self._previous_line = line
            if self._same_count == SAME_LINES:
                raise RepeatingReply("the model only repeated itself")
        self._line = f"{self._line}{rest}"[:LINE_CHARACTERS]

    def _read(self, text: str) -> None:
        for word in _split(text):
            self._words.append(word)
            if len(self._words) == RUN_WORDS:
                self._note_run(tuple(self._words))

    def _note_run(self, run: Run) -> None:
        self._run_count += 1
        self._echo_count += run in self._prompt_runs
        is_repeated = self._counts[run] >= REPEATED_TIMES
        self._counts[run] += 1
        if len(self._window) == WINDOW_RUNS:
            self._repeated_count -= self._window[0]
        self._window.append(is_repeated)
        self._repeated_count += is_repeated
        if self._repeated_count >= REPEATED_SHARE * WINDOW_RUNS:
            raise RepeatingReply("the model only repeated itself")


def _split(text: str) -> Iterator[str]:
    return (match[0].lower() for match in _WORD.finditer(text))


# Most calls have the same instructions. What people said is not kept: they can have it forgotten.
@lru_cache(maxsize=32)
def _find_runs(prompt: str) -> frozenset[Run]:
    return frozenset(_iter_runs(_split(prompt)))


def _iter_runs(words: Iterable[str]) -> Iterator[Run]:
    window = deque[str](maxlen=RUN_WORDS)
    for word in words:
        window.append(word)
        if len(window) == RUN_WORDS:
            yield tuple(window)
