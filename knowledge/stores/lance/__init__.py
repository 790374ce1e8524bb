"""The embedded store, on LanceDB."""
