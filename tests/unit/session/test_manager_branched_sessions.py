"""Branched sessions: just one path, in a file of its own, with its labels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.samples import (
    TALK,
    assistant,
    entry,
    header,
    lines,
    message,
    read,
    said,
    slot,
    texts,
    user,
    write,
)

from sessiontree import EntryNotFoundError, SessionManager


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(
        tmp_path / "session.jsonl", header(title="Title"), *TALK, message("b", "a1", user("other"))
    )


def label(entry_id: str, parent: str, target: str, text: str | None, time: str) -> dict[str, Any]:
    made = {**entry("label", entry_id, parent, targetId=target), "timestamp": time}
    return made if text is None else {**made, "label": text}


def test_only_the_path_goes_into_the_new_session(file: Path) -> None:
    before = file.read_bytes()
    session = SessionManager.open(file)
    made = session.create_branched_session("a3")
    assert made == session.session_file != str(file)
    head, *entries = read(str(made))
    assert entries == TALK[:3]
    assert head["parentSession"] == str(file)
    assert head["title"] == "Title"
    assert head["id"] == session.session_id
    assert said(session) == ["1", "2", "3"]
    assert session.leaf_id == "a3"
    assert file.read_bytes() == before


def test_the_new_session_goes_on_by_itself(file: Path) -> None:
    session = SessionManager.open(file)
    made = session.create_branched_session("a4")
    session.append_message(user("5"))
    assert said(SessionManager.open(str(made))) == ["1", "2", "3", "4", "5"]
    assert "5" not in said(SessionManager.open(file))


def test_an_unknown_entry_is_an_error_and_makes_nothing(file: Path) -> None:
    session = SessionManager.open(file)
    with pytest.raises(EntryNotFoundError, match=r"^Entry nope not found$"):
        session.create_branched_session("nope")
    assert session.session_file == str(file)
    assert os.listdir(file.parent) == ["session.jsonl"]


def test_labels_leave_the_chain_and_come_back_at_its_end(tmp_path: Path) -> None:
    file = write(
        tmp_path / "x.jsonl",
        header(),
        message("1", None, user("1")),
        label("l1", "1", "1", "start", "2026-01-01T00:00:01.000Z"),
        label("l2", "l1", "1", "better start", "2026-01-01T00:00:02.000Z"),
        message("2", "l2", assistant("2")),
        label("l3", "2", "2", "gone", "2026-01-01T00:00:03.000Z"),
        label("l4", "l3", "2", None, "2026-01-01T00:00:04.000Z"),
        message("3", "l4", user("3")),
        message("off", "1", user("off the path")),
        label("l5", "off", "off", "off the path", "2026-01-01T00:00:05.000Z"),
        label("l6", "off", "3", "end", "2026-01-01T00:00:06.000Z"),
    )
    session = SessionManager.open(file)
    session.create_branched_session("3")
    entries = read(str(session.session_file))[1:]
    assert [(e["type"], e["id"], e["parentId"]) for e in entries[:3]] == [
        ("message", "1", None),
        ("message", "2", "1"),
        ("message", "3", "2"),
    ]
    labels = entries[3:]
    assert [(e["targetId"], e["label"]) for e in labels] == [("1", "better start"), ("3", "end")]
    assert [e["parentId"] for e in labels] == ["3", labels[0]["id"]]
    assert [e["timestamp"] for e in labels] == [
        "2026-01-01T00:00:02.000Z",
        "2026-01-01T00:00:06.000Z",
    ]
    assert not {e["id"] for e in labels} & {"l1", "l2", "l3", "l4", "l5", "l6"}
    assert said(session) == ["1", "2", "3"]
    assert (session.get_label("1"), session.get_label("2")) == ("better start", None)
    assert session.get_label("3") == "end"
    again = SessionManager.open(str(session.session_file))
    assert again.warnings == []
    assert said(again) == ["1", "2", "3"]


def test_a_label_in_mid_path_costs_no_message(tmp_path: Path) -> None:
    """pi breaks the chain here: of six messages two are left."""
    session = SessionManager.create("/work", tmp_path)
    for number in range(3):
        made = session.append_message(user(str(number)))
        session.append_message(assistant(str(number)))
        session.append_label_change(made, f"label {number}")
    expected = said(session)
    session.create_branched_session(str(session.leaf_id))
    assert said(session) == expected
    assert len(expected) == 6


def test_a_branch_at_a_label_ends_before_it(tmp_path: Path) -> None:
    file = write(
        tmp_path / "x.jsonl", header(), *TALK, label("l", "a4", "a1", "L", "2026-01-01T00:00:00Z")
    )
    session = SessionManager.open(file)
    session.create_branched_session("l")
    assert said(session) == ["1", "2", "3", "4"]
    assert session.get_label("a1") == "L"


def test_a_compaction_that_keeps_from_a_label_on_still_keeps_it(tmp_path: Path) -> None:
    file = write(
        tmp_path / "x.jsonl",
        header(),
        *TALK,
        label("l", "a4", "a1", "L", "2026-01-01T00:00:00Z"),
        message("5", "l", user("5")),
        entry("compaction", "k", "5", summary="S", firstKeptEntryId="l", tokensBefore=1),
        message("6", "k", user("6")),
    )
    session = SessionManager.open(file)
    before = session.build_session_context()
    assert texts(before.messages) == ["S", "5", "6"]
    session.create_branched_session("6")
    assert session.build_session_context() == before


def test_a_compaction_that_keeps_from_no_id_at_all_is_copied_as_it_is(tmp_path: Path) -> None:
    file = write(
        tmp_path / "x.jsonl",
        header(),
        *TALK,
        label("l", "a4", "a1", "L", "2026-01-01T00:00:00Z"),
        entry("compaction", "k", "l", summary="S", firstKeptEntryId={"no": "id"}, tokensBefore=1),
        message("5", "k", user("5")),
    )
    session = SessionManager.open(file)
    session.create_branched_session("5")
    assert texts(session.build_session_context().messages) == ["S", "5"]


def test_entries_that_need_no_change_keep_their_bytes(tmp_path: Path) -> None:
    odd = b'{ "type":"future","id":"x","parentId":"a4" ,"timestamp":"t","n":1.0e2,"e":"\\u00e9"}\n'
    file = write(tmp_path / "x.jsonl", header(), *TALK, odd)
    session = SessionManager.open(file)
    session.create_branched_session("x")
    data = Path(str(session.session_file)).read_bytes()
    assert data.partition(b"\n")[2] == lines(*TALK, odd)


def test_large_content_survives_being_hung_elsewhere(tmp_path: Path) -> None:
    long = "y" * 600_000
    session = SessionManager.create("/work", tmp_path)
    first = session.append_message(assistant("1"))
    session.append_label_change(first, "L")
    last = session.append_message(user(long))
    session.create_branched_session(last)
    assert said(SessionManager.open(str(session.session_file))) == ["1", long]


def test_a_path_without_an_answer_is_a_draft_until_it_has_one(file: Path) -> None:
    session = SessionManager.open(file)
    made = session.create_branched_session("a1")
    assert made is not None
    assert not os.path.exists(made)
    assert said(session) == ["1"]
    session.append_message(assistant("new answer"))
    assert said(SessionManager.open(made)) == ["1", "new answer"]
    assert not [name for name in os.listdir(file.parent) if name.endswith(".draft")]


def test_in_memory_a_branched_session_is_just_the_path() -> None:
    session = SessionManager.in_memory()
    first = session.append_message(user("1"))
    session.append_label_change(first, "L")
    second = session.append_message(assistant("2"))
    session.append_message(user("3"))
    before = session.session_id
    assert session.create_branched_session(second) is None
    assert said(session) == ["1", "2"]
    assert session.get_label(first) == "L"
    assert session.session_id != before
    session.append_message(user("on"))
    assert said(session) == ["1", "2", "on"]


def test_a_title_in_a_slot_goes_along(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", slot("From the slot"), header(title="old"), *TALK)
    session = SessionManager.open(file)
    session.create_branched_session("a2")
    assert session.session_name == "From the slot"


def test_the_path_of_a_repaired_tree_is_written_sound(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), TALK[0], b"garbage\n", *TALK[2:])
    session = SessionManager.open(file)
    session.create_branched_session("a4")
    again = SessionManager.open(str(session.session_file))
    assert said(again) == ["1", "3", "4"]
    assert again.warnings == []
