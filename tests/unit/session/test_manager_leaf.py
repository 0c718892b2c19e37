"""Where the conversation stands: branching, resetting, a leaf that survives a close."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples import TALK, assistant, header, message, read, said, user, write

from sessiontree import EntryNotFoundError, MemorySessionStorage, SessionManager

MARKER = "sessiontree.leaf"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "session.jsonl", header(), *TALK)


def markers(file: Path) -> list[dict[str, Any]]:
    return [record for record in read(file) if record.get("customType") == MARKER]


# -- appending and moving ----------------------------------------


def test_every_append_is_one_entry_below_the_leaf_and_becomes_it(file: Path) -> None:
    session = SessionManager.open(file)
    appends: list[Callable[[], str]] = [
        lambda: session.append_message(user("x")),
        lambda: session.append_thinking_level_change("high"),
        lambda: session.append_model_change("a/b"),
        lambda: session.append_compaction("S", "a3", 5),
        lambda: session.append_custom_entry("x", {"y": 1}),
        lambda: session.append_custom_message_entry("x", "text", True),
        lambda: session.append_label_change("a1", "label"),
        lambda: session.append_ttsr_injection(["rule"]),
        lambda: session.append_session_init("prompt", "task", ["tool"]),
        lambda: session.append_mode_change("plan"),
        lambda: session.append_session_info("name"),
        lambda: session.branch_with_summary(session.leaf_id, "summary"),
    ]
    for append in appends:
        before, count = session.leaf_id, len(session.get_entries())
        made = append()
        assert made == session.leaf_id
        found = session.get_entry(made)
        assert found is not None
        assert found.parent_id == before
        assert len(session.get_entries()) == count + 1
        assert read(file)[-1]["id"] == made


def test_entries_are_spelled_as_the_documents_spell_them(file: Path) -> None:
    session = SessionManager.open(file)
    session.append_compaction(
        "S",
        "a3",
        5,
        short_summary="s",
        details={"d": 1},
        preserve_data={"p": 1},
        from_extension=True,
    )
    session.branch_with_summary("a2", "went", {"d": 2}, False)
    session.append_custom_message_entry("x", [{"type": "text", "text": "t"}], False, {"d": 3})
    session.append_label_change("a1", "label")
    session.append_label_change("a1", None)
    session.append_session_init("p", "t", ["a", "b"], {"type": "object"})
    session.append_mode_change("plan", {"f": 1})
    session.append_model_change("openai/gpt-4o", "smol")
    base = {"type", "id", "parentId", "timestamp"}
    written = [
        {key: value for key, value in record.items() if key not in base}
        for record in read(file)[5:]
    ]
    assert written == [
        {
            "summary": "S",
            "shortSummary": "s",
            "firstKeptEntryId": "a3",
            "tokensBefore": 5,
            "details": {"d": 1},
            "preserveData": {"p": 1},
            "fromExtension": True,
        },
        {"fromId": "a2", "summary": "went", "details": {"d": 2}, "fromExtension": False},
        {
            "customType": "x",
            "content": [{"type": "text", "text": "t"}],
            "display": False,
            "details": {"d": 3},
        },
        {"targetId": "a1", "label": "label"},
        {"targetId": "a1"},
        {"systemPrompt": "p", "task": "t", "tools": ["a", "b"], "outputSchema": {"type": "object"}},
        {"mode": "plan", "data": {"f": 1}},
        {"model": "openai/gpt-4o", "role": "smol"},
    ]


def test_pi_spells_them_its_own_way(tmp_path: Path) -> None:
    path = write(tmp_path / "pi.jsonl", header(), *TALK)
    session = SessionManager.open(path, profile="pi")
    session.append_model_change("openai/gpt-4o")
    session.append_compaction("S", "a3", 5, from_extension=True)
    session.branch_with_summary("a1", "B", from_extension=True)
    session.append_session_info("name")
    change, compaction, summary, info = read(path)[5:]
    assert (change["provider"], change["modelId"]) == ("openai", "gpt-4o")
    assert "model" not in change
    assert (compaction["fromHook"], summary["fromHook"]) == (True, True)
    assert "fromExtension" not in compaction
    assert info["name"] == "name"


def test_branching_moves_only_the_leaf(file: Path) -> None:
    before = file.read_bytes()
    session = SessionManager.open(file)
    session.branch("a2")
    assert session.leaf_id == "a2"
    assert said(session) == ["1", "2"]
    assert file.read_bytes() == before
    made = session.append_message(user("other"))
    assert [found.id for found in session.get_children("a2")] == ["a3", made]
    assert said(session) == ["1", "2", "other"]


def test_resetting_makes_the_next_entry_a_root(file: Path) -> None:
    session = SessionManager.open(file)
    session.reset_leaf()
    assert session.leaf_id is None
    assert session.leaf_entry is None
    assert session.get_branch() == []
    assert said(session) == []
    made = session.append_message(user("again"))
    assert session.get_entries()[-1].parent_id is None
    assert [node.entry.id for node in session.get_tree()] == ["a1", made]


@pytest.mark.parametrize(("target", "origin"), [("a2", "a2"), (None, "root")])
def test_branching_with_a_summary(file: Path, target: str | None, origin: str) -> None:
    session = SessionManager.open(file)
    made = session.branch_with_summary(target, "what was left")
    assert session.leaf_id == made
    record = read(file)[-1]
    assert (record["type"], record["parentId"], record["fromId"]) == (
        "branch_summary",
        target,
        origin,
    )
    assert said(session)[-1] == "what was left"


def test_an_unknown_entry_is_an_error_and_nothing_moves(file: Path) -> None:
    session = SessionManager.open(file)
    for work in (
        lambda: session.branch("nope"),
        lambda: session.branch_with_summary("nope", "x"),
        lambda: session.append_label_change("nope", "x"),
        lambda: session.get_branch("nope"),
        lambda: session.create_branched_session("nope"),
    ):
        with pytest.raises(EntryNotFoundError, match=r"^Entry nope not found$"):
            work()
        assert session.leaf_id == "a4"
    assert len(session.get_entries()) == 4
    assert session.get_entry("nope") is None


def test_labels(file: Path) -> None:
    session = SessionManager.open(file)
    session.append_label_change("a1", "start")
    session.append_label_change("a2", "x")
    session.append_label_change("a2", "")
    assert (session.get_label("a1"), session.get_label("a2")) == ("start", None)
    assert session.get_label("nope") is None
    assert SessionManager.open(file).get_label("a1") == "start"
    (root,) = session.get_tree()
    assert root.label == "start"
    assert root.label_timestamp == read(file)[5]["timestamp"]


# -- closing ----------------------------------------


def test_the_leaf_survives_a_close(file: Path) -> None:
    with SessionManager.open(file) as session:
        session.branch("a2")
    again = SessionManager.open(file)
    assert said(again) == ["1", "2"]
    assert [found.id for found in again.get_branch()][:2] == ["a1", "a2"]


def test_whoever_takes_the_last_line_stands_at_the_right_place(file: Path) -> None:
    with SessionManager.open(file) as session:
        session.branch("a2")
    last = read(file)[-1]
    assert last["type"] == "custom"
    assert last["customType"] == MARKER
    assert last["parentId"] == "a2"
    assert len(markers(file)) == 1


def test_a_reset_leaf_survives_a_close(file: Path) -> None:
    with SessionManager.open(file) as session:
        session.reset_leaf()
    assert read(file)[-1]["parentId"] is None
    assert said(SessionManager.open(file)) == []


def test_no_mark_is_made_where_none_is_needed(file: Path) -> None:
    before = file.read_bytes()
    with SessionManager.open(file):
        pass
    with SessionManager.open(file) as session:
        session.branch("a1")
        session.branch("a4")
    assert file.read_bytes() == before
    with SessionManager.open(file) as session:
        session.branch("a2")
        session.append_message(user("x"))
    assert markers(file) == []


def test_closing_twice_marks_once(file: Path) -> None:
    session = SessionManager.open(file)
    session.branch("a2")
    session.close()
    session.close()
    assert len(markers(file)) == 1


@pytest.mark.parametrize("way", ["set_session_file", "new_session", "fork", "branched"])
def test_the_leaf_survives_going_over_to_another_session(
    tmp_path: Path, file: Path, way: str
) -> None:
    other = write(tmp_path / "other.jsonl", header(id="other"), message("o", None, assistant("o")))
    session = SessionManager.open(file)
    session.branch("a2")
    match way:
        case "set_session_file":
            session.set_session_file(other)
        case "new_session":
            session.new_session()
        case "fork":
            session.fork()
        case "branched":
            session.create_branched_session("a4")
    assert session.session_file != str(file)
    assert said(SessionManager.open(file)) == ["1", "2"]


def test_a_failed_switch_makes_no_mark(tmp_path: Path, file: Path) -> None:
    (tmp_path / "x.jsonl").mkdir()
    before = file.read_bytes()
    session = SessionManager.open(file)
    session.branch("a2")
    with pytest.raises(Exception, match=r"x\.jsonl"):
        session.set_session_file(tmp_path / "x.jsonl")
    assert file.read_bytes() == before
    assert session.leaf_id == "a2"


def test_the_leaf_of_a_draft_survives_too() -> None:
    storage = MemorySessionStorage()
    with SessionManager.create("/work", "/s", storage=storage) as session:
        first = session.append_message(user("1"))
        session.append_message(user("2"))
        session.branch(first)
    (draft,) = storage.list_names("/s")
    assert said(SessionManager.open(f"/s/{draft}", storage=storage)) == ["1"]


def test_the_mark_says_nothing_to_the_model_and_the_talk_goes_on_from_it(file: Path) -> None:
    with SessionManager.open(file) as session:
        session.branch("a2")
    with SessionManager.open(file) as session:
        session.append_message(user("on"))
        assert said(session) == ["1", "2", "on"]
    assert said(SessionManager.open(file)) == ["1", "2", "on"]
    assert len(markers(file)) == 1
