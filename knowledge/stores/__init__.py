"""Where passages live: one module per database, each behind the `Store` protocol."""
