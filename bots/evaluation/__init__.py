"""What `kimas eval` does: labelled data in, a table, a picture or one JSON object out; a module per kind of data."""
