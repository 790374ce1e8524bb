"""`python -m kimas`, and the command `kimas`."""

from __future__ import annotations

from bots.cli.main import main

if __name__ == "__main__":
    main(prog_name="kimas")
