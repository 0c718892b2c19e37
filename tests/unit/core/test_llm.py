"""From a context to a prompt: pi's texts to the byte, and calls that match results."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.samples import TIME_MS, assistant, calling, result, user

from sessiontree import convert_to_llm

Wire = dict[str, Any]
TRUNCATED = "\n\n[Output truncated. Full output: /o]"


def say(message: Wire) -> str:
    """The text of the one user message that a message becomes."""
    (converted,) = convert_to_llm([message])
    assert converted["role"] == "user"
    assert converted["timestamp"] == message["timestamp"]
    ((block),) = converted["content"]
    assert block["type"] == "text"
    return str(block["text"])


def bash(**fields: Any) -> Wire:
    made = {
        "role": "bashExecution",
        "command": "ls",
        "output": "a\nb",
        "exitCode": 0,
        "cancelled": False,
        "truncated": False,
        "timestamp": TIME_MS,
    }
    return {**made, **fields}


def test_plain_messages_are_the_same_objects() -> None:
    messages = [user("x"), calling("c"), result("c"), assistant("y")]
    converted = convert_to_llm(messages)
    assert all(one is other for one, other in zip(converted, messages, strict=True))


def test_a_compaction_summary() -> None:
    message = {"role": "compactionSummary", "summary": "SUM", "tokensBefore": 1, "timestamp": 5}
    assert say(message) == (
        "The conversation history before this point was compacted into the following summary:"
        "\n\n<summary>\nSUM\n</summary>"
    )


def test_a_branch_summary() -> None:
    message = {"role": "branchSummary", "summary": "SUM", "fromId": "a", "timestamp": 5}
    assert say(message) == (
        "The following is a summary of a branch that this conversation came back from:"
        "\n\n<summary>\nSUM</summary>"
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "Ran `ls`\n```\na\nb\n```"),
        ({"output": ""}, "Ran `ls`\n(no output)"),
        ({"exitCode": 3}, "Ran `ls`\n```\na\nb\n```\n\nCommand exited with code 3"),
        ({"exitCode": 3.0}, "Ran `ls`\n```\na\nb\n```\n\nCommand exited with code 3"),
        ({"exitCode": -9}, "Ran `ls`\n```\na\nb\n```\n\nCommand exited with code -9"),
        ({"exitCode": None}, "Ran `ls`\n```\na\nb\n```"),
        ({"cancelled": True, "exitCode": 3}, "Ran `ls`\n```\na\nb\n```\n\n(command cancelled)"),
        (
            {"truncated": True, "fullOutputPath": "/tmp/o"},
            "Ran `ls`\n```\na\nb\n```\n\n[Output truncated. Full output: /tmp/o]",
        ),
        ({"truncated": True}, "Ran `ls`\n```\na\nb\n```"),
        ({"fullOutputPath": "/tmp/o"}, "Ran `ls`\n```\na\nb\n```"),
        (
            {"output": "", "exitCode": 1, "truncated": True, "fullOutputPath": "/o"},
            f"Ran `ls`\n(no output)\n\nCommand exited with code 1{TRUNCATED}",
        ),
    ],
)
def test_a_command_that_the_user_ran(fields: Wire, text: str) -> None:
    assert say(bash(**fields)) == text


@pytest.mark.parametrize("odd", [5, [], {"a": 1}, None])
def test_what_is_no_text_is_not_said(odd: object) -> None:
    fields = {"command": odd, "output": odd, "truncated": True, "fullOutputPath": odd}
    assert say(bash(**fields)) == "Ran ``\n(no output)"
    (custom,) = convert_to_llm([{"role": "custom", "content": {"a": odd}, "timestamp": 7}])
    assert custom["content"] == [{"type": "text", "text": ""}]


def test_a_command_kept_from_the_model_is_dropped() -> None:
    assert convert_to_llm([bash(excludeFromContext=True), bash(excludeFromContext=False)]) == (
        convert_to_llm([bash()])
    )


def test_a_custom_message_becomes_the_users() -> None:
    blocks = [{"type": "image", "data": "x", "mimeType": "image/png"}]
    converted = convert_to_llm(
        [
            {"role": "custom", "customType": "x", "content": "text", "timestamp": 7},
            {"role": "custom", "customType": "x", "content": blocks, "timestamp": 8},
        ]
    )
    assert converted == [
        {"role": "user", "content": [{"type": "text", "text": "text"}], "timestamp": 7},
        {"role": "user", "content": blocks, "timestamp": 8},
    ]


@pytest.mark.parametrize("role", ["developer", "hookMessage", "", None, 5, ["user"]])
def test_unknown_roles_are_dropped(role: object) -> None:
    assert convert_to_llm([user("a"), {"role": role, "content": "x"}, user("b")]) == [
        user("a"),
        user("b"),
    ]


# -- repair ----------------------------------------------------------------------------------------


def repair(*messages: Wire) -> list[Wire]:
    before = copy.deepcopy(messages)
    converted = convert_to_llm(messages, repair=True)
    assert list(messages) == list(before), "the log was touched"
    return converted


def is_synthetic(message: Wire, call_id: str) -> bool:
    return (
        message["role"] == "toolResult"
        and message["toolCallId"] == call_id
        and message["toolName"] == "bash"
        and message["isError"] is True
        and bool(message["content"][0]["text"])
    )


def test_what_matches_is_left_as_it_is() -> None:
    messages = [
        user("1"),
        calling("a", "b"),
        result("a"),
        result("b"),
        calling("c"),
        result("c"),
        assistant("2"),
    ]
    assert repair(*messages) == messages


def test_results_may_come_in_another_order() -> None:
    messages = [calling("a", "b"), result("b"), result("a"), user("x")]
    assert repair(*messages) == messages


def test_ids_that_are_used_again_in_each_turn_match_in_each_turn() -> None:
    messages = [
        user("1"),
        calling("call_1"),
        result("call_1", "first"),
        calling("call_1"),
        result("call_1", "second"),
        assistant("end"),
    ]
    assert repair(*messages) == messages


def test_a_reused_id_without_its_second_result_gets_a_synthetic_one() -> None:
    repaired = repair(calling("call_1"), result("call_1", "first"), calling("call_1"), user("x"))
    assert repaired[1] == result("call_1", "first")
    assert is_synthetic(repaired[3], "call_1")
    assert repaired[4] == user("x")


@pytest.mark.parametrize("after", [[], [user("next")], [assistant("next")]])
def test_a_call_without_a_result_gets_a_synthetic_error(after: list[Wire]) -> None:
    repaired = repair(user("1"), calling("a", "b"), result("a"), *after)
    assert repaired[:3] == [user("1"), calling("a", "b"), result("a")]
    assert is_synthetic(repaired[3], "b")
    assert repaired[4:] == after


def test_a_result_without_its_call_is_dropped() -> None:
    assert repair(result("x"), user("1"), result("y"), assistant("2")) == [
        user("1"),
        assistant("2"),
    ]


def test_a_second_result_of_one_call_is_dropped() -> None:
    assert repair(calling("a"), result("a", "1"), result("a", "2")) == [
        calling("a"),
        result("a", "1"),
    ]


def test_a_result_that_stands_behind_other_messages_is_brought_to_its_call() -> None:
    assert repair(calling("a"), user("interrupting"), result("a", "late")) == [
        calling("a"),
        result("a", "late"),
        user("interrupting"),
    ]


def test_extended_roles_do_not_come_between_a_call_and_its_result() -> None:
    repaired = repair(calling("a"), bash(), result("a"))
    assert [message["role"] for message in repaired] == ["assistant", "toolResult", "user"]
    assert repaired[1] == result("a")


def test_without_repair_nothing_is_matched() -> None:
    messages = [calling("a"), result("b")]
    assert convert_to_llm(messages) == convert_to_llm(messages, repair=False) == messages


@pytest.mark.parametrize(
    "odd",
    [
        assistant(content=None),
        assistant(content="text"),
        assistant(content=[None, 5, {"type": "toolCall"}, {"type": "toolCall", "id": 7}]),
        {"role": "toolResult"},
        {"role": "toolResult", "toolCallId": None},
    ],
)
def test_odd_messages_do_not_stop_the_repair(odd: Wire) -> None:
    repaired = repair(user("1"), odd, user("2"))
    assert repaired[0] == user("1")
    assert repaired[-1] == user("2")
