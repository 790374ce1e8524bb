"""Compression: raw passages, or what is made of them; each retrieval agent's deployer decides (KIMAs 3.3.1).

`none` leaves the passages as they are. `extract` keeps the sentences closest to the query, as they stand. `model` has
the light model write what matters of each passage, one call per source, all at once; a passage that it says nothing
about keeps its text. A digest keeps its passage's id, place and link, so that it can be cited.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from core.answering.context.dependencies import Parts
from core.grounding.citations import sentences
from core.grounding.evidence import defuse, handle, render_within
from core.llm.structured_output import Calls
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.types import Passage, Turn

KEPT_SENTENCES = 3
_LINE = re.compile(r"^\W*(?:passage\s*)?p\s?(\d{1,3})\W*?[:：\-–]\s*(.+)$", re.MULTILINE | re.IGNORECASE)


async def compress(
    query: str, passages: Sequence[Passage], parts: Parts, budget: Budget, calls: Calls | None = None
) -> Sequence[Passage]:
    """Return the passages in the same order, those of compressing agents with a shorter text.

    What is too slow or fails is left as it was, and the stage `compress` is cut. `calls` limits the model calls.
    """
    modes = {name: agent.compression for agent in parts.settings.retrieval_agents().values() for name in agent.sources}
    groups: dict[tuple[str, str], list[Passage]] = {}
    for passage in passages:
        mode = modes.get(passage.source, "none")
        if mode == "extract" or (mode == "model" and parts.model):
            groups.setdefault((mode, passage.source if mode == "model" else ""), []).append(passage)
    work = [
        _digested(query, group, parts, parts.model, budget)
        if mode == "model" and parts.model
        else _extracted(query, group, parts)
        for (mode, _), group in groups.items()
        if mode == "extract" or calls is None or calls.take()
    ]
    if not work:
        return passages
    done = await budget.within("compress", _together(work), list)
    shorter = {passage.id: passage for group in done for passage in group}
    return [shorter.get(passage.id, passage) for passage in passages]


async def _together(work: Sequence[Coroutine[Any, Any, list[Passage]]]) -> list[list[Passage]]:
    async with task_group() as tasks:
        running = [tasks.create_task(one) for one in work]
    return [task.result() for task in running]


async def _extracted(query: str, passages: Sequence[Passage], parts: Parts) -> list[Passage]:
    """Keep the sentences closest to the query, in their order."""
    found = [sentences(passage.text) for passage in passages]
    closeness = iter(await parts.library.similarity(query, [one for group in found for one in group]))
    shorter = []
    for passage, group in zip(passages, found, strict=True):
        scored = [(next(closeness), position) for position in range(len(group))]
        best = sorted(position for _, position in sorted(scored, reverse=True)[:KEPT_SENTENCES])
        kept = " … ".join(group[position] for position in best)
        shorter.append(replace(passage, text=kept) if 0 < len(kept) < len(passage.text) else passage)
    return shorter


async def _digested(
    query: str, passages: Sequence[Passage], parts: Parts, model: ChatModel, budget: Budget
) -> list[Passage]:
    """Have the light model say what each passage contributes."""
    evidence = render_within(passages, parts.settings.evidence_tokens("light"))
    request = f"<evidence>\n{evidence}\n</evidence>\n<question>\n{defuse(query)}\n</question>"
    reply = await model.complete(
        parts.prompts.fill("compress"), [Turn("user", request)], role="light", budget=budget, agent="compress"
    )
    digests = {f"p{number}": text.strip() for number, text in _LINE.findall(reply)}
    return [
        replace(passage, text=digests.get(handle(position)) or passage.text)
        for position, passage in enumerate(passages)
    ]
