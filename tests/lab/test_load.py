"""Many chats of all platforms at once and a kill in between: `python -m tests.lab.benchmarks load` made small."""

from __future__ import annotations

from pathlib import Path

from tests.lab.benchmarks.load import Shape, run

SMALL = Shape(120, 40, 8, wait_s=1, kills=1, lives_s=4, documents=("docs/groups.md", "docs/http.md"), max_wait_s=75)


async def test_a_kill_under_load_loses_no_question_and_answers_none_twice(tmp_path: Path) -> None:
    outcome = await run(tmp_path, SMALL)
    assert {rule: results for rule, results in outcome.violations.items() if results} == {}
    assert len(outcome.ready_s) == 2, "it was killed and started again"
    assert len(outcome.of("chatter", "silent")) == 108
    answered_count = len(outcome.of("asked", "answered"))
    assert answered_count + outcome.in_doubt + outcome.unknown == 8
    assert answered_count >= 4
