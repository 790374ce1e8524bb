"""Git repositories: clones that sources share, incremental listings, access."""
