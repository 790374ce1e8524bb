"""Where functions that read foreign documents run: behind one Protocol, in a worker process or in a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")


class Parser(Protocol):
    """Runs a function over a foreign document, off the event loop.

    `max_passages` is how many passages one document may make.
    """

    max_passages: int

    async def run(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Return what the function returns. Raises `FormatError` for a document that cannot be read.

        The function is a module's own, and its annotated result is what JSON can hold: texts, numbers, lists, tuples,
        mappings, and dataclasses of these.
        """
        ...


class ThreadParser:
    """Implements `Parser` in a thread of this process, without limits: for documents that are trusted, and tests."""

    max_passages = 1_000_000

    async def run(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Return what the function returns, and raise what it raises."""
        # Not at the top: workers import this module, and need no event loop.
        import asyncio

        return await asyncio.to_thread(function, *args, **kwargs)
