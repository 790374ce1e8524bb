from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.llm.repetition import RepeatingReply, RepetitionDetector, _find_runs
from tests.support.growth import Growth, Text, find_growth

QUALITY = Path(__file__).parents[2] / "lab/quality"
PROMPT = (Path(__file__).parents[3] / "core/llm/prompts/summarizer.md").read_text("utf-8")


def look_at(text: str, *prompts: str, size: int = 5) -> str:
    """Return why a reply is no answer, "" if it may be one."""
    detector = RepetitionDetector(prompts)
    try:
        for at in range(0, len(text), size):
            detector.feed(text[at : at + size])
        detector.finish()
    except RepeatingReply as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "text",
    [
        "the package " * 100,
        "Run `apt install rocket` [p1]. " * 30,
        "First, a good sentence about rockets that says something.\n" + "- It is a rocket.\n" * 60,
        "You can install it, and then you can configure it, and then you can start it, " * 20,
        "可以安装它，然后配置它。" * 60,
        "user\nassistant\n" + "user\n" * 10,
        "Run it.\n\n" * 8,
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_circle_is_noticed_however_it_arrives(text: str, size: int) -> None:
    assert look_at(text, size=size) == "the model only repeated itself"


@pytest.mark.parametrize("prompt", [PROMPT, "How do I install Rocket on a machine with Debian that has no network?"])
def test_an_echo_of_the_prompt_is_noticed(prompt: str) -> None:
    assert look_at(f"{prompt}\n\n{prompt}"[:2000], prompt) == "the model only repeated its instructions or the question"


def test_the_instructions_are_read_once_and_no_question_is_kept() -> None:
    _find_runs.cache_clear()
    for question in ("How do I install it?", "And how do I start it?"):
        look_at("Run it.", PROMPT, question)
    assert (_find_runs.cache_info().misses, _find_runs.cache_info().hits) == (1, 1)


TABLE = "| name | default | meaning |\n|---|---|---|\n" + "".join(
    f"| `setting_{number}` | yes | the same as the setting above, for number {number} |\n" for number in range(60)
)
CODE = "```python\n" + "".join(f"parser.add_argument('--flag{number}', type=int)\n" for number in range(40)) + "```\n"


@pytest.mark.parametrize(
    "text", [TABLE, CODE, CODE * 2, "Yes.", "", "Run it. " * 6, "```html\n" + "</div>\n" * 9 + "```", "test ok\n" * 7]
)
def test_tables_code_and_short_replies_are_no_repetition(text: str) -> None:
    assert look_at(text, PROMPT, "Which settings are there, and what is the default of each of them?") == ""


def test_no_sentence_of_the_measured_answers_is_taken_for_one() -> None:
    lines = [
        json.loads(line) for file in QUALITY.glob("*citations.jsonl") for line in file.read_text("utf-8").splitlines()
    ]
    statements = [line["statement"] for line in lines]
    assert len(statements) > 300
    assert [text for text in statements if look_at(text, PROMPT)] == []
    # As one long answer, in which many statements vary the same sentence.
    assert look_at(" ".join(statements), PROMPT) == ""


@pytest.mark.parametrize("unit", ["word", "word ", "包", "_1 "])
def test_a_long_reply_takes_no_more_time_than_its_length(unit: str) -> None:
    assert find_growth(look_at, [Text("", unit, "")], Growth(400, 0.002, 40_000, 0.1, 3.0)) == ""
