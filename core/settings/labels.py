"""What names a source in the journal and in a store: by its name, what it reads, how much of it, and who may see it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Set

from core.settings.sources import SourceSettings

# What tells apart what sources of one kind read. A source that gets another's name is another source.
_ORIGIN_FIELDS = {
    "kind",
    "path",
    "url",
    "base_url",
    "bases",
    "provider",
    "engine",
    "branch",
    "branches",
    "repository",
    "project",
    "api_url",
    "of",
    "queries",
    "queries_file",
    "plugin",
    "options",
    "command",
    "tool",
}
# What changes nothing of what a source reads but how often and how fast. All else tells how much of it is read, and
# with whose rights: an answer that was made before something was left out may tell of it.
_HOW_FIELDS = {
    "audience",
    "link",
    "refresh",
    "limit",
    "timeout_s",
    "cache_s",
    "ask",
    "enough",
    "requests_per_day",
    "delay_s",
    "allow_private",
    "full_days",
    "known_hosts",
    "host_keys",
}
# By these a source leaves out what it would read.
_GLOB_FIELDS = {"include", "exclude"}
# Between the name and what is read, in a label. No name of a source has it.
LABEL_SIGN = "#"
# Between a label and how much of it is read. Labels in journals of earlier versions end before it.
SCOPE_SIGN = "."
# Between a label and what of its place fewer people could see. Without it, nothing of it was closed to others.
INSIDE_SIGN = "+"
# Between a label and who could see it when something was taught.
READERS_SIGN = " "


def make_label(name: str, source: SourceSettings, live: SourceSettings | None = None) -> str:
    """Return what names a source in the journal; `live` is the one whose results it stores.

    >>> from core.settings.sources import LearnedSource
    >>> make_label("taught", LearnedSource(kind="learned"))
    'taught#a7f4e248ff21'
    """
    sections = [source, live] if live else [source]
    origins = [sorted(section.model_dump(mode="json", include=_ORIGIN_FIELDS).items()) for section in sections]
    return f"{name}{LABEL_SIGN}{hash_text(repr(origins if live else origins[0]))}"


def make_scope(label: str, source: SourceSettings, sources: Mapping[str, SourceSettings]) -> str:
    """Return the label of a source with how much of it is read.

    What the configuration does not say is left out, so that new settings change nothing.
    """
    return f"{label}{SCOPE_SIGN}{_hash_scope(source, sources, _ORIGIN_FIELDS)}"


def make_reading(source: SourceSettings, sources: Mapping[str, SourceSettings]) -> str:
    """Return what tells how much of a source was read into a store, and with whose rights.

    Globs are no part of it: they judge what is there. What a standing source holds was read as its live source says.
    """
    return _hash_scope(source, sources, _ORIGIN_FIELDS | _GLOB_FIELDS)


def _hash_scope(source: SourceSettings, sources: Mapping[str, SourceSettings], left_out: Set[str]) -> str:
    live = sources.get(getattr(source, "of", ""))
    sections = [source, live] if live else [source]
    dumps = (each.model_dump_json(exclude={*_HOW_FIELDS, *left_out}, exclude_defaults=True) for each in sections)
    return hash_text("".join(dumps))


def hash_text(text: str) -> str:
    """Return a short hash of a text, as labels have it."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def split_scope(label: str) -> tuple[str, str]:
    """Return the label of a source, and the sign of what of its place was closed, of one that says how much it reads.

    >>> split_scope("docs#1f2e.77+3c"), split_scope("docs#1f2e.77"), split_scope("docs#1f2e")
    (('docs#1f2e', '3c'), ('docs#1f2e', ''), ('', ''))
    """
    label, _, scope = label.rpartition(SCOPE_SIGN)
    return label, scope.partition(INSIDE_SIGN)[2]


def to_narrowest(labels: Iterable[str]) -> frozenset[str]:
    """Return labels without those that others say more exactly, as a journal keeps them.

    >>> sorted(to_narrowest({"docs#1f2e", "docs#1f2e.77", "team#3c"}))
    ['docs#1f2e.77', 'team#3c']
    """
    labels = frozenset(labels)
    return labels - {label.rpartition(SCOPE_SIGN)[0] for label in labels}
