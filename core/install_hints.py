"""How somebody installs what is missing, beside this code: by the command that works for this environment."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys


def get_install_command() -> list[str]:
    """Return what installs a package beside this code; nothing where neither pip nor uv is there.

    Environments of uv have no pip, and those of pipx and uv are not the one whose pip a shell finds.
    """
    uv = os.environ.get("UV") or shutil.which("uv")
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install"]
    return [uv, "pip", "install", "--python", sys.executable] if uv else []


def format_install_hint(extra: str) -> str:
    """Return what to do about an extra of KIMAs that is not installed, to follow a colon."""
    requirement = f"kimas[{extra}]"
    command = get_install_command()
    if not command:
        return f"install {requirement} into the environment of {sys.executable}"
    return f"run `{shlex.join([*command, requirement])}`"
