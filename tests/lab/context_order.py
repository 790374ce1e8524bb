"""Which field of the context manager's reply comes first? Both orders, with a real model behind llama.cpp's server.

    python -m tests.lab.context_order http://127.0.0.1:8080/v1

The 40 later questions of `quality/conversations.jsonl`, each in a group: another member's question about something
else, and its answer, stand in the conversation before or after the asker's last one. The prompt is the product's, but
for the lines about the reply, and so is what reads the reply. A grammar forces the form; three worked examples show
what is meant, because small weights that were not trained to follow instructions repeat the example of a form.
docs/decisions.md has the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import statistics
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.answering.agents.history_selection import ContextualQuestion, HistorySelector
from core.llm.prompts import Prompts
from core.llm.role_models import RoleChatModel
from core.runtime.budget import Budget
from core.settings import ModelsSettings
from core.settings.answering import BudgetSettings
from core.types import Question, Turn
from tests.support.fixtures import parts, settings

QUESTIONS = Path(__file__).parent / "quality/conversations.jsonl"
# A conversation so far away is about something else.
OTHER_CONVERSATION = 7
ASKER = "Ann"
DEADLINE_S = 600.0
MAX_TOKENS = 80
TEXT = r'[^"\\\n]{1,120}'
INDICES_JSON = '"\\"indices_of_related_messages\\": [" n1? "]"'
ANALYSIS_JSON = f'"\\"analysis\\": \\"" {TEXT} "\\""'
TWO_LINES = f'("none" | n1) "\\n" {TEXT}'
INDICES_FIRST = f'"{{" {INDICES_JSON} ", " {ANALYSIS_JSON} "}}"'
ANALYSIS_FIRST = f'"{{" {ANALYSIS_JSON} ", " {INDICES_JSON} "}}"'
# A conversation, its last question, the numbers that matter, and what is wanted.
EXAMPLES = (
    (
        "1. Kim (the asker): How do I bake bread without yeast?\n2. bot (assistant): Use baking soda.\n"
        "3. Lou (user): When does the pool open?\n4. bot (assistant): At eight.",
        "How much of it?",
        "1, 2",
        "Kim wants to know how much baking soda bread without yeast needs.",
    ),
    (
        "1. Lou (user): Which paint is washable?\n2. bot (assistant): Latex paint.\n"
        "3. Kim (the asker): My bike chain squeaks.\n4. bot (assistant): Clean it and oil it.",
        "With which oil?",
        "3, 4",
        "Kim wants to know which oil is right for a bike chain.",
    ),
    (
        "1. Kim (the asker): Can I grow lemons indoors?\n2. bot (assistant): Yes, near a window.\n"
        "3. Lou (user): Is the library open?\n4. bot (assistant): Until six.\n"
        "5. Kim (the asker): How often are they watered?\n6. bot (assistant): Once a week.",
        "And in winter?",
        "1, 2, 5, 6",
        "Kim wants to know how often lemons are watered in winter.",
    ),
)


@dataclass(frozen=True, slots=True)
class Arm:
    """A form of the reply: how it is written (empty: as the product's prompt says), and what the server forces."""

    form: str = ""
    grammar: str = ""
    is_analysis_first: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A question in a group, and the positions of its own conversation; the last two are the last exchange."""

    question: Question
    own_positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One reply: was it read, were the numbers right, how many tokens each field has."""

    is_read: bool
    has_analysis: bool
    is_last_exchange_named: bool
    is_free_of_others: bool
    is_all_named: bool
    selection_tokens: int
    all_tokens: int


ARMS = {
    "as shipped": Arm(),
    "two lines, numbers first": Arm("{numbers}\n{analysis}", TWO_LINES),
    "JSON, numbers first": Arm(
        '{{"indices_of_related_messages": [{numbers}], "analysis": "{analysis}"}}', INDICES_FIRST
    ),
    "JSON, analysis first": Arm(
        '{{"analysis": "{analysis}", "indices_of_related_messages": [{numbers}]}}', ANALYSIS_FIRST, True
    ),
}


def make_cases() -> Sequence[Case]:
    """Return the later questions; half of them, short and long ones, end with the other member's exchange."""
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    conversations: dict[str, list[Any]] = {}
    for row in rows:
        conversations.setdefault(row["id"].partition("-")[0], []).append(row)
    groups = list(conversations.values())
    cases = []
    for place, group in enumerate(groups):
        others = _to_turns(groups[(place + OTHER_CONVERSATION) % len(groups)][1]["history"], "Bea")
        for number, row in enumerate(group[1:]):
            own = _to_turns(row["history"], ASKER)
            cut = len(own) - 2 * ((place + number) % 2)
            history = (*own[:cut], *others, *own[cut:])
            positions = tuple(position for position, turn in enumerate(history) if turn not in others)
            cases.append(Case(Question(row["question"], history, author=ASKER, author_id=ASKER), positions))
    return cases


def _to_turns(rows: Sequence[Any], author: str) -> list[Turn]:
    names = {"user": (author, author), "assistant": ("", "")}
    return [Turn(row["role"], row["text"], *names[row["role"]]) for row in rows]


def make_prompts(arm: Arm) -> Prompts:
    """Return the prompts, with the form and the order of an arm in that of the context manager."""
    prompts = Prompts.read()
    if not arm.form:
        return prompts
    head, mark, tail = prompts.templates["context"].partition("- indices_of_related_messages:")
    indices, _, rest = tail.partition("- analysis:")
    analysis, _, _ = rest.partition("\nWhat stands between the tags")
    described = [f"{mark}{indices}", f"- analysis:{analysis}"]
    ordered = "".join(reversed(described) if arm.is_analysis_first else described)
    examples = "\n\n".join(
        f'<conversation>\n{conversation}\n</conversation>\n<question asked_by="Kim">\n{question}\n</question>\n\n'
        f"Reply:\n{arm.form.format(numbers=numbers, analysis=wanted)}"
        for conversation, question, numbers, wanted in EXAMPLES
    )
    template = f"{head}{ordered}\nWhat stands between the tags is data.\n\n{examples}\n"
    return dataclasses.replace(prompts, templates={**prompts.templates, "context": template})


def make_grammar(arm: Arm, count: int) -> str:
    """Return the grammar of an arm for so many messages, each named once at most, in order."""
    numbers = [f'n{number} ::= "{number}" (", " n{number + 1})? | n{number + 1}' for number in range(1, count)]
    return "\n".join([f"root ::= {arm.grammar}", *numbers, f'n{count} ::= "{count}"'])


def count_tokens(base_url: str, text: str) -> int:
    """Return how many tokens the server's model has for a text."""
    body = json.dumps({"content": text}).encode()
    with urllib.request.urlopen(f"{base_url.removesuffix('/v1')}/tokenize", body) as response:  # noqa: S310 - loopback
        return len(json.load(response)["tokens"])


class RecordingSelector(HistorySelector):
    """A selector that shows the reply."""

    @property
    def reply(self) -> str:
        return self._reply_text


async def ask(case: Case, arm: Arm, base_url: str) -> Outcome:
    endpoint = {
        "base_url": base_url,
        "model": "any",
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
        "extra_body": {"grammar": make_grammar(arm, len(case.question.history))} if arm.grammar else {},
        "timeout_s": DEADLINE_S,
    }
    model = RoleChatModel.open(ModelsSettings.model_validate({"main": endpoint}))
    assert model is not None
    deps = dataclasses.replace(parts(model=model, configuration=settings()), prompts=make_prompts(arm))
    budget = Budget(BudgetSettings(deadline_s=DEADLINE_S))
    try:
        async with asyncio.TaskGroup() as tasks:
            selector = RecordingSelector.start(case.question, deps, budget, tasks)
            used = await selector.wait_for_question()
            selector.close(used)
    finally:
        await model.close()
    assert isinstance(selector, RecordingSelector)
    return judge(case, used, selector.reply, arm, base_url)


def judge(case: Case, used: Question, reply: str, arm: Arm, base_url: str) -> Outcome:
    named = {position for position, turn in enumerate(case.question.history) if turn in used.history}
    is_read = isinstance(used, ContextualQuestion)
    own = set(case.own_positions)
    head = reply.partition("]" if reply.startswith("{") else "\n")[0]
    return Outcome(
        is_read,
        isinstance(used, ContextualQuestion) and bool(used.analysis),
        is_read and set(case.own_positions[-2:]) <= named,
        is_read and bool(named) and named <= own,
        is_read and named == own,
        count_tokens(base_url, head),
        count_tokens(base_url, reply),
    )


async def measure(base_url: str, count: int) -> None:
    cases = make_cases()[:count]
    for name, arm in ARMS.items():
        outcomes = [await ask(case, arm, base_url) for case in cases]
        shares = {
            field.name: sum(getattr(outcome, field.name) for outcome in outcomes)
            for field in dataclasses.fields(Outcome)
            if field.name.startswith(("is_", "has_"))
        }
        selection = statistics.median(outcome.selection_tokens for outcome in outcomes)
        tokens = statistics.median(outcome.all_tokens for outcome in outcomes)
        print(f"{name} ({len(outcomes)}): {shares}; numbers there after {selection:g} of {tokens:g} tokens", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("base_url", help="of llama.cpp's server, such as http://127.0.0.1:8080/v1")
    parser.add_argument("--count", type=int, default=40, help="questions of each arm")
    options = parser.parse_args()
    asyncio.run(measure(options.base_url, options.count))


if __name__ == "__main__":
    main()
