"""HTTP endpoints of the daemon: metrics and health."""
