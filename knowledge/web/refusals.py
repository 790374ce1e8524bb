"""Services that refuse us: what was known stays for some days, so that a token may be renewed, and goes then."""

from __future__ import annotations

import time
from collections.abc import Collection, MutableMapping

# Not ours any more, or not there, as far as a service says it. Others may be an outage.
REFUSED_STATUSES = frozenset({401, 403, 404, 410, 451})
# As long as connectors take until they read everything anew.
KEPT_S = 7 * 86_400.0


def note_refusals(since: MutableMapping[str, float], refused: Collection[str], answered: Collection[str]) -> list[str]:
    """Record since when parts of a source are refused, and return those that are for too long: what is known goes.

    A part that `answered` has a new start; one that did neither, such as one whose server is down, stays as it is.

    >>> since = {"old": 1.0, "back": 2.0}
    >>> note_refusals(since, ["old", "new"], ["back"]), sorted(since)
    (['old'], ['new', 'old'])
    """
    now = time.time()
    for part in answered:
        since.pop(part, None)
    for part in refused:
        # The clock may have been ahead.
        since[part] = min(since.get(part, now), now)
    return [part for part in refused if now - since[part] >= KEPT_S]
