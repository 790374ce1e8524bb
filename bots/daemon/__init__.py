"""The daemon: wiring, running, the platforms and feeds it serves, and what monitors it."""
