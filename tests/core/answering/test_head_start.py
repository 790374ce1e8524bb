from __future__ import annotations

import pytest

from core.answering.head_start import is_same_evidence
from tests.support.fixtures import passage

FINAL = [passage(name, name, similarity=0.9 - 0.05 * rank) for rank, name in enumerate("abcdefghijkl")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("abcdef", True),
        # Of the six of the better half, three are enough, but not without the two best.
        ("abf", True),
        ("abzyx", False),
        ("acdef", False),
        ("bcdef", False),
        # Passages of the lower half make up for nothing.
        ("abghijkl", False),
    ],
)
def test_a_head_start_holds_the_two_best_and_half_of_the_better_half(names: str, *, expected: bool) -> None:
    # Passages stand in the order of the prompt, which is not that of their scores.
    final = [*FINAL[::2], *FINAL[1::2]]
    assert is_same_evidence([passage(name, name) for name in names], final) is expected


def test_few_passages_are_all_among_the_best() -> None:
    assert is_same_evidence(FINAL[:2], FINAL[:2])
    assert not is_same_evidence(FINAL[:1], FINAL[:2])
    assert not is_same_evidence(FINAL[1:2], FINAL[:1])
