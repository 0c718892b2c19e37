"""Several writers on one file: nothing lost, nothing torn, everything told."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from tests import processes
from tests.samples import (
    ONE_TURN,
    assistant,
    dump,
    entry,
    header,
    lines,
    message,
    read,
    said,
    texts,
    user,
    write,
)

from sessiontree import (
    FileSessionStorage,
    PersistenceError,
    SessionBusyError,
    SessionManager,
)
from sessiontree.storage import locks
from sessiontree.testing import FaultyStorage


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "session.jsonl", header(), *ONE_TURN)


def ids(session: SessionManager) -> list[str]:
    return [found.id for found in session.get_entries()]


def append(file: Path, *records: dict[str, Any] | bytes) -> None:
    """Write as another program would: at the end, without a lock."""
    with file.open("ab") as out:
        out.write(lines(*records))


# -- processes ----------------------------------------

WRITER = """
import sys
from sessiontree import SessionManager
name, count = sys.argv[2], int(sys.argv[3])
session = SessionManager.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
made = []
for number in range(count):
    text = f"{name} {number} " + "x" * (number * 37 % 3000)
    made.append(session.append_message({"role": "user", "content": text, "timestamp": 1}))
    if number % 50 == 49 and len(sys.argv) > 4:
        session.set_session_name(f"{name} {number}")
session.close()
print("\\n".join(made))
"""


def run_writers(file: Path, count: int, appends: int, *extra: str) -> dict[str, list[str]]:
    """Writers that begin together; the ids that each was given."""
    writers = [processes.start(WRITER, file, f"w{n}", appends, *extra) for n in range(count)]
    for writer in writers:
        processes.wait_for(writer, "ready")
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    made = {}
    for number, writer in enumerate(writers):
        output, errors = writer.communicate(timeout=100)
        assert writer.returncode == 0, errors
        made[f"w{number}"] = output.split()
    return made


def test_eight_processes_of_200_appends_lose_and_tear_nothing(file: Path) -> None:
    made = run_writers(file, 8, 200)
    records = read(file)
    session = SessionManager.open(file)
    assert not [warning for warning in session.warnings if warning.line is not None]
    everything = {entry_id for entries in made.values() for entry_id in entries}
    assert len(everything) == 1_600
    assert everything <= {record["id"] for record in records[1:]}
    for name, entries in made.items():
        path = [found.id for found in session.get_branch(entries[-1])]
        assert path == ["a1", "a2", *entries], name
    reachable, stack = 0, session.get_tree()
    while stack:
        node = stack.pop()
        reachable += 1
        stack += node.children
    assert reachable == len(records) - 1


def test_processes_that_also_rewrite_lose_nothing(file: Path) -> None:
    made = run_writers(file, 4, 100, "rename")
    session = SessionManager.open(file)
    everything = {entry_id for entries in made.values() for entry_id in entries}
    assert len(everything) == 400
    assert everything <= set(ids(session))
    for entries in made.values():
        assert [found.id for found in session.get_branch(entries[-1])] == ["a1", "a2", *entries]
    assert session.session_name in {f"w{n} 99" for n in range(4)}


def test_a_writer_that_takes_no_lock_loses_nothing_either(file: Path) -> None:
    foreign = """
import json, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
print("ready", flush=True)
sys.stdin.readline()
parent = "a2"
for number in range(400):
    line = json.dumps({"type": "message", "id": f"f{number:07}", "parentId": parent,
        "timestamp": "t", "message": {"role": "user", "content": "x" * (number * 53 % 5000)}})
    os.write(fd, line.encode() + b"\\n")
    parent = f"f{number:07}"
"""
    process = processes.start(foreign, file)
    processes.wait_for(process, "ready")
    session = SessionManager.open(file)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    made = [session.append_message(user(f"ours {number}")) for number in range(400)]
    process.communicate(timeout=60)
    assert process.returncode == 0
    session.close()
    assert all(json.loads(line) for line in file.read_bytes().splitlines() if line)
    again = SessionManager.open(file)
    assert [found.id for found in again.get_branch(made[-1])] == ["a1", "a2", *made]
    assert len(again.get_branch("f0000399")) == 402
    assert sorted(ids(session)) == sorted(ids(again))


def test_a_held_lock_is_an_error_in_time_and_changes_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
    process = processes.start(hold, file)
    processes.wait_for(process, "held")
    session = SessionManager.open(file)
    defaults = locks.lock.__defaults__
    monkeypatch.setattr(locks.lock, "__defaults__", (0.05, *(defaults or (0,))[1:]))
    with pytest.raises(SessionBusyError, match=r"session\.jsonl"):
        session.append_message(user("3"))
    assert session.leaf_id == "a2"
    assert len(read(file)) == 3
    process.kill()
    process.communicate()
    session.append_message(user("3"))
    assert said(session) == ["1", "2", "3"]


def test_where_there_are_no_locks_the_work_goes_on_and_says_so(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    session = SessionManager.open(file)
    session.append_message(user("3"))
    session.append_message(user("4"))
    assert said(SessionManager.open(file)) == ["1", "2", "3", "4"]
    assert len([warning for warning in session.warnings if "lock" in str(warning)]) == 1


# -- merging ----------------------------------------


def test_foreign_lines_are_in_the_tree_before_the_next_append(file: Path) -> None:
    session = SessionManager.open(file)
    append(file, message("f1", "a2", user("foreign")), message("f2", "f1", assistant("answer")))
    made = session.append_message(user("ours"))
    assert ids(session) == ["a1", "a2", "f1", "f2", made]
    assert said(session) == ["1", "2", "ours"]
    assert any("2 entries" in str(warning) for warning in session.warnings)
    session.branch("f2")
    assert said(session) == ["1", "2", "foreign", "answer"]


def test_children_and_labels_that_were_asked_for_know_foreign_lines(file: Path) -> None:
    session = SessionManager.open(file)
    assert [found.id for found in session.get_children("a1")] == ["a2"]
    assert session.get_label("a1") is None
    with SessionManager.open(file) as other:
        other.branch("a1")
        made = other.append_message(user("side"))
        other.append_label_change("a1", "here")
    session.refresh()
    assert [found.id for found in session.get_children("a1")] == ["a2", made]
    assert session.get_label("a1") == "here"


def test_foreign_lines_can_be_read_without_appending(file: Path) -> None:
    session = SessionManager.open(file)
    assert session.refresh() == 0
    append(file, message("f1", "a2", user("foreign")))
    assert session.refresh() == 1
    assert session.refresh() == 0
    assert session.leaf_id == "a2"
    assert ids(session) == ["a1", "a2", "f1"]


def test_a_foreign_line_in_the_middle_of_being_written_is_not_torn(file: Path) -> None:
    line = dump(message("f1", "a2", user("foreign")))
    session = SessionManager.open(file)
    append(file, line[:40])
    assert session.refresh() == 0
    append(file, line[40:] + b"\n")
    session.refresh()
    assert ids(session) == ["a1", "a2", "f1"]
    session.append_message(user("ours"))
    assert len(read(file)) == 5


def test_a_foreign_torn_line_is_not_glued_to(file: Path) -> None:
    session = SessionManager.open(file)
    append(file, dump(message("f1", "a2"))[:40])
    session.append_message(user("ours"))
    session.close()
    again = SessionManager.open(file)
    assert said(again) == ["1", "2", "ours"]


@pytest.mark.parametrize(
    "growth",
    [
        [message("f1", "a2"), b"garbage\n", message("f3", "f2"), message("f4", "f3")],
        [message("a1", "a2"), message("x", "a1")],
        [message("self", "self"), message("o", "nowhere")],
        [header(id="second"), message("x", "a2")],
        [entry("label", "l", "a2", targetId="a1", label="L"), message("y", "l")],
        [b"\n\n", b"\x00\x00\n", dump(message("x", "a2")) + dump(message("y", "x")) + b"\n"],
        [{"type": "message", "timestamp": "t", "message": user("no id")}],
    ],
)
@pytest.mark.parametrize("tail", [b"", b"\n", b'{"torn":\n', b'{"torn":', b"{}"])
def test_what_is_merged_is_what_a_fresh_opening_reads(
    file: Path, growth: list[Any], tail: bytes
) -> None:
    append(file, tail)
    session = SessionManager.open(file)
    append(file, b"\n" if tail and not tail.endswith(b"\n") else b"", *growth)
    session.refresh()
    fresh = SessionManager.open(file)
    assert [(found.id, found.parent_id) for found in session.get_entries()] == [
        (found.id, found.parent_id) for found in fresh.get_entries()
    ]
    assert [found.data for found in session.get_entries()] == [
        found.data for found in fresh.get_entries()
    ]
    assert [warning.line for warning in session.warnings if warning.line] == [
        warning.line for warning in fresh.warnings if warning.line
    ]
    assert {node.entry.id for node in session.get_tree()} == {
        node.entry.id for node in fresh.get_tree()
    }
    assert session.get_label("a1") == fresh.get_label("a1")


def test_an_orphan_behind_an_old_gap_is_bridged_like_in_a_fresh_opening(file: Path) -> None:
    append(file, dump(message("lost", "a2"))[:50])
    session = SessionManager.open(file)
    append(file, b"\n", message("f", "lost", user("3")))
    session.refresh()
    assert [found.id for found in session.get_branch("f")] == ["a1", "a2", "f"]


def test_a_rewrite_keeps_what_others_appended(file: Path) -> None:
    session = SessionManager.open(file)
    append(file, message("f1", "a2", user("foreign")))
    session.set_session_name("name")
    assert [record["id"] for record in read(file)[1:]] == ["a1", "a2", "f1"]
    append(file, message("f2", "f1", user("foreign")))
    session.rewrite_entries()
    assert [record["id"] for record in read(file)[1:]] == ["a1", "a2", "f1", "f2"]


def test_two_managers_in_one_process_share_a_file(file: Path) -> None:
    one, two = SessionManager.open(file), SessionManager.open(file)
    made = []
    for number in range(10):
        made.append(one.append_message(user(f"one {number}")))
        made.append(two.append_message(user(f"two {number}")))
        if number == 5:
            one.set_session_name("renamed")
    assert [record["id"] for record in read(file)[3:]] == made
    assert len(said(one)) == len(said(two)) == 12
    two.refresh()
    assert two.session_name == "renamed"


def test_threads_with_managers_of_their_own_share_a_file(file: Path) -> None:
    made: list[str] = []

    def work() -> None:
        session = SessionManager.open(file)
        made.extend(session.append_message(user(str(number))) for number in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 200
    assert set(made) <= {record["id"] for record in read(file)[1:]}


# -- between two of our steps ----------------------------------------


def test_a_foreign_line_written_while_we_write_is_merged(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    storage.interrupt("write_line", lambda: append(file, message("f", "a2", user("foreign"))))
    made = session.append_message(user("ours"))
    session.refresh()
    assert ids(session) == ["a1", "a2", "f", made]
    session.rewrite_entries()
    assert [record["id"] for record in read(file)[1:]] == ["a1", "a2", "f", made]


def test_a_foreign_line_finished_while_we_write_is_not_lost(file: Path) -> None:
    """We looked while it was half written; it was whole when our own line landed behind it."""
    line = dump(message("f", "a2", user("foreign")))
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    append(file, line[:50])
    storage.interrupt("write_line", lambda: append(file, line[50:] + b"\n"))
    made = session.append_message(user("ours"))
    more = session.append_message(user("more"))
    assert set(ids(session)) == {"a1", "a2", "f", made, more}
    session.rewrite_entries()
    assert {record["id"] for record in read(file)[1:]} == {"a1", "a2", "f", made, more}
    assert said(SessionManager.open(file)) == ["1", "2", "ours", "more"]


def test_a_foreign_line_finished_right_before_a_rewrite_is_not_lost(file: Path) -> None:
    line = dump(message("f", "a2", user("foreign")))
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    append(file, line[:50])
    session.refresh()
    append(file, line[50:] + b"\n")
    session.rewrite_entries()
    assert {record["id"] for record in read(file)[1:]} == {"a1", "a2", "f"}


def test_taking_back_a_failed_line_never_takes_anothers(file: Path) -> None:
    """Our line is in the file, another's behind it, and then the disk says that ours is not."""
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage, durability="entry")
    foreign = message("f", "a2", user("foreign"))
    storage.interrupt("fsync", lambda: append(file, foreign))
    storage.fail("fsync", errno.EIO)
    with pytest.raises(PersistenceError):
        session.append_message(user("ours"))
    assert dump(foreign) in file.read_bytes()
    session.recover()
    made = session.append_message(user("again"))
    session.close()
    again = SessionManager.open(file)
    assert {"f", made} <= set(ids(again))
    assert said(again)[-1] == "again"
    assert set(ids(session)) == set(ids(again))


# -- files that change under us ----------------------------------------


def test_a_deleted_file_is_noticed_and_written_anew(file: Path) -> None:
    session = SessionManager.open(file)
    session.append_message(user("3"))
    file.unlink()
    session.append_message(user("4"))
    assert said(SessionManager.open(file)) == ["1", "2", "3", "4"]
    assert any("deleted" in str(warning) for warning in session.warnings)


def test_of_two_that_miss_a_deleted_file_none_overwrites_the_other(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    session, other = SessionManager.open(file, storage=storage), SessionManager.open(file)
    file.unlink()

    def be_faster() -> None:
        other.append_message(user("theirs"))
        other.close()

    storage.interrupt("ensure_dir", be_faster)
    session.append_message(user("ours"))
    session.close()
    assert [found["message"]["content"] for found in read(file)[3:5]] == ["theirs", "ours"]


def test_an_empty_file_in_place_of_a_deleted_one_is_none(file: Path) -> None:
    """Whoever began to write it anew was killed."""
    session = SessionManager.open(file)
    file.unlink()
    file.touch()
    session.append_message(user("3"))
    assert said(SessionManager.open(file)) == ["1", "2", "3"]


def test_a_deleted_folder_is_noticed_and_made_anew(tmp_path: Path) -> None:
    import shutil

    file = write(tmp_path / "deep" / "er" / "x.jsonl", header(), *ONE_TURN)
    session = SessionManager.open(file)
    shutil.rmtree(tmp_path / "deep")
    session.append_message(user("3"))
    assert said(SessionManager.open(file)) == ["1", "2", "3"]


def test_a_file_deleted_before_the_close_is_written_anew(file: Path) -> None:
    session = SessionManager.open(file)
    session.append_message(user("3"))
    file.unlink()
    session.close()
    assert said(SessionManager.open(file)) == ["1", "2", "3"]


def test_a_deleted_file_that_nobody_changed_stays_deleted(file: Path) -> None:
    session = SessionManager.open(file)
    file.unlink()
    session.close()
    assert not file.exists()


def replace(file: Path, *records: dict[str, Any] | bytes) -> None:
    other = file.with_name("other")
    other.write_bytes(lines(*records))
    os.replace(other, file)


def test_a_file_replaced_by_more_of_the_same_is_read(file: Path) -> None:
    session = SessionManager.open(file)
    replace(file, header(title="theirs"), *ONE_TURN, message("f", "a2", user("foreign")))
    made = session.append_message(user("ours"))
    assert ids(session) == ["a1", "a2", "f", made]
    assert session.session_name == "theirs"
    assert [record["id"] for record in read(file)[1:]] == ["a1", "a2", "f", made]
    assert said(session) == ["1", "2", "ours"]


def test_what_is_wrong_with_a_replaced_file_is_told_once(file: Path) -> None:
    append(file, b"garbage\n")
    session = SessionManager.open(file)
    for number in range(3):
        records = [line + b"\n" for line in file.read_bytes().splitlines()]
        replace(file, *records, message(f"f{number}", "a2"))
        session.refresh()
    assert [warning.line for warning in session.warnings if warning.line] == [4]


def test_warnings_of_files_that_come_and_go_do_not_grow_without_end(file: Path) -> None:
    session = SessionManager.open(file)
    counts = []
    for number in range(20):
        other = file.with_suffix(".other")
        write(other, header(), *ONE_TURN, b"\n" * number, b"garbage\n")
        os.replace(other, file)
        session.refresh()
        file.unlink()
        session.append_custom_entry("x")
        counts.append(len(session.warnings))
    assert len(set(counts[1:])) == 1
    assert "line 23: skipped: not JSON" in map(str, session.warnings)


def test_a_file_replaced_by_less_gets_back_what_it_lost(file: Path) -> None:
    session = SessionManager.open(file)
    lost = [session.append_message(user("3")), session.append_message(assistant("4"))]
    replace(file, header(), *ONE_TURN)
    made = session.append_message(user("5"))
    assert [record["id"] for record in read(file)[1:]] == ["a1", "a2", *lost, made]
    assert said(SessionManager.open(file)) == ["1", "2", "3", "4", "5"]


def test_a_file_replaced_by_another_session_is_an_error_and_is_left_alone(file: Path) -> None:
    session = SessionManager.open(file)
    other = lines(header(id="another"), message("x", None))
    replace(file, other)
    with pytest.raises(PersistenceError, match=r"session\.jsonl.*another"):
        session.append_message(user("3"))
    assert file.read_bytes() == other
    assert said(session) == ["1", "2"]


@pytest.mark.parametrize("content", [b"# README\n", b"\x00" * 10, b"{}\n"])
def test_a_file_overwritten_by_something_else_is_an_error_and_is_left_alone(
    file: Path, content: bytes
) -> None:
    session = SessionManager.open(file)
    session.build_session_context()
    file.write_bytes(content)
    with pytest.raises(PersistenceError, match=r"session\.jsonl"):
        session.append_message(user("3"))
    assert file.read_bytes() == content
    assert said(session) == ["1", "2"]


def test_a_file_cut_short_under_us_gets_back_what_is_still_known(file: Path) -> None:
    session = SessionManager.open(file)
    made = [session.append_message(user("3")), session.append_message(assistant("4"))]
    keep = len(lines(header(), *ONE_TURN))
    with file.open("r+b") as out:
        out.truncate(keep)
    last = session.append_message(user("5"))
    assert [record["id"] for record in read(file)[1:]] == ["a1", "a2", *made, last]
    assert said(SessionManager.open(file)) == ["1", "2", "3", "4", "5"]


def test_what_a_cut_took_from_an_unread_file_is_told(file: Path) -> None:
    session = SessionManager.open(file)
    with file.open("r+b") as out:
        out.truncate(len(lines(header(), ONE_TURN[0])))
    session.append_message(user("on"))
    assert any("1 entries" in str(w) or "1 entry" in str(w) for w in session.warnings)
    again = SessionManager.open(file)
    assert [found.type for found in again.get_entries()] == ["message", "message"]
    assert said(again) == ["1", "on"]


def test_an_emptied_file_is_an_error_and_what_is_known_can_still_be_read(file: Path) -> None:
    session = SessionManager.open(file)
    session.build_session_context()
    file.write_bytes(b"")
    with pytest.raises(PersistenceError, match=r"session\.jsonl"):
        session.append_message(user("3"))
    assert said(session) == ["1", "2"]


def rewrite_in_place(file: Path, *records: dict[str, Any] | bytes) -> None:
    with file.open("r+b") as out:
        out.write(lines(*records))
        out.truncate()


def test_a_file_rewritten_in_place_is_read_anew(file: Path) -> None:
    session = SessionManager.open(file)
    made = session.append_message(user("3"))
    rewrite_in_place(
        file, header(), *ONE_TURN, message("f", "a2", user("theirs, and longer than ours"))
    )
    last = session.append_message(user("4"))
    session.close()
    again = SessionManager.open(file)
    assert {"a1", "a2", "f", made, last} <= set(ids(again))
    assert texts([again.get_entries()[2].data["message"]]) == ["theirs, and longer than ours"]


@pytest.mark.parametrize("work", ["append", "rewrite", "name", "changed"])
def test_a_file_rewritten_in_place_to_the_same_size_is_noticed(tmp_path: Path, work: str) -> None:
    short, long = message("b1", "a", user("x")), message("b2", "b1", user("x" * 90))
    file = write(tmp_path / "x.jsonl", header(), message("a", None), short, long)
    session = SessionManager.open(file)
    size = file.stat().st_size
    theirs = [message("c2", "a", user("x" * 90)), message("c1", "c2", user("x"))]
    rewrite_in_place(file, header(), message("a", None), *theirs)
    assert file.stat().st_size == size
    match work:
        case "append":
            session.append_message(user("on"))
        case "rewrite":
            session.rewrite_entries()
        case "name":
            session.set_session_name("name")
        case "changed":
            session.get_entries()[0].data["message"]["content"] = "changed"
            session.rewrite_entries()
    assert {"a", "c1", "c2"} <= set(ids(session))
    session.close()
    again = SessionManager.open(file)
    assert {"a", "c1", "c2"} <= set(ids(again))
    assert texts(found.data["message"] for found in again.get_branch("c1"))[1:] == ["x" * 90, "x"]
    assert not [warning for warning in again.warnings if warning.line]


def test_a_rewriting_agent_between_our_appends(file: Path) -> None:
    """What living omp does when it is told to rename: a whole new file under the old name."""
    session = SessionManager.open(file)
    for number in range(5):
        session.append_message(user(f"ours {number}"))
        records = [json.loads(line) for line in file.read_bytes().splitlines()]
        replace(file, *records, message(f"f{number}", records[-1]["id"], user("theirs")))
    session.close()
    again = SessionManager.open(file)
    assert len([found for found in again.get_entries() if found.type == "message"]) == 12
    assert len(set(ids(again))) == len(ids(again))
    session_ids = {f"f{number}" for number in range(5)}
    assert session_ids <= set(ids(again))


def test_a_foreign_process_that_dies_holding_the_lock_stops_nobody(file: Path) -> None:
    hold = """
import sys
from sessiontree import FileSessionStorage
writer = FileSessionStorage().open_writer(sys.argv[1])
writer.lock()
writer.write_line(b'{"type":"message","id":"half')
print("held", flush=True)
sys.stdin.read()
"""
    process: subprocess.Popen[str] = processes.start(hold, file)
    processes.wait_for(process, "held")
    session = SessionManager.open(file)
    process.kill()
    process.communicate()
    session.append_message(user("3"))
    session.close()
    assert said(SessionManager.open(file)) == ["1", "2", "3"]


def test_looking_for_news_does_not_bring_back_a_deleted_file(file: Path) -> None:
    session = SessionManager.open(file)
    session.append_message(user("3"))
    file.unlink()
    assert session.refresh() == 0
    assert not file.exists()
    session.append_message(user("4"))
    assert said(SessionManager.open(file)) == ["1", "2", "3", "4"]


def test_recovering_brings_back_a_deleted_file(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    file.unlink()
    storage.fail("lock", errno.EIO)
    with pytest.raises(PersistenceError):
        session.append_message(user("3"))
    session.recover()
    assert said(SessionManager.open(file)) == ["1", "2"]
