"""The common parts of the platform adapters: Markdown, message splitting, sinks, retries, connections, downloads."""
