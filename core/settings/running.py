"""The daemon, its journal and its log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from core.settings.base import Section


class RunSettings(Section):
    """The daemon."""

    workers: PositiveInt = Field(64, description="Answers in the making at the same time")
    grace_s: PositiveFloat = Field(20, description="After SIGTERM: time to finish what is in flight")


class MetricsSettings(Section):
    """Where numbers and health are asked for over HTTP. Nothing is counted without a port."""

    host: str = Field("127.0.0.1", description="The address to listen on")
    port: int | None = Field(None, ge=0, le=65535, description="The port to listen on; null: none")


class JournalSettings(Section):
    """How long the journal keeps what people said and were told. null keeps it for ever."""

    keep_days: PositiveFloat | None = Field(90, description="Texts and names of settled messages; whose usage it was")
    keep_unanswered_days: PositiveFloat | None = Field(7, description="The same of messages that got no answer")


class LogSettings(Section):
    """Where the log goes is standard error; this is how it looks. auto: console in a terminal, JSON in a service."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="From which level up")
    format: Literal["auto", "json", "console"] = Field("auto", description="One JSON object or one coloured line each")
