"""What the platform adapters share: delivery, live previews, connections, downloads."""
