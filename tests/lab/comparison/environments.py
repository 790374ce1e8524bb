"""A virtual environment per framework, below `.cache/comparison`, from the pins in `requirements`."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.lab.comparison.systems import OWN

REQUIREMENTS = Path(__file__).with_name("requirements")
UV = Path(sys.executable).with_name("uv")


def pins(environment: str) -> Path:
    return REQUIREMENTS / f"{environment}.txt"


def versions(environment: str) -> dict[str, str]:
    """Return the pinned versions of what a framework's own file of requirements names; none for our environment."""
    if environment == OWN:
        return {}
    names = {line.partition("[")[0] for line in (REQUIREMENTS / f"{environment}.in").read_text("utf-8").split()}
    lines = (line.partition(";")[0].strip().split("==") for line in pins(environment).read_text("utf-8").splitlines())
    return {name: version for name, version in lines if name in names}


def make_environment(environment: str, folder: Path) -> Path:
    """Return the interpreter of an environment; make it first where it is missing or its pins have changed."""
    if environment == OWN:
        return Path(sys.executable)
    directory = folder / environment
    python = directory / "bin/python"
    stamp = directory / "pins"
    expected_hash = hashlib.sha256(pins(environment).read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != expected_hash:
        subprocess.run((UV, "venv", "--quiet", "--clear", "--python", sys.executable, directory), check=True)
        install = ("pip", "install", "--quiet", "--compile-bytecode", "--python", python)
        subprocess.run((UV, *install, "--no-deps", "--requirement", pins(environment)), check=True)
        stamp.write_text(expected_hash)
    return python


def lock() -> None:
    """Pin again what each framework's file of requirements names."""
    for file in sorted(REQUIREMENTS.glob("*.in")):
        options = ("--universal", "--python-version", "3.11", "--upgrade", "--no-header", "--no-annotate")
        hidden = ("--no-emit-index-url", "--no-emit-find-links")
        target = file.with_suffix(".txt")
        subprocess.run((UV, "pip", "compile", "--quiet", *options, *hidden, file, "-o", target), check=True)
