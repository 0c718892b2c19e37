"""Wire messages and pydantic-ai messages: nothing is lost on the way there and back."""

from __future__ import annotations

import base64
import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from sessiontree.agents.messages import from_model_messages, to_model_messages

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0").decode()
USAGE = {
    "input": 10,
    "output": 5,
    "cacheRead": 100,
    "cacheWrite": 7,
    "totalTokens": 122,
    "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.3, "cacheWrite": 0.4, "total": 1.0},
}


def there_and_back(message: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(message)
    (made,) = from_model_messages(to_model_messages([message]))
    assert message == before, "converting must not change the message"
    return made


def as_json(message: dict[str, Any]) -> str:
    return json.dumps(message, sort_keys=True)


def through_json(messages: list[ModelMessage]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))


EXAMPLES: list[dict[str, Any]] = [
    {"role": "user", "content": "plain text", "timestamp": 1_700_000_000_123},
    {"role": "user", "content": [{"type": "text", "text": "a"}], "timestamp": 1},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "look"},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        ],
        "timestamp": 1_700_000_000_000,
        "attribution": "user",
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
            {"type": "thinking", "thinking": "", "thinkingSignature": "b3Bh", "redacted": True},
            {"type": "text", "text": "answer", "textSignature": "msg_1"},
            {"type": "toolCall", "id": "call_1", "name": "read", "arguments": {"path": "a"}},
            {
                "type": "toolCall",
                "id": "call_2",
                "name": "bash",
                "arguments": {},
                "thoughtSignature": "dGg=",
            },
        ],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": USAGE,
        "stopReason": "toolUse",
        "timestamp": 1_700_000_000_001,
    },
    {
        "role": "assistant",
        "content": [],
        "provider": "openai",
        "model": "gpt-5",
        "usage": USAGE,
        "stopReason": "error",
        "errorMessage": "429 slow down",
        "timestamp": 3,
    },
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "so f"}],
        "provider": "openai",
        "model": "gpt-5",
        "usage": USAGE,
        "stopReason": "aborted",
        "timestamp": 4,
    },
    {
        "role": "toolResult",
        "toolCallId": "call_1",
        "toolName": "read",
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "details": {"diff": "x", "n": 1},
        "isError": True,
        "timestamp": 5,
    },
    {
        "role": "toolResult",
        "toolCallId": "call_2|fc_9",
        "toolName": "read",
        "content": [
            {"type": "text", "text": "picture"},
            {"type": "image", "data": PIXEL, "mimeType": "image/webp"},
        ],
        "isError": False,
        "timestamp": 6,
    },
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: m["role"])
def test_a_message_comes_back_as_it_was(message: dict[str, Any]) -> None:
    assert there_and_back(message) == message
    (stored,) = from_model_messages(through_json(to_model_messages([message])))
    assert stored == message


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user"},
        {"role": "user", "content": None, "timestamp": "yesterday"},
        {"role": "user", "content": [{"type": "image", "data": "blob:sha256:00", "mimeType": "x"}]},
        {"role": "user", "content": [{"type": "image", "data": PIXEL.rstrip("="), "mimeType": ""}]},
        {"role": "user", "content": [{"type": "video", "url": "u"}, 3, None, "text"]},
        {"role": "user", "content": "x", "timestamp": 10**30},
        {"role": "user", "content": "half \ud83d", "timestamp": True},
        {"role": "assistant", "content": "a string", "usage": {}},
        {"role": "assistant", "content": None, "message": None},
        {"role": "assistant", "content": [{"type": "toolCall", "arguments": "{broken"}]},
        {"role": "assistant", "content": [], "usage": {"input": 1.0, "output": "7", "cost": None}},
        {"role": "assistant", "content": [{"type": "thinking", "thinkingSignature": "{"}]},
        {"role": "toolResult", "content": "just text", "isError": 1},
        {"role": "toolResult", "toolCallId": 7, "content": []},
    ],
    ids=str,
)
def test_an_odd_message_comes_back_as_it_was(message: dict[str, Any]) -> None:
    back = there_and_back(message)
    assert back == message
    assert as_json(back) == as_json(message), "types too: 1, 1.0 and True are three values"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
BASE64 = st.binary(max_size=12).map(lambda raw: base64.b64encode(raw).decode())
TEXT_BLOCK = st.fixed_dictionaries(
    {"type": st.just("text"), "text": st.text(max_size=20)},
    optional={"textSignature": st.text(max_size=8), "x": JSON},
)
IMAGE_BLOCK = st.fixed_dictionaries(
    {
        "type": st.just("image"),
        "data": BASE64 | st.text(max_size=8),
        "mimeType": st.sampled_from(["image/png", "image/jpeg", "", "odd"]),
    }
)
SIGNATURE = st.one_of(
    st.text(max_size=8),
    BASE64,
    st.sampled_from(["reasoning_content", "reasoning", '{"type":"reasoning","id":"rs_1"}', "{"]),
)
THINKING_BLOCK = st.fixed_dictionaries(
    {"type": st.just("thinking"), "thinking": st.text(max_size=20)},
    optional={
        "thinkingSignature": SIGNATURE,
        "redacted": st.booleans(),
        "itemId": st.text(max_size=5),
        "providerDetails": JSON,
    },
)
CALL_BLOCK = st.fixed_dictionaries(
    {
        "type": st.just("toolCall"),
        "id": st.text(max_size=8),
        "name": st.text(max_size=8),
        "arguments": st.dictionaries(st.text(max_size=5), JSON, max_size=3) | JSON,
    },
    optional={"thoughtSignature": st.text(max_size=8), "itemId": st.text(max_size=4), "y": JSON},
)
BLOCK = TEXT_BLOCK | IMAGE_BLOCK | THINKING_BLOCK | CALL_BLOCK | JSON
CONTENT = st.text(max_size=20) | st.lists(BLOCK, max_size=4) | JSON
NUMBER = st.integers(-2, 10**7)
FIELDS = {
    "usage": st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("input", "output", "cacheRead", "cost"), NUMBER | JSON)
    )
    | st.just(USAGE)
    | JSON,
    "stopReason": st.sampled_from(["stop", "length", "toolUse", "error", "aborted", "new", 3]),
    "provider": st.sampled_from(["anthropic", "openai", "openai-chat", "google", "", None]),
    "model": st.text(max_size=8) | JSON,
    "api": JSON,
    "errorMessage": JSON,
    "responseId": st.text(max_size=4) | JSON,
    "timestamp": st.integers(-(10**16), 10**16) | JSON,
    "toolCallId": st.text(max_size=5) | JSON,
    "toolName": st.text(max_size=5) | JSON,
    "isError": st.booleans() | JSON,
    "details": JSON,
    "unknown": JSON,
}
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "toolResult"])},
    optional={"content": CONTENT, **FIELDS},
)


@settings(max_examples=500, deadline=None)
@given(MESSAGE)
def test_any_message_comes_back_as_it_was(message: dict[str, Any]) -> None:
    back = there_and_back(message)
    assert back == message
    assert as_json(back) == as_json(message)


@settings(max_examples=200, deadline=None)
@given(MESSAGE)
def test_any_message_survives_pydantic_ais_own_storage(message: dict[str, Any]) -> None:
    (back,) = from_model_messages(through_json(to_model_messages([message])))
    assert back == message


def test_the_extended_roles_reach_the_model_as_user_messages() -> None:
    made = to_model_messages(
        [
            {"role": "compactionSummary", "summary": "S", "timestamp": 1},
            {"role": "branchSummary", "summary": "B", "timestamp": 2},
            {"role": "custom", "customType": "x", "content": "C", "display": True, "timestamp": 3},
            {
                "role": "bashExecution",
                "command": "ls",
                "output": "f",
                "exitCode": 0,
                "timestamp": 4,
            },
            {"role": "bashExecution", "command": "id", "excludeFromContext": True, "timestamp": 5},
            {"role": "somethingNew", "content": "?"},
        ]
    )
    texts = []
    for message in made:
        (part,) = message.parts
        assert isinstance(part, UserPromptPart)
        texts.append(part.content[0])
    compacted = (
        "The conversation history before this point was compacted into the following summary:"
    )
    came_back = "The following is a summary of a branch that this conversation came back from:"
    assert texts == [
        f"{compacted}\n\n<summary>\nS\n</summary>",
        f"{came_back}\n\n<summary>\nB</summary>",
        "C",
        "Ran `ls`\n```\nf\n```",
    ]


def test_the_model_sees_what_the_message_says() -> None:
    made = to_model_messages(EXAMPLES)
    answer, failed, aborted = made[3], made[4], made[5]
    assert isinstance(answer, ModelResponse)
    thinking, redacted, text, call, signed = answer.parts
    assert thinking == ThinkingPart("hm", signature="c2ln", provider_name="anthropic")
    assert redacted == ThinkingPart(
        "", id="redacted_thinking", signature="b3Bh", provider_name="anthropic"
    )
    assert isinstance(text, TextPart)
    assert (text.content, text.id) == ("answer", "msg_1")
    assert call == ToolCallPart("read", {"path": "a"}, "call_1")
    assert isinstance(signed, ToolCallPart)
    assert signed.provider_details == {"thought_signature": "dGg="}
    assert answer.usage == RequestUsage(
        input_tokens=117, output_tokens=5, cache_read_tokens=100, cache_write_tokens=7
    )
    assert (answer.model_name, answer.provider_name) == ("claude-sonnet-4-5", "anthropic")
    assert isinstance(failed, ModelResponse)
    assert failed.finish_reason == "error"
    assert isinstance(aborted, ModelResponse)
    assert aborted.state == "interrupted"

    (error,) = made[6].parts
    assert isinstance(error, ToolReturnPart)
    assert (error.content, error.outcome) == ("a\nb", "failed")
    (picture,) = made[7].parts
    assert isinstance(picture, ToolReturnPart)
    assert picture.files == [BinaryContent(base64.b64decode(PIXEL), media_type="image/webp")]
    assert picture.outcome == "success"


WHEN = datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
PARTS = st.one_of(
    st.builds(TextPart, st.text(max_size=9)),
    st.builds(TextPart, st.text(max_size=9), id=st.just("msg_9"), provider_name=st.just("openai")),
    st.builds(ThinkingPart, st.text(max_size=9)),
    st.builds(
        ThinkingPart,
        st.text(max_size=9),
        id=st.sampled_from([None, "rs_1", "redacted_thinking"]),
        signature=st.sampled_from(["sig", "e30="]),
        provider_name=st.just("openai"),
        provider_details=st.sampled_from([None, {"raw_content": ["x"]}]),
    ),
    st.builds(
        ThinkingPart,
        st.text(max_size=9),
        id=st.sampled_from(["reasoning_content", "rs_2"]),
        provider_name=st.just("openai"),
    ),
    st.builds(
        ToolCallPart,
        st.text(max_size=5),
        st.dictionaries(st.text(max_size=4), JSON, max_size=2),
        st.text(max_size=6),
        id=st.just("fc_1"),
        provider_name=st.just("openai"),
        provider_details=st.sampled_from([None, {"thought_signature": "x"}, {"other": 1}]),
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PARTS, max_size=4))
def test_an_answer_of_pydantic_ai_comes_back_part_by_part(parts: list[Any]) -> None:
    response = ModelResponse(
        parts,
        usage=RequestUsage(input_tokens=9, output_tokens=2, cache_read_tokens=4),
        model_name="m",
        provider_name="openai",
        timestamp=WHEN,
        finish_reason="stop",
        provider_response_id="resp_1",
    )
    (back,) = to_model_messages(from_model_messages([response]))
    assert isinstance(back, ModelResponse)
    assert list(back.parts) == parts
    assert back.usage == response.usage
    assert (back.model_name, back.timestamp, back.finish_reason) == ("m", WHEN, "stop")
    assert back.provider_response_id == "resp_1"


def test_a_request_of_several_parts_becomes_several_messages() -> None:
    request = ModelRequest(
        [
            SystemPromptPart("be brief"),
            ToolReturnPart("read", {"a": 1}, "c1", timestamp=WHEN),
            ToolReturnPart("read", "gone", "c2", timestamp=WHEN, outcome="denied"),
            UserPromptPart(["see", BinaryContent(b"x", media_type="image/gif")], timestamp=WHEN),
        ]
    )
    first, second, third = from_model_messages([request])
    assert (first["toolCallId"], first["isError"]) == ("c1", False)
    assert first["content"] == [{"type": "text", "text": '{"a":1}'}]
    assert (second["toolCallId"], second["isError"]) == ("c2", True)
    assert third["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "data": "eA==", "mimeType": "image/gif"},
    ]
    assert third["timestamp"] == 1770091506789
