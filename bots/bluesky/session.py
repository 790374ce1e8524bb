"""The session of an account: its tokens, kept in a file, because few logins are allowed in a day."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from core.observability.logs import get_logger

_log = get_logger(__name__)

PDS_SERVICE = "#atproto_pds"


@dataclass(frozen=True, slots=True)
class Session:
    """Who is logged in, at which server (`url`), with the tokens of calls and of the next session."""

    did: str
    handle: str
    url: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)


def to_session(values: Any, url: str) -> Session:
    """Return the session that a login or a refresh at `url` gave.

    Calls go to the server that the account's document names, as long as no secure one becomes an insecure one.
    """
    services = (values.get("didDoc") or {}).get("service") or ()
    endpoints = [str(item.get("serviceEndpoint")) for item in services if str(item.get("id")).endswith(PDS_SERVICE)]
    if endpoints and endpoints[0].startswith(("https://", url[: url.index("//") + 2])):
        url = endpoints[0].rstrip("/")
    tokens = str(values["accessJwt"]), str(values["refreshJwt"])
    return Session(str(values["did"]), str(values["handle"]), url, *tokens)


class SessionFile:
    """Keeps a session in a file that only this account of the machine reads; without a path, nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    async def load(self) -> Session | None:
        """Return the session, or None where there is none that can be read."""
        return await asyncio.to_thread(self._read)

    async def save(self, session: Session) -> None:
        """Keep a session; what cannot be kept costs a login at the next start."""
        await asyncio.to_thread(self._write, session)

    def _read(self) -> Session | None:
        try:
            return Session(**json.loads(self._path.read_text())) if self._path else None
        except (OSError, ValueError, TypeError):
            return None

    def _write(self, session: Session) -> None:
        if self._path is None:
            return
        draft = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(asdict(session), file)
            draft.replace(self._path)
        except OSError as error:
            _log.warning("bluesky.session_not_kept", error=str(error))
