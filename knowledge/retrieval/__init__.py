"""Routing a query to retrieval agents and searching their sources."""
