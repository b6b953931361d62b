"""Images reach a model that sees, and a line of text one that does not; the prefix of a request stays the same."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from gadget_ai.client import ChatClient, ModelNotice, UsageChunk
from gadget_ai.collect import ask_model
from gadget_ai.errors import LLMError
from gadget_ai.images import IMAGE_GONE, Vision
from gadget_ai.testing.client import ScriptedClient
from gadget_ai.testing.script import (
    Call,
    Reply,
    RequestView,
    Script,
    Text,
    Think,
    history_fault,
    message_images,
    message_text,
)
from gadget_ai.transcript import Transcript
from gadget_api.images import ImageRef
from gadget_api.messages import (
    Message,
    ModelMessage,
    SystemMessage,
    ToolCallRequest,
    ToolMessage,
    Usage,
    UserMessage,
)
from gadget_api.providers import ApiType
from tests.gadget_ai.conftest import LIST_TOOL, MakeStage, pick

both = pytest.mark.parametrize("api", list(ApiType))

PNG = b"\x89PNG\r\n\x1a\nnot more than a head"
JPEG = b"\xff\xd8\xff\xe0" + bytes(range(256))
BYTES = {"a": PNG, "b": JPEG}


def image(name: str) -> ImageRef:
    media_type = "image/jpeg" if name == "b" else "image/png"
    return ImageRef(id=name, media_type=media_type, size_bytes=9, width=640, height=480)


def load(ref: ImageRef) -> bytes | None:
    return BYTES.get(ref.id)


def step(*names: str, images: dict[str, tuple[ImageRef, ...]]) -> list[Message]:
    """A model message that calls `read` once for each name, and the results."""
    calls = tuple(ToolCallRequest(call_id=name, name="read", params={"path": name}) for name in names)
    results = [
        ToolMessage(call_id=name, name="read", content=f"result {name}", images=images.get(name, ())) for name in names
    ]
    return [ModelMessage(content="", tool_calls=calls), *results]


async def sent(
    client: ChatClient, requests: Sequence[RequestView], messages: Sequence[Message]
) -> list[dict[str, Any]]:
    """What the model got, as it parsed it."""
    transcript = Transcript(client)
    for message in messages:
        transcript.add(message)
    await ask_model(client, transcript.encoded, [LIST_TOOL], on_live=lambda live: None)
    return requests[-1].messages


@both
async def test_a_prompts_images_are_in_its_message(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("ok")), sees_images=True, load_image=load)
    prompt = UserMessage(content="What is this?", images=(image("a"), image("b")))
    (message,) = await sent(stage.client, stage.server.requests, [prompt])
    assert message["role"] == "user"
    assert message_text(message) == "What is this?"
    assert message_images(message) == [PNG, JPEG]
    if api is ApiType.OPENAI:
        kinds = [part["image_url"]["url"].partition(";")[0] for part in message["content"] if part["type"] != "text"]
        assert kinds == ["data:image/png", "data:image/jpeg"]


@both
async def test_a_prompt_of_an_image_alone_has_no_empty_text(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("ok")), sees_images=True, load_image=load)
    (message,) = await sent(stage.client, stage.server.requests, [UserMessage(content="", images=(image("a"),))])
    assert message_images(message) == [PNG]
    if api is ApiType.OPENAI:
        assert [part["type"] for part in message["content"]] == ["image_url"]


async def test_openai_gets_the_images_of_a_steps_results_in_one_message_after_them(make_stage: MakeStage) -> None:
    stage = await make_stage(ApiType.OPENAI, Reply(Text("ok")), sees_images=True, load_image=load)
    work = step("x", "y", "z", images={"x": (image("a"),), "z": (image("b"), image("a"))})
    messages = await sent(
        stage.client, stage.server.requests, [UserMessage(content="Go."), *work, UserMessage(content="And?")]
    )
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "tool", "user", "user"]
    assert messages[2]["content"] == "result x\n[image 640x480 image/png: see the message after the tool results]"
    assert messages[3]["content"] == "result y"
    assert message_images(messages[5]) == [PNG, JPEG, PNG]
    assert messages[6]["content"] == "And?"


async def test_ollama_gets_a_results_images_in_the_result(make_stage: MakeStage) -> None:
    stage = await make_stage(ApiType.OLLAMA, Reply(Text("ok")), sees_images=True, load_image=load)
    work = step("x", "y", images={"x": (image("a"),)})
    messages = await sent(stage.client, stage.server.requests, [UserMessage(content="Go."), *work])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert (messages[2]["content"], message_images(messages[2])) == ("result x", [PNG])
    assert "images" not in messages[3]


@both
async def test_a_model_without_image_support_reads_a_note(api: ApiType, make_stage: MakeStage) -> None:
    def never(ref: ImageRef) -> bytes | None:
        raise AssertionError(ref)

    stage = await make_stage(api, Reply(Text("ok")), sees_images=False, load_image=never)
    work = step("x", images={"x": (image("a"),)})
    prompt = UserMessage(content="What is this?", images=(image("b"),))
    messages = await sent(stage.client, stage.server.requests, [prompt, *work])
    assert messages[0]["content"] == "What is this?\n[image 640x480 image/jpeg: this model cannot see images]"
    assert messages[2]["content"] == "result x\n[image 640x480 image/png: this model cannot see images]"
    assert len(messages) == 3


@both
@pytest.mark.parametrize("loader", [None, lambda ref: None])
async def test_a_missing_image_is_replaced_by_a_note(api: ApiType, loader: Any, make_stage: MakeStage) -> None:
    stage = await make_stage(api, Reply(Text("ok")), sees_images=True, load_image=loader)
    work = step("x", images={"x": (image("a"),)})
    prompt = UserMessage(content="What is this?", images=(image("b"),))
    messages = await sent(stage.client, stage.server.requests, [prompt, *work])
    assert IMAGE_GONE in message_text(messages[0])
    assert IMAGE_GONE in message_text(messages[-1])
    assert not [found for message in messages for found in message_images(message)]


@both
async def test_each_request_starts_with_the_one_before_with_images_thinking_and_tools(
    api: ApiType, make_stage: MakeStage
) -> None:
    rounds = 5

    def reply(request: RequestView) -> Reply:
        done = sum(message["role"] == "assistant" for message in request.messages)
        if done == rounds:
            return Reply(Text("Done."))
        calls = [Call("list", {"path": str(n)}, call_id=f"{done}-{n}") for n in range(done % 3 + 1)]
        return Reply(Think("Hm."), Text("I look."), *calls, Usage(input_tokens=9, cached_input_tokens=done))

    stage = await make_stage(api, answer=reply, sees_images=True, load_image=load)
    transcript = Transcript(stage.client)
    transcript.add(SystemMessage(content="Be good."))
    transcript.add(UserMessage(content="Go, é.", images=(image("b"),)))
    while True:
        said = await ask_model(stage.client, transcript.encoded, [LIST_TOOL], on_live=lambda live: None)
        transcript.add(ModelMessage.of(said.message))
        for n, call in enumerate(said.message.tool_calls):
            images = (image("a"),) if n == 1 else ()
            transcript.add(ToolMessage(call_id=call.call_id, name=call.name, content="a\nb", images=images))
        if not said.message.tool_calls:
            break
        if len(transcript.encoded) % 2:
            transcript.add(UserMessage(content="A word in between."))
    bodies = [request.body for request in stage.server.requests]
    assert len(bodies) == rounds + 1
    for before, after in pairwise(bodies):
        assert before.endswith(b"]}")
        assert after.startswith(before[:-2] + b",")
    assert bodies[-1].count(b"<thinking>Hm.</thinking>") == rounds
    shown = [found for message in stage.server.requests[-1].messages for found in message_images(message)]
    assert shown == [JPEG, *[PNG] * 3]  # of the rounds 1, 2 and 4, which have a second call


@both
async def test_a_history_that_is_encoded_again_is_the_same(api: ApiType, make_stage: MakeStage) -> None:
    stage = await make_stage(api, sees_images=True, load_image=load)
    messages = [UserMessage(content="Go."), *step("x", "y", images={"y": (image("a"),)}), ModelMessage(content="Done.")]
    first, again = Transcript(stage.client), Transcript(stage.client)
    for message in messages:
        first.add(message)
    for message in messages:
        again.add(message)
    assert first.encoded == again.encoded


async def test_images_do_not_count_as_truncated_text(make_stage: MakeStage) -> None:
    def large(ref: ImageRef) -> bytes:
        return bytes(200_000)

    reply = Reply(Text("A cat."), Usage(input_tokens=900, response_tokens=5))
    stage = await make_stage(ApiType.OLLAMA, reply, context_window=4096, sees_images=True, load_image=large)
    prompt = stage.client.encode(UserMessage(content="What is this?", images=(image("a"),)))
    chunks = [chunk async for chunk in stage.client.stream([prompt], [])]
    assert not pick(chunks, ModelNotice)


@both
async def test_cached_tokens_are_reported(api: ApiType, make_stage: MakeStage) -> None:
    usage = Usage(input_tokens=1000, cached_input_tokens=900, response_tokens=7)
    stage = await make_stage(api, Reply(Text("ok"), usage))
    assert pick(await stage.ask(), UsageChunk) == [UsageChunk(usage)]


async def test_the_scripted_client_accepts_images() -> None:
    client = ScriptedClient(Script([Reply(Text("A cat."))]), vision=Vision(True, load))
    work = step("x", images={"x": (image("a"),)})
    messages = await sent(client, client.requests, [UserMessage(content="Go.", images=(image("b"),)), *work])
    assert [message_images(message) for message in messages] == [[JPEG], [], [], [PNG]]


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ({"role": "user", "content": []}, "without parts"),
        ({"role": "user", "content": [{"type": "input_text", "text": "x"}]}, "neither text nor an image"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/"}}]}, "neither"),
        (
            {
                "role": "system",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
            },
            "of the role system",
        ),
    ],
)
async def test_the_scripted_model_refuses_bad_parts(message: dict[str, Any], fault: str) -> None:
    assert fault in (history_fault([message]) or "")
    client = ScriptedClient(Script([Reply(Text("ok"))]))
    with pytest.raises(LLMError, match=fault):
        async for _ in client.stream([message], []):
            pass
