"""How the evidence is put before the model that writes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.settings.base import Name, Section

Factor = Annotated[float, Field(gt=0, le=10)]


class EvidenceSettings(Section):
    """What of the passages found reaches the summarizer, and in which form."""

    layout: Literal["structured", "flat"] = Field("structured", description="With a header per passage, or text alone")
    order: Literal["edges", "ranked"] = Field(
        "edges", description="The best passage first and the second best last, or all by rank"
    )
    weights: dict[Name, Factor] = Field(
        default_factory=dict, description="By source: what its passages' scores are multiplied with, above 0 to 10"
    )
    duplicates: float = Field(
        0.85,
        gt=0,
        le=1,
        description="A passage of which a better one says this share already is left out; 1: copies only",
    )
    support_check: Literal["none", "words"] = Field(
        "words", description="Take citations away from sentences that their passage does not support"
    )
