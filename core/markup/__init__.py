"""Reads Markdown and reStructuredText as blocks."""
