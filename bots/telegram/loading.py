"""Loading aiogram in a third of its time and a fifth of its memory.

When it is imported, aiogram completes the validators of all its models, some 440: 4.8 s and 133 MB on the machine this
was measured on. We use about twenty of them. So the completion is put off while aiogram is imported and then done for
those that `client` names: 1.6 s and 27 MB. Any other model of aiogram says "not fully defined" when it is used.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bots.telegram.client import TelegramClient

# Several bots load at once, each in its own thread: half a library must not be taken for a whole one.
_LOAD_LOCK = threading.Lock()


def load_client() -> type[TelegramClient]:
    """Return the client's class. Takes seconds the first time: for a worker thread."""
    with _LOAD_LOCK:
        if "aiogram" not in sys.modules:
            with _defer_model_rebuild("aiogram."):
                import aiogram  # noqa: F401
        from bots.telegram.client import TelegramClient, rebuild_models

        rebuild_models()
    return TelegramClient


@contextmanager
def _defer_model_rebuild(prefix: str) -> Iterator[None]:
    """Leave the models of these modules as they are when they ask to be completed; all others are completed."""
    from pydantic import BaseModel

    original = BaseModel.__dict__["model_rebuild"]

    def rebuild_unless_deferred(model: type[BaseModel], /, **options: Any) -> bool | None:
        if model.__module__.startswith(prefix):
            return None
        is_complete: bool | None = original.__func__(model, **options)
        return is_complete

    BaseModel.model_rebuild = classmethod(rebuild_unless_deferred)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        BaseModel.model_rebuild = original  # type: ignore[method-assign]
