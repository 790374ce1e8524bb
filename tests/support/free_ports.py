"""Ports for what must know its port before it listens."""

from __future__ import annotations

import errno
import random
import socket

# Below those that the system gives to whoever asks for any port, for a connection too: none is taken meanwhile, nor
# while a server that was killed is started again.
PORTS = range(15_000, 32_000)


def free_port() -> int:
    """Return a port of this machine on which nobody listens."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return so many ports in a row on which nobody listens."""
    while True:
        first = random.choice(PORTS[:-count])
        ports = list(range(first, first + count))
        if all(_is_free(port) for port in ports):
            return ports


def _is_free(port: int) -> bool:
    with socket.socket() as item:
        try:
            item.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True
