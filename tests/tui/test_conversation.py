"""From entries and messages to the blocks that are shown."""

from __future__ import annotations

from typing import Any, get_args

from sessiontree.model.entries import Entry
from sessiontree.tui.palette import DARK
from sessiontree.tui.transcript.block_lines import draw_block, plain_text
from sessiontree.tui.transcript.blocks import Block, Conversation, Kind, Status

from .support import assistant, call, result, user


def conversation(*messages: dict[str, Any]) -> Conversation:
    made = Conversation()
    for message in messages:
        made.add_message(message)
    return made


def kinds(made: Conversation) -> list[str]:
    return [block.kind for block in made.blocks]


def drawn(block: Block, *, is_folded: bool = True, width: int = 60) -> list[str]:
    lines = draw_block(block, width, DARK, is_folded=is_folded)
    return [line.plain.rstrip() for line in lines]


def entries(*data: dict[str, Any]) -> list[Entry]:
    parent = None
    made = []
    for number, fields in enumerate(data):
        made.append(
            Entry.from_wire({"id": f"e{number}", "parentId": parent, "timestamp": "", **fields})
        )
        parent = f"e{number}"
    return made


def test_a_turn_becomes_its_parts_in_order_and_a_result_joins_its_call() -> None:
    made = conversation(
        user("look"),
        assistant(
            content=[
                {"type": "thinking", "thinking": "First I read"},
                {"type": "text", "text": "Reading."},
                call("1", "read", path="a.py"),
                call("2", "bash", command="pytest"),
            ],
            stopReason="toolUse",
        ),
        result("2", "bash", "boom", isError=True, details={"exitCode": 1}),
        result("1", "read", "x\ny"),
        assistant("Done."),
    )
    assert kinds(made) == ["user", "thinking", "answer", "tool", "tool", "answer"]
    read, bash = made.blocks[3], made.blocks[4]
    assert (read.about, read.status, read.outcome) == ("a.py", "done", "2 lines")
    assert (bash.about, bash.status, bash.outcome) == ("pytest", "failed", "exit 1")


def test_an_answer_that_streams_in_fills_the_same_blocks_as_one_that_is_read() -> None:
    whole = assistant(
        content=[{"type": "text", "text": "Hello world"}, call("1", "ls", path=".")],
        stopReason="toolUse",
    )
    streamed = Conversation()
    streamed.begin_answer()
    for size in range(1, 12):
        text = whole["content"][0]["text"][:size]
        streamed.update_answer({**whole, "content": [{"type": "text", "text": text}]})
    streamed.update_answer(whole)
    first = streamed.blocks[0]
    streamed.end_answer(whole, "e1")
    assert streamed.blocks[0] is first
    assert [(b.kind, b.text, b.about) for b in streamed.blocks] == [
        (b.kind, b.text, b.about) for b in conversation(whole).blocks
    ]
    assert {block.entry_id for block in streamed.blocks} == {"e1"}


def test_an_error_and_a_stop_are_said_after_what_there_was_of_the_answer() -> None:
    made = conversation(
        assistant("Half", stopReason="error", errorMessage="overloaded"),
        assistant("Ha", stopReason="aborted"),
        assistant(content=[], stopReason="error"),
    )
    assert [(b.kind, b.text) for b in made.blocks] == [
        ("answer", "Half"),
        ("error", "overloaded"),
        ("answer", "Ha"),
        ("notice", "Stopped"),
        ("error", "The model failed without a reason"),
    ]


def test_a_call_that_was_cut_off_does_not_run_for_ever() -> None:
    made = conversation(assistant(content=[call("1", "bash", command="x")], stopReason="aborted"))
    assert made.blocks[0].status == "stopped"


def test_a_call_without_a_result_does_not_run_once_the_conversation_went_on() -> None:
    asked = assistant(content=[call("1", "bash", command="sleep 9")], stopReason="toolUse")
    made = conversation(asked)
    assert drawn(made.blocks[0]) == ["  ● bash  sleep 9"]
    made.add_message(user("are you there?"))
    made.add_message(assistant("Yes."))
    assert drawn(made.blocks[0]) == ["  ■ bash  sleep 9  no result"]


def test_nothing_runs_in_a_session_that_nobody_works_on() -> None:
    asked = assistant(
        content=[call("1", "read", path="a"), call("2", "bash", command="b")], stopReason="toolUse"
    )
    made = conversation(asked, result("1", "read", "text"))
    made.stop_waiting()
    assert [block.status for block in made.blocks] == ["done", "stopped"]
    made.end_tool("2", result("2", "bash", "late"))
    assert drawn(made.blocks[1]) == ["  ✓ bash  b  1 line"]


def test_a_call_whose_result_is_in_the_part_below_has_one() -> None:
    asked = assistant(
        content=[call("1", "read", path="a"), call("2", "bash", command="b")], stopReason="toolUse"
    )
    above, below = conversation(asked), conversation(result("1", "read", "text"))
    above.stop_waiting(below)
    assert [block.status for block in above.blocks] == ["done", "stopped"]


def test_a_result_without_its_call_stands_for_itself() -> None:
    made = conversation(result("gone", "read", "text"))
    assert (made.blocks[0].kind, made.blocks[0].title, made.blocks[0].text) == (
        "tool",
        "read",
        "text",
    )


def test_entries_of_all_kinds_are_shown_and_bookkeeping_is_not() -> None:
    made = Conversation()
    made.add_entries(
        entries(
            {"type": "model_change", "model": "a/b"},
            {"type": "thinking_level_change", "thinkingLevel": "low"},
            {"type": "message", "message": user("hi")},
            {"type": "message", "message": assistant("hello")},
            {"type": "model_change", "provider": "x", "modelId": "y"},
            {"type": "mode_change", "mode": "plan"},
            {"type": "custom", "customType": "x"},
            {"type": "label", "targetId": "e2", "label": "l"},
            {"type": "custom_message", "customType": "hook", "content": "note", "display": True},
            {"type": "custom_message", "customType": "hook", "content": "hidden", "display": False},
            {
                "type": "compaction",
                "summary": "sum",
                "tokensBefore": 9000,
                "firstKeptEntryId": "e2",
            },
            {"type": "branch_summary", "summary": "was there", "fromId": "e2"},
            {"type": "reset_boundary"},
            {"type": "something_new", "value": 1},
        )
    )
    assert [(b.kind, b.text) for b in made.blocks] == [
        ("user", "hi"),
        ("answer", "hello"),
        ("state", "Model: x/y"),
        ("state", "Entered plan mode"),
        ("note", "note"),
        ("compaction", "sum"),
        ("summary", "was there"),
        ("cleared", ""),
    ]


def test_messages_of_the_wrong_shape_are_shown_as_far_as_they_go() -> None:
    made = conversation(
        {"role": "user", "content": 5},
        {"role": "assistant", "content": "text"},
        {"role": "assistant", "content": [None, {"type": "text", "text": 7}, {"type": "odd"}]},
        {"role": "toolResult"},
        {},
    )
    assert [block.kind for block in made.blocks if drawn(block)] == [
        *("user", "answer", "notice", "notice", "tool", "note"),
    ]


def test_images_are_named() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "A" * 4000}
    made = conversation(user([{"type": "text", "text": "see"}, image]))
    assert made.blocks[0].images == ("image · png · 3 KB",)
    assert any("▣ image · png · 3 KB" in line for line in drawn(made.blocks[0]))


def test_a_saved_prompt_and_answer_get_the_ids_of_their_entries() -> None:
    made = conversation(user("hi"))
    made.note_saved(user("hi"), "e1")
    made.add_message(assistant("yes"))
    made.note_saved(assistant("yes"), "e2")
    assert [block.entry_id for block in made.blocks] == ["e1", "e2"]


# -- how blocks look -----------------------------------------------------------------------------


def test_folded_thinking_and_tools_take_one_line() -> None:
    thinking = Block("thinking", "I should look\nat the file", status="done")
    tool = Block("tool", "a\nb\nc", "read", "src/app.py", "3 lines", "done")
    assert drawn(thinking) == ["  ✦ Thought  I should look"]
    assert drawn(tool) == ["  ✓ read  src/app.py  3 lines"]
    assert drawn(tool, is_folded=False)[1:] == ["  │ a", "  │ b", "  │ c"]
    assert len(drawn(thinking, is_folded=False)) == 3


def test_a_failed_tool_shows_the_end_of_its_output_even_when_folded() -> None:
    tool = Block("tool", "\n".join(map(str, range(9))), "bash", "x", "exit 1", "failed")
    assert drawn(tool) == [
        "  ✗ bash  x  exit 1",
        "  │ … 5 earlier lines",
        "  │ 5",
        "  │ 6",
        "  │ 7",
        "  │ 8",
    ]


def test_a_running_tool_shows_its_latest_output() -> None:
    tool = Block("tool", "\n".join(map(str, range(50))), "bash", "x", status="running")
    assert drawn(tool)[0] == "  ● bash  x"
    assert drawn(tool)[-1] == "  │ 49"
    assert len(drawn(tool)) <= 8


def test_an_edit_shows_its_diff() -> None:
    message = result("1", "edit", "Edited", details={"diff": "-a\n+b"})
    made = conversation(assistant(content=[call("1", "edit", path="x")]), message)
    assert drawn(made.blocks[0], is_folded=False)[1:] == ["  │ -a", "  │ +b"]


def test_a_command_kept_from_the_model_says_so() -> None:
    message = {
        "role": "bashExecution",
        "command": "ls",
        "output": "a",
        "exitCode": 0,
        "excludeFromContext": True,
    }
    (block,) = conversation(message).blocks
    assert drawn(block)[0] == "  $ ls  not shown to the model"
    assert plain_text(block) == "$ ls\na"


def test_a_compaction_shows_its_short_summary_until_it_is_unfolded() -> None:
    data = {
        "type": "compaction",
        "summary": "# Goal\n\nall of it",
        "shortSummary": "Goal",
        "tokensBefore": 84120,
    }
    made = Conversation()
    made.add_entries(entries(data))
    folded, whole = drawn(made.blocks[0]), drawn(made.blocks[0], is_folded=False)
    assert "Compacted · 84,120 tokens" in folded[0]
    assert folded[1:] == ["  Goal"]
    assert whole[1:] == ["  Goal", "", "  all of it"]


def test_every_block_is_safe_and_fits_whatever_it_holds() -> None:
    hostile = "a\x1b[2J\u202eb\x9b31m " + "w" * 300 + "\r\n\ttab"
    for kind in get_args(Kind):
        for is_folded in (True, False):
            for status in get_args(Status):
                block = Block(kind, hostile, hostile, hostile, hostile, status)
                block.change(is_diff=True, images=(hostile,))
                for line in draw_block(block, 40, DARK, is_folded=is_folded):
                    assert "\x1b" not in line.plain
                    assert "\u202e" not in line.plain
                    assert "\n" not in line.plain
                    assert line.cell_len <= 40, (kind, line.plain)


def test_edits_of_the_context_are_told_and_prompts_are_not_shown() -> None:
    made = Conversation()
    made.add_entries(
        entries(
            {"type": "message", "message": {"role": "system", "content": "You are pi"}},
            {"type": "message", "message": user("hi")},
            {"type": "context_edit", "targetId": "e1", "replacement": None},
            {"type": "usage", "kind": "cache_warm", "usage": {}},
        )
    )
    assert [(block.kind, block.text) for block in made.blocks] == [
        ("user", "hi"),
        ("state", "Context: e1 left out"),
    ]


# -- ids of calls that are used again ------------------------------------------------------------


def status_and_text(made: Conversation) -> list[tuple[str, str]]:
    return [(block.status, block.text) for block in made.blocks if block.kind == "tool"]


def test_a_call_whose_id_was_there_before_has_its_own_result() -> None:
    made = conversation(
        assistant(content=[call("1", "bash", command="a")], stopReason="toolUse"),
        result("1", "bash", "fine"),
        assistant(content=[call("1", "bash", command="b")], stopReason="toolUse"),
        result("1", "bash", "broken", isError=True),
    )
    assert status_and_text(made) == [("done", "fine"), ("failed", "broken")]
    assert [block.about for block in made.blocks] == ["a", "b"]


def test_two_calls_of_one_answer_with_one_id_take_their_results_in_order() -> None:
    made = conversation(
        assistant(
            content=[call("1", "bash", command="a"), call("1", "bash", command="b")],
            stopReason="toolUse",
        ),
        result("1", "bash", "fine"),
        result("1", "bash", "broken", isError=True),
    )
    assert status_and_text(made) == [("done", "fine"), ("failed", "broken")]


def test_a_second_result_for_one_call_leaves_the_first_as_it_is() -> None:
    made = conversation(
        assistant(content=[call("1", "bash", command="a")], stopReason="toolUse"),
        result("1", "bash", "fine"),
        result("1", "bash", "broken", isError=True),
    )
    assert status_and_text(made) == [("done", "fine"), ("failed", "broken")]
    made.end_tool("1", result("1", "bash", "fine"))  # told once more
    assert len(made.blocks) == 2


def test_a_call_that_streams_in_stays_one_block() -> None:
    made = Conversation()
    made.begin_answer()
    for command in ("l", "ls", "ls -l"):
        made.update_answer(assistant(content=[call("1", "bash", command=command)]))
    assert [block.about for block in made.blocks] == ["ls -l"]


def test_a_file_that_is_written_is_counted_by_its_lines() -> None:
    text = "".join(f"- line {n}\n" for n in range(48))
    made = conversation(
        assistant(content=[call("1", "write", path="notes.md", content=text)]),
        result("1", "write", "Created notes.md (538 bytes)", details={"bytes": 538}),
    )
    assert drawn(made.blocks[0]) == ["  ✓ write  notes.md  48 lines"]
    unfolded = drawn(made.blocks[0], is_folded=False)
    assert unfolded[1:3] == ["  │ - line 0", "  │ - line 1"]
    assert unfolded[48:] == ["  │ - line 47", "  │ Created notes.md (538 bytes)"]
    failed = conversation(
        assistant(content=[call("1", "write", path="notes.md", content=text)]),
        result("1", "write", "notes.md: the file is read-only", isError=True),
    )
    assert drawn(failed.blocks[0])[0] == "  ✗ write  notes.md  1 line"
