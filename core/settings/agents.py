"""The retrieval agents."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt

from core.settings.base import Name, Section

BUILT_IN_REWRITES = ("prompt", "retrieval", "keyword", "hyde", "translation", "rule", "decompose")
# Installed packages offer rewrites of their own under this group.
REWRITES_GROUP = "kimas.rewrites"


def _known_rewrite(name: str) -> str:
    if name in BUILT_IN_REWRITES:
        return name
    # Only now: reading what all installed packages offer takes a while.
    known = (*BUILT_IN_REWRITES, *sorted({one.name for one in entry_points(group=REWRITES_GROUP)}))
    if name not in known:
        raise ValueError(f"no rewrite is named {name!r} (known: {', '.join(known)})")
    return name


Rewrite = Annotated[str, AfterValidator(_known_rewrite)]


class AgentSettings(Section):
    """A retrieval agent: one or a few similar sources, and what routing should know about them (KIMAs 3.2.2)."""

    sources: tuple[Name, ...] = Field(min_length=1, description="Names of its sources")
    description: str = Field("", description="Mixed into routing: what this agent knows, in the users' words")
    examples: tuple[str, ...] = Field((), description="Mixed into routing: questions this agent should get")
    mix_in_weight: float = Field(0.3, ge=0, le=1, description="Weight of description and examples against centroids")
    scale: PositiveFloat = Field(1.0, description="Multiplies the routing score")
    limit: PositiveInt = Field(12, description="Passages this agent returns at most")
    prompts: dict[Name, Path] = Field(
        default_factory=dict, description="Templates of this agent's own, by their name in core/prompts"
    )
    compression: Literal["none", "extract", "model"] = Field(
        "none", description="Raw passages, or what is made of them"
    )
    rewrites: tuple[Rewrite, ...] = Field(
        (),
        max_length=6,
        description="How a query is rewritten for this agent, in this order: " + ", ".join(BUILT_IN_REWRITES),
    )
    language: str = Field(
        "", max_length=40, description="Language of its knowledge (en, English): what translation translates into"
    )
    synonyms: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Words or phrases of users, each with what the knowledge says instead"
    )
