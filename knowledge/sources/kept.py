"""What sources keep on this machine for their next refresh, and for whom it was read: that stands beside it.

The store says it of its passages, and the journal of the last refresh. Both may be another machine's, and what is kept
here may outlive them: a source is removed and comes back, or its name is that of another one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from core.errors import SourceError
from core.settings import FaqSource, FilesSource, LearnedSource, SourceSettings
from knowledge.sources.common.state_files import TEXT_FOLDERS, read_json, write_atomically
from knowledge.sources.git.state import delete_git_state

LABELS_FOLDER = "labels"
_SUFFIX = ".json"
# These read all they need each time.
_FORGETFUL_KINDS = FilesSource | FaqSource | LearnedSource


@dataclass(frozen=True, slots=True)
class KeptLabel:
    """Under which settings what a source keeps may have been read, by their fingerprints.

    `success` is the last successful refresh that the journal knew when one ended here.
    """

    fingerprints: tuple[str, ...] = ()
    success: str = ""


def keeps_state(settings: SourceSettings) -> bool:
    """Return whether a source keeps anything of what it has read."""
    return not isinstance(settings, _FORGETFUL_KINDS)


def read_kept_label(data_dir: Path, name: str) -> KeptLabel | None:
    """Return the label of what a source keeps; None where there is none, as of earlier versions. Blocking."""
    try:
        data = read_json(_find_label(data_dir, name))
        return KeptLabel(tuple(map(str, data["fingerprints"])), str(data["success"]))
    except (OSError, ValueError, TypeError, LookupError):
        return None


def write_kept_label(data_dir: Path, name: str, label: KeptLabel) -> None:
    """Label what a source keeps. Blocking. Raises `SourceError`: what nobody knows the readers of must not be kept."""
    file = _find_label(data_dir, name)
    try:
        write_atomically(file, json.dumps(asdict(label)))
    except OSError as error:
        raise SourceError(f"source {name}: {file} cannot be written: {error.strerror}") from error


def delete_source_state(data_dir: Path, name: str) -> None:
    """Delete the documents that a source keeps for its next refresh: that reads all anew. Blocking."""
    delete_git_state(data_dir, name)
    for kind in TEXT_FOLDERS:
        shutil.rmtree(data_dir.expanduser() / kind / name, ignore_errors=True)
    # Last: what is left of an interrupted deletion is still known.
    _find_label(data_dir, name).unlink(missing_ok=True)


def find_kept_names(data_dir: Path) -> frozenset[str]:
    """Return the names of the sources of which texts or labels are kept. Blocking."""
    return frozenset(_iter_kept_names(data_dir.expanduser()))


def _iter_kept_names(data_dir: Path) -> Iterator[str]:
    for kind in TEXT_FOLDERS:
        yield from (folder.name for folder in (data_dir / kind).glob("*/"))
    yield from (file.stem for file in (data_dir / LABELS_FOLDER).glob(f"*{_SUFFIX}"))


def _find_label(data_dir: Path, name: str) -> Path:
    return data_dir.expanduser() / LABELS_FOLDER / f"{name}{_SUFFIX}"
