"""What rules are given: who writes, which questions, and what changes meanwhile."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.audience_changes import CHANGES, Plan
from tests.support.audience_world import ASKING, DRAFTED, PLACES, QUESTION
from tests.support.interleaving import POINTS

# Where one of them was answered before, the answer is in the cache.
QUESTIONS = (QUESTION, "Which release date has the launcher?", "Is the release date of the launcher known?")
# What people attach.
KINDS = ("file", "picture", "voice")
SENDERS = st.sampled_from(PLACES)
# Two who write in the same chat.
FELLOWS = [
    (one, other) for one in PLACES for other in PLACES if one != other and one.chat == other.chat and not one.is_private
]
IN_DRAFTED = next(place for place in PLACES if place.chat == DRAFTED)
IN_ASKING = tuple(place for place in PLACES if place.chat == ASKING)
PLANS = st.builds(
    Plan,
    st.sampled_from(POINTS),
    st.integers(0, 3) | st.integers(0, 25),
    st.sampled_from(CHANGES),
    st.integers(0, len(PLACES) - 1),
)
# What may change while something waits, in a step of its own. The operator erases nothing that is still answered.
MEANWHILE = st.builds(Plan, st.just(""), st.just(0), st.sampled_from(("", *CHANGES)), st.integers(0, len(PLACES) - 1))
LATER = st.lists(MEANWHILE, min_size=1, max_size=2)
ERASURES = st.builds(Plan, st.just(""), st.just(0), st.just("erase"), st.integers(0, len(PLACES) - 1))
LATER_OR_ERASED = st.lists(MEANWHILE | MEANWHILE | ERASURES, min_size=1, max_size=2)
