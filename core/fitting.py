"""Evidence that fits the model that reads it: passages are shortened together, the longest ones first."""

from __future__ import annotations

from collections.abc import Sequence

from core.evidence import Layout, estimate_tokens, header, render
from core.types import Passage

# Of a passage that is shown at all so much is left: a header without a text says nothing.
LEAST_TOKENS = 8


def render_within(
    passages: Sequence[Passage], tokens: int, layout: Layout = "structured", *, most: int | None = None
) -> str:
    """Return passages as one context of about `tokens` tokens, headers included.

    Where they are longer together, the longest are shortened to one length, so that short ones stay whole. `most` is
    how long one may be in any case.
    """
    lengths = [estimate_tokens(passage.text) for passage in passages]
    headers = sum(estimate_tokens(header(passage, at, layout)) for at, passage in enumerate(passages))
    longest = longest_within(lengths, tokens - headers)
    return render(passages, longest if most is None else min(longest, most), layout)


def longest_within(lengths: Sequence[int], total: int) -> int:
    """Return the length to which texts of these lengths are shortened so that they have `total` together at most."""
    left = total
    for position, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - position)
        if length > share:
            return max(LEAST_TOKENS, share)
        left -= length
    return max(lengths, default=LEAST_TOKENS)
