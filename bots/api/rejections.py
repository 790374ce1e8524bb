"""Requests that are answered with an error, in the form that clients of OpenAI's API read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bots.api.running import TooManyAnswers
from core.errors import AnswerWithheld, KimasError, QuotaExceeded
from core.observability.logs import get_logger

_log = get_logger(__name__)


class Rejected(Exception):
    """A request that is answered with an error, in the form that clients of OpenAI's API read."""

    def __init__(self, status: int, code: str, reason: str, param: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.reason = reason
        self.param = param

    def to_json(self) -> Mapping[str, Any]:
        """Return the body of the response."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "server_error"
        return {"error": {"message": self.reason, "type": kind, "param": self.param, "code": self.code}}


def to_rejection(error: KimasError) -> Rejected:
    """Return what a client is told of an error; what only the operator may know is in the log."""
    if isinstance(error, QuotaExceeded):
        return Rejected(429, "insufficient_quota", str(error))
    if isinstance(error, TooManyAnswers):
        return Rejected(429, "rate_limit_exceeded", str(error))
    if isinstance(error, AnswerWithheld):
        return Rejected(400, "content_filter", str(error))
    _log.error("api.not_answered", error=str(error))
    return Rejected(503, "unavailable", "the answer failed; the log says why")
