"""The intervals of forges, and what a failed request means."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bots.common.connection import Intervals, NotAllowed, Refused, RetryLater, TokenRefused, Unreachable
from core.errors import MessageDeleted, PlatformError, SourceError
from knowledge.sources.forge.api import QueryError, RateLimited, StatusError
from knowledge.web.client import ResponseTooLarge

_CLASSES: dict[int, type[PlatformError]] = {
    400: Refused,
    401: TokenRefused,
    403: NotAllowed,
    404: MessageDeleted,
    408: Unreachable,
    410: MessageDeleted,
    422: Refused,
}
# What GraphQL says with status 200.
_QUERY_CLASSES: dict[str, type[PlatformError]] = {
    "NOT_FOUND": MessageDeleted,
    "FORBIDDEN": NotAllowed,
    "INSUFFICIENT_SCOPES": NotAllowed,
    "UNPROCESSABLE": Refused,
}


@dataclass(frozen=True, slots=True)
class ForgeIntervals(Intervals):
    """All intervals in seconds.

    Services want `write_s` between two requests that change something. Reactions are asked for every `reactions_s`.
    `timeout_s` bounds a request. After a look that a webhook asked for, the next one waits `wake_s`.
    """

    write_s: float = 1.0
    reactions_s: float = 300.0
    wake_s: float = 5.0
    timeout_s: float = 20.0


class Moved(SourceError):
    """A redirect: what was asked for is somewhere else now. It is not followed."""


@contextmanager
def platform_errors() -> Iterator[None]:
    """Raise what the requests in the block raise as a `PlatformError`.

    `MessageDeleted` is what is gone, or has moved: where it is now, the bot may not have been asked to speak.
    """
    try:
        yield
    except RateLimited as error:
        raise RetryLater(str(error), max(error.until - time.time(), 0.0)) from error
    except Moved as error:
        raise MessageDeleted(str(error)) from error
    except StatusError as error:
        default = Unreachable if error.status >= 500 else PlatformError
        reason = f" ({error.reason})" if error.reason else ""
        raise _CLASSES.get(error.status, default)(f"{error}{reason}") from error
    except QueryError as error:
        known_types = [name for name in _QUERY_CLASSES if name in error.types]
        raise (_QUERY_CLASSES[known_types[0]] if known_types else Unreachable)(str(error)) from error
    except ResponseTooLarge as error:
        raise Refused(str(error)) from error
    except SourceError as error:
        raise Unreachable(str(error)) from error
