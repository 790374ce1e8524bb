"""`kimas eval`: measures labelled data and prints a table, a chart or a JSON object; a module per kind of data."""
