"""Ports for what must know its port before it listens."""

from __future__ import annotations

import errno
import random
import socket

# Below those that the system gives to whoever asks for any port, for a connection too: none is taken meanwhile.
PORTS = range(15_000, 32_000)


def free_port() -> int:
    """Return a port of this machine on which nobody listens."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as item:
            try:
                item.bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return port
