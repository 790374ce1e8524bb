"""The daemon and its log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from core.settings.base import Section


class RunSettings(Section):
    """The daemon."""

    workers: PositiveInt = Field(64, description="Answers in the making at the same time")
    grace_s: PositiveFloat = Field(20, description="After SIGTERM: time to finish what is in flight")


class LogSettings(Section):
    """Where the log goes is standard error; this is how it looks. auto: console in a terminal, JSON in a service."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="From which level up")
    format: Literal["auto", "json", "console"] = Field("auto", description="One JSON object or one coloured line each")
