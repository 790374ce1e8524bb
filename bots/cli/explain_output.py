"""`kimas search --explain`: the scores of all agents and those behind each passage, as tables or as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bots.common.terminal import format_table, strip_control_characters

if TYPE_CHECKING:
    from core.settings import KnowledgeSettings, Settings
    from knowledge.retrieval.score_explanation import AgentExplanation, PassageExplanation, RoutingMethod

MAX_MATCHED_TEXT_CHARS = 90
_ROUTING_DESCRIPTIONS = {
    "vectors": "routed by meaning: score = scale x ((1 - weight) x centroid + weight x mix-in)",
    "words": "routed by words: the embedding model does not know the query's, or did not answer",
    "option": "not routed: --agent names the agent",
}


def explanation_as_json(
    routing_method: RoutingMethod,
    agents: Sequence[AgentExplanation],
    passages: Sequence[PassageExplanation],
    settings: Settings,
) -> Mapping[str, Any]:
    """Return what `kimas search --explain --json` prints besides what it prints without (a contract)."""
    routing = settings.knowledge.routing
    return {
        "routing": {
            "by": routing_method,
            "limit": routing.agents,
            "threshold": routing.threshold,
            "agents": [_agent_as_json(agent) for agent in agents],
        },
        "scores": [
            {
                "passage_id": explanation.passage.id,
                "kind": explanation.passage.kind,
                "similarity": round(explanation.passage.similarity, 4),
                "lexical": round(explanation.passage.lexical, 4),
                "agents": {name: round(score, 4) for name, score in explanation.agent_scores.items()},
                "fused": round(explanation.fused_score, 4),
                "kind_weight": explanation.kind_weight,
                "score": round(explanation.passage.score, 4),
            }
            for explanation in passages
        ],
    }


def format_explanation_lines(
    routing_method: RoutingMethod,
    agents: Sequence[AgentExplanation],
    passages: Sequence[PassageExplanation],
    settings: KnowledgeSettings,
) -> Sequence[str]:
    """Return both tables, line by line."""
    routing, search = settings.routing, settings.search
    lines = [f"{_ROUTING_DESCRIPTIONS[routing_method]}; {routing.agents} at most, threshold {routing.threshold:g}"]
    rows = [
        ("agent", "score", "centroid", "mix-in", "weight", "mixed in", "scale", "asked"),
        *map(_agent_row, agents),
    ]
    lines += ["", *format_table(rows), ""]
    lines += [_format_matched_text(agent) for agent in agents if agent.routing_score and agent.routing_score.best_text]
    lines += [""] if lines[-1] else []
    if passages:
        lines.append(
            f"fused = {search.alpha:g} similarity + {1 - search.alpha:g} lexical, each from 0 to 1 over all found"
        )
        rows = [
            ("passage", "score", "fused", "similarity", "lexical", "kind", "found by"),
            *map(_passage_row, passages),
        ]
        lines += ["", *format_table(rows, left_columns=(0, 5, 6))]
    else:
        lines.append("nothing is found")
    return lines


def _agent_as_json(agent: AgentExplanation) -> Mapping[str, Any]:
    routing_score = agent.routing_score
    matched_text = routing_score.best_text if routing_score else None
    return {
        "name": agent.name,
        "asked": agent.is_selected,
        "score": _round_score(agent.score),
        "centroid": _round_score(routing_score.centroid_cosine) if routing_score else None,
        "mix_in": _round_score(routing_score.mix_in_cosine) if routing_score else None,
        "mix_in_weight": routing_score.mix_in_weight if routing_score else None,
        "mix_in_part": _round_score(routing_score.mix_in_contribution) if routing_score else None,
        "matched": {"kind": matched_text.kind, "text": matched_text.text, "weight": matched_text.weight}
        if matched_text
        else None,
        "scale": routing_score.scale if routing_score else None,
    }


def _agent_row(agent: AgentExplanation) -> Sequence[str]:
    routing_score = agent.routing_score
    values = (
        (
            routing_score.centroid_cosine,
            routing_score.mix_in_cosine,
            routing_score.mix_in_weight,
            routing_score.mix_in_contribution,
            routing_score.scale,
        )
        if routing_score
        else (None,) * 5
    )
    return agent.name, *map(_format_score, (agent.score, *values)), "yes" if agent.is_selected else "no"


def _format_matched_text(agent: AgentExplanation) -> str:
    """Say which text of the mix-in matched best, shortened to a line."""
    matched_text = agent.routing_score.best_text if agent.routing_score else None
    if matched_text is None:
        return ""
    text = " ".join(matched_text.text.split())
    excerpt = text if len(text) <= MAX_MATCHED_TEXT_CHARS else f"{text[:MAX_MATCHED_TEXT_CHARS]}..."
    return strip_control_characters(
        f"{agent.name}: best of the mix-in ({matched_text.kind}, weight {matched_text.weight:g}): {excerpt}"
    )


def _passage_row(explanation: PassageExplanation) -> Sequence[str]:
    passage = explanation.passage
    lines = f":{passage.start_line}-{passage.end_line}" if passage.start_line else ""
    weight = "" if explanation.kind_weight == 1 else f" x{explanation.kind_weight:g}"
    agent_scores = ", ".join(f"{name} {score:.3f}" for name, score in explanation.agent_scores.items())
    return (
        strip_control_characters(f"{passage.source}: {passage.path}{lines}"),
        *map(_format_score, (passage.score, explanation.fused_score, passage.similarity, passage.lexical)),
        f"{passage.kind}{weight}",
        agent_scores,
    )


def _format_score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _round_score(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
