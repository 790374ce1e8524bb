"""What other packages extend KIMAs with, in a checkout and in a wheel: types of sources and of rewrites.

docs/sources.md and docs/answering.md have examples.
"""

from core.answering.rewriting import Query, RewriteContext
from core.errors import SourceError
from knowledge.parsing.parser import Parser
from knowledge.ports import Document, Listing, Source

__all__ = ["Document", "Listing", "Parser", "Query", "RewriteContext", "Source", "SourceError"]
