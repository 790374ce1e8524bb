"""`kimas eval export`: lines that a model for the router can be trained with, from the journal and from a comparison.

A line holds the request as the router sends it, and the reply that was right. Its keys are those of common trainers:
`messages` to imitate, `label` for a choice that people liked or not, `rejected_response` for one that another beat.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bots.common.open_storage import open_existing_database
from bots.common.terminal import make_console
from bots.daemon.bootstrap import App, open_app
from bots.evaluation.comparison.results import ROUTER
from bots.evaluation.datasets import ANSWERS_LINE_FORMAT, parse_chat, read_answers, read_cases
from core.answering.agents.conversation import strip_old_marks
from core.answering.context import AnswerDependencies
from core.answering.strategies.router import make_choice
from core.errors import UsageError
from core.language.keywords import content_words
from core.language.languages import get_asker_language
from core.observability.logs import make_redactor
from core.settings import Settings
from core.settings.audience import Audiences
from core.settings.loader import get_secret_values
from core.storage.labelling import LabellingRepository, RoutedQuestion
from core.types import Question, Turn

Line = dict[str, Any]
NO_CHOICE = "the router has no choice to learn: strategies.allowed names one strategy alone"
NOTHING = "nothing to export: the journal has no question for which a model chose the strategy"
NO_COMPARISON = "is not what `kimas eval compare --json` prints"


@dataclass(frozen=True, slots=True)
class _Example:
    """A question, what the router chose, and the strategy that somebody preferred; `by` says who: a thumb, the judge.

    `is_liked` is None where nobody said anything. An empty `choice`: the router was not compared. `visible_labels` name
    the closed sources that the asker could see; None: all of them.
    """

    question: Question
    choice: str
    query: str = ""
    preferred: str = ""
    by: str = ""
    is_liked: bool | None = None
    visible_labels: frozenset[str] | None = None


async def export(settings: Settings, *, chat: str, judged: tuple[Path, Path] | None) -> int:
    """Print the lines as JSON Lines, without secrets and without names of people.

    `judged` is the output of `kimas eval compare --json` and the data that was compared. Raises `UsageError` where the
    router has nothing to choose, and for files that cannot be read.
    """
    if len(set(settings.strategies.allowed)) == 1:
        raise UsageError(NO_CHOICE)
    examples: list[_Example] = []
    async with open_existing_database(settings) as database:
        if database is not None:
            repository = LabellingRepository(database)
            routed = await repository.get_routed_questions(parse_chat(chat), settings.answer)
            examples += map(_from_journal, routed)
    if judged is not None:
        examples += await asyncio.to_thread(_read_judged, *judged, settings.strategies.allowed)
    redact = make_redactor(get_secret_values(settings))
    async with open_app(settings, with_answers=False) as app:
        for example in examples:
            if example.choice in (*settings.strategies.allowed, ""):
                sys.stdout.write(json.dumps(_to_line(example, app, redact), ensure_ascii=False) + "\n")
    if not examples:
        make_console(stderr=True).print(NOTHING, markup=False, soft_wrap=True)
    return 0


def _from_journal(routed: RoutedQuestion) -> _Example:
    # Empty where it has the words of the question, as the router is asked to leave it.
    is_new_query = set(content_words(routed.query)) != set(content_words(routed.question.text))
    query = routed.query if routed.strategy in ("single", "clarify") and is_new_query else ""
    is_liked = routed.balance > 0 if routed.balance else None
    return _Example(
        routed.question,
        routed.strategy,
        query,
        routed.strategy if is_liked else "",
        "" if is_liked is None else "thumb",
        is_liked,
        routed.visible_labels,
    )


def _read_judged(result: Path, data: Path, allowed: Sequence[str]) -> list[_Example]:
    """Return the questions of a comparison for which one strategy was judged better than all others. Blocking."""
    cases = read_cases(data, read_answers, ANSWERS_LINE_FORMAT)
    try:
        comparison = json.loads(result.read_text("utf-8"))
        strategies: dict[str, dict[str, str]] = {}
        for answer in comparison["answers"]:
            strategies.setdefault(answer["id"], {})[answer["system"]] = answer["strategy"]
        scores: dict[str, dict[str, float]] = {}
        for judgement in comparison["judgements"]:
            of_question = scores.setdefault(judgement["id"], {})
            for system, values in judgement["scores"].items():
                of_question[system] = of_question.get(system, 0.0) + sum(values.values())
    except OSError as error:
        raise UsageError(f"{result} cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{result} {NO_COMPARISON}") from error
    examples = []
    for case in cases:
        by_system = strategies.get(case.question.id, {})
        best_scores: dict[str, float] = {}
        for system, score in scores.get(case.question.id, {}).items():
            strategy = by_system.get(system, "")
            if strategy in allowed:
                best_scores[strategy] = max(score, best_scores.get(strategy, 0.0))
        ranking = sorted(best_scores, key=lambda name: -best_scores[name])
        if len(ranking) > 1 and best_scores[ranking[0]] > best_scores[ranking[1]]:
            examples.append(_Example(case.question, by_system.get(ROUTER, ""), preferred=ranking[0], by="judge"))
    return examples


def _to_line(example: _Example, app: App, redact: Callable[[str], str]) -> Line:
    question = strip_old_marks(_redact_question(example.question, redact))
    deps = _restrict(app.deps, example.visible_labels)
    prompts = deps.prompts.for_language(get_asker_language(question))
    request, _ = make_choice(question, deps.settings.strategies, prompts, deps.describe_knowledge())
    strategy = example.preferred or example.choice
    query = redact(example.query) if strategy == example.choice else ""
    prompt = [{"role": "system", "content": request.system}, {"role": "user", "content": request.turns[0].text}]
    line: Line = {
        "id": question.id,
        "question": question.text,
        "history": [{"role": turn.role, "text": turn.text} for turn in question.history],
        "choice": example.choice or None,
        "preferred": example.preferred or None,
        "by": example.by or None,
        "messages": [*prompt, {"role": "assistant", "content": _to_reply(strategy, query)}],
    }
    if example.is_liked is not None:
        line["label"] = example.is_liked
    if example.choice and example.preferred and example.choice != example.preferred:
        line["rejected_response"] = _to_reply(example.choice, redact(example.query))
    return line


def _restrict(deps: AnswerDependencies, visible_labels: frozenset[str] | None) -> AnswerDependencies:
    """Return what the router may know of: the model would tell others of sources that it was trained with."""
    if visible_labels is None:
        return deps
    audiences = Audiences.from_settings(deps.settings)
    seen = {name for name in audiences.by_source if not visible_labels.isdisjoint(audiences.list_labels([name]))}
    return deps.restricted_to(audiences.visible_sources(None) | seen)


def _to_reply(strategy: str, query: str) -> str:
    reply: Mapping[str, str] = {"strategy": strategy, "query": query}
    return json.dumps(reply, ensure_ascii=False)


def _redact_question(question: Question, redact: Callable[[str], str]) -> Question:
    history = tuple(Turn(turn.role, redact(turn.text), author_id=turn.author_id) for turn in question.history)
    return replace(question, text=redact(question.text), history=history)
