"""Another program changes the file between what was decided here and what is written.

What is written must fit the file that is there, and what was changed in memory must not be lost.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples import (
    assistant,
    calling,
    chain,
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

from sessiontree import FileSessionStorage, PersistenceError, SessionManager
from sessiontree.testing import FaultyStorage

CALLED = chain(user("1"), calling("call"), user("3"), assistant("4"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "session.jsonl", header(), *CALLED)


def replace(file: Path, *records: dict[str, Any] | bytes) -> None:
    other = write(file.with_suffix(".other"), *records)
    os.replace(other, file)


def overwrite(file: Path, *records: dict[str, Any] | bytes) -> None:
    file.write_bytes(lines(*records))


def rename(file: Path) -> None:
    with SessionManager.open(file) as other:
        other.set_session_name("Theirs")


def delete(file: Path) -> None:
    file.unlink()


# -- names ----------------------------------------


@pytest.mark.parametrize("change", [replace, overwrite])
def test_a_name_is_not_written_over_a_header_where_a_slot_was(
    file: Path, change: Callable[..., None]
) -> None:
    write(file, slot("Old"), header(), *CALLED)
    session = SessionManager.open(file)
    change(file, header(), *CALLED)
    session.set_session_name("Mine")
    assert read(file) == [header(title="Mine", titleSource="user"), *CALLED]
    assert SessionManager.open(file).session_name == session.session_name == "Mine"


@pytest.mark.parametrize("change", [replace, overwrite])
def test_a_slot_that_came_meanwhile_gets_the_name(file: Path, change: Callable[..., None]) -> None:
    session = SessionManager.open(file)
    change(file, slot("Theirs"), header(), *CALLED)
    session.set_session_name("Mine")
    assert SessionManager.open(file).session_name == session.session_name == "Mine"
    assert read(file)[2:] == CALLED


def test_a_slot_overwritten_by_something_of_its_size_is_noticed(file: Path) -> None:
    write(file, slot("Old"), header(), *CALLED)
    session = SessionManager.open(file)
    overwrite(file, b"x" * 255 + b"\n", header(), *CALLED)
    session.set_session_name("Mine")
    assert SessionManager.open(file).session_name == "Mine"


def test_a_name_in_pis_words_is_cleared_too(file: Path) -> None:
    write(file, header(title="Title"), *CALLED)
    with SessionManager.open(file) as session:
        session.append_session_info("Other")
        session.set_session_name("")
        assert session.session_name is None
    assert SessionManager.open(file).session_name is None


# -- the header ----------------------------------------


def test_a_move_keeps_what_others_wrote_into_the_header(file: Path, tmp_path: Path) -> None:
    session = SessionManager.open(file, tmp_path)
    replace(file, header(title="Theirs", parentSession="p", future=[1]), *CALLED)
    session.move_to(tmp_path / "elsewhere")
    expected = header(
        title="Theirs", parentSession="p", future=[1], cwd=str(tmp_path / "elsewhere")
    )
    assert read(str(session.session_file))[0] == session.header == expected


def test_a_name_keeps_what_others_wrote_into_the_header(file: Path) -> None:
    session = SessionManager.open(file)
    replace(file, header(title="Theirs", future=[1]), *CALLED)
    session.set_session_name("Mine")
    assert read(file)[0] == header(title="Mine", titleSource="user", future=[1])


def test_a_name_that_could_not_be_written_is_none(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    storage.fail("write_atomic", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.set_session_name("Mine")
    assert session.session_name is None
    rename(file)
    session.recover()
    session.rewrite_entries()
    assert SessionManager.open(file).session_name == session.session_name == "Theirs"


# -- changes made in memory ----------------------------------------


@pytest.mark.parametrize("change", [rename, delete, lambda file: replace(file, header(), *CALLED)])
def test_arguments_are_replaced_in_the_file_that_is_there(
    file: Path, change: Callable[[Path], None]
) -> None:
    session = SessionManager.open(file)
    session.append_message(user("5"))
    change(file)
    assert session.rewrite_tool_call_args("call", {"new": 1})
    for found in (session, SessionManager.open(file)):
        entry = found.get_entry("a2")
        assert entry is not None
        assert entry.data["message"]["content"][0]["arguments"] == {"new": 1}
        assert said(found)[-1] == "5"


@pytest.mark.parametrize("change", [rename, delete, lambda file: replace(file, header(), *CALLED)])
def test_changed_entries_are_written_to_the_file_that_is_there(
    file: Path, change: Callable[[Path], None]
) -> None:
    session = SessionManager.open(file)
    entry = session.get_entries()[0]
    entry.data["message"]["content"] = "changed"
    change(file)
    session.rewrite_entries()
    assert said(session)[0] == said(SessionManager.open(file))[0] == "changed"
    entry.data["message"]["content"] = "again"
    session.rewrite_entries()
    assert said(SessionManager.open(file))[0] == "again"


def test_what_another_program_changed_is_not_changed_back(file: Path) -> None:
    session = SessionManager.open(file)
    assert said(session)[0] == "1"
    replace(file, header(), message("a1", None, user("theirs")), *CALLED[1:])
    session.rewrite_entries()
    assert said(session)[0] == said(SessionManager.open(file))[0] == "theirs"


def test_what_another_program_changed_counts_although_not_all_was_written(file: Path) -> None:
    """What is only in passing is in memory and in no line: that is no change of ours."""
    session = SessionManager.open(file)
    call = {"type": "toolCall", "id": "c", "name": "x", "arguments": {"a": 1}, "partialJson": "{"}
    made = session.append_message(assistant(content=[call]))
    with SessionManager.open(file) as other:
        assert other.rewrite_tool_call_args("c", {"a": "removed"})
    assert session.rewrite_tool_call_args("call", {"b": 2})
    for found in (session, SessionManager.open(file)):
        entry = found.get_entry(made)
        assert entry is not None
        assert entry.data["message"]["content"][0]["arguments"] == {"a": "removed"}


def test_where_both_changed_an_entry_theirs_counts_and_that_is_told(file: Path) -> None:
    session = SessionManager.open(file)
    session.get_entries()[0].data["message"]["content"] = "ours"
    replace(file, header(), message("a1", None, user("theirs")), *CALLED[1:])
    session.rewrite_entries()
    assert said(session)[0] == said(SessionManager.open(file))[0] == "theirs"
    assert any("changed by another program" in str(warning) for warning in session.warnings)


def test_a_file_rewritten_in_place_with_a_line_less_mixes_no_entries(file: Path) -> None:
    talk = chain(*(user(f"{number}") for number in range(6)))
    write(file, header(), *talk)
    session = SessionManager.open(file)
    session.build_session_context()
    fewer = [entry for entry in talk if entry["id"] != "a3"]
    overwrite(file, header(), *fewer)
    session.append_custom_entry("x")
    session.rewrite_entries()
    ids = [found["id"] for found in read(file)[1:]]
    assert len(ids) == len(set(ids))
    assert {"a1", "a2", "a4", "a5", "a6"} <= set(ids)
    assert all(found.data["id"] == found.id for found in session.get_entries())
    assert [found for found in read(file)[1:] if found["id"] in ("a1", "a4")] == [talk[0], talk[3]]


def test_a_change_in_place_of_the_same_length_is_seen(file: Path) -> None:
    session = SessionManager.open(file)
    assert said(session)[2] == "3"
    overwrite(file, header(), *CALLED[:2], message("a3", "a2", user("X")), CALLED[3])
    os.utime(file)
    session.append_message(user("5"))
    session.set_session_name("Mine")
    session.rewrite_entries()
    assert SessionManager.open(file).get_entries()[2].data == session.get_entries()[2].data


def test_a_value_that_json_can_not_say_does_not_stop_a_compaction(file: Path) -> None:
    session = SessionManager.open(file)
    session.get_entries()[0].data["odd"] = object()
    made = session.append_compaction("summary", "a3", 1)
    assert [found["id"] for found in read(file)[1:]] == ["a1", "a2", "a3", "a4", made]


def test_changes_survive_a_rewrite_that_failed(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    session.get_entries()[0].data["message"]["content"] = "changed"
    storage.fail("write_atomic", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.rewrite_entries()
    session.recover()
    session.rewrite_entries()
    assert said(SessionManager.open(file))[0] == "changed"


def test_changes_survive_a_compaction(file: Path) -> None:
    session = SessionManager.open(file)
    session.get_entries()[0].data["message"]["content"] = "changed"
    session.append_compaction("summary", "a3", 1)
    session.rewrite_entries()
    assert texts([read(file)[1]["message"]])[0] == "changed"


def test_entries_stay_the_objects_they_were(file: Path) -> None:
    session = SessionManager.open(file)
    held = session.get_entries()
    replace(file, header(), *CALLED, message("a5", "a4", user("5")))
    assert session.refresh() == 1
    assert all(one is other for one, other in zip(held, session.get_entries(), strict=False))
    assert session.get_entry("a1") is held[0]
    assert [found.data for found in session.get_entries()] == read(file)[1:]


def test_entries_of_others_are_counted_however_the_file_came_to_be(file: Path) -> None:
    session = SessionManager.open(file)
    with SessionManager.open(file) as other:
        other.append_message(user("5"))
        other.set_session_name("Theirs")
    assert session.refresh() == 1
    assert any("1 entry was appended" in str(warning) for warning in session.warnings)


def test_a_change_here_in_a_file_overwritten_in_place_does_not_vanish_unsaid(file: Path) -> None:
    session = SessionManager.open(file)
    session.get_entries()[0].data["message"]["content"] = "ours"
    overwrite(file, header(), *CALLED, message("a5", "a4", user("and more")))
    overwrite(file, header(), *CALLED[:3], message("a4", "a3", assistant("and more")))
    session.rewrite_entries()
    assert any("changed by another program" in str(warning) for warning in session.warnings)


def test_what_was_read_of_a_file_overwritten_in_place_by_the_same_stays(file: Path) -> None:
    session = SessionManager.open(file)
    call = {"type": "toolCall", "id": "c", "name": "x", "arguments": {}, "partialJson": "{"}
    made = session.append_message(assistant(content=[call]))
    data = session.get_entries()[-1].data
    found = read(file)
    overwrite(file, header(), *found[1:4], message("a4", "a3", assistant("and more")), found[5])
    session.refresh()
    entry = session.get_entry(made)
    assert entry is not None
    assert entry.data is data
    assert not any("changed by another" in str(warning) for warning in session.warnings)


# -- entries that a replaced file lacks ----------------------------------------


def spaced(record: dict[str, Any]) -> bytes:
    """A line that is spelled as nobody here would."""
    return json.dumps(record).encode() + b"\n"


def test_entries_that_a_replaced_file_lacks_get_their_own_bytes_back(file: Path) -> None:
    write(file, header(), *map(spaced, CALLED))
    whole = file.read_bytes()
    session = SessionManager.open(file)
    replace(file, header(), *map(spaced, CALLED[:2]))
    session.refresh()
    assert file.read_bytes() == whole


def test_a_file_written_anew_has_the_bytes_that_can_still_be_read(file: Path) -> None:
    write(file, header(), *map(spaced, CALLED))
    whole = file.read_bytes()
    session = SessionManager.open(file)
    session.build_session_context()
    replace(file, b"garbage\n")
    with pytest.raises(PersistenceError):
        session.append_message(user("5"))
    session.recover()
    assert file.read_bytes() == whole


def test_entries_around_lost_ones_are_joined(file: Path) -> None:
    talk = chain(*(user(f"{number}") for number in range(1, 7)))
    write(file, header(), *talk)
    session = SessionManager.open(file)
    for index in (2, 4):
        assert session.get_entries()[index].data
    overwrite(file, header(), *talk[:2])
    session.refresh()
    assert any("2 entries were overwritten" in str(warning) for warning in session.warnings)
    assert said(session) == said(SessionManager.open(file)) == ["1", "2", "3", "5"]


def test_an_entry_that_another_program_left_out_is_again_between_the_others(file: Path) -> None:
    session = SessionManager.open(file)
    replace(file, header(), CALLED[0], *CALLED[2:])
    session.refresh()
    assert said(session) == ["1", "<toolCall>", "3", "4"]
    session.close()
    assert said(SessionManager.open(file)) == said(session)


def test_an_entry_whose_parent_comes_later_hangs_on_it_as_in_a_fresh_opening(file: Path) -> None:
    """The parent was left out by one program and is brought back by another."""
    session, other = SessionManager.open(file), SessionManager.open(file)
    made = other.append_message(user("5"))
    data = session.get_entries()[0].data
    child = message("f1", made, user("6"))
    replace(file, header(), *CALLED, b"garbage\n", child)
    session.refresh()
    waiting = session.get_entry("f1")
    assert waiting is not None
    assert (waiting.parent_id, waiting.data["parentId"]) == ("a4", "a4")
    other.refresh()
    session.refresh()
    for found in (session, other, SessionManager.open(file)):
        entry = found.get_entry("f1")
        assert entry is not None
        assert (entry.parent_id, entry.data) == (made, child)
        assert [each.id for each in found.get_children(made)] == ["f1"]
    session.set_session_name("Mine")
    assert read(file)[5:] == [child, *read(file)[6:]]
    assert session.get_entries()[0].data is data


def test_a_parent_that_comes_later_is_in_the_context_too(file: Path) -> None:
    write(file, header(), message("b", "a", user("2")), message("c", "b", user("3")))
    session = SessionManager.open(file)
    assert session.build_session_context().messages == [user("2"), user("3")]
    with file.open("ab") as out:
        out.write(json.dumps(message("a", None, user("1"))).encode() + b"\n")
    assert session.refresh() == 1
    assert session.build_session_context().messages == [user("1"), user("2"), user("3")]


def test_an_entry_between_others_that_now_hang_the_other_way_closes_no_cycle(file: Path) -> None:
    session = SessionManager.open(file)
    replace(file, header(), message("a1", "a3"), *CALLED[2:])
    session.refresh()
    assert {entry.id for entry in session.get_entries()} == {"a1", "a2", "a3", "a4"}
    for entry in session.get_entries():
        assert session.get_branch(entry.id)[-1] is entry
    assert any("cycle" in str(warning) for warning in session.warnings)


def test_an_entry_that_could_not_be_written_back_is_not_written_twice(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    session, other = SessionManager.open(file, storage=storage), SessionManager.open(file)
    replace(file, header(), *CALLED[:2])
    storage.fail("write_line", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.append_message(user("ours"))
    other.append_message(user("theirs"))
    session.recover()
    session.append_message(user("ours"))
    assert [found["id"] for found in read(file)[1:5]] == ["a1", "a2", "a3", "a4"]
    assert [found["message"]["content"] for found in read(file)[5:]] == ["theirs", "ours"]
    assert len(session.get_entries()) == 6


def test_an_entry_whose_id_was_taken_is_the_same_one_further_down_in_a_replaced_file(
    file: Path,
) -> None:
    double = message("a3", "a4", user("double"))
    write(file, header(), *CALLED, double)
    session = SessionManager.open(file)
    held = session.get_entries()
    replace(file, header(), message("a0", None), *CALLED, double)
    assert session.refresh() == 1
    assert session.get_entries()[1:] == held
    assert len(read(file)) == 7


# -- gone, emptied, overwritten ----------------------------------------


def test_a_flush_brings_back_a_file_that_was_deleted(file: Path) -> None:
    session = SessionManager.open(file)
    session.append_message(user("5"))
    file.unlink()
    session.flush()
    assert said(SessionManager.open(file))[-1] == "5"
    assert any("deleted" in str(warning) for warning in session.warnings)


def test_a_flush_of_what_nobody_changed_brings_nothing_back(file: Path) -> None:
    session = SessionManager.open(file)
    file.unlink()
    session.flush()
    assert not file.exists()


@pytest.mark.parametrize("content", [b"", b"garbage\n" * 3, b"[1]\n" * 400])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_what_is_known_of_an_overwritten_session_can_be_written_anew(
    file: Path, content: bytes, is_deleted: bool
) -> None:
    session = SessionManager.open(file)
    assert len(said(session)) == 4
    file.write_bytes(content)
    with pytest.raises(PersistenceError, match=r"session\.jsonl"):
        session.append_message(user("5"))
    assert file.read_bytes() == content
    if is_deleted:
        file.unlink()
    session.recover()
    session.append_message(user("5"))
    assert read(file)[:-1] == [header(), *CALLED]
    assert said(SessionManager.open(file)) == said(session) == ["1", "<toolCall>", "3", "4", "5"]
    asides = [path.read_bytes() for path in file.parent.glob("*.corrupt-*")]
    assert asides == ([content] if content and not is_deleted else [])


def test_entries_that_nobody_had_read_are_lost_with_their_file_and_the_others_joined(
    file: Path,
) -> None:
    session = SessionManager.open(file)
    for index in (0, 3):
        assert session.get_entries()[index].data
    file.write_bytes(b"garbage\n")
    with pytest.raises(PersistenceError):
        session.append_message(user("5"))
    session.recover()
    assert [(found.id, found.parent_id) for found in session.get_entries()] == [
        ("a1", None),
        ("a4", "a1"),
    ]
    assert any("2 entries are lost" in str(warning) for warning in session.warnings)
    assert session.leaf_id == "a4"


def test_a_rebuilt_session_goes_on_as_the_same_one(file: Path) -> None:
    write(file, slot("Old"), header(), *CALLED)
    session = SessionManager.open(file)
    held = session.get_entries()[0]
    session.build_session_context()
    file.write_bytes(b"")
    with pytest.raises(PersistenceError):
        session.append_message(user("5"))
    session.recover()
    assert session.get_entry("a1") is held
    rename(file)
    session.refresh()
    assert session.session_name == "Theirs"
    held.data["message"]["content"] = "changed"
    session.rewrite_entries()
    assert said(SessionManager.open(file))[0] == "changed"


def test_of_two_that_recover_none_overwrites_the_other(file: Path) -> None:
    """The second finds a session again, and goes on with that."""
    one, other = SessionManager.open(file), SessionManager.open(file)
    for session in (one, other):
        session.build_session_context()
    file.write_bytes(b"")
    for session in (one, other):
        with pytest.raises(PersistenceError):
            session.append_message(user("5"))
    other.recover()
    other.append_message(user("theirs"))
    one.recover()
    one.append_message(user("ours"))
    assert [found["message"]["content"] for found in read(file)[5:]] == ["theirs", "ours"]


def test_a_failed_recovery_does_not_forget_what_was_not_synced(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    session.append_message(user("5"))
    storage.fail("fsync", errno.EIO)
    with pytest.raises(PersistenceError):
        session.flush()
    storage.fail("write_atomic", errno.ENOSPC)
    with pytest.raises(PersistenceError):
        session.recover()
    before = file.stat().st_ino
    session.recover()
    assert file.stat().st_ino != before
    assert said(SessionManager.open(file))[-1] == "5"


def test_a_flush_where_nothing_was_written_needs_no_right_to_write(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    storage.fail("open_writer", errno.EACCES, times=None)
    session = SessionManager.open(file, storage=storage)
    session.flush()
    assert session.refresh() == 0


# -- drafts ----------------------------------------


def test_a_draft_with_anything_in_it_survives_a_close(tmp_path: Path) -> None:
    with SessionManager.create(tmp_path, tmp_path / "s") as session:
        session.append_session_init("prompt", "the task", ["read"])
        session.append_custom_entry("ext", {"precious": 1})
    assert len(os.listdir(tmp_path / "s")) == 1
    found = SessionManager.open(str(session.session_file))
    assert [entry.type for entry in found.get_entries()] == ["session_init", "custom"]


def test_a_draft_of_settings_only_is_not_kept(tmp_path: Path) -> None:
    with SessionManager.create(tmp_path, tmp_path / "s") as session:
        session.append_model_change("anthropic/claude")
        session.append_thinking_level_change("high")
    assert os.listdir(tmp_path / "s") == []


def test_a_draft_that_holds_an_answer_already_becomes_the_session(tmp_path: Path) -> None:
    """Whoever wrote the answer was killed before the draft got its name."""
    name = "2026-02-16T10-20-30-000Z_abc.jsonl"
    write(tmp_path / f".{name}.draft", header(id="abc"), *CALLED)
    with SessionManager.open(tmp_path / name) as session:
        session.append_message(user("5"))
    assert os.listdir(tmp_path) == [name]
    assert read(tmp_path / name)[-1]["message"] == user("5")


def test_a_draft_that_got_a_prompt_elsewhere_is_not_discarded(tmp_path: Path) -> None:
    session = SessionManager.create(tmp_path, tmp_path / "s")
    session.append_model_change("anthropic/claude")
    with SessionManager.open(str(session.session_file)) as other:
        other.append_message(user("precious"))
    session.close()
    again = SessionManager.open(str(session.session_file))
    assert user("precious") in [found.data.get("message") for found in again.get_entries()]
