"""GitHub and GitLab: `adapter` asks what is new, `convert` makes messages of it, `sink` comments through `client`."""
