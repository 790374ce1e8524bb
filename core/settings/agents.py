"""The retrieval agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class PairSettings(Section):
    """A question with its answer, as an example of what an agent knows."""

    question: str = Field(min_length=1, description="As users ask it")
    answer: str = Field(min_length=1, description="What the agent's sources say to it")


class MixInWeightSettings(Section):
    """What the kinds of mix-in count against each other: each one's cosine is multiplied with its weight."""

    description: float = Field(1.0, ge=0, le=1, description="Of the description; 0 leaves it out")
    examples: float = Field(1.0, ge=0, le=1, description="Of the examples; 0 leaves them out")
    pairs: float = Field(1.0, ge=0, le=1, description="Of questions with answers; 0 leaves them out")


class AgentSettings(Section):
    """A retrieval agent: one or a few similar sources, and what routing should know about them (KIMAs 3.2.2)."""

    sources: tuple[Name, ...] = Field(min_length=1, description="Names of its sources")
    description: str = Field("", description="Mixed into routing: what this agent knows, in the users' words")
    examples: tuple[str, ...] = Field((), description="Mixed into routing: questions or passages this agent stands for")
    pairs: tuple[PairSettings, ...] = Field((), description="Mixed into routing: questions with their answers")
    mix_in_weight: float = Field(0.3, ge=0, le=1, description="Weight of all that is mixed in against centroids")
    mix_in_weights: MixInWeightSettings = Field(
        MixInWeightSettings(), description="What the kinds of mix-in count against each other"
    )
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
    keep_original: bool = Field(
        False, description="Its knowledge is in several languages: search the question as it is beside its translation"
    )
    synonyms: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Words or phrases of users, each with what the knowledge says instead"
    )

    def mix_ins(self) -> Mapping[str, Sequence[str]]:
        """Return the texts mixed into routing by kind, as `mix_in_weights` names them; blank ones are left out.

        A pair is two texts, its question alone and with its answer: users ask in the words of either.
        """
        pairs = [text for one in self.pairs for text in (one.question, f"{one.question}\n{one.answer}")]
        texts = {"description": (self.description,), "examples": self.examples, "pairs": pairs}
        return {kind: [text for text in of if text.strip()] for kind, of in texts.items()}
