"""Tools of the Model Context Protocol (MCP): other programs' models search the knowledge, and ask."""
