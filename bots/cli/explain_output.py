"""`kimas search --explain`: the scores of all agents and those behind each passage, as tables or as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bots.common.terminal import printable, table_lines

if TYPE_CHECKING:
    from core.settings import KnowledgeSettings, Settings
    from knowledge.retrieval.score_explanation import AgentExplained, PassageExplained, Way

LONGEST_TOLD = 90
_ROUTED = {
    "vectors": "routed by meaning: score = scale x ((1 - weight) x centroid + weight x mix-in)",
    "words": "routed by words: the embedding model does not know the query's, or did not answer",
    "option": "not routed: --agent names the agent",
}


def explained_as_json(
    way: Way, agents: Sequence[AgentExplained], passages: Sequence[PassageExplained], settings: Settings
) -> Mapping[str, Any]:
    """Return what `kimas search --explain --json` prints besides what it prints without (a contract)."""
    routing = settings.knowledge.routing
    return {
        "routing": {
            "by": way,
            "limit": routing.agents,
            "threshold": routing.threshold,
            "agents": [_agent_as_json(one) for one in agents],
        },
        "scores": [
            {
                "passage_id": one.passage.id,
                "kind": one.passage.kind,
                "similarity": round(one.passage.similarity, 4),
                "lexical": round(one.passage.lexical, 4),
                "agents": {name: round(score, 4) for name, score in one.agents.items()},
                "fused": round(one.fused, 4),
                "kind_weight": one.kind_weight,
                "score": round(one.passage.score, 4),
            }
            for one in passages
        ],
    }


def explained_lines(
    way: Way,
    agents: Sequence[AgentExplained],
    passages: Sequence[PassageExplained],
    settings: KnowledgeSettings,
) -> Sequence[str]:
    """Return both tables, line by line."""
    routing, search = settings.routing, settings.search
    lines = [f"{_ROUTED[way]}; {routing.agents} at most, threshold {routing.threshold:g}"]
    rows = [
        ("agent", "score", "centroid", "mix-in", "weight", "mixed in", "scale", "asked"),
        *map(_agent_row, agents),
    ]
    lines += ["", *table_lines(rows), ""]
    lines += [_told_line(one) for one in agents if one.fit and one.fit.told]
    lines += [""] if lines[-1] else []
    if passages:
        lines.append(
            f"fused = {search.alpha:g} similarity + {1 - search.alpha:g} lexical, each from 0 to 1 over all found"
        )
        rows = [
            ("passage", "score", "fused", "similarity", "lexical", "kind", "found by"),
            *map(_passage_row, passages),
        ]
        lines += ["", *table_lines(rows, left=(0, 5, 6))]
    else:
        lines.append("nothing is found")
    return lines


def _agent_as_json(agent: AgentExplained) -> Mapping[str, Any]:
    fit = agent.fit
    told = fit.told if fit else None
    return {
        "name": agent.name,
        "asked": agent.asked,
        "score": _rounded(agent.score),
        "centroid": _rounded(fit.centroid) if fit else None,
        "mix_in": _rounded(fit.mix_in) if fit else None,
        "mix_in_weight": fit.mix_in_weight if fit else None,
        "mix_in_part": _rounded(fit.mix_in_part) if fit else None,
        "matched": {"kind": told.kind, "text": told.text, "weight": told.weight} if told else None,
        "scale": fit.scale if fit else None,
    }


def _agent_row(agent: AgentExplained) -> Sequence[str]:
    fit = agent.fit
    numbers = (fit.centroid, fit.mix_in, fit.mix_in_weight, fit.mix_in_part, fit.scale) if fit else (None,) * 5
    return agent.name, *map(_shown, (agent.score, *numbers)), "yes" if agent.asked else "no"


def _told_line(agent: AgentExplained) -> str:
    """Say which text of the mix-in matched best, shortened to a line."""
    told = agent.fit.told if agent.fit else None
    if told is None:
        return ""
    text = " ".join(told.text.split())
    shortened = text if len(text) <= LONGEST_TOLD else f"{text[:LONGEST_TOLD]}..."
    return printable(f"{agent.name}: best of the mix-in ({told.kind}, weight {told.weight:g}): {shortened}")


def _passage_row(one: PassageExplained) -> Sequence[str]:
    passage = one.passage
    lines = f":{passage.start_line}-{passage.end_line}" if passage.start_line else ""
    weight = "" if one.kind_weight == 1 else f" x{one.kind_weight:g}"
    found_by = ", ".join(f"{name} {score:.3f}" for name, score in one.agents.items())
    return (
        printable(f"{passage.source}: {passage.path}{lines}"),
        *map(_shown, (passage.score, one.fused, passage.similarity, passage.lexical)),
        f"{passage.kind}{weight}",
        found_by,
    )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
