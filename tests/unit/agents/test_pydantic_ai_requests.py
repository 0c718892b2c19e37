"""What is sent to a model, how failures read, and when a call is tried again."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.exceptions import ModelContextWindowExceededError as Overflow
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from sessiontree.agents.failures import BrokenOffError, describe_failure
from sessiontree.agents.outgoing import NO_IMAGE, TOO_DEEP, outgoing_messages
from sessiontree.agents.retries import RetryPolicy
from sessiontree.runtime.models import Model

SEEING = Model("p", "m", images=True)
BLIND = Model("p", "m")


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, "timestamp": 1}


def answer(*blocks: dict[str, Any], stop: str = "stop") -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), "provider": "p", "stopReason": stop}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(call_id: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": "read", "arguments": {"path": "a"}}


def result(call_id: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": "read",
        "content": list(blocks),
    }


def http_error(
    category: type[ModelRateLimitError | ModelQuotaExceededError | Overflow],
    status: int,
    body: object,
    headers: dict[str, str] | None = None,
) -> ModelHTTPError:
    return ModelHTTPError.for_category(
        category=category, status_code=status, model_name="m", body=body, headers=headers
    )


def test_failed_answers_are_sent_only_for_what_the_user_saw_of_them() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}
    sent = outgoing_messages(
        [
            user("a"),
            answer(stop="error"),
            user("b"),
            answer(thinking, stop="aborted"),
            user("c"),
            answer(thinking, text("so far"), stop="aborted"),
            user("d"),
        ],
        SEEING,
    )
    assert [type(message).__name__ for message in sent] == [
        "ModelRequest",
        "ModelResponse",
        "ModelRequest",
    ]
    first, kept, _ = sent
    prompts = [part.content for part in first.parts if isinstance(part, UserPromptPart)]
    assert prompts == ["a", "b", "c"]
    assert isinstance(kept, ModelResponse)
    assert [part.part_kind for part in kept.parts] == ["text"]


def test_an_answer_that_was_asked_for_again_is_sent_once() -> None:
    sent = outgoing_messages(
        [user("a"), answer(text("Half an"), stop="error"), answer(text("Half and half."))], SEEING
    )
    _, whole = sent
    assert isinstance(whole, ModelResponse)
    assert whole.text == "Half and half."


def test_empty_blocks_and_messages_are_not_sent() -> None:
    sent = outgoing_messages([user(""), user([text(""), text("x")]), answer(text(""))], SEEING)
    (request,) = sent
    (part,) = request.parts
    assert isinstance(part, UserPromptPart)
    assert part.content == "x"


def test_an_empty_tool_result_is_sent_all_the_same() -> None:
    sent = outgoing_messages([user("a"), answer(call("c1"), stop="toolUse"), result("c1")], SEEING)
    (part,) = sent[-1].parts
    assert isinstance(part, ToolReturnPart)
    assert part.content == ""


def test_images_go_only_to_models_that_see() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    for model, expected in ((SEEING, 1), (BLIND, 0)):
        sent = outgoing_messages(
            [user([image]), answer(call("c1"), stop="toolUse"), result("c1", text("p"), image)],
            model,
        )
        tool = sent[-1].parts[0]
        assert isinstance(tool, ToolReturnPart)
        assert len(tool.files) == expected
        prompt = sent[0].parts[0]
        assert isinstance(prompt, UserPromptPart)
        assert (prompt.content == NO_IMAGE) is (model is BLIND)


def ids_of(messages: list[Any]) -> list[str]:
    return [
        part.tool_call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart | ToolReturnPart)
    ]


def test_ids_of_other_agents_become_ids_that_every_provider_takes() -> None:
    long = "call_1|fc_" + "0" * 80
    clash = "call_1|fc_other"
    odd = "tool:äöü"
    sent = outgoing_messages(
        [
            user("a"),
            answer(call(long), call(clash), call(odd), stop="toolUse"),
            result(long, text("1")),
            result(clash, text("2")),
            result(odd, text("3")),
        ],
        SEEING,
    )
    assert ids_of(sent) == ["call_1", "call_1_2", "tool____"] * 2


@given(st.lists(st.text(max_size=90), min_size=1, max_size=6, unique=True))
def test_portable_ids_are_distinct_and_short_and_match_their_results(ids: list[str]) -> None:
    sent = outgoing_messages(
        [
            user("a"),
            answer(*(call(one) for one in ids), stop="toolUse"),
            *(result(one, text(str(at))) for at, one in enumerate(ids)),
        ],
        SEEING,
    )
    made = ids_of(sent)
    calls, results = made[: len(ids)], made[len(ids) :]
    assert calls == results
    assert len(set(calls)) == len(ids)
    assert all(0 < len(one) <= 64 and one.replace("-", "_").isascii() for one in calls)


def test_half_a_character_is_not_sent() -> None:
    sent = outgoing_messages(
        [user("x\ud83d"), answer({**call("c"), "arguments": {"k\udc00": ["\ud800"]}}), result("c")],
        SEEING,
    )
    prompt = sent[0].parts[0]
    assert isinstance(prompt, UserPromptPart)
    assert prompt.content == "x\ufffd"
    made = sent[1].parts[0]
    assert isinstance(made, ToolCallPart)
    assert made.args == {"k\ufffd": ["\ufffd"]}


def test_what_is_nested_without_end_is_left_out() -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    sent = outgoing_messages(
        [user("x"), answer({**call("c"), "arguments": {"near": [1], "deep": deep}}), result("c")],
        SEEING,
    )
    made = sent[1].parts[0]
    assert isinstance(made, ToolCallPart)
    arguments = made.args_as_dict()
    assert arguments["near"] == [1]
    assert TOO_DEEP in str(arguments["deep"])


def test_prompts_in_a_row_are_one_request_however_many_they_are() -> None:
    asked = [user(f"question {number}") for number in range(20_000)]
    sent = outgoing_messages([*asked, answer(text("yes")), user("and?"), user("so?")], SEEING)
    assert [len(message.parts) for message in sent] == [20_000, 1, 2]
    assert [part.content for part in sent[0].parts[:2]] == ["question 0", "question 1"]  # type: ignore[union-attr]


def test_calls_and_results_always_match() -> None:
    sent = outgoing_messages([user("a"), answer(call("c1"), stop="aborted"), user("b")], SEEING)
    assert isinstance(sent[-1], ModelRequest)
    kinds = [part.part_kind for part in sent[-1].parts]
    assert kinds == ["tool-return", "user-prompt"]


def test_sending_leaves_the_conversation_as_it_is() -> None:
    messages = [user([text("")]), answer(call("a|b"), stop="toolUse"), result("a|b", text("x"))]
    before = repr(messages)
    outgoing_messages(messages, BLIND)
    assert repr(messages) == before


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message", "is_transient"),
    [
        (
            http_error(ModelRateLimitError, 429, {"error": {"message": "slow down"}}),
            "429 slow down",
            True,
        ),
        (
            http_error(ModelQuotaExceededError, 429, {"message": "pay"}),
            "429 pay",
            False,
        ),
        (
            http_error(Overflow, 400, {"error": "too much"}),
            "context window exceeded: 400 too much",
            False,
        ),
        (ModelConnectionError(model_name="m", message="peer reset"), "peer reset", True),
        (UnexpectedModelBehavior("an answer of nothing"), "an answer of nothing", True),
        (ContentFilterError("refused"), "refused", False),
        (ConnectionResetError("reset by peer"), "reset by peer", True),
        (httpx2.ReadError("cut"), "cut", True),
        (BrokenOffError(), "The connection broke off in the middle of the answer", True),
        (UserError("Set the key. To try Pydantic AI without an API key, …"), "Set the key.", False),
        (ValueError(), "ValueError", False),
        (RuntimeError("two\n  lines"), "two lines", False),
    ],
)
def test_a_failure_is_one_sentence_and_knows_whether_to_try_again(
    error: Exception, message: str, is_transient: bool
) -> None:
    failure = describe_failure(error)
    assert (failure.message, failure.is_transient) == (message, is_transient)


def test_a_provider_that_says_not_to_retry_is_believed() -> None:
    error = http_error(ModelRateLimitError, 429, None, {"x-should-retry": "false"})
    assert not describe_failure(error).is_transient


def test_waits_double_up_to_a_limit_with_a_random_half() -> None:
    low = RetryPolicy(attempts=9, first_wait_s=1, longest_wait_s=5, random=lambda: 0.0)
    high = RetryPolicy(attempts=9, first_wait_s=1, longest_wait_s=5, random=lambda: 1.0)
    assert [low.wait_s(n) for n in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 2.5]
    assert [high.wait_s(n) for n in (1, 2, 3, 4, 8)] == [1, 2, 4, 5, 5]


def test_what_the_provider_asks_for_is_waited_within_reason() -> None:
    policy = RetryPolicy(attempts=3, patience_s=60)
    asked = policy.wait_s(1, 20)
    assert asked is not None
    assert asked >= 20
    assert policy.wait_s(1, 61) is None
    assert policy.wait_s(3) is None


def test_the_prompt_of_another_program_is_not_sent() -> None:
    system = {"role": "system", "content": "You are pi", "timestamp": 1}
    (request,) = outgoing_messages([system, user("hi")], SEEING)
    assert [part.part_kind for part in request.parts] == ["user-prompt"]


def test_a_model_that_sees_nothing_reads_what_is_drawn_on_an_archived_page() -> None:
    page = {"type": "image", "data": "AAAA", "mimeType": "image/png", "alt": "the page's text"}
    (request,) = outgoing_messages([user([text("HISTORY"), page])], BLIND)
    assert isinstance(request.parts[0], UserPromptPart)
    assert request.parts[0].content == "HISTORY\nthe page's text"
