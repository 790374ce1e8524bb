"""The connectors of KIMAs, as its entry points name them: each makes a source from the options of `kind: own`."""

from __future__ import annotations

from knowledge.connectors.confluence import open_confluence
from knowledge.connectors.discord import open_discord
from knowledge.connectors.discourse import open_discourse
from knowledge.connectors.google_drive import open_google_drive
from knowledge.connectors.notion import open_notion
from knowledge.connectors.slack import open_slack

__all__ = ["open_confluence", "open_discord", "open_discourse", "open_google_drive", "open_notion", "open_slack"]
