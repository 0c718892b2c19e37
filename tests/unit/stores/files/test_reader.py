"""Loading a session file: whatever happened to it, every entry that is there is had."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests import processes
from tests.samples import (
    SESSION_ID,
    TALK,
    assistant,
    chain,
    dump,
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

from sessiontree import (
    FileSessionStorage,
    MemorySessionStorage,
    PersistenceError,
    SessionManager,
    load_entries_from_file,
)
from sessiontree.stores.files.reader import load_document
from sessiontree.testing import FaultyStorage

Wire = dict[str, Any]
WHOLE = lines(header(), *TALK)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def ids(session: SessionManager) -> list[str]:
    return [found.id for found in session.get_entries()]


def reports(session: SessionManager) -> list[str]:
    return [str(warning) for warning in session.warnings]


# -- load_entries_from_file ----------------------------------------


def test_a_missing_file_holds_nothing(file: Path) -> None:
    assert load_entries_from_file(file) == []
    assert load_entries_from_file(file.parent / "nowhere" / "x.jsonl") == []
    assert not file.exists()


def test_records_come_header_first_and_as_they_are(file: Path) -> None:
    write(file, header(version=1), {"type": "message", "message": user("x")})
    expected = [header(version=1), {"type": "message", "message": user("x")}]
    assert load_entries_from_file(file) == load_entries_from_file(str(file)) == expected


@pytest.mark.parametrize(
    "first",
    [
        message("a", None),
        {"type": "session"},
        {"type": "session", "id": 5},
        {"type": "Session", "id": "x"},
        {"id": "x"},
        b"",
    ],
)
def test_a_first_record_that_is_no_header_means_nothing(file: Path, first: Wire | bytes) -> None:
    write(file, first, *([header(), *TALK] if first else []))
    assert load_entries_from_file(file) == []


def test_lines_that_are_skipped_are_reported_with_number_and_reason(file: Path) -> None:
    write(file, b"garbage\n", header(), TALK[0], b"null\n", b"\n", b'{"torn":\n', TALK[1])
    skipped: list[tuple[int, str]] = []
    records = load_entries_from_file(file, on_skip=lambda *report: skipped.append(report))
    assert records == [header(), *TALK[:2]]
    assert [line for line, _ in skipped] == [1, 4, 6]
    assert all(reason for _, reason in skipped)


def test_a_title_slot_is_applied_to_the_header(file: Path) -> None:
    write(file, slot("from the slot"), header(title="old"), *TALK)
    assert load_entries_from_file(file)[0]["title"] == "from the slot"
    write(file, slot(""), header(title="old"), *TALK)
    assert "title" not in load_entries_from_file(file)[0]


def test_entries_are_loaded_from_any_storage() -> None:
    storage = MemorySessionStorage()
    storage.ensure_dir("/s")
    storage.write_atomic("/s/x.jsonl", WHOLE)
    assert load_entries_from_file("/s/x.jsonl", storage=storage) == [header(), *TALK]


def test_a_read_error_is_no_missing_file(file: Path) -> None:
    write(file, header(), *TALK)
    storage = FaultyStorage(FileSessionStorage())
    for operation in ("read", "open_reader", "read_at"):
        storage.fail(operation, errno.EIO, times=None)
    with pytest.raises(PersistenceError, match="Input/output"):
        load_entries_from_file(file, storage=storage)


# -- a sound file ----------------------------------------


def test_a_session_is_as_its_file_says(file: Path) -> None:
    write(file, header(), *TALK)
    with SessionManager.open(file) as session:
        assert session.session_id == SESSION_ID
        assert session.session_file == str(file)
        assert session.header == header()
        assert session.cwd == "/work/pi"
        assert session.is_persisted
        assert session.leaf_id == "a4"
        assert session.leaf_entry is session.get_entry("a4")
        assert [found.data for found in session.get_entries()] == TALK
        assert said(session) == ["1", "2", "3", "4"]
        assert session.warnings == []


def test_looking_changes_no_byte_and_no_time(file: Path) -> None:
    write(file, header(), *TALK, b'{"torn')
    os.utime(file, ns=(1_000, 1_000))
    before = sorted(os.listdir(file.parent))
    with SessionManager.open(file) as session:
        session.get_tree()
        session.build_session_context()
        session.get_branch()
        session.flush()
    assert file.read_bytes() == lines(header(), *TALK, b'{"torn')
    assert file.stat().st_mtime_ns == 1_000
    assert sorted(os.listdir(file.parent)) == before


def test_a_header_alone_is_an_empty_session(file: Path) -> None:
    for data in (lines(header()), dump(header())):
        file.write_bytes(data)
        session = SessionManager.open(file)
        assert (session.get_entries(), session.leaf_id) == ([], None)
        session.append_message(assistant("x"))
        session.close()
        assert len(read(file)) == 2


# -- damage ----------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + WHOLE,
        WHOLE.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + WHOLE.replace(b"\n", b"\r\n"),
        b"\n  \n" + WHOLE.replace(b"\n", b"\n\n\t\n"),
        WHOLE[:-1],
        WHOLE.replace(b"\n", b"\n" + b"\x00" * 5_000),
        WHOLE.replace(b"\n", b"\x00" * 3 + b"\n"),
        b"\x00" * 4_096 + WHOLE,
        lines(header(), TALK[0]) + dump(TALK[1]) + dump(TALK[2]) + b"\n" + lines(TALK[3]),
        dump(header()) + dump(TALK[0]) + b"\n" + lines(*TALK[1:]),
        b"".join(dump(record) for record in (header(), *TALK)),
    ],
    ids=[
        *["bom", "crlf", "bom+crlf", "blank", "no-final-newline", "nul-lines", "nul-tails"],
        *["nul-head", "glued", "glued-to-header", "all-glued"],
    ],
)
def test_harmless_damage_costs_nothing(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    session = SessionManager.open(file)
    assert ids(session) == ["a1", "a2", "a3", "a4"]
    assert said(session) == ["1", "2", "3", "4"]
    assert [found.data for found in session.get_entries()] == TALK
    session.append_message(user("5"))
    session.close()
    again = SessionManager.open(file)
    assert said(again) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("cut", range(1, 120, 7))
def test_after_a_torn_last_line_nothing_is_glued_to_it(file: Path, cut: int) -> None:
    torn = dump(message("bbbbbbbb", "a4", user("torn " * 10)))[:cut]
    file.write_bytes(WHOLE + torn)
    with SessionManager.open(file) as session:
        assert said(session) == ["1", "2", "3", "4"]
        assert any("line 6" in report for report in reports(session))
        session.append_message(user("5"))
        session.append_message(assistant("6"))
    assert file.read_bytes().startswith(WHOLE + torn + b"\n")
    again = SessionManager.open(file)
    assert said(again) == ["1", "2", "3", "4", "5", "6"]


def test_after_a_whole_last_line_without_newline_nothing_is_lost(file: Path) -> None:
    file.write_bytes(WHOLE[:-1])
    with SessionManager.open(file) as session:
        assert session.warnings == []
        session.append_message(user("5"))
    assert said(SessionManager.open(file)) == ["1", "2", "3", "4", "5"]
    assert len(read(file)) == 6


@pytest.mark.parametrize("bad", [b"garbage\n", dump(TALK[1])[:-9] + b"\n", b"\xff" * 50 + b"\n"])
def test_one_corrupt_line_is_bridged_and_reported(file: Path, bad: bytes) -> None:
    file.write_bytes(lines(header(), TALK[0], bad, *TALK[2:]))
    session = SessionManager.open(file)
    assert said(session) == ["1", "3", "4"]
    assert any("line 3" in report for report in reports(session))
    assert any("a2" in report and "a3" in report for report in reports(session))


def test_several_corrupt_lines_are_each_bridged(file: Path) -> None:
    talk = chain(*(user(str(number)) for number in range(1, 10)))
    records: list[Wire | bytes] = [header(), *talk]
    for at in (2, 5, 6, 9):
        records[at] = dump(records[at])[:-20] + b"\n"
    write(file, *records)
    session = SessionManager.open(file)
    assert said(session) == ["1", "3", "4", "7", "8"]
    assert [w.line for w in session.warnings if w.line is not None] == [3, 6, 7, 10]


def test_two_lines_torn_into_one_still_give_the_whole_entry(file: Path) -> None:
    file.write_bytes(lines(header(), TALK[0]) + dump(TALK[1])[:50] + lines(*TALK[2:]))
    session = SessionManager.open(file)
    assert said(session) == ["1", "3", "4"]


@pytest.mark.parametrize("line", [b"null\n", b"17\n", b'"x"\n', b"[]\n", b"true\n", b"-\n"])
def test_a_line_that_is_no_object_is_skipped_and_reported(file: Path, line: bytes) -> None:
    file.write_bytes(lines(header(), *TALK[:2], line, *TALK[2:]))
    session = SessionManager.open(file)
    assert said(session) == ["1", "2", "3", "4"]
    assert [warning.line for warning in session.warnings] == [4]


@pytest.mark.parametrize(
    "odd",
    [
        entry("message", "x", "a4", message=None),
        entry("message", "x", "a4"),
        entry("message", "x", "a4", message=7),
        message("x", "a4", assistant(usage={})),
        message("x", "a4", assistant(usage=None, content=None)),
        message("x", "a4", {}),
        entry("compaction", "x", "nowhere"),
        entry("label", "x", "a4"),
        entry("branch_summary", "x", "a4"),
        entry("custom_message", "x", "a4"),
        entry("model_change", "x", "a4"),
        entry("mode_change", "x", "a4", mode=None),
    ],
)
def test_entries_that_lack_what_they_should_have_do_no_harm(file: Path, odd: Wire) -> None:
    write(file, header(), *TALK, odd, message("y", "a4", user("5")))
    with SessionManager.open(file) as session:
        assert ids(session) == ["a1", "a2", "a3", "a4", "x", "y"]
        assert said(session) == ["1", "2", "3", "4", "5"]
        session.branch("x")
        session.build_session_context()
        session.get_tree()
        session.append_message(user("6"))
        session.rewrite_entries()
    assert lines(odd) in file.read_bytes()


@pytest.mark.parametrize("content", [{"message": None}, {}, {"message": 7}])
def test_a_message_that_is_none_is_left_out_of_the_context_and_reported(
    file: Path, content: Wire
) -> None:
    write(
        file, header(), *TALK, entry("message", "x", "a4", **content), message("y", "x", user("5"))
    )
    session = SessionManager.open(file)
    assert said(session) == ["1", "2", "3", "4", "5"]
    assert [str(warning) for warning in session.warnings] == [
        "entry x holds no message; not in the context"
    ]


def test_a_second_header_is_skipped_and_reported(file: Path) -> None:
    write(file, header(), *TALK[:2], header(id="other", cwd="/other"), *TALK[2:])
    session = SessionManager.open(file)
    assert session.session_id == SESSION_ID
    assert said(session) == ["1", "2", "3", "4"]
    assert [warning.line for warning in session.warnings] == [4]


def test_text_before_the_header_is_skipped_and_reported(file: Path) -> None:
    file.write_bytes(b"garbage\n\n" + WHOLE)
    session = SessionManager.open(file)
    assert said(session) == ["1", "2", "3", "4"]
    assert [warning.line for warning in session.warnings] == [1]


def test_a_header_of_any_length_is_read(file: Path) -> None:
    write(file, header(title="t" * 300_000), *TALK)
    session = SessionManager.open(file)
    assert said(session) == ["1", "2", "3", "4"]
    assert session.session_name == "t" * 300_000


# -- unusual values ----------------------------------------


def says(entry_id: str, parent_id: str, content: bytes) -> bytes:
    head = f'{{"type":"message","id":"{entry_id}","parentId":"{parent_id}","timestamp":"t",'
    return head.encode() + b'"message":{"role":"user",' + content + b"}}"


UNUSUAL = [
    says("u1", "a4", rb'"content":"\ud83d half"'),
    says("u2", "u1", b'"content":"n","big":123456789012345678901234567890'),
    says("u3", "u2", b'"content":"bad \xff\xfe utf8"'),
    says("u4", "u3", b'"content":"deep","x":' + b'{"x":' * 990 + b"1" + b"}" * 990),
    says("u5", "u4", b' "content" : "sp\\u0061ced" ,"n":1.50e1,"n2":-0 '),
    says("u6", "u5", b'"content":"twice","content":"last"'),
    b'{"type":"future","id":"u7","parentId":"u6","timestamp":"t","unknown":{"deep":[1e400]}}',
    b'{ "timestamp" : "t" ,"parentId":"u7","id":"u8" , "type":"custom","customType":"x"}',
]


def test_unusual_values_are_read(file: Path) -> None:
    file.write_bytes(WHOLE + b"\n".join(UNUSUAL) + b"\n")
    session = SessionManager.open(file)
    assert session.warnings == []
    assert said(session)[4:] == [
        "\ud83d half",
        "n",
        "bad \ufffd\ufffd utf8",
        "deep",
        "spaced",
        "last",
    ]
    found = session.get_entry("u2")
    assert found is not None
    assert found.data["message"]["big"] == 123456789012345678901234567890


def test_unchanged_entries_come_out_of_a_rewrite_byte_for_byte(file: Path) -> None:
    data = WHOLE + b"\n".join(UNUSUAL) + b"\n"
    file.write_bytes(data)
    with SessionManager.open(file) as session:
        session.get_tree()
        for found in session.get_entries():
            assert found.data
        session.rewrite_entries()
        assert file.read_bytes() == data
        session.set_session_name("named")
    assert file.read_bytes().partition(b"\n")[2] == data.partition(b"\n")[2]


def test_an_entry_that_gets_a_fresh_id_keeps_the_spelling_of_all_else(file: Path) -> None:
    line = (
        b'{"type":"custom","id":"a1","parentId":"a4","timestamp":"2026-02-16T10:20:30.000Z",'
        b'"customType":"x","far":1e400,"data":{"price": 1.10}}'
    )
    file.write_bytes(WHOLE + line + b"\n")
    with SessionManager.open(file) as session:
        fresh = session.get_entries()[-1].id
        session.rewrite_entries()
    assert fresh != "a1"
    assert file.read_bytes() == WHOLE + line.replace(b'"a1"', f'"{fresh}"'.encode()) + b"\n"


def test_a_line_of_many_megabytes(file: Path) -> None:
    write(file, header(), *TALK, message("big", "a4", user("x" * 40_000_000)), message("y", "big"))
    session = SessionManager.open(file)
    assert [len(text) for text in said(session)] == [1, 1, 1, 1, 40_000_000, 1]


MEASURE = """
import resource, sys
from sessiontree import SessionManager
session = SessionManager.in_memory()
session.append_message({"role": "user", "content": "x"})
session.build_session_context()
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
session = SessionManager.open(sys.argv[1])
shown = len(session.build_session_context().messages)
session.get_tree()
session.append_message({"role": "user", "content": "x", "timestamp": 1})
print(shown, peak() - before)
"""


def test_a_session_of_100_megabytes_costs_tens_of_them(file: Path) -> None:
    """Most of it is hidden by a compaction, as in every session that grew so large."""
    text = "x" * 10_000
    with file.open("wb") as out:
        out.write(lines(header(), message("0", None)))
        for number in range(1, 10_000):
            out.write(dump(message(str(number), str(number - 1), user(text))) + b"\n")
        kept = {"summary": "S", "firstKeptEntryId": "9900", "tokensBefore": 1}
        out.write(dump(entry("compaction", "k", "9999", **kept)) + b"\n")
    assert file.stat().st_size > 100_000_000
    shown, megabytes = map(int, processes.run(MEASURE, file).split())
    assert shown == 101
    assert megabytes < 40


# -- trees that files bring ----------------------------------------


def test_cycles_and_self_parents_in_a_file_are_cut_and_reported(file: Path) -> None:
    odd = [message("self", "self"), message("c1", "c2"), message("c2", "c1")]
    write(file, header(), *TALK, *odd, message("after", "c2"))
    with SessionManager.open(file) as session:
        assert len(session.get_entries()) == 8
        assert said(session)[-1] == "after"
        assert len(session.warnings) == 2
        session.get_tree()
        session.append_message(user("end"))
    again = SessionManager.open(file)
    assert said(again)[-2:] == ["after", "end"]


def test_both_entries_of_one_id_are_kept(file: Path) -> None:
    write(file, header(), *TALK, message("a2", "a4", user("later")), message("b", "a2", user("5")))
    with SessionManager.open(file) as session:
        entries = session.get_entries()
        assert [texts([found.data["message"]])[0] for found in entries] == [
            *["1", "2", "3", "4", "later", "5"]
        ]
        assert len({found.id for found in entries}) == 6
        assert session.get_branch(entries[4].id)[-2].id == "a4"
        assert any("a2" in report for report in reports(session))
        session.rewrite_entries()
    assert len({record["id"] for record in read(file)[1:]}) == 6
    assert SessionManager.open(file).warnings == []


def test_a_file_stamped_three_without_ids_is_one_chain(file: Path) -> None:
    """What pi makes of a version 1 file that it forks."""
    bare = [{"type": "message", "timestamp": "t", "message": user(str(n))} for n in range(1, 4)]
    write(file, header(), *bare)
    with SessionManager.open(file) as session:
        assert said(session) == ["1", "2", "3"]
        assert session.warnings
        session.append_message(assistant("4"))
    assert said(SessionManager.open(file)) == ["1", "2", "3", "4"]


def test_unknown_types_keep_their_place_in_the_tree(file: Path) -> None:
    odd = [
        entry("of the future", "f1", "a4", x={"y": [1]}),
        entry("title", "f2", "f1", title="an entry, not a slot"),
        entry("", "f3", "f2"),
    ]
    write(file, header(), *TALK, *odd, message("b", "f3", user("5")))
    session = SessionManager.open(file)
    assert ids(session) == ["a1", "a2", "a3", "a4", "f1", "f2", "f3", "b"]
    assert [found.id for found in session.get_branch()] == ids(session)
    assert session.warnings == []
    assert session.get_entries()[4].data == odd[0]


def test_150_000_children_of_one_entry(file: Path) -> None:
    count = 150_000
    with file.open("wb") as out:
        out.write(lines(header(), message("root", None)))
        out.writelines(
            b'{"type":"custom","id":"%08x","parentId":"root","timestamp":"t"}\n' % number
            for number in range(count)
        )
    with SessionManager.open(file) as session:
        assert len(session.get_children("root")) == count
        (root,) = session.get_tree()
        assert len(root.children) == count
        session.branch("root")
        session.append_message(assistant("x"))
    assert len(SessionManager.open(file).get_branch()) == 2


# -- versions and the slot ----------------------------------------


@pytest.mark.parametrize("version", [4, 99])
def test_a_newer_version_is_kept_as_it_is_and_reported_once(file: Path, version: int) -> None:
    data = lines(header(version=version, newField={"x": 1}), *TALK)
    file.write_bytes(data)
    with SessionManager.open(file) as session:
        assert said(session) == ["1", "2", "3", "4"]
        assert len([report for report in reports(session) if str(version) in report]) == 1
        assert file.read_bytes() == data
        session.append_message(user("5"))
        session.rewrite_entries()
        assert len([report for report in reports(session) if str(version) in report]) == 1
    assert file.read_bytes().startswith(data)


def test_a_title_slot_before_the_header_is_read_and_kept(file: Path) -> None:
    data = lines(slot("The title", "user"), header(title="old", titleSource="auto"), *TALK)
    file.write_bytes(data)
    with SessionManager.open(file) as session:
        assert session.session_name == "The title"
        assert session.header.get("title") == "The title"
        assert said(session) == ["1", "2", "3", "4"]
        assert session.warnings == []
        session.append_message(user("5"))
        session.rewrite_entries()
    assert file.read_bytes().startswith(slot("The title", "user"))
    assert file.read_bytes().endswith(lines(*TALK) + file.read_bytes().splitlines(True)[-1])


def test_an_empty_title_slot_clears_the_title(file: Path) -> None:
    write(file, slot("", None), header(title="old"), *TALK)
    session = SessionManager.open(file)
    assert session.session_name is None
    assert "title" not in session.header


# -- what is no file ----------------------------------------


def test_a_folder_where_a_file_should_be_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").mkdir()
    with pytest.raises(PersistenceError, match=r"x\.jsonl") as caught:
        SessionManager.open(tmp_path / "x.jsonl")
    assert caught.value.path == str(tmp_path / "x.jsonl")


def test_a_pipe_where_a_file_should_be_is_one_clear_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    code = """
import sys
from sessiontree import PersistenceError, SessionManager, load_entries_from_file
fork = lambda path: SessionManager.fork_from(path, "/work")
for work in (SessionManager.open, fork, load_entries_from_file):
    try:
        work(sys.argv[1])
    except PersistenceError as error:
        print(error.path == sys.argv[1])
"""
    assert processes.run(code, tmp_path / "x.jsonl", timeout_s=5) == "True\n" * 3


def test_a_file_beneath_a_file_is_one_clear_error(file: Path) -> None:
    write(file, header(), *TALK)
    with pytest.raises(PersistenceError, match=r"session\.jsonl"):
        SessionManager.open(file / "x.jsonl")
    assert file.read_bytes() == WHOLE


def test_a_read_error_is_one_clear_error_and_nothing_is_recovered(file: Path) -> None:
    file.write_bytes(WHOLE)
    storage = FaultyStorage(FileSessionStorage())
    storage.fail("read_at", errno.EIO)
    with pytest.raises(PersistenceError, match=r"session\.jsonl.*Input/output"):
        SessionManager.open(file, storage=storage)
    assert file.read_bytes() == WHOLE
    assert os.listdir(file.parent) == ["session.jsonl"]


def test_those_who_only_look_never_write(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    for data in (WHOLE + b'{"torn', lines(header(version=None), {"type": "message"}), b"junk\n"):
        file.write_bytes(data)
        try:
            load_document(storage, str(file))
        except Exception as error:
            assert data == b"junk\n", error  # noqa: PT017
        load_entries_from_file(file, storage=storage)
    assert file.read_bytes() == b"junk\n"
    assert set(storage.calls) <= {"open_reader", "read_at", "read", "stat", "exists"}


def test_a_linked_session_is_worked_on_where_it_is(tmp_path: Path) -> None:
    target = write(tmp_path / "real" / "session.jsonl", header(), *TALK, b"garbage\n")
    link = tmp_path / "link.jsonl"
    link.symlink_to(target)
    with SessionManager.open(link) as session:
        session.append_message(user("5"))
        session.set_session_name("through the link")
        session.append_message(assistant("6"))
    assert link.is_symlink()
    assert said(SessionManager.open(target)) == ["1", "2", "3", "4", "5", "6"]


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    folder = os.path.join(str(tmp_path), os.fsdecode(b"caf\xe9"))
    path = os.path.join(folder, os.fsdecode(b"\xff session.jsonl"))
    os.mkdir(folder)
    Path(path).write_bytes(WHOLE + b"garbage\n")
    with SessionManager.open(path) as session:
        session.append_message(user("5"))
        session.set_session_name("name")
        assert session.session_file == path
        branched = session.create_branched_session("a2")
        assert branched is not None
    forked = SessionManager.fork_from(path, folder, folder)
    assert said(forked) == ["1", "2", "3", "4", "5"]
    assert said(SessionManager.open(branched)) == ["1", "2"]
