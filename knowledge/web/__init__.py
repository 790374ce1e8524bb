"""One guarded HTTP client for every source that is reached over the network."""
