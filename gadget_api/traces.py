"""OpenTelemetry traces: how long each part of a turn takes, from a client's prompt to a tool on a drone.

Both processes use this module. Tracing is off, and loads no library, unless the standard variables turn it on:
`OTEL_EXPORTER_OTLP_ENDPOINT` (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`), or `OTEL_TRACES_EXPORTER=otlp`. With
`OTEL_TRACES_EXPORTER=none` or `OTEL_SDK_DISABLED=true` it stays off. The other OTEL_ variables have their standard
meaning.

The spans, each within the one before: `prompt` and `dispatch` (web service); `turn`, `step`, `modelCall`, `tool`,
`permission` (drone). Attributes are ids, names and numbers; they never contain text of a person, a model or a tool.

    with tracer.span("tool", name="shell") as span:
        ...
        span.note(durationMs=12)
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # imported only when tracing is on
    from opentelemetry import trace

Attribute = str | int | float | bool
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_FLUSH_MS = 2000


class TraceSpan(Protocol):
    @property
    def traceparent(self) -> str | None:
        """The span's W3C Trace Context, as the parent for spans of another process. None when tracing is off."""

    def note(self, **attributes: Attribute) -> None: ...

    def fail(self, code: str) -> None:
        """Marks the span as failed with this error code."""


class Tracer(Protocol):
    problem: str | None
    """Why tracing is off although the variables turn it on, in one sentence; None when there is no problem."""

    def span(
        self, name: str, /, *, parent: str | None = None, **attributes: Attribute
    ) -> AbstractContextManager[TraceSpan]:
        """Opens a span for the time of the context. Its parent is `parent` (a traceparent), or else the current span.
        If an exception leaves the context, the span records its type."""

    def close(self) -> None:
        """Sends the remaining spans. Blocks for at most two seconds."""


def create_tracer(service: str, environment: Mapping[str, str]) -> Tracer:
    """Creates the tracer for these environment variables. OTEL_SERVICE_NAME replaces the name `service`."""
    if not is_tracing_enabled(environment):
        return NoTracer()
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        return NoTracer("The OTEL_ variables turn tracing on; install it: pip install 'gadget-code[otel]'.")
    return _OpenTelemetry(environment.get("OTEL_SERVICE_NAME") or service)


def is_tracing_enabled(environment: Mapping[str, str]) -> bool:
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter not in ("", "otlp"):
        return False
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return exporter == "otlp" or any(environment.get(name) for name in endpoints)


class NoTracer:
    """Records no spans, but passes the caller's traceparent on."""

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem

    def span(
        self, name: str, /, *, parent: str | None = None, **attributes: Attribute
    ) -> AbstractContextManager[TraceSpan]:
        return nullcontext(_NoSpan(parent if parent is not None and _TRACEPARENT.fullmatch(parent) else None))

    def close(self) -> None:
        return


class _NoSpan:
    def __init__(self, traceparent: str | None) -> None:
        self.traceparent = traceparent

    def note(self, **attributes: Attribute) -> None:
        return

    def fail(self, code: str) -> None:
        return


class _OpenTelemetry:
    def __init__(self, service: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self.problem: str | None = None
        self._provider: TracerProvider = TracerProvider(
            resource=Resource.create({"service.name": service}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("gadget")

    @contextmanager
    def span(self, name: str, /, *, parent: str | None = None, **attributes: Attribute) -> Iterator[TraceSpan]:
        from opentelemetry.trace import Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        within = TraceContextTextMapPropagator().extract({"traceparent": parent}) if parent is not None else None
        with self._tracer.start_as_current_span(
            # The text of an exception may contain user content, so only its type is recorded.
            name,
            context=within,
            attributes=dict(attributes),
            record_exception=False,
            set_status_on_exception=False,
        ) as opened:
            try:
                yield _OpenSpan(opened)
            except BaseException as exc:
                opened.set_status(Status(StatusCode.ERROR, type(exc).__name__))
                raise

    def close(self) -> None:
        self._provider.force_flush(_FLUSH_MS)
        self._provider.shutdown()


class _OpenSpan:
    def __init__(self, span: "trace.Span") -> None:
        self._span = span

    @property
    def traceparent(self) -> str | None:
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def note(self, **attributes: Attribute) -> None:
        self._span.set_attributes(dict(attributes))

    def fail(self, code: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, code))
