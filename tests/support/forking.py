"""A server that forks one process per connection, as long as the process lives that has started it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

# How often the server looks whether the run is still there.
LOOK_S = 5


def serve(listener: socket.socket, handle: Callable[[socket.socket], NoReturn]) -> NoReturn:
    """Let a process of its own handle each connection. Whoever calls it says what becomes of those that have ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    listener.settimeout(LOOK_S)
    while os.getppid() == parent:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        if not os.fork():
            listener.close()
            try:
                handle(connection)
            finally:
                # Whatever happens, nobody but the server goes on behind this line.
                os._exit(1)
        connection.close()
    os._exit(0)
