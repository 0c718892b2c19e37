"""Context edits, system messages, null contents: what newer pi files mean."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples import TIME_MS, assistant, calling, chain, entry, message, result, texts, user

from sessiontree import Entry, build_session_context
from sessiontree.core.context import ContextBuilder

Wire = dict[str, Any]


def edit(entry_id: str, parent_id: str, target: str, replacement: object) -> Wire:
    fields = {"targetId": target, "replacement": replacement}
    return entry("context_edit", entry_id, parent_id, **fields)


def compaction(entry_id: str, parent_id: str, kept: str, **fields: Any) -> Wire:
    fields = {"summary": "so far", "firstKeptEntryId": kept, "tokensBefore": 9, **fields}
    return entry("compaction", entry_id, parent_id, **fields)


def system(text: str = "prompt", **fields: Any) -> Wire:
    return {"role": "system", "content": text, "timestamp": TIME_MS, **fields}


def contents(wires: list[Wire]) -> list[object]:
    return [m.get("content") for m in build_session_context(wires).messages]


# -- edits ------------------------------------------------------------------------------------


def test_an_edit_without_a_replacement_leaves_its_target_out() -> None:
    wires = chain(user("1"), assistant("2"), user("3"))
    assert texts(build_session_context([*wires, edit("e", "a3", "a2", None)]).messages) == [
        "1",
        "3",
    ]


def test_a_tool_output_that_was_removed_no_longer_goes_to_the_model() -> None:
    wires = chain(user("1"), calling("c"), result("c", "40,000 lines"))
    wires.append(edit("e", "a3", "a3", {"content": "[output removed]"}))
    last = build_session_context(wires).messages[-1]
    assert last == {**result("c"), "content": [{"type": "text", "text": "[output removed]"}]}


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        (user("old"), "new"),
        (assistant("old"), [{"type": "text", "text": "new"}]),
        (result("c", "old"), [{"type": "text", "text": "new"}]),
    ],
)
def test_a_string_becomes_a_block_where_blocks_are_required(
    original: Wire, expected: object
) -> None:
    wires = [*chain(original), edit("e", "a1", "a1", {"content": "new"})]
    assert contents(wires) == [expected]


def test_a_custom_message_can_be_edited() -> None:
    wires = [
        entry("custom_message", "a1", None, customType="x", content="old", display=True),
        edit("e", "a1", "a1", {"content": "new"}),
    ]
    assert contents(wires) == ["new"]


def test_roles_that_cannot_be_rewritten_stay_but_can_be_left_out() -> None:
    command = {"role": "bashExecution", "command": "ls", "output": "x", "timestamp": TIME_MS}
    wires = chain(command)
    assert build_session_context([*wires, edit("e", "a1", "a1", {"content": "new"})]).messages == [
        command
    ]
    assert build_session_context([*wires, edit("e", "a1", "a1", None)]).messages == []


def test_the_latest_edit_of_a_target_counts() -> None:
    wires = chain(user("1"))
    wires += [edit("e1", "a1", "a1", None), edit("e2", "e1", "a1", {"content": "b"})]
    assert contents(wires) == ["b"]
    wires.append(edit("e3", "e2", "a1", None))
    assert contents(wires) == []


def test_an_edit_counts_on_its_own_branch_only() -> None:
    wires = [*chain(user("1"), assistant("2")), edit("e", "a2", "a1", None)]
    wires.append(message("b", "a2", user("3")))
    assert texts(build_session_context(wires).messages) == ["1", "2", "3"]
    assert texts(build_session_context(wires, "e").messages) == ["2"]


def test_an_edit_that_a_compaction_hides_does_not_count() -> None:
    wires = chain(user("1"), assistant("2"))
    wires += [edit("e1", "a2", "a2", None), message("a4", "e1", user("4"))]
    wires.append(compaction("c", "a4", "a4"))
    assert texts(build_session_context(wires).messages)[1:] == ["4"]
    # kept from before the edit on, it counts
    wires[-1] = compaction("c", "a4", "a1")
    assert texts(build_session_context(wires).messages)[1:] == ["1", "4"]


def test_an_edit_may_leave_a_summary_out() -> None:
    wires = [*chain(user("1")), compaction("c", "a1", "a1", systemMessage=system())]
    wires.append(edit("e", "c", "c", None))
    assert texts(build_session_context(wires).messages) == ["1"]


@pytest.mark.parametrize("broken", [{}, "text", 7, [], {"text": "x"}])
def test_an_edit_that_says_nothing_changes_nothing(broken: object) -> None:
    wires = [*chain(user("1")), edit("e", "a1", "a1", broken)]
    assert contents(wires) == ["1"]


def test_an_edit_of_a_target_that_is_not_there_changes_nothing() -> None:
    assert contents([*chain(user("1")), edit("e", "a1", "gone", None)]) == ["1"]


def test_the_log_keeps_the_original() -> None:
    wires = [*chain(assistant("2")), edit("e", "a1", "a1", {"content": "new"})]
    entries = [Entry.from_wire(wire) for wire in wires]
    build_session_context(entries)
    assert entries[0].data["message"] == assistant("2")


def test_a_context_is_carried_on_past_an_edit_by_building_it_anew() -> None:
    path = [Entry.from_wire(wire) for wire in chain(user("1"), assistant("2"))]
    builder = ContextBuilder(path)
    assert builder.can_extend(Entry.from_wire(message("a3", "a2", user("3"))))
    assert not builder.can_extend(Entry.from_wire(edit("e", "a2", "a1", None)))


# -- system messages --------------------------------------------------------------------------


def test_system_messages_are_part_of_the_context() -> None:
    wires = chain(system("a"), user("1"), system("b"))
    assert contents(wires) == ["a", "1", "b"]


def test_a_compaction_drops_system_messages_among_what_it_keeps() -> None:
    wires = chain(system("a"), user("1"), system("b"), user("2"))
    wires += [compaction("c", "a4", "a1"), message("a6", "c", system("later"))]
    roles = [m["role"] for m in build_session_context(wires).messages]
    assert roles == ["compactionSummary", "user", "user", "system"]


def test_the_system_message_of_a_compaction_comes_first() -> None:
    wires = chain(system("a"), user("1"))
    wires.append(compaction("c", "a2", "a1", systemMessage=system("saved")))
    messages = build_session_context(wires).messages
    assert messages[0] == system("saved")
    assert [m["role"] for m in messages] == ["system", "compactionSummary", "user"]


# -- what compactions keep --------------------------------------------------------------------


def test_a_compaction_whose_first_kept_entry_is_itself_keeps_nothing() -> None:
    wires = [*chain(user("1")), compaction("c", "a1", "c"), message("a3", "c", user("3"))]
    assert texts(build_session_context(wires).messages)[1:] == ["3"]


def test_an_empty_first_kept_entry_keeps_what_follows_the_replayed_part() -> None:
    wires = chain(user("1"), assistant("2"), user("3"))
    wires.append(compaction("c", "a3", "", providerReplayThroughEntryId="a2"))
    assert texts(build_session_context(wires).messages)[1:] == ["3"]
    wires[-1] = compaction("c", "a3", "", providerReplayThroughEntryId="gone")
    assert texts(build_session_context(wires).messages)[1:] == []


# -- null contents ----------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [{"content": None}, {}])
@pytest.mark.parametrize("role", ["user", "assistant", "toolResult"])
def test_a_message_without_content_has_empty_content(role: str, gone: Wire) -> None:
    wires = chain({"role": role, "timestamp": TIME_MS, **gone})
    assert contents(wires) == [[]]


def test_a_system_message_without_content_has_an_empty_text() -> None:
    assert contents(chain({"role": "system", "content": None, "timestamp": TIME_MS})) == [""]


def test_a_custom_message_without_content_has_empty_content() -> None:
    wires = [entry("custom_message", "a1", None, customType="x", content=None, display=True)]
    assert contents(wires) == [[]]
