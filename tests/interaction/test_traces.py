"""One trace from a prompt through the web service to the tools on a drone."""

import threading
from pathlib import Path

from gadget_ai.testing.script import Call, Reply, Script, Text
from gadget_ai.testing.server import ScriptedServer
from tests.gadget_api.test_traces import Collector
from tests.harness import Drone, Web, repository

WITHIN = {
    "dispatch": "prompt",
    "turn": "dispatch",
    "step": "turn",
    "modelCall": "step",
    "permission": "step",
    "tool": "step",
}


async def test_a_turn_is_one_tree_of_spans_over_both_processes(mongodb_url: str, tmp_path: Path) -> None:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever)
    thread.start()
    web = Web.at(tmp_path / "web", mongodb_url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    drone = None
    try:
        script = Script([Reply(Call("shell", {"command": "echo t0ps3cret"})), Reply(Text("Done."))])
        async with ScriptedServer(script) as model, await web.user() as user:
            drone = await Drone.at(tmp_path, user, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
            origin = repository(tmp_path / "origin", {"README.md": "x\n"})
            provider = await user.provider(model.openai_url)
            session = await user.session(await user.project(str(origin)), provider)
            turn = await user.post(f"/sessions/{session['_id']}/turns", {"content": "Say it.", "promptId": "p"})
            assert (await user.until_over(turn["_id"]))["status"] == "finished"
    finally:
        if drone is not None:
            drone.stop()  # each sends what it has not sent yet
        web.stop()
        collector.server.shutdown()
        thread.join()
        collector.server.server_close()
    assert collector.services == {"gadget-code", "gadget-drone"}
    names = {span.span_id: span.name for span in collector.spans}
    assert {names.get(span.parent_span_id) for span in collector.spans if span.name == "tool"} == {"step"}
    for name, parent in WITHIN.items():
        parents = {names.get(span.parent_span_id) for span in collector.spans if span.name == name}
        assert parents == {parent}, name
    assert len({span.trace_id for span in collector.spans}) == 1
    assert [span.name for span in collector.spans].count("modelCall") == 2
    assert "t0ps3cret" not in str(collector.spans)
