"""How the evidence is put before the model that writes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from core.settings.base import Section


class EvidenceSettings(Section):
    """What of the passages found reaches the summarizer, and in which form."""

    layout: Literal["structured", "flat"] = Field("structured", description="With a header per passage, or text alone")
