"""What an answer invents for certain: numbers, names in code and commands that stand nowhere."""

from __future__ import annotations

import pytest

from core.citations.inventions import Facts, describe_passage, find_invented
from core.citations.support import SupportIndex
from core.language.facts import extract_numbers
from core.types import Passage
from tests.support.fixtures import passage
from tests.support.growth import FACTOR, MAX_RATIO, measure

SERVER = (
    "The server listens on port 8000 and keeps 4,000 sessions. Set `max_peers` for it, or run `rocket keys revoke`. "
    "It needs python3.10, reads format 4.1.2 and downloads coco2017.\n\n"
    "1. Call `Ring.rotate(key=None)`, which does not compress."
)


def list_invented(claim: str, *, text: str = SERVER, known: str = "") -> set[str]:
    return set(find_invented(claim, [describe_passage(passage("x", text))], Facts(known)))


@pytest.mark.parametrize(
    ("claim", "kinds"),
    [
        ("The server listens on port 8,000", set()),
        ("The server keeps 4000 sessions in COCO 2017", set()),
        ("The server listens on port 9000", {"number"}),
        ("It reads format 4.1.3", {"number"}),
        ("Set it with `max_peers=32`, or `Ring.rotate(key=64)`", set()),
        ("Set `max_children` for the server", {"name"}),
        ("Set `server.max_peers` for the server", set()),
        ("Pass --max-children to the server", {"name"}),
        ("Call `Ring.rotate(key=<new key>)`", set()),
        ("Withdraw it with `$ rocket keys rotate`", set()),
        ("Withdraw it with `rocket push -v`", {"name"}),
        ("服务器监听 9000 端口", {"number"}),
        ("`max_children` 监听 8000 端口", {"name"}),
    ],
)
def test_what_stands_nowhere_is_invented(claim: str, kinds: set[str]) -> None:
    assert list_invented(claim) == kinds


def test_what_the_asker_said_needs_no_support() -> None:
    claim = "With your 64 GB and `max_children`, `rocket push` listens on port 8000"
    assert list_invented(claim) == {"number", "name"}
    assert not list_invented(claim, known="I have 64 GB and max_children. Rocket push on which port?")


def test_numbers_are_read_in_one_spelling() -> None:
    text = "1. First v2.3.1, 10,000 of 08, utf8, step 4"
    assert extract_numbers(text) == {"1", "2.3.1", "10000", "8", "4"}


def hard_passage(share: float) -> Passage:
    words = ("word ", 20_000), ("1.1.", 5_000), ("a_", 5_000), ("\\`", 5_000), ("\n", 20_000), ("1,", 10_000)
    return passage("x", "".join(word * int(share * count) for word, count in words) + "[p1" + ", 1" * 50)


def hard_claims(share: float) -> str:
    words = ("very ", 2_000), ("plain `word ", 1), ("- $ ", 2_000), ("x` `word ", 1), ("a", 2_000), ("`", 1)
    return "The word 1.1 and a_a are " + "".join(word * max(1, int(share * count)) for word, count in words)


def check_hard_text(passage: Passage, claims: str) -> None:
    list(find_invented(claims, [describe_passage(passage)], Facts("")))
    SupportIndex([passage]).rate(claims)


@pytest.mark.parametrize(("passage_share", "claims_share"), [(1 / FACTOR, 1), (1, 1 / FACTOR)])
def test_reading_is_linear(passage_share: float, claims_share: float) -> None:
    def check(share: float) -> None:
        check_hard_text(hard_passage(max(passage_share, share)), hard_claims(max(claims_share, share)))

    pairs = [(measure(check, 1.0), measure(check, 1 / FACTOR)) for _ in range(3)]
    whole_s, part_s = (min(seconds) for seconds in zip(*pairs, strict=True))
    assert whole_s < MAX_RATIO * part_s


def test_many_numbers_are_looked_up_in_linear_time() -> None:
    def check(count: int) -> None:
        other, stated = (
            " ".join(f"{number}.5" for number in range(first, first + count)) for first in (10_000, 20_000)
        )
        passages = [describe_passage(passage(str(start), f"{start} {other}")) for start in range(4)]
        assert not list(find_invented(stated, [*passages, describe_passage(passage("x", stated))], Facts("")))

    pairs = [(measure(check, 2_000), measure(check, 2_000 // FACTOR)) for _ in range(3)]
    whole_s, part_s = (min(seconds) for seconds in zip(*pairs, strict=True))
    assert whole_s < MAX_RATIO * part_s
