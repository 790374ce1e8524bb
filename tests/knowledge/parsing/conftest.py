from __future__ import annotations

import pytest

from tests.support.forked_parsers import start_interpreters


@pytest.fixture(autouse=True)
def _interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes that read documents are started as the daemon does: what they are is judged here."""
    start_interpreters(monkeypatch)
