"""Connectors: sources of one service each, offered over the same entry points as the plug-ins of other packages."""
