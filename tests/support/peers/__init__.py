"""Strict stand-ins for the services that KIMAs talks to, each over real sockets on the loopback."""
