"""The embedded store: passages in an SQLite file, searched in memory with NumPy."""
