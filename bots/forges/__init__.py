"""GitHub: `adapter` asks for what is new, `convert` makes messages of it, `sink` comments through a `ForgeClient`."""
