"""What an answer is made with: wired once at the start, the same for every question."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.llm.prompts import Prompts
from core.ports import ChatModel, Library, Reranker
from core.runtime.tasks import Turns
from core.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """The collaborators of the line. `model` is None when no language model is configured.

    Selecting evidence, writing prompts and comparing answers with their evidence go by `turns`.
    """

    settings: Settings
    library: Library
    reranker: Reranker
    model: ChatModel | None
    prompts: Prompts
    turns: Turns = field(default_factory=Turns)
