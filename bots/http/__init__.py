"""Any network over plain HTTP: `server` (signed events in), `convert` (event to message), `sink`, `client` (out)."""
