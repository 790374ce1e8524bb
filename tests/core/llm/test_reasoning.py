"""The reasoning of models never reaches anybody: in whole replies, in streams however they are split, in decisions."""

from __future__ import annotations

import itertools
import random

import pytest

from core.answering.pipeline import answer
from core.llm.reasoning import ReasoningFilter, append_visible, remove_reasoning
from core.llm.sse import parse_completion
from core.types import Question
from tests.support.fixtures import MemorySink, parts, settings
from tests.support.scripted import ScriptedPeer, models

HOW = Question("How do I install the package with pip?")
VISIBLE = {
    "Use pip [p1].": "Use pip [p1].",
    "<think>Hm, `two` steps.\n```\ncode</think>\n\nUse pip [p1].": "Use pip [p1].",
    "<think>Hm.</think><think>Once more.</think>Use pip.": "Use pip.",
    "<THINKING>Hm <think>well</think>.</thinking>Use pip.": "Use pip.",
    "<seed:think>Hm.</seed:think>\nUse pip.": "Use pip.",
    "<reasoning>Hm.</reasoning>Use pip.": "Use pip.",
    "Use pip.\n<think>Or conda?</think>\nThat is all.": "Use pip.\nThat is all.",
    "Use <think>or not</think>pip for that.": "Use pip for that.",
    "The user wants pip.\n</think>\n\nUse pip.": "Use pip.",
    "<think>It never ends, and": "",
    "Use pip. <think>It never ends, and": "Use pip. ",
    "[THINK]Hm.[/THINK]Use pip.": "Use pip.",
    "◁think▷嗯。◁/think▷用 pip。": "用 pip。",
    "<|begin_of_thought|>Hm.<|end_of_thought|>Use pip.": "Use pip.",
    "<|channel|>analysis<|message|>Hm <think> `<|end|><|start|>assistant<|channel|>final<|message|>Use pip.<|end|>": (
        "Use pip."
    ),
    "<|channel|>commentary to=functions.search<|message|>{}<|call|>": "",
    "<|start|>assistant<|message|>Use pip.<|end|>": "Use pip.",
    "analysisThe user wants pip.assistantfinalUse pip.": "Use pip.",
    # What only looks like it:
    "analysis of the log: use pip.": "analysis of the log: use pip.",
    "Set `<think>`, not `</think>`, in ``a <think>``.": "Set `<think>`, not `</think>`, in ``a <think>``.",
    "Use:\n\n```xml\n<think>kept</think>\n```\n\nDone.": "Use:\n\n```xml\n<think>kept</think>\n```\n\nDone.",
    "If a < b and b > c, List[int] [1] <b>x</b> <thin": "If a < b and b > c, List[int] [1] <b>x</b> <thin",
}


def remove_from_stream(pieces: list[str], *, starts_inside: bool = False) -> str:
    reasoning_filter = ReasoningFilter(starts_inside=starts_inside)
    text = ""
    for piece in pieces:
        text = append_visible(text, reasoning_filter.feed(piece))
    return append_visible(text, reasoning_filter.flush())


@pytest.mark.parametrize("reply", VISIBLE)
def test_a_reply_is_the_same_however_it_is_split(reply: str) -> None:
    assert remove_reasoning(reply) == VISIBLE[reply]
    assert remove_from_stream(list(reply)) == VISIBLE[reply]
    for start, end in itertools.combinations_with_replacement(range(len(reply) + 1), 2):
        assert remove_from_stream([reply[:start], reply[start:end], reply[end:]]) == VISIBLE[reply]


def test_any_text_is_the_same_however_it_is_split() -> None:
    generator = random.Random(7)
    words = ["<think>", "</think>", "<", "think", "/", ">", "`", "```", "\n", " ", "a", "[THINK]", "[/THINK]", "[p1]"]
    words += ["<|channel|>", "<|message|>", "<|end|>", "analysis", "final", "assistantfinal", "A", "\x00", "◁think▷"]
    for _ in range(3000):
        reply = "".join(generator.choices(words, k=generator.randrange(1, 14)))
        cuts = sorted(generator.choices(range(len(reply) + 1), k=generator.randrange(4)))
        pieces = [reply[start:end] for start, end in itertools.pairwise([0, *cuts, len(reply)])]
        assert remove_from_stream(pieces) == remove_reasoning(reply), (reply, pieces)


def test_what_is_visible_of_a_block_that_the_template_opened() -> None:
    assert remove_from_stream(["Hm", ".</th", "ink>\n\nUse pip."], starts_inside=True) == "Use pip."
    assert remove_from_stream(["Hm.", " It never ends"], starts_inside=True) == ""


def test_content_in_parts_leaves_out_those_with_reasoning() -> None:
    parts_of_content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "reasoning", "text": "Hm."},
        {"type": "text", "text": "Use pip."},
    ]
    message = {"content": parts_of_content, "reasoning_content": "Hm."}
    assert parse_completion({"choices": [{"message": message}]})[0].text == "Use pip."


def test_a_tool_call_survives_reasoning_that_ends_in_the_content() -> None:
    function = {"name": "retrieve_knowledge", "arguments": '{"query": "pip"}'}
    message = {"content": "I should search.</think>\n\n", "tool_calls": [{"function": function}]}
    text = parse_completion({"choices": [{"message": message}]})[0].text
    assert remove_reasoning(text) == 'retrieve_knowledge({"query": "pip"})'


@pytest.mark.parametrize("reply", [text for text in VISIBLE if "Use pip" in VISIBLE[text]])
async def test_no_reasoning_is_posted_cited_or_kept(reply: str) -> None:
    """The replies come token by token, as they do from a real endpoint."""
    cited_reply = reply.replace("Use pip", "Use pip [p1]", 1) if "[p1]" not in reply else reply
    async with ScriptedPeer(
        write=cited_reply, choose='<think>{"strategy": "none"}</think>{"strategy": "single"}'
    ) as peer:
        peer.tokens_per_s = 400
        model = models(peer)
        sink = MemorySink()
        configuration = settings(strategies={"allowed": ["none", "single"]})
        result = await answer(HOW, sink, parts(model=model, configuration=configuration))
        await model.close()
    assert result.trace.strategy == "single"
    texts = [*sink.updates, result.text] if "</think>\n\nUse" not in reply or reply.startswith("<") else [result.text]
    for text in texts:
        assert not any(word in text for word in ("Hm", "Once", "Or conda", "or not", "The user", "never"))
    assert "Use pip" in result.text


async def test_a_template_that_opens_the_block_is_learned_from_its_first_reply(time_lapse: None) -> None:
    """Only the first reply can show anything, and only until the block ends; with the setting none does."""
    for changes, is_shown in (({}, True), ({"starts_in_reasoning": True}, False)):
        async with ScriptedPeer(write="The user wants pip, I think.</think>\n\nUse pip [p1].") as peer:
            # So slowly that the block is read before it ends, on any machine.
            peer.tokens_per_s = 10
            model = models(peer, **changes)
            first = MemorySink()
            second = MemorySink()
            for sink in (first, second):
                assert (await answer(HOW, sink, parts(model=model))).text.startswith("Use pip")
            # A model that is no longer thinking: one answer is quoted, and the next is seen as it comes.
            peer.replies["write"] = "Use pip [p1]."
            assert (await answer(HOW, MemorySink(), parts(model=model))).is_extractive
            last = await answer(HOW, MemorySink(), parts(model=model))
            await model.close()
        assert any("The user" in update for update in first.updates) is is_shown
        assert not any("The user" in update for update in second.updates)
        assert last.is_extractive is (not is_shown)
