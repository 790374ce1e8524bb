"""What the platform adapters share: Markdown, message splitting, sinks, retries, connections, downloads."""
