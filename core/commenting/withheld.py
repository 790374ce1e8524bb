"""The one error of the auto-comment mode: a comment that is better not posted."""

from __future__ import annotations

from core.errors import PlatformError


class Withheld(PlatformError):
    """A comment was kept back; the text is the reason that the journal keeps. Nothing was posted."""
