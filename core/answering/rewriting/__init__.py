"""Rewriting a query for one retrieval agent (KIMAs 3.3.1): a list of strategies, one module each.

A strategy is an async callable `(queries, context) -> queries`; `running` composes them, `merging` joins what their
queries find. The agent's settings name them: `agents.NAME.rewrites`. Those of other packages come by entry point.
"""

from __future__ import annotations

from core.answering.rewriting.base import Query, Rewrite, RewriteContext

__all__ = ["Query", "Rewrite", "RewriteContext"]
