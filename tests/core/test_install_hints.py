"""How an extra is installed into this environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from core.install_hints import format_install_hint


def test_an_extra_is_installed_by_what_works_for_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert format_install_hint("eval") == f"run `{sys.executable} -m pip install 'kimas[eval]'`"
    # As in an environment of `uv tool`.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("UV", "/opt/uv")
    assert format_install_hint("eval") == f"run `/opt/uv pip install --python {sys.executable} 'kimas[eval]'`"
    monkeypatch.delenv("UV")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert format_install_hint("eval") == f"install kimas[eval] into the environment of {sys.executable}"
