"""Concurrency: task groups, the latency budget, timers, file locks."""
