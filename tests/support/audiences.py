"""The audiences of a configuration that is made of its sources."""

from __future__ import annotations

from typing import Any

from core.settings import Settings
from core.settings.audience import Audiences

FOLDER = {"kind": "files", "path": "/kb"}


def get_audiences(**sources: dict[str, Any]) -> Audiences:
    """Return the audiences of these sources, which read a folder unless they say otherwise, and of taught answers."""
    telegram = {"token": {"env": "TELEGRAM"}}
    files = {
        name: {key: value for key, value in {**FOLDER, **source}.items() if value is not None}
        for name, source in sources.items()
    }
    return Audiences.from_settings(
        Settings.model_validate({"sources": {**files, "taught": {"kind": "learned"}}, "telegram": telegram})
    )
