"""What can go wrong on every platform, told apart by what to do about it. Each platform adds its own.

PlatformError
├── TokenRefused      the credential is wrong or was revoked: nothing will work
├── Unreachable       no answer, or one that makes no sense: try again; a post may have arrived all the same
├── RetryLater        too fast, nothing was taken: try again after `seconds`
└── NotAllowed        the bot may not read or write in this place
"""

from __future__ import annotations

from core.errors import PlatformError


class TokenRefused(PlatformError):
    """The credential is wrong or was revoked."""


class Unreachable(PlatformError):
    """The platform could not be reached, or its answer made no sense."""


class RetryLater(PlatformError):
    """The platform took nothing and wants a pause of `seconds` before this call."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class NotAllowed(PlatformError):
    """The bot was removed from the place, blocked, or may not write there."""
