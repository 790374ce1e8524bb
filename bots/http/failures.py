"""What can go wrong with one callback, told apart by what to do about it.

PlatformError
├── Unreachable       no answer, or a server error: try again, it may have arrived all the same
├── RetryLater        refused for now: try again after `seconds`
├── Withheld          (of core.commenting) the network has enough replies of bots below this post
└── MessageGone       (of core.errors) the question was deleted
"""

from __future__ import annotations

from core.errors import PlatformError


class Unreachable(PlatformError):
    """The network could not be reached, or failed inside."""


class RetryLater(PlatformError):
    """The network took nothing and wants a pause of `seconds`."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds
