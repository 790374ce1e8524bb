"""Keeping stored sources up to date: schedule, refresh, incremental sync."""
