"""From an empty folder to the first answer in a group of telegram-mock-ai, a Telegram that we did not write.

See `tests/lab/independent/README.md`. Usage, with a wheel of `make wheel`:
`python -m tests.lab.independent.first_answer http://127.0.0.1:8081 --wheel dist/WHEEL`
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.lab.first_answer import record_installed
from tests.lab.independent.steps import parse_arguments
from tests.lab.independent.telegram_group import ADMIN, Group

MAX_STEPS = 6
MAX_SECONDS = 300


def main() -> None:
    """Go the whole way as `tests/lab/first_answer.py` does, and print it."""
    arguments = parse_arguments("telegram-mock-ai", "http://127.0.0.1:8081", admin=ADMIN, wheel="")
    group = Group(arguments.server, arguments.admin)
    result = asyncio.run(record_installed(Path(arguments.wheel), group, arguments.model))
    print(result.render())
    is_short = len(result.steps) <= MAX_STEPS and sum(result.seconds) <= MAX_SECONDS
    print(f"\n{'ok  ' if is_short else 'failed:'} {len(result.steps)} steps, {sum(result.seconds):.0f} s")
    raise SystemExit(not is_short)


if __name__ == "__main__":
    main()
