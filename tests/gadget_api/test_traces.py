"""Traces: off unless asked for, and one tree from a prompt to the drone's work."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gadget_api.ids import new_id
from gadget_api.traces import NoTracer, create_tracer, is_tracing_enabled
from tests.gadget_code.peers import PlayedDrone, a_session, a_web

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ENDPOINT = "http://127.0.0.1:4318"


class Collector:
    """What a service sent to an OTLP endpoint on loopback."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    names = [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"]
                    collector.services.update(names)
                    for scope in resource.scope_spans:
                        collector.spans.extend(scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def named(self, name: str) -> Any:
        [span] = [span for span in self.spans if span.name == name]
        return span


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.mark.parametrize(
    ("environment", "on"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ENDPOINT}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}, False),
    ],
)
def test_the_standard_variables_turn_tracing_on(environment: dict[str, str], on: bool) -> None:
    assert is_tracing_enabled(environment) is on
    assert isinstance(create_tracer("x", environment), NoTracer) is not on


def test_the_traceparent_is_passed_on_when_tracing_is_off() -> None:
    tracer = create_tracer("x", {})
    for parent, handed_on in (
        (PARENT, PARENT),
        (None, None),
        ("nonsense", None),
        (PARENT + "\n", None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
    ):
        with tracer.span("prompt", parent=parent, turn="t") as span:
            span.note(n=1)
            span.fail("internal")
            assert span.traceparent == handed_on


async def test_all_spans_of_a_prompt_are_one_trace(mongodb_url: str, tmp_path: Path, collector: Collector) -> None:
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with a_web(tmp_path, mongodb_url, **settings) as web:
        async with await web.user() as user, PlayedDrone(user) as drone:
            session = await a_session(user)
            body = {"content": "What nobody else may read.", "promptId": new_id()}
            made = await user.http.post(f"/sessions/{session['_id']}/turns", json=body, headers={"traceparent": PARENT})
            order = await drone.order(made.json()["_id"])
        await asyncio.to_thread(web.stop)  # it sends what it has
    prompt, dispatch = collector.named("prompt"), collector.named("dispatch")
    assert collector.services == {"gadget-code"}
    _, trace, parent, _ = PARENT.split("-")
    assert prompt.trace_id.hex() == dispatch.trace_id.hex() == trace
    assert prompt.parent_span_id.hex() == parent
    assert dispatch.parent_span_id == prompt.span_id
    assert order["traceparent"] == f"00-{trace}-{dispatch.span_id.hex()}-01"
    assert b"nobody else" not in b"".join(span.SerializeToString() for span in collector.spans)


def test_nested_spans_and_a_failed_span(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    tracer = create_tracer("gadget-drone", {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    with suppress(ValueError), tracer.span("turn", parent=PARENT), tracer.span("tool", name="shell") as span:
        span.note(durationMs=12)
        raise ValueError("secret")
    with tracer.span("modelCall") as span:
        span.fail("modelTimeout")
    tracer.close()
    turn, tool, call = (collector.named(name) for name in ("turn", "tool", "modelCall"))
    assert tool.parent_span_id == turn.span_id
    assert {a.key: a.value.string_value or a.value.int_value for a in tool.attributes} == {
        "name": "shell",
        "durationMs": 12,
    }
    assert (tool.status.code, tool.status.message) == (2, "ValueError")
    assert (call.status.code, call.status.message) == (2, "modelTimeout")
    assert call.trace_id != turn.trace_id
