"""Under which settings, and so for whom, the passages of a source were read: it stands in the store beside them.

A label is a document without passages. A backup that comes back brings its own.
"""

from __future__ import annotations

from collections.abc import Collection

from core.settings.audience import Audiences
from knowledge.ports import Store, label_name
from knowledge.stores.locked_store import LockedStore

# Who may see a source, in the fingerprint of its settings.
OPEN = "open"
CLOSED = "closed"
_PARTS = "parts:"
# Between the hash of a source's settings and that of its secrets, in a fingerprint.
SECRETS_SIGN = "~"
# Between the hash of a source's settings and how much of it is read. Earlier versions did not write that.
_READING_SIGN = "."


async def write_label(store: Store | LockedStore, source: str, fingerprints: Collection[str]) -> None:
    """Record under which settings a source's passages may have been read. Raises `StoreError`."""
    name = label_name(source)
    known_fingerprints = await store.manifest(name)
    if set(known_fingerprints) != set(fingerprints):
        await store.replace(name, known_fingerprints, [], {fingerprint: fingerprint for fingerprint in fingerprints})


def read_readers(fingerprint: str) -> tuple[str, str]:
    """Return the label that stands in a fingerprint, and whether everybody could see the source.

    >>> read_readers("docs#1f2e open 77"), read_readers('docs#1f2e closed [["owners"]] 77')
    (('docs#1f2e', 'open'), ('docs#1f2e', 'closed'))
    """
    label, _, visibility = fingerprint.rpartition(" ")[0].partition(" ")
    return label, visibility.partition(" ")[0]


def read_audiences(fingerprint: str) -> str:
    """Return who could see a closed source, as JSON; "" where a fingerprint does not say it.

    >>> read_audiences('docs#1f2e closed [["owners"]] 77'), read_audiences("docs#1f2e open parts:5c 77")
    ('[["owners"]]', '')
    """
    text = fingerprint.rpartition(" ")[0].partition(" ")[2].partition(" ")[2].partition(" ")[0]
    return "" if text.startswith(_PARTS) else text


def read_closed_parts(fingerprint: str) -> str:
    """Return the hash of what others read for fewer people of the place of a source; "" for nothing.

    >>> read_closed_parts('docs#1f2e closed [["owners"]] parts:5c 77'), read_closed_parts("docs#1f2e open 77")
    ('5c', '')
    """
    last_word = fingerprint.rpartition(" ")[0].rpartition(" ")[2]
    return last_word.removeprefix(_PARTS) if last_word.startswith(_PARTS) else ""


def read_reading(fingerprint: str) -> str:
    """Return how much of a source was read, and with whose rights; "" where a fingerprint does not say it.

    >>> read_reading("docs#1f2e open 77.5c~9f"), read_reading("docs#1f2e open 77~9f")
    ('5c', '')
    """
    return fingerprint.rpartition(" ")[2].partition(SECRETS_SIGN)[0].partition(_READING_SIGN)[2]


def write_settings(digest: str, reading: str, secrets: str) -> str:
    """Return the hashes of a source's settings, of how much is read, and of the secrets, as a fingerprint ends.

    >>> write_settings("77", "5c", "9f"), write_settings("77", "5c", "")
    ('77.5c~9f', '77.5c')
    """
    settings = f"{digest}{_READING_SIGN}{reading}"
    return f"{settings}{SECRETS_SIGN}{secrets}" if secrets else settings


def write_as_former(fingerprint: str, former: str) -> str:
    """Return a fingerprint as the earlier version would have written it that a former one is of, if it is of one.

    >>> write_as_former("docs#1f2e open 77.5c~9f", "docs#1f2e open 66~9f")
    'docs#1f2e open 77~9f'
    """
    reading = read_reading(fingerprint)
    if not reading or read_reading(former):
        return fingerprint
    before, sign, after = fingerprint.rpartition(f"{_READING_SIGN}{reading}")
    return f"{before}{after}" if sign else fingerprint


def write_closed_parts(parts: str) -> str:
    """Return a hash as it stands in a fingerprint.

    >>> write_closed_parts("5c"), write_closed_parts("")
    ('parts:5c', '')
    """
    return parts and f"{_PARTS}{parts}"


def has_other_parts(fingerprints: Collection[str], closed_parts: str) -> bool:
    """Return whether what a source stores may have been read when others read less of its place for fewer people."""
    return bool(closed_parts) and any(read_closed_parts(fingerprint) != closed_parts for fingerprint in fingerprints)


def was_read_otherwise(name: str, fingerprints: Collection[str], audiences: Audiences, reading: str) -> bool:
    """Return whether what a source stores was read by other settings than now, and may show what fewer may see.

    They took more, or had other rights: what lies in its place for fewer people may have been in it, and where it was
    closed, all of it was for those who could see it.
    """
    others = [each for each in fingerprints if read_reading(each) not in ("", reading)]
    return has_been_closed(name, others, audiences) or bool(others and audiences.closed_inside.get(name))


def has_been_closed(name: str, fingerprints: Collection[str], audiences: Audiences) -> bool:
    """Return whether what a source stores may have been read when fewer people could see it."""
    return any(read_readers(each)[1] == CLOSED and _is_open_to_more(name, each, audiences) for each in fingerprints)


def _is_open_to_more(name: str, fingerprint: str, audiences: Audiences) -> bool:
    # Earlier versions did not write who the readers were.
    readers = read_audiences(fingerprint)
    return bool(readers) and audiences.is_open_to_more(name, readers)


def may_be_closed(
    name: str, fingerprints: Collection[str], audiences: Audiences, closed_parts: str, reading: str
) -> bool:
    """Return whether what a source stores may be of a source that had its name, and that not everybody may see.

    One that was open may be closed under another name now, or lie within one that is. Taught answers may have been
    chosen for other readers. What others read of its place for fewer people (`closed_parts`) may have been in it, and
    what it took when more of it was read than its `reading` says.
    """
    if has_other_parts(fingerprints, closed_parts) or was_read_otherwise(name, fingerprints, audiences, reading):
        return True
    if name in audiences.learned:
        chosen_for = (audiences.get_label(name), audiences.fingerprint or OPEN)
        return any(read_readers(fingerprint) != chosen_for for fingerprint in fingerprints)
    former_readers = [readers for readers in map(read_readers, fingerprints) if readers[0] != audiences.get_label(name)]
    was_closed = any(visibility == CLOSED for _, visibility in former_readers)
    return was_closed or (audiences.has_closed_sources and any(label for label, _ in former_readers))
