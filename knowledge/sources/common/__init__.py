"""The common part of several kinds of sources: path filters, links and document checks."""
