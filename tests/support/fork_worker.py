"""A worker of pytest-xdist as a fork of what is loaded: pytest-xdist starts this in place of an interpreter.

It passes on its input, output and errors, and ends with the worker. Loading all modules is half of what a worker does
before its first test. Nothing is imported here that takes time.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> None:
    """Run the code of the last argument in a fork of the server, in the folder and the environment of this process."""
    # Ctrl-C reaches the worker as well, which ends in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["KIMAS_TEST_FORK_SERVER"] + "-workers")
        request = {
            "arguments": [],
            "folder": os.getcwd(),
            "environment": dict(os.environ),
            "is_terminal": False,
            "code": sys.argv[-1],
        }
        socket.send_fds(connection, [b"."], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("r") as lines:
            _process_id, code = lines
    sys.exit(int(code))


if __name__ == "__main__":
    main()
