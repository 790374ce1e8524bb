"""What can go wrong with one callback, told apart by what to do about it.

PlatformError
├── Unreachable       no answer, or a server error: try again, it may have arrived all the same
├── RetryLater        refused for now: try again after `seconds`
├── Withheld          (of core.commenting) the network has enough replies of bots below this post
└── MessageGone       (of core.errors) the question was deleted
"""

from __future__ import annotations

from bots.posting.failures import RetryLater, Unreachable

__all__ = ["RetryLater", "Unreachable"]
