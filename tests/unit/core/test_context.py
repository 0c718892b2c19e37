"""What the model sees, worked out by hand from the words of the specification."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples import (
    TIME_MS,
    assistant,
    chain,
    entry,
    header,
    message,
    texts,
    user,
)

from sessiontree import Entry, SessionContext, build_session_context

Wire = dict[str, Any]


def said(*wires: Wire, **options: Any) -> list[str]:
    return texts(build_session_context(wires, **options).messages)


# -- which path -------------------------------------------------------------------------------


def test_nothing_gives_an_empty_context() -> None:
    empty = SessionContext([], "off", {}, [], "none", None)
    assert build_session_context([]) == empty
    assert build_session_context(chain(user("x")), None) == empty


def test_the_last_entry_is_the_leaf_unless_another_is_named() -> None:
    tree = [*chain(user("1"), assistant("2"), user("3")), message("b", "a1", user("other"))]
    assert said(*tree) == ["1", "other"]
    assert said(*tree, leaf_id="a3") == ["1", "2", "3"]
    assert said(*tree, leaf_id="a1") == ["1"]


def test_an_unknown_leaf_means_the_last_entry() -> None:
    assert said(*chain(user("1"), user("2")), leaf_id="nope") == ["1", "2"]


def test_of_two_entries_with_one_id_the_first_is_the_parent() -> None:
    """As in a session's tree, where the later one gets another id."""
    wires = [*chain(user("1"), assistant("2")), message("a2", "a2", user("3"))]
    assert said(*wires) == ["1", "2", "3"]
    assert said(*wires, message("a3", "a2", assistant("4"))) == ["1", "2", "4"]


def test_an_index_of_ids_may_be_given() -> None:
    wires = chain(user("1"), user("2"))
    by_id = {wire["id"]: wire for wire in wires}
    assert texts(build_session_context(wires, "a1", by_id).messages) == ["1"]


def test_entries_and_plain_objects_give_the_same() -> None:
    wires = chain(user("1"), assistant("2"))
    entries = [Entry.from_wire(wire) for wire in wires]
    assert build_session_context(entries) == build_session_context(wires)


def test_the_records_of_a_file_may_be_given_header_and_all() -> None:
    assert said(header(), *chain(user("1"), user("2"))) == ["1", "2"]
    assert said(header()) == []


@pytest.mark.parametrize(
    "wires",
    [
        [message("a", "a")],
        [message("a", "b"), message("b", "a")],
        [message("x", None), message("a", "c"), message("b", "a"), message("c", "b")],
    ],
)
def test_a_cycle_of_parents_ends(wires: list[Wire]) -> None:
    assert said(*wires)[-1] == wires[-1]["id"]


def test_messages_pass_through_untouched() -> None:
    odd = {"role": "future", "content": {"x": 1}, "timestamp": None, "extra": [1]}
    wires = chain(user([{"type": "image", "data": "x", "mimeType": "y"}]), odd)
    messages = build_session_context(wires).messages
    assert messages[0] is wires[0]["message"]
    assert messages[1] is odd


@pytest.mark.parametrize("broken", [None, 5, "text", []])
def test_a_message_that_is_none_is_passed_over(broken: object) -> None:
    wires = [message("a", None), entry("message", "b", "a", message=broken), message("c", "b")]
    assert said(*wires) == ["a", "c"]
    assert said(message("a", None), entry("message", "b", "a"), message("c", "b")) == ["a", "c"]


@pytest.mark.parametrize(
    "silent",
    [
        entry("custom", "b", "a", customType="x", data={"role": "user"}),
        entry("session_init", "b", "a", systemPrompt="s", task="t", tools=[]),
        entry("label", "b", "a", targetId="a", label="l"),
        entry("session_info", "b", "a", name="n"),
        entry("title_change", "b", "a", title="t"),
        entry("model_usage", "b", "a", usage={}),
        entry("service_tier_change", "b", "a", serviceTier=None),
        entry("credential_pin", "b", "a", provider="p", hash="h"),
        entry("context_change", "b", "a"),
        entry("mcp_tool_selection", "b", "a", tools=[]),
        entry("of the future", "b", "a", message=user("never")),
    ],
)
def test_entries_that_are_not_for_the_model_add_nothing(silent: Wire) -> None:
    expected = build_session_context([message("a", None), message("c", "a", user("c"))])
    assert build_session_context([message("a", None), silent, message("c", "b", user("c"))]) == (
        expected
    )


# -- messages made of entries ------------------------------------------------------------------


def test_a_custom_message_is_a_message_of_role_custom() -> None:
    wires = [
        entry("custom_message", "a", None, customType="ext", content="text", display=True),
        entry(
            "custom_message",
            "b",
            "a",
            customType="ext",
            content=[{"type": "text", "text": "block"}],
            display=False,
            details={"debug": 1},
            attribution="user",
        ),
    ]
    assert build_session_context(wires).messages == [
        {
            "role": "custom",
            "customType": "ext",
            "content": "text",
            "display": True,
            "timestamp": TIME_MS,
        },
        {
            "role": "custom",
            "customType": "ext",
            "content": [{"type": "text", "text": "block"}],
            "display": False,
            "details": {"debug": 1},
            "attribution": "user",
            "timestamp": TIME_MS,
        },
    ]


def test_a_branch_summary_with_text_is_a_message() -> None:
    wires = [
        message("a", None),
        entry("branch_summary", "b", "a", fromId="a", summary="went there"),
        entry("branch_summary", "c", "b", fromId="root", summary=""),
        entry("branch_summary", "d", "c", fromId="root", summary=None),
    ]
    assert build_session_context(wires).messages[1:] == [
        {"role": "branchSummary", "summary": "went there", "fromId": "a", "timestamp": TIME_MS}
    ]


# -- compaction and resets ----------------------------------------------------------------------


def compaction(entry_id: str, parent: str, kept: str | None, summary: str = "S") -> Wire:
    made = entry("compaction", entry_id, parent, summary=summary, tokensBefore=42)
    if kept is not None:
        made["firstKeptEntryId"] = kept
    return made


def test_a_compaction_gives_its_summary_then_what_is_kept_then_what_follows() -> None:
    wires = [
        *chain(user("1"), assistant("2"), user("3"), assistant("4")),
        compaction("k", "a4", "a3"),
        message("b", "k", user("5")),
    ]
    context = build_session_context(wires)
    assert texts(context.messages) == ["S", "3", "4", "5"]
    summary = context.messages[0]
    assert {key: summary[key] for key in ("role", "summary", "tokensBefore", "timestamp")} == {
        "role": "compactionSummary",
        "summary": "S",
        "tokensBefore": 42,
        "timestamp": TIME_MS,
    }


@pytest.mark.parametrize("kept", [None, "nope", "b", "k", "off"])
def test_a_first_kept_entry_that_is_not_on_the_path_before_keeps_nothing(kept: str | None) -> None:
    wires = [
        *chain(user("1"), user("2")),
        message("off", "a1"),
        compaction("k", "a2", kept),
        message("b", "k", user("3")),
    ]
    assert said(*wires) == ["S", "3"]


def test_the_latest_compaction_wins_and_the_older_one_is_silent_even_if_kept() -> None:
    wires = [
        *chain(user("1"), user("2")),
        compaction("k1", "a2", "a2", "old"),
        message("b", "k1", user("3")),
        compaction("k2", "b", "a2", "new"),
        message("c", "k2", user("4")),
    ]
    assert said(*wires) == ["new", "2", "3", "4"]
    assert said(*wires, leaf_id="b") == ["old", "2", "3"]


def test_a_compaction_on_another_branch_does_not_count() -> None:
    wires = [*chain(user("1"), user("2")), compaction("k", "a2", "a2"), message("b", "a2")]
    assert said(*wires) == ["1", "2", "b"]


def test_a_kept_entry_may_be_of_any_type() -> None:
    wires = [
        *chain(user("1"), user("2")),
        entry("label", "l", "a2", targetId="a1", label="x"),
        message("b", "l", user("3")),
        compaction("k", "b", "l"),
    ]
    assert said(*wires) == ["S", "3"]


def test_custom_messages_and_branch_summaries_are_kept_too() -> None:
    wires = [
        message("a", None),
        entry("custom_message", "m", "a", customType="x", content="custom", display=True),
        entry("branch_summary", "s", "m", fromId="a", summary="branch"),
        compaction("k", "s", "m"),
    ]
    assert said(*wires) == ["S", "custom", "branch"]


def test_a_later_reset_hides_everything_before_it() -> None:
    wires = [
        *chain(user("1"), user("2")),
        compaction("k", "a2", "a2"),
        entry("reset_boundary", "r", "k"),
        message("b", "r", user("3")),
    ]
    assert said(*wires) == ["3"]
    assert said(*wires, leaf_id="k") == ["S", "2"]


@pytest.mark.parametrize(("first_kept", "kept"), [("a", ["1", "2"]), ("r", ["2"]), ("b", ["2"])])
def test_a_reset_before_the_latest_compaction_is_superseded_by_it(
    first_kept: str, kept: list[str]
) -> None:
    wires = [
        message("a", None, user("1")),
        entry("reset_boundary", "r", "a"),
        message("b", "r", user("2")),
        compaction("k", "b", first_kept),
        message("c", "k", user("3")),
    ]
    assert said(*wires) == ["S", *kept, "3"]


def test_of_several_resets_the_latest_counts() -> None:
    wires = [
        message("a", None, user("1")),
        entry("reset_boundary", "r", "a"),
        message("b", "r", user("2")),
        entry("reset_boundary", "s", "b"),
        message("c", "s", user("3")),
        compaction("k", "c", "a"),
        message("d", "k", user("4")),
        entry("reset_boundary", "t", "d"),
        message("e", "t", user("5")),
    ]
    assert said(*wires) == ["5"]
    assert said(*wires, leaf_id="d") == ["S", "1", "2", "3", "4"]
    assert said(*wires, leaf_id="c") == ["3"]
    assert said(*wires, leaf_id="b") == ["2"]


def test_a_reset_as_leaf_is_an_empty_conversation() -> None:
    wires = [*chain(user("1")), entry("reset_boundary", "r", "a1")]
    assert said(*wires) == []
    wires.append(compaction("k", "r", "r"))
    assert said(*wires) == ["S"]


def test_state_is_taken_from_the_whole_path_whatever_is_hidden() -> None:
    wires = [
        entry("thinking_level_change", "a", None, thinkingLevel="high"),
        entry("model_change", "b", "a", model="x/y"),
        entry("ttsr_injection", "c", "b", injectedRules=["r"]),
        entry("mode_change", "d", "c", mode="plan", data={"planFile": "p"}),
        entry("reset_boundary", "e", "d"),
    ]
    assert build_session_context(wires) == SessionContext(
        [], "high", {"default": "x/y"}, ["r"], "plan", {"planFile": "p"}
    )


# -- state -----------------------------------------------------------------------------------------


def state(*changes: Wire) -> SessionContext:
    parent: str | None = None
    wires = []
    for number, change in enumerate(changes):
        wires.append(entry(change.pop("type"), str(number), parent, **change))
        parent = str(number)
    return build_session_context(wires)


def test_the_latest_thinking_level_counts() -> None:
    levels: list[Any] = ["low", "high"]
    context = state(*({"type": "thinking_level_change", "thinkingLevel": at} for at in levels))
    assert context.thinking_level == "high"
    context = state(*({"type": "thinking_level_change", "thinkingLevel": at} for at in ["x", None]))
    assert context.thinking_level == "off"


def test_models_are_by_role_in_either_dialect() -> None:
    context = state(
        {"type": "model_change", "model": "a/1"},
        {"type": "model_change", "model": "a/2", "role": "smol"},
        {"type": "model_change", "provider": "b", "modelId": "3"},
        {"type": "model_change", "model": "a/4", "role": "slow"},
        {"type": "model_change", "garbage": True},
    )
    assert context.models == {"default": "b/3", "smol": "a/2", "slow": "a/4"}


def test_the_latest_assistant_tells_the_default_model_if_nothing_else_does() -> None:
    context = state(
        {"type": "model_change", "model": "a/2", "role": "smol"},
        {"type": "message", "message": assistant(provider="p", model="first")},
        {"type": "message", "message": assistant(provider="p", model="second")},
        {"type": "message", "message": user()},
        {"type": "message", "message": {"role": "assistant", "content": []}},
    )
    assert context.models == {"smol": "a/2", "default": "p/second"}


def test_an_explicit_default_beats_assistants_before_and_after_it() -> None:
    context = state(
        {"type": "message", "message": assistant(provider="p", model="before")},
        {"type": "model_change", "model": "x/explicit"},
        {"type": "message", "message": assistant(provider="p", model="after")},
    )
    assert context.models == {"default": "x/explicit"}


def test_an_assistant_hidden_by_a_compaction_still_tells_the_model() -> None:
    wires = [
        *chain(user("1"), assistant("2", provider="p", model="hidden"), user("3")),
        compaction("k", "a3", "a3"),
    ]
    assert build_session_context(wires).models == {"default": "p/hidden"}
    wires.append(message("b", "k", assistant("4", provider="p", model="seen")))
    assert build_session_context(wires).models == {"default": "p/seen"}


def test_rules_are_listed_once_in_the_order_they_came() -> None:
    context = state(
        {"type": "ttsr_injection", "injectedRules": ["b", "a"]},
        {"type": "ttsr_injection", "injectedRules": ["a", "c", "b", 5]},
        {"type": "ttsr_injection", "injectedRules": None},
    )
    assert context.injected_ttsr_rules == ["b", "a", "c"]


def test_the_latest_mode_counts_with_its_data() -> None:
    context = state(
        {"type": "mode_change", "mode": "plan", "data": {"x": 1}},
        {"type": "mode_change", "mode": "none"},
    )
    assert (context.mode, context.mode_data) == ("none", None)


def test_a_context_is_the_callers_own() -> None:
    wires = chain(user("1"))
    first = build_session_context(wires)
    first.messages.append(user("mine"))
    first.models["default"] = "mine"
    assert texts(build_session_context(wires).messages) == ["1"]


def test_a_path_of_200_000_entries() -> None:
    wires = [
        message(str(at), str(at - 1) if at else None, {"role": "user"}) for at in range(200_000)
    ]
    assert len(build_session_context(wires).messages) == 200_000
