"""Whatever can be said, as Hypothesis draws it: a strategy for each wire model, made from its fields."""

from datetime import UTC, datetime
from typing import Any, TypeVar

from hypothesis import strategies as st

from gadget_api.checkpoints import CheckpointTaken, FileChange
from gadget_api.errors import ErrorCode, ErrorInfo
from gadget_api.events import (
    EVENT_TYPES,
    BlobRef,
    Checkpoint,
    Compacted,
    InquiryAnswered,
    InquiryAsked,
    Notice,
    Response,
    Steered,
    Step,
    Thinking,
    Titled,
    ToolCall,
    ToolOutput,
    ToolStarted,
    TurnEvent,
    WorkOrderComplete,
)
from gadget_api.inquiries import Answer, Choice, Inquiry, InquiryAnswer, InquiryKind, InquiryStatus
from gadget_api.messages import AssistantMessage, Compaction, FinishReason, ToolCallRequest, Usage
from gadget_api.model import WireModel
from gadget_api.permissions import Capability, Decision, Rule
from gadget_api.turns import ChatTurnStatus, SteerOrigin, TurnStats

ModelT = TypeVar("ModelT", bound=WireModel)


def built(kind: type[ModelT], /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[ModelT]:
    """Models by their Python names. (`st.builds` reads the wire's from the signature, and would give both.)"""
    return st.fixed_dictionaries(fields).map(lambda drawn: kind(**drawn))


texts = st.text(max_size=40)
ids = st.text(min_size=1, max_size=64)
counts = st.integers(min_value=0, max_value=2**40)  # sums of them stay under MAX_COUNT
times = st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 1, 1), timezones=st.just(UTC))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
params = st.dictionaries(texts, json_values, max_size=3)
usages = built(
    Usage, input_tokens=counts, cached_input_tokens=counts, thinking_token_count=counts, response_tokens=counts
)
tool_call_requests = built(ToolCallRequest, call_id=texts, name=texts, params=params, error=st.none() | texts)
assistant_messages = built(
    AssistantMessage,
    thinking=texts,
    content=texts,
    tool_calls=st.lists(tool_call_requests, max_size=3).map(tuple),
)
stats = built(
    TurnStats,
    tool_call_count=counts,
    input_tokens=counts,
    cost=st.none() | st.floats(0, 1e6),
    duration_ms=counts,
    duration_label=texts,
)
error_infos = built(ErrorInfo, code=st.sampled_from(ErrorCode), message=texts, retryable=st.booleans())


answers = built(Answer, choice=st.none() | texts, text=st.none() | texts)
rules = built(
    Rule,
    decision=st.sampled_from(Decision),
    capability=st.sampled_from(Capability),
    pattern=st.text(min_size=1, max_size=40),
    reason=st.none() | texts,
)
inquiries = built(
    Inquiry,
    id=ids,
    created_at=times,
    user=ids,
    session=ids,
    turn=ids,
    kind=st.sampled_from(InquiryKind),
    call_id=st.none() | texts,
    title=texts,
    detail=texts,
    choices=st.lists(built(Choice, id=ids, label=ids), max_size=3).map(tuple),
    takes_text=st.booleans(),
    default=answers,
    rule=st.none() | rules,
    expires_at=times,
    answer=st.none() | answers,
)
compactions = built(
    Compaction,
    kept=st.none() | counts,
    summary=st.none() | texts,
    trimmed=st.lists(texts, max_size=3).map(tuple),
)
checkpoint_ids = st.text("0123456789abcdef", min_size=40, max_size=40)
checkpoints = built(
    CheckpointTaken,
    checkpoint_id=checkpoint_ids,
    parent=st.none() | checkpoint_ids,
    files=st.lists(built(FileChange, path=texts, status=st.just("modified"), added=st.none() | counts), max_size=3).map(
        tuple
    ),
    file_count=counts,
)


def _of(kind: type[TurnEvent], **own: st.SearchStrategy[Any]) -> st.SearchStrategy[TurnEvent]:
    numbers = st.integers(min_value=1, max_value=2**53)
    return built(kind, turn_id=ids, chat_session_id=ids, epoch=numbers, seq=numbers, at=times, **own)


_EVENTS: dict[type[TurnEvent], st.SearchStrategy[TurnEvent]] = {
    Thinking: _of(Thinking, content=texts),
    Response: _of(Response, content=texts),
    ToolStarted: _of(ToolStarted, call_id=texts, name=texts, params=params),
    ToolOutput: _of(ToolOutput, call_id=texts, content=texts),
    ToolCall: _of(
        ToolCall,
        call_id=texts,
        name=texts,
        params=params,
        response=texts,
        is_error=st.booleans(),
        duration_ms=counts,
        blob=st.none() | built(BlobRef, blob_id=ids, size_bytes=counts),
    ),
    Step: _of(
        Step,
        index=st.integers(1, 10_000),
        message=assistant_messages,
        usage=usages,
        finish_reason=st.sampled_from(FinishReason),
        model=texts,
    ),
    Steered: _of(Steered, steer_id=ids, content=texts, origin=st.sampled_from(SteerOrigin)),
    Notice: _of(Notice, level=st.sampled_from(["info", "warning", "error"]), code=texts, message=texts),
    InquiryAsked: _of(InquiryAsked, inquiry=inquiries),
    InquiryAnswered: _of(
        InquiryAnswered,
        answer=built(InquiryAnswer, inquiry_id=ids, status=st.sampled_from(InquiryStatus), answer=answers),
    ),
    Compacted: _of(Compacted, compaction=compactions, tokens_before=counts, tokens_after=counts),
    Checkpoint: _of(Checkpoint, checkpoint=checkpoints),
    Titled: _of(Titled, title=st.text(min_size=1, max_size=40)),
    WorkOrderComplete: _of(
        WorkOrderComplete,
        success=st.booleans(),
        message=texts,
        status=st.sampled_from([status for status in ChatTurnStatus if status.is_over]),
        stats=stats,
        error=st.none() | error_infos,
    ),
}


def events(kind: type[TurnEvent]) -> st.SearchStrategy[TurnEvent]:
    return _EVENTS[kind]


any_event = st.sampled_from([*EVENT_TYPES.values()]).flatmap(events)
