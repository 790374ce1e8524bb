"""One id for all that belongs to a message, in every log line; and spans for OpenTelemetry, where it is configured.

Only here is OpenTelemetry used. A span holds names, numbers and ids, and never what somebody wrote.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING

from core.errors import UsageError
from core.install_hints import format_install_hint
from core.observability.logs import log_context

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

Attribute = str | int | float | bool
_EXPORT_TIMEOUT_S = 5
_tracer: Tracer | None = None
_current_span: ContextVar[Span | None] = ContextVar("current_span", default=None)
_trace_id: ContextVar[str] = ContextVar("trace_id", default="")


def make_trace_id(*parts: str) -> str:
    """Return the id of a message: 32 hex digits, the same after a restart.

    >>> make_trace_id("telegram", "", "-100", "7") == make_trace_id("telegram", "", "-100", "7")
    True
    """
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@contextmanager
def trace_context(trace_id: str, name: str, **keys: str) -> Iterator[None]:
    """Add the id and the keys to every log line of the block, its tasks included, and trace it as one span."""
    reset_token = _trace_id.set(trace_id)
    try:
        with log_context(trace=trace_id, **keys), span(name, **keys):
            yield
    finally:
        _trace_id.reset(reset_token)


@contextmanager
def span(name: str, **attributes: Attribute) -> Iterator[None]:
    """Trace the block as one span below that of the surrounding block; without tracing nothing happens."""
    if _tracer is None:
        yield
        return
    parent = _current_span.get()
    child = start_span(name, **attributes)
    _current_span.set(child)
    try:
        yield
    except BaseException as error:
        end_span(child, error=type(error).__name__)
        raise
    finally:
        # Not by a token: a generator may be closed in another context than the one in which it was entered.
        _current_span.set(parent)
        end_span(child)


def start_span(name: str, **attributes: Attribute) -> Span | None:
    """Start a span that `end_span` ends, for work that is no block; None without tracing."""
    if _tracer is None:
        return None
    from opentelemetry.trace import set_span_in_context

    parent = _current_span.get()
    context = set_span_in_context(parent) if parent else None
    return _tracer.start_span(name, context=context, attributes=attributes)


def end_span(open_span: Span | None, **attributes: Attribute) -> None:
    """End a span with these attributes. Idempotent."""
    if open_span is not None and open_span.is_recording():
        open_span.set_attributes(attributes)
        open_span.end()


def annotate(**attributes: Attribute) -> None:
    """Add attributes to the span of the surrounding block."""
    if current_span := _current_span.get():
        current_span.set_attributes(attributes)


@contextmanager
def open_tracing(endpoint: str | None, headers: Mapping[str, str], service: str) -> Iterator[None]:
    """Send spans to an OTLP endpoint over HTTP while the block runs; None: nowhere. What is left is sent at the end.

    Blocking at the end, at most some seconds. Raises `UsageError` when the packages are missing.
    """
    if endpoint is None:
        yield
        return
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        raise UsageError(f"tracing.endpoint needs more packages: {format_install_hint('otel')}")
    provider = _make_provider(endpoint, headers, service)
    global _tracer  # noqa: PLW0603 - one per process, as in OpenTelemetry itself
    _tracer = provider.get_tracer("kimas")
    try:
        yield
    finally:
        _tracer = None
        provider.shutdown()


def _make_provider(endpoint: str, headers: Mapping[str, str], service: str) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class MessageIdGenerator(RandomIdGenerator):
        """Gives the spans of a message the id that its log lines have."""

        def generate_trace_id(self) -> int:
            """Return the id of the message, or a random one."""
            trace_id = _trace_id.get()
            return int(trace_id, 16) if trace_id else super().generate_trace_id()

    resource = Resource({"service.name": service})
    provider = TracerProvider(resource=resource, id_generator=MessageIdGenerator(), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint, headers=dict(headers), timeout=_EXPORT_TIMEOUT_S)
    # Bounded: what an endpoint that is away does not take is dropped.
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
