"""Rewriting a query for one retrieval agent (KIMAs 3.2).

A strategy is an async callable `(queries, context) -> queries`. `rewrites` holds the built-in ones, `runner` runs
those that `agents.NAME.rewrites` lists and merges what their queries find. Other packages offer more by entry point.
"""

from __future__ import annotations

from core.answering.context import Query, Rewrite, RewriteContext

__all__ = ["Query", "Rewrite", "RewriteContext"]
