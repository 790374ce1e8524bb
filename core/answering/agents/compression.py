"""Compression: raw passages or digests of them, as each retrieval agent is configured (KIMAs 3.3.1).

`none` leaves the passages as they are. `extract` keeps the sentences closest to the query, unchanged. `model` has
the light model write what matters of each passage, one call per source, all at once; a passage that it says nothing
about keeps its text. A digest keeps its passage's id, place and link, so that it can be cited.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from core.answering.context import AnswerDependencies
from core.evidence.rendering import escape_delimiters, passage_ref, render_to_budget
from core.language.prose import split_sentences
from core.llm.structured_output import CallBudget
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.types import Passage, Turn

MAX_SENTENCES = 3
_DIGEST_LINE = re.compile(
    r"^[^\w\n]*+(?:passage\s{0,9})?p\s?(\d{1,3})\W{0,20}?[:：\-–]\s*(.+)$", re.MULTILINE | re.IGNORECASE
)


async def compress(
    query: str,
    passages: Sequence[Passage],
    deps: AnswerDependencies,
    budget: Budget,
    call_budget: CallBudget | None = None,
) -> Sequence[Passage]:
    """Return the passages in the same order, those of compressing agents with a shorter text.

    When compression fails or is too slow, the passages stay as they are and the stage `compress` is degraded.
    `call_budget` limits the model calls.
    """
    modes = {name: agent.compression for agent in deps.settings.retrieval_agents().values() for name in agent.sources}
    groups: dict[tuple[str, str], list[Passage]] = {}
    for passage in passages:
        mode = modes.get(passage.source, "none")
        if mode == "extract" or (mode == "model" and deps.model):
            groups.setdefault((mode, passage.source if mode == "model" else ""), []).append(passage)
    jobs = [
        _summarize_passages(query, group, deps, deps.model, budget)
        if mode == "model" and deps.model
        else _extract_sentences(query, group, deps)
        for (mode, _), group in groups.items()
        if mode == "extract" or call_budget is None or call_budget.try_take()
    ]
    if not jobs:
        return passages
    compressed_groups = await budget.run_stage("compress", _run_concurrently(jobs), list)
    passages_by_id = {passage.id: passage for group in compressed_groups for passage in group}
    return [passages_by_id.get(passage.id, passage) for passage in passages]


async def _run_concurrently(coroutines: Sequence[Coroutine[Any, Any, list[Passage]]]) -> list[list[Passage]]:
    async with task_group() as tasks:
        running_tasks = [tasks.create_task(coroutine) for coroutine in coroutines]
    return [task.result() for task in running_tasks]


async def _extract_sentences(query: str, passages: Sequence[Passage], deps: AnswerDependencies) -> list[Passage]:
    """Keep the sentences closest to the query, in their order."""
    sentence_groups = [split_sentences(passage.text) for passage in passages]
    similarities = iter(
        await deps.library.similarity(
            query, [sentence for sentence_group in sentence_groups for sentence in sentence_group]
        )
    )
    compressed_passages = []
    for passage, passage_sentences in zip(passages, sentence_groups, strict=True):
        similarity_positions = [(next(similarities), position) for position in range(len(passage_sentences))]
        best_positions = sorted(position for _, position in sorted(similarity_positions, reverse=True)[:MAX_SENTENCES])
        excerpt = " … ".join(passage_sentences[position] for position in best_positions)
        compressed_passages.append(replace(passage, text=excerpt) if 0 < len(excerpt) < len(passage.text) else passage)
    return compressed_passages


async def _summarize_passages(
    query: str, passages: Sequence[Passage], deps: AnswerDependencies, model: ChatModel, budget: Budget
) -> list[Passage]:
    """Return the passages with the light model's summary of what each contributes."""
    evidence = render_to_budget(passages, deps.settings.evidence_tokens("light"))
    request = f"<evidence>\n{evidence}\n</evidence>\n<question>\n{escape_delimiters(query)}\n</question>"
    reply = await model.complete(
        deps.prompts.fill("compress"), [Turn("user", request)], role="light", budget=budget, agent="compress"
    )
    digests = {f"p{number}": text.strip() for number, text in _DIGEST_LINE.findall(reply)}
    return [
        replace(passage, text=digests.get(passage_ref(position)) or passage.text)
        for position, passage in enumerate(passages)
    ]
