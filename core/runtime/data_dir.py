"""The data directory of a deployment: making it, and whether this account may use it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from core.errors import StoreError


def make_data_dir(data_dir: Path) -> None:
    """Create the data directory if it is missing, and close it to other accounts.

    A group that was let in stays. Raises `StoreError` when it cannot be used.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = data_dir.stat()
        if status.st_uid == os.geteuid() and status.st_mode & 0o007:
            data_dir.chmod(stat.S_IMODE(status.st_mode) & ~0o007)
    except OSError as error:
        raise StoreError(
            f"data_dir {data_dir} cannot be used: {error.strerror or error}: {error.filename}; "
            "choose a folder that you may write to"
        ) from error
    require_access(data_dir)


def require_access(data_dir: Path) -> None:
    """Raise `StoreError`, which names the account to use, if this one may not enter a data directory that is there."""
    try:
        data_dir.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StoreError(
            f"data_dir {data_dir} cannot be used: {error.strerror}; run the command as the account that it belongs "
            "to, or choose another data_dir"
        ) from error
    if os.access(data_dir, os.R_OK | os.X_OK):
        return
    owner = _find_owner(data_dir)
    raise StoreError(
        f"data_dir {data_dir} cannot be used: it belongs to {owner}, and this account may not read it; "
        f"run the command as that account (sudo -u {owner} ...), or choose another data_dir"
    )


def _find_owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        # As sudo takes the number of an account without a name.
        return f"#{path.stat().st_uid}"
