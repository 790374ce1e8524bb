"""An answer with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.types.passages import Citation, Passage
from core.types.trace import Shortfall, Trace


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: Markdown text in which [n] refers to `citations`, the passages behind it, and its trace.

    `image_description` is a model's description of the images in the question.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    passages: tuple[Passage, ...] = ()
    is_extractive: bool = False
    trace: Trace = field(default_factory=lambda: Trace("", "none", (), {}))
    image_description: str = ""

    @property
    def shortfall(self) -> Shortfall | None:
        """Why the reply is likely not to help, or None."""
        if self.is_extractive and "write" in self.trace.cut:
            return "quoted"
        if self.citations or not self.trace.query or self.trace.strategy == "none":
            return None
        if self.trace.dropped_citations:
            return "unsupported"
        return "nothing_found" if self.is_extractive or not self.passages else None
