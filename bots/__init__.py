"""The outermost layer: platforms, the command line, the wiring and the daemon."""
