"""The retrieval agents."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from core.settings.base import Name, Section


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
