"""Starts the daemon again and again, without the seconds that its imports take: a process of its own each time.

Everything is imported once, here; every line on standard input forks a process that runs `kimas` with the arguments of
that line (JSON: {"arguments": [...], "log": path}), and its process id is the line that is printed.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from bots.cli.main import main as kimas
from bots.discord.adapter import load_client as load_discord
from bots.slack.adapter import _load_client as load_slack
from bots.telegram.adapter import load_client as load_telegram


def _preload() -> None:
    load_telegram()
    load_discord()
    load_slack()
    import bots.bluesky.adapter
    import bots.daemon.runner
    import bots.forges.adapter
    import bots.http.adapter
    import bots.mastodon.adapter  # noqa: F401
    import knowledge.stores.sqlite.store  # noqa: F401


def _run(arguments: list[str], log: str) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(descriptor, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        kimas(arguments)
    except SystemExit as error:
        os._exit(error.code if isinstance(error.code, int) else 1)


def main() -> None:
    """Serve until standard input ends."""
    _preload()
    # Nobody waits for the processes that were killed.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            _run(request["arguments"], request["log"])
        print(pid, flush=True)


if __name__ == "__main__":
    main()
