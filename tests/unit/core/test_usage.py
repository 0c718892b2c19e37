"""Tokens and money from whatever ``usage`` a file holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import user

from sessiontree.core.usage import (
    Usage,
    count_messages,
    estimate_context,
    estimate_message,
    paid_model_of,
    total_usage,
    usage_of,
)


def answer(text: str = "", *, total: int = 0, stop: str = "stop", **fields: Any) -> dict[str, Any]:
    usage = {"input": total, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": total}
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "usage": usage,
        "stopReason": stop,
        **fields,
    }


def test_usage_reads_tokens_by_kind_and_the_cost() -> None:
    message = answer(
        usage={
            "input": 10,
            "output": 5,
            "cacheRead": 100,
            "cacheWrite": 20,
            "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0, "cacheWrite": 0, "total": 0.3},
        }
    )
    assert usage_of(message) == Usage(10, 5, 100, 20, 135, 0.3)


def test_a_given_total_wins_over_the_sum() -> None:
    used = usage_of(answer(usage={"input": 1, "output": 2, "totalTokens": 50}))
    assert used is not None
    assert used.total_tokens == 50


def test_a_cost_without_a_total_is_the_sum_of_its_parts() -> None:
    used = usage_of(answer(usage={"input": 1, "cost": {"input": 0.25, "output": 0.5}}))
    assert used is not None
    assert used.cost == 0.75


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"input": None, "cost": None},
        {"input": "12", "output": [], "cost": {"total": "x"}},
        {"input": True},
        {"input": -5},
        {"input": float("nan"), "cost": {"total": float("inf")}},
        {"input": 10**400},
    ],
)
def test_a_usage_of_the_wrong_kind_counts_as_nothing(usage: dict[str, Any]) -> None:
    assert usage_of(answer(usage=usage)) == Usage()


@pytest.mark.parametrize("message", [user("hi"), {}, answer(usage=None), answer(usage=[1])])
def test_what_has_no_usage_says_so(message: dict[str, Any]) -> None:
    assert usage_of(message) is None


def entry(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "message": message}


def test_totals_add_up_over_everything_that_says_what_it_cost() -> None:
    used = {"input": 1, "output": 2, "cost": {"total": 0.25}}
    entries = [
        entry(user("hi")),
        entry(answer(total=10)),
        entry({"role": "toolResult", "usage": used}),
        entry({"role": "user", "usage": used}),
        {"type": "usage", "kind": "cache_warm", "usage": used},
        {"type": "compaction", "usage": used},
        {"type": "branch_summary", "usage": used},
        {"type": "custom", "usage": used},
        {"type": "message", "message": None},
        {"type": "usage", "usage": None},
    ]
    assert total_usage(entries) == Usage(14, 8, 0, 0, 22, 1.0)


def test_parts_of_a_number_are_no_further_tokens() -> None:
    raw = {"input": 1, "output": 9, "reasoning": 7, "cacheWrite": 5, "cacheWrite1h": 3}
    assert usage_of(answer(usage=raw)) == Usage(1, 9, 0, 5, 15, 0.0, 7, 3)


def test_usage_is_counted_for_the_model_that_answered() -> None:
    asked = answer(provider="acme", model="router")
    assert paid_model_of(entry(asked)) == "acme/router"
    assert paid_model_of(entry({**asked, "responseModel": "a"})) == "acme/a"
    assert paid_model_of({"type": "usage", "provider": "acme", "model": "a"}) == "acme/a"
    assert paid_model_of({"type": "compaction"}) is None


def test_counts_tell_roles_and_tool_calls_apart() -> None:
    call = {"type": "toolCall", "id": "1", "name": "ls", "arguments": {}}
    counts = count_messages(
        [
            user("hi"),
            {"role": "assistant", "content": [call, call, {"type": "text", "text": "x"}, None]},
            {"role": "toolResult", "content": []},
            {"role": "custom"},
        ]
    )
    assert (counts.user, counts.assistant, counts.tool_calls) == (1, 1, 2)
    assert (counts.tool_results, counts.total) == (1, 4)


def test_four_characters_are_a_token_rounded_up_and_an_image_1200() -> None:
    assert estimate_message(user("")) == 0
    assert estimate_message(user("abcd")) == 1
    assert estimate_message(user("abcde")) == 2
    image = {"role": "user", "content": [{"type": "image", "data": "x" * 9999}]}
    assert estimate_message(image) == 1200


def test_every_kind_of_message_is_estimated_by_what_a_model_sees_of_it() -> None:
    thinking = {"type": "thinking", "thinking": "x" * 8}
    call = {"type": "toolCall", "name": "read", "arguments": {"path": "a"}}
    assert estimate_message({"role": "assistant", "content": [thinking]}) == 2
    assert estimate_message({"role": "assistant", "content": [call]}) == 4  # read{"path":"a"}
    bash = {"role": "bashExecution", "command": "ls", "output": "abcdef"}
    assert estimate_message(bash) == 2
    assert estimate_message({**bash, "excludeFromContext": True}) == 0
    assert estimate_message({"role": "compactionSummary", "summary": "x" * 40}) == 10
    assert estimate_message({"role": "from the future", "content": "x" * 40}) == 0


def test_a_context_is_the_last_good_usage_plus_what_follows() -> None:
    messages = [user("x" * 4000), answer(total=500), user("abcd"), user("abcd")]
    assert estimate_context(messages).tokens == 502
    assert estimate_context(messages).counted == 500


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_failed_answer_is_no_measure(stop: str) -> None:
    messages = [user("abcd"), answer(total=500), user("abcd"), answer("abcd", total=9, stop=stop)]
    assert estimate_context(messages).tokens == 502


def test_without_a_usage_everything_is_estimated() -> None:
    assert estimate_context([user("abcd"), answer("abcd")]).tokens == 2


def test_a_usage_from_before_a_compaction_is_not_believed() -> None:
    messages = [user("abcd"), answer("abcd", total=90_000), user("abcd")]
    assert estimate_context(messages, trust_from=2).tokens == 3


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "assistant", "toolResult", "bashExecution", "x"]),
            "content": json_values,
            "usage": json_values,
            "output": json_values,
            "summary": json_values,
        },
    )
)
def test_no_message_makes_counting_fail(message: dict[str, Any]) -> None:
    assert estimate_message(message) >= 0
    used = usage_of(message)
    assert used is None or used.total_tokens >= 0
