"""What the generator of a site is called here, and what some of them read that others do not."""

from __future__ import annotations

# Stands among the names of a page whose site is made by one of these, which read more than others.
GENERATOR = "{{site generator"
LIQUID = "liquid"
NUNJUCKS = "nunjucks"
PANDOC = "pandoc"
# The number of a chapter is part of the numbers in it.
PANDOC_BOOK = "pandoc book"
ZOLA = "zola"
# What Pandoc shows as a kind with a number.
CROSS_KINDS = {"fig": "Figure", "tbl": "Table", "lst": "Listing", "eq": "Equation", "sec": "Section"}
