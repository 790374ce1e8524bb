"""Who has signed in: tokens are compared in constant time, sessions live in memory and end by themselves."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from dataclasses import dataclass, field

from core.errors import UsageError
from core.settings.messaging import MIN_TOKEN_CHARS

COOKIE = "kimas_session"
SESSION_S = 12 * 3600.0
MAX_SESSIONS = 200
# So many wrong tokens from one address within so many seconds; then it has to wait.
MAX_FAILURES = 10
FAILURE_WINDOW_S = 60.0
MAX_ADDRESSES = 1000
LINK_S = 15 * 60.0


class TooManyAttempts(Exception):
    """Somebody tried too many wrong tokens in a short time."""


@dataclass(slots=True)
class Session:
    """One browser that has signed in. `form_token` is in every form: other sites cannot know it.

    `notice` is a text for the next page that is shown, `notice_link` an address that it may name.
    """

    is_owner: bool
    ends_at: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notice: str = ""
    notice_link: str = ""

    @property
    def has_ended(self) -> bool:
        """Return whether its time is over."""
        return self.ends_at <= time.monotonic()

    def accepts(self, form_token: str) -> bool:
        """Return whether a form was one of ours."""
        return _is_same(form_token, self.form_token)


class Sessions:
    """The sessions of one page. Raises `UsageError` for a token that is too short to be safe."""

    def __init__(self, token: str, owner_token: str) -> None:
        for name, value in (("token", token), ("owner_token", owner_token)):
            if value and len(value) < MIN_TOKEN_CHARS:
                raise UsageError(f"operator_page.{name} must have at least {MIN_TOKEN_CHARS} characters")
        self._token = token
        self._owner_token = owner_token
        self._sessions: dict[str, Session] = {}
        self._failures: dict[str, deque[float]] = {}
        self._link_token = ""
        self._link_ends_at = 0.0

    def take_over(self, former: Sessions) -> None:
        """Let those stay who are signed in, and count the failures on; the tokens are the new ones."""
        self._sessions, self._failures = former._sessions, former._failures
        self._link_token, self._link_ends_at = former._link_token, former._link_ends_at

    def make_link_token(self) -> str:
        """Return a token that opens the page for the owner once, within `LINK_S` seconds; an earlier one ends."""
        self._link_token = secrets.token_urlsafe(32)
        self._link_ends_at = time.monotonic() + LINK_S
        return self._link_token

    def sign_in(self, token: str, address: str) -> str | None:
        """Return the id of a new session for a right token, or None. Raises `TooManyAttempts`."""
        now = time.monotonic()
        failures = self._failures.setdefault(address, deque(maxlen=MAX_FAILURES))
        if len(failures) == MAX_FAILURES and now - failures[0] < FAILURE_WINDOW_S:
            raise TooManyAttempts
        link_token = self._link_token if now < self._link_ends_at else ""
        # All are compared, whatever comes of the first.
        is_owner, is_reader, is_by_link = (
            bool(expected_token) and _is_same(token, expected_token)
            for expected_token in (self._owner_token, self._token, link_token)
        )
        if is_by_link:
            self._link_token = ""
        if not (is_owner or is_reader or is_by_link):
            failures.append(now)
            _forget_oldest(self._failures, MAX_ADDRESSES)
            return None
        del self._failures[address]
        session_id = secrets.token_urlsafe(32)
        self._sessions[session_id] = Session(is_owner or is_by_link, now + SESSION_S)
        _forget_oldest(self._sessions, MAX_SESSIONS)
        return session_id

    def get(self, session_id: str) -> Session | None:
        """Return the session of an id, or None where there is none or it has ended."""
        session = self._sessions.get(session_id)
        if session and session.has_ended:
            del self._sessions[session_id]
            return None
        return session

    def sign_out(self, session_id: str) -> None:
        """End a session, also for what still runs for it. Idempotent."""
        if session := self._sessions.pop(session_id, None):
            session.ends_at = 0.0


def _is_same(text: str, secret: str) -> bool:
    # Digests have one length: the comparison tells nothing of the secret's.
    digests = (hashlib.sha256(value.encode("utf-8", "replace")).digest() for value in (text, secret))
    return hmac.compare_digest(*digests)


def _forget_oldest(entries: dict[str, object] | dict[str, Session] | dict[str, deque[float]], limit: int) -> None:
    while len(entries) > limit:
        del entries[next(iter(entries))]
