"""Who gives way to whom when there are fewer processors than threads with work."""

from __future__ import annotations

import os
import sys
import threading

NICENESS = 10


def give_way() -> None:
    """Lower the priority of this thread and of those it starts, where the system has priorities by thread.

    The event loop does little at a time and must get its turn at once: with several texts in work on few processors
    every conversation stood still for tens of milliseconds.
    """
    if sys.platform == "linux":
        this = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, this, max(NICENESS, os.getpriority(os.PRIO_PROCESS, this)))
