from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.runtime.tuning import THREAD_NICENESS, lower_thread_priority


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def of_a_thread_of_its_own() -> int:
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(niceness).result()


@pytest.mark.skipif(sys.platform != "linux", reason="priorities by thread are Linux's")
def test_a_thread_gives_way_with_those_it_starts_and_nobody_else_does() -> None:
    niceness_before = niceness()
    with ThreadPoolExecutor(1, initializer=lower_thread_priority) as humble:
        assert humble.submit(niceness).result() == max(THREAD_NICENESS, niceness_before)
        assert humble.submit(of_a_thread_of_its_own).result() == max(THREAD_NICENESS, niceness_before)
    assert niceness() == niceness_before
