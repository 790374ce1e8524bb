"""Whether the words of what is being done may still leave: asked before each request to a model or another service.

It is known by the context of a task, and of those that it starts: no part of an answer can forget to hand it on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Raises a `KimasError` where words may not leave any more.
RequireRights = Callable[[], Awaitable[None]]

_require_rights: ContextVar[RequireRights | None] = ContextVar("require_rights", default=None)
_told_numbers: ContextVar[Collection[int]] = ContextVar("told_numbers", default=())


def judge_requests_by(require_rights: RequireRights | None) -> None:
    """Let this be asked before each request that the current task makes from now on; None: nothing is asked."""
    _require_rights.set(require_rights)


def get_judge() -> RequireRights | None:
    """Return what is asked before each request that the current task makes."""
    return _require_rights.get()


@contextmanager
def telling_of(numbers: Collection[int]) -> Iterator[None]:
    """Say that requests in the block have words of these messages, by their numbers in the journal."""
    token = _told_numbers.set(numbers)
    try:
        yield
    finally:
        _told_numbers.reset(token)


def get_told_numbers() -> Collection[int]:
    """Return the numbers of the messages of which `telling_of` says that requests have their words."""
    return _told_numbers.get()


async def require_leave() -> None:
    """Raise the `KimasError` that says why no words may leave now; call it right before they would."""
    if require_rights := _require_rights.get():
        await require_rights()
