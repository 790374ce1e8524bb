"""Whether a head start is worth its price: measured over all answers of this process.

A head start that is discarded costs a prompt and what was written of it. Two things keep that small: the tokens
that were lost may be only a share of those that answers needed, and when too few head starts are kept, none is
begun for a while. The first loss is lent: until it happens, one is begun at a time, and after it none until the answers
that followed have paid for it.
"""

from __future__ import annotations

import time
from collections import deque

from core.observability.logs import get_logger
from core.observability.metrics import MetricsRecorder
from core.settings.answering import ContextSettings

_log = get_logger(__name__)

# The tokens of discarded ones are at most this share of those that answers needed.
MAX_EXTRA = 0.15
# When a smaller share of the last ones was kept, none is begun for a while.
MIN_KEPT = 0.5
PAUSE_S = 3600.0
# The acceptance rate is that of the last ones, once there are so many.
WINDOW = 20
MIN_SAMPLES = 8
# Above so many tokens both counts are halved: what was saved long ago pays for nothing now.
MAX_COUNTED_TOKENS = 1_000_000
# A light model that replies sooner needs no head start, and the main model is not called in vain. Where it usually
# takes twice as long, there is nothing to wait for.
START_DELAY_S = 0.1
# The weight of the newest call of the light model in what is usual.
LEARNING_RATE = 0.2


class HeadStartPolicy:
    """Counts head starts and decides whether one more may begin."""

    def __init__(
        self,
        settings: ContextSettings,
        metrics_recorder: MetricsRecorder | None = None,
        *,
        max_extra: float = MAX_EXTRA,
        min_kept: float = MIN_KEPT,
    ) -> None:
        self._settings = settings
        self._max_extra = max_extra
        self._min_kept = min_kept
        self._metrics_recorder = metrics_recorder or MetricsRecorder()
        self._outcomes: deque[bool] = deque(maxlen=WINDOW)
        self._paused_until = 0.0
        # Of those that have begun and are neither kept nor lost yet: the tokens of their prompts.
        self._needed_tokens = 0
        self._lost_tokens = 0
        self._open_tokens = 0
        self._answer_tokens = 0
        self._light_s: float | None = None

    @property
    def delay_s(self) -> float:
        """How long after the question one may begin, in seconds."""
        return 0.0 if self._light_s is not None and self._light_s >= 2 * START_DELAY_S else START_DELAY_S

    def record_light_call(self, seconds: float) -> None:
        """Learn how long the light model takes to complete a question."""
        average = seconds if self._light_s is None else self._light_s
        self._light_s = average + LEARNING_RATE * (seconds - average)

    def may_begin(self, prompt_tokens: int) -> bool:
        """Return whether an answer with a prompt of about so many tokens may be begun at the risk of losing it."""
        if not self._settings.head_start or time.monotonic() < self._paused_until:
            return False
        if not self._lost_tokens and not self._open_tokens:
            return self._max_extra > 0
        # It may be lost as late as with its last word; the answer that is needed costs as much again. Of those that are
        # open, as large a share will be lost as of the last ones.
        price = prompt_tokens + self._answer_tokens
        lost_share = (self._outcomes.count(False) + 1) / (len(self._outcomes) + 2)
        lost_tokens = self._lost_tokens + lost_share * self._open_tokens + price
        return lost_tokens <= self._max_extra * (self._needed_tokens + self._open_tokens + price)

    def record_begin(self, prompt_tokens: int) -> None:
        """Count a head start that begins."""
        self._open_tokens += prompt_tokens

    def record_outcome(self, *, is_kept: bool, prompt_tokens: int = 0) -> None:
        """Count a head start that was kept or discarded; the tokens are those of `record_begin`."""
        self._open_tokens -= prompt_tokens
        self._outcomes.append(is_kept)
        self._metrics_recorder.record_head_start(is_kept=is_kept)
        if len(self._outcomes) < MIN_SAMPLES:
            return
        kept_share = sum(self._outcomes) / len(self._outcomes)
        if kept_share < self._min_kept:
            _log.info("head_start.paused", kept=round(kept_share, 2), pause_s=PAUSE_S)
            self._paused_until = time.monotonic() + PAUSE_S
            self._outcomes.clear()

    def record_loss(self, tokens: int) -> None:
        """Count the tokens of a discarded answer."""
        self._add(lost_tokens=tokens)

    def record_answer(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Count the tokens of an answer that was needed."""
        self._answer_tokens = max(completion_tokens, self._answer_tokens * 3 // 4)
        self._add(needed_tokens=prompt_tokens + completion_tokens)

    def _add(self, needed_tokens: int = 0, lost_tokens: int = 0) -> None:
        self._needed_tokens += needed_tokens
        self._lost_tokens += lost_tokens
        if self._needed_tokens > MAX_COUNTED_TOKENS:
            self._needed_tokens //= 2
            self._lost_tokens //= 2
