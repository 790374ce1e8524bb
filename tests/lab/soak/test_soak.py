"""How the soak test judges, and a few of its kills: `python -m tests.lab.soak.kills` has hundreds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.soak.__main__ import Sample, judge_growth
from tests.lab.soak.kills import Aim, kill_again_and_again, report
from tests.lab.soak.world import PARAGRAPHS, judge_answer, open_world

pytestmark = pytest.mark.slow

REPLY = "\n\n".join(f"K00007 part {number:02} of 12. Words." for number in range(1, PARAGRAPHS + 1))
PARTS = REPLY.split("\n\n")
AIMS = (
    Aim("telegram", "sendMessage", 1, "after"),
    Aim("discord", "POST /channels/{}/messages", 2, "after"),
    Aim("slack", "chat.postMessage", 1, "after"),
    Aim("http", "final", 1, "soon"),
)


@pytest.mark.parametrize(
    ("texts", "expected_outcome"),
    [
        ([REPLY], "whole"),
        (["\n".join(PARTS[:5]), "K00008 part 01 of 12", "\n".join(PARTS[5:])], "whole"),
        (["…", "K00008 part 01 of 12"], "lost"),
        ([REPLY, PARTS[3]], "twice"),
        (["\n".join(PARTS[:5])], "cut off"),
        (["\n".join(PARTS[5:]), "\n".join(PARTS[:5])], "cut off"),
    ],
)
def test_what_a_chat_shows_is_compared_with_the_journal(texts: list[str], expected_outcome: str) -> None:
    assert judge_answer("K00007", REPLY, texts) == expected_outcome


def test_quoted_passages_are_recognised_by_their_beginning() -> None:
    reply = "> The gate **decides** [1].\n\n*No model.*"
    assert (
        judge_answer("K00007", reply, ["other", "The gate <b>decides</b> <a href='x'>[1]</a>. No model. More"])
        == "whole"
    )
    assert judge_answer("K00007", reply, ["other"]) == "lost"
    assert judge_answer("K00007", "", ["other"]) == "lost"


def test_what_goes_on_growing_is_named() -> None:
    flat = [Sample(300 + number % 3, 20, 50, 1e6 + 2000 * number, number) for number in range(40)]
    assert judge_growth(flat) == []
    leaking = [replace(sample, memory=300 + 4 * number) for number, sample in enumerate(flat)]
    assert judge_growth(leaking) == ["memory, MiB: 358, then 438"]
    threads = [replace(sample, threads=20 + number) for number, sample in enumerate(flat)]
    assert judge_growth(threads) == ["threads: 34, then 54"]
    descriptors = [replace(sample, descriptors=50 + number) for number, sample in enumerate(flat)]
    assert judge_growth(descriptors) == ["descriptors: 64, then 84"]
    journal = [replace(sample, journal_bytes=1e6 + 50_000 * number**2) for number, sample in enumerate(flat)]
    assert [line.partition(":")[0] for line in judge_growth(journal)] == ["journal"]
    assert judge_growth(flat[:3]) == ["there are too few samples to say whether anything levels off"]


@pytest.mark.timeout(400)
async def test_kills_at_a_post_of_every_platform_lose_and_double_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_world(tmp_path, 5, chats=6, tokens_per_s=4000) as world:
        assert await kill_again_and_again(world, AIMS) >= 2
        await world.wait_until_finished(200)
        assert report(world), capsys.readouterr().out
