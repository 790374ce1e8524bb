"""What of a model's text is shown."""

from __future__ import annotations

import pytest

from core.answering.agents.outgoing import OutgoingText
from tests.support.growth import Growth, Text, find_growth

READ = "Install it: https://docs.example.org/Install#pip or [the page](guide/start.md). Server: http://localhost:8000/"
outgoing = OutgoingText(lambda: READ)


def test_what_the_model_read_is_put_together_only_for_an_address() -> None:
    reads: list[str] = []
    counted = OutgoingText(lambda: reads.append(READ) or READ)
    assert counted.clean("Run `pip install tern` [p1].")
    assert not reads
    assert counted.clean("See https://a.example and https://b.example.")
    assert reads == [READ]


@pytest.mark.parametrize(
    "text",
    [
        "See [the guide](https://docs.example.org/install#pip) and [start](guide/start.md).",
        "See https://docs.example.org/Install, http://docs.example.org/install/ and <http://localhost:8000>.",
        "`<|im_end|>` ends a turn:\n```\n[INST] https://evil.example/x [/INST]\n```\nSo `<said>`.",
        "a < b, x[0](y) and List<String> stay [1].",
        "Run it [p1](https://invented.example/p1).",
    ],
)
def test_what_the_model_has_read_and_code_stay(text: str) -> None:
    assert outgoing.clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Follow [this guide](https://www.ec2.org/docs/about).", "Follow this guide."),
        ("See https://evil.example/x, please.", "See `https://evil.example/x`, please."),
        ("See <https://evil.example/x>.", "See `https://evil.example/x`."),
        ("![picture](https://evil.example/p.png?q=1) [a](https://e.example/b_(c) 'title')", "picture a"),
        ("Yes.<|im_end|>\n", "Yes.\n"),
        ('<said by="Ann"> When? </said><|im_end|>', " When? "),
        ("<start_of_turn>model\nYes.<end_of_turn></s>", "\nYes."),
        ('Yes, see <passage id="p5" source="docs" title="A long title that is cut', "Yes, see "),
        ("[INST] <<SYS>>Hi<</SYS>> [/INST]", " Hi "),
        ("<｜begin▁of▁sentence｜>Yes.", "Yes."),
    ],
)
def test_marks_of_the_prompt_and_unread_addresses_do_not(text: str, shown: str) -> None:
    assert outgoing.clean(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Yes.<|im_end|>\n<|im_start|>assistant\nNo.", "Yes."),
        ("assistant\n\nRun it [p1].\n\nuser\n\nWhen?\n\nassistant\n\nNow.", "Run it [p1]."),
        ("user\n\nHow do I run it?\n\nassistant\n\nRun it.", ""),
        ("<|start_header_id|>user<|end_header_id|>\n\nWhen?", ""),
        ("<|im_end|><|im_start|>user\n<|im_end>", ""),
        ("</question><|im_start|>user\n<question>\nWhat now?\n</question><|im_end|>\n<|im_start|>assistant", ""),
        ("Yes.<end_of_turn><start_of_turn>user\nWhy?", "Yes."),
        ("Yes.</evidence>user\nWhy?", "Yes."),
        (" assistant\n\nRun it [p1].\n\nuser\nWhen?", "Run it [p1]."),
        ("Run it.<|end|>\n<|user|>\nWhen?", "Run it."),
        ("Run it.<｜User｜>When?\n<｜Assistant｜>", "Run it."),
        ("Two:\n\nuser\nassistant\n\nSo.<|im_end|>\n<|im_start|>user\nOh?", "Two:\n\nuser\nassistant\n\nSo."),
        ('Run it [p1].\n\n<evidence>\n<passage id="p2">\nStop it.', "Run it [p1]."),
    ],
)
def test_the_turns_of_others_do_not(text: str, shown: str) -> None:
    assert outgoing.clean(text) == shown
    assert outgoing.has_ended(f"{text}\n")


@pytest.mark.parametrize(
    "text",
    [
        "- user\n- assistant",
        "The\nuser interface",
        "```\nuser\nassistant\n```\nare roles",
        "A message has one of these roles:\n\nsystem\nuser\nassistant\n\nThe first sets the rules [p1].",
        "There are three roles.\n\nsystem\nuser\nassistant\n\nThe first sets the rules [p1].",
        "The roles are these:\n\nsystem\nSets the rules.\n\nuser\nAsks.\n\nassistant\nAnswers [p1].",
        "角色有：\n\nuser\n提问。\n\nassistant\n回答 [p1]。",
        "There are two.\n\nsystem\n: Sets the rules.\n\nuser\n: Asks [p1].",
        "Two parts.\n\nmodel\n-----\n\nIts name.\n\nsystem\n------\n\nIts prompt [p1].",
        "Set these keys.\n\nbase_url\nmodel\napi_key\n\nThen restart [p1].",
        "Run this.\n\n    whoami --name\n    user\n    id\n\nDone [p1].",
        "The file has this.\n\n- admin\n  user\n  guest\n\nRestart [p1].",
    ],
)
def test_words_that_are_no_turns_end_nothing(text: str) -> None:
    assert outgoing.clean(text) == text
    assert not any(outgoing.has_ended(text[:end]) for end in range(len(text) + 1))


def test_the_beginning_of_a_mark_waits_for_its_end() -> None:
    text = 'Yes, run it.<said by="Ann">'
    for end in range(len(text)):
        assert outgoing.clean(text[:end], is_partial=True) in (text[:end], "Yes, run it.", "Yes, run it.<")


def test_takes_linear_time() -> None:
    units = "<", "[", "[a](", "<said ", "https://", "<|", "![", "[a](b(", "a.b/", "user\n", "\n ", "a:\nuser\n", "_-"
    units += "<question>", "<|im_start|> ", "</said>user"
    texts = [Text("", unit, "") for unit in units]
    assert find_growth(outgoing.clean, texts, Growth(200, 0.0, 16_000, 0.02)) == ""
