"""What an answer is made with: wired once at the start, the same for every question."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.llm.prompts import Prompts
from core.ports import ChatModel, Library, Reranker
from core.runtime.tasks import CpuTurnstile
from core.settings import Settings


@dataclass(frozen=True, slots=True)
class AnswerDependencies:
    """The collaborators of the line. `model` is None when no language model is configured.

    Selecting evidence, writing prompts and comparing answers with their evidence go by `turns`.
    """

    settings: Settings
    library: Library
    reranker: Reranker
    model: ChatModel | None
    prompts: Prompts
    turnstile: CpuTurnstile = field(default_factory=CpuTurnstile)
