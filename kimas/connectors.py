"""The connectors of KIMAs, as its entry points name them: each makes a source from the options of `kind: own`."""

from __future__ import annotations

from knowledge.connectors.discourse import open_discourse

__all__ = ["open_discourse"]
