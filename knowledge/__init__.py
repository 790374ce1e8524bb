"""Sources, chunking, embedding, stores, routing and retrieval. Imports `core`, never `bots`."""
