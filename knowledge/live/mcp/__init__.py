"""Tools of MCP servers as live sources. The SDK is loaded by the first question."""
