"""Opening what is no session: begun, recovered or refused; never a byte lost."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from tests import processes
from tests.samples import (
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
    user,
    write,
)

from sessiontree import (
    FileSessionStorage,
    MemorySessionStorage,
    NotASessionError,
    PersistenceError,
    SessionManager,
)
from sessiontree.testing import FaultyStorage

Wire = dict[str, Any]
TORN_HEADER = b'{"type":"session","version":3,"id":"1f9d2a6b9c0d1234","cwd":"/work/pi","tim\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "session.jsonl"


def asides(file: Path) -> list[Path]:
    return sorted(file.parent.glob(f"{file.name}.corrupt-*"))


# -- begun ----------------------------------------


@pytest.mark.parametrize("name", ["new.jsonl", "notes.txt", "no-suffix", "deep/er/new.jsonl"])
def test_a_missing_file_becomes_a_session_at_that_exact_path(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with SessionManager.open(path) as session:
        assert session.session_file == str(path)
        assert read(path) == [session.header]
        assert session.header["version"] == 3
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        session.append_message(user("kept at once"))
        assert len(read(path)) == 2
    assert said(SessionManager.open(path)) == ["kept at once"]


def test_an_empty_file_becomes_a_session(file: Path) -> None:
    write(file)
    inode = file.stat().st_ino
    session = SessionManager.open(file)
    assert read(file) == [session.header]
    assert file.stat().st_ino == inode
    assert session.get_entries() == []
    assert session.warnings == []


def test_set_session_file_begins_a_session_too(tmp_path: Path, file: Path) -> None:
    session = SessionManager.create(tmp_path, tmp_path)
    session.set_session_file(file)
    assert read(file) == [session.header]
    assert session.session_file == str(file)


def test_a_session_in_memory_goes_on_in_a_file(tmp_path: Path, file: Path) -> None:
    with SessionManager.create(tmp_path, file.parent) as kept:
        kept.append_message(user("asked"))
        kept.append_message(assistant("answered"))
    session = SessionManager.in_memory(tmp_path)
    session.append_message(user("kept nowhere"))
    session.set_session_file(kept.session_file or "")
    assert session.is_persisted
    assert said(session) == ["asked", "answered"]
    session.append_message(user("kept"))
    with SessionManager.open(kept.session_file or "") as again:
        assert said(again) == ["asked", "answered", "kept"]
    following = session.new_session()
    assert following is not None
    session.append_message(assistant("in a file as well"))
    assert os.path.dirname(following) == str(file.parent)
    assert said(SessionManager.open(following)) == ["in a file as well"]


def test_a_session_in_memory_begins_a_file(tmp_path: Path, file: Path) -> None:
    session = SessionManager.in_memory(tmp_path)
    session.set_session_file(file)
    assert read(file) == [session.header]
    assert session.header["cwd"] == str(tmp_path)


def test_a_session_in_memory_refuses_a_file_that_is_no_session(tmp_path: Path) -> None:
    notes = write(tmp_path / "notes.md", b"# Notes\n")
    session = SessionManager.in_memory(tmp_path)
    session.append_message(user("kept nowhere"))
    with pytest.raises(NotASessionError):
        session.set_session_file(notes)
    assert notes.read_bytes() == b"# Notes\n"
    assert not session.is_persisted
    assert said(session) == ["kept nowhere"]


def test_a_session_in_a_storage_of_its_own_stays_in_it(tmp_path: Path, file: Path) -> None:
    storage = MemorySessionStorage()
    session = SessionManager.in_memory(tmp_path, storage=storage)
    session.set_session_file(file)
    session.append_message(user("in the storage"))
    assert said(SessionManager.open(file, storage=storage)) == ["in the storage"]
    assert not file.exists()


# -- recovered ----------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        TORN_HEADER,
        b"",
        b"\x00" * 512 + b"\n",
        b"garbage\n",
        b"null\n",
        dump({"type": "session"}) + b"\n",
        dump({"type": "session", "id": 7}) + b"\n",
        dump(header())[3:] + b"\n",
    ],
)
def test_a_damaged_header_costs_no_entry_and_no_byte(file: Path, head: bytes) -> None:
    damaged = head + lines(*TALK)
    write(file, damaged)
    with SessionManager.open(file) as session:
        (aside,) = asides(file)
        assert aside.read_bytes() == damaged
        assert said(session) == ["1", "2", "3", "4"]
        assert [found.id for found in session.get_entries()] == ["a1", "a2", "a3", "a4"]
        assert any(str(file) in str(w) and str(aside) in str(w) for w in session.warnings)
        session.append_message(user("5"))
    assert re.fullmatch(r"session\.jsonl\.corrupt-\d{4}-\d\d-\d\dT[\d-]+Z", aside.name)
    assert read(file)[0]["type"] == "session"
    with SessionManager.open(file) as again:
        assert said(again) == ["1", "2", "3", "4", "5"]
        assert again.warnings == []
    assert asides(file) == [aside]


def test_what_can_be_read_of_the_header_is_kept(file: Path) -> None:
    write(file, TORN_HEADER, *TALK)
    session = SessionManager.open(file)
    assert session.session_id == "1f9d2a6b9c0d1234"
    assert session.cwd == "/work/pi"


def test_the_file_name_tells_id_and_time_if_the_header_does_not(tmp_path: Path) -> None:
    file = write(tmp_path / "2026-02-16T10-20-30-000Z_abcdef0123456789.jsonl", b"junk\n", *TALK)
    session = SessionManager.open(file)
    assert session.session_id == "abcdef0123456789"
    assert session.header["timestamp"] == "2026-02-16T10:20:30.000Z"


def test_salvaged_entries_keep_their_bytes(file: Path) -> None:
    odd = b'{"type": "custom", "customType":"x", "data":{"n":1.0e2,"e":"\\u00e9"}, "id":"odd",'
    odd += b'"parentId":"a4","timestamp":"t"}\n'
    write(file, TORN_HEADER, *TALK, odd)
    SessionManager.open(file).close()
    assert file.read_bytes().endswith(lines(*TALK, odd))


def test_damage_among_the_entries_is_bridged_and_reported_too(file: Path) -> None:
    write(file, TORN_HEADER, TALK[0], dump(TALK[1])[:30] + b"\n", *TALK[2:])
    session = SessionManager.open(file)
    assert said(session) == ["1", "3", "4"]
    assert any(warning.line == 3 for warning in session.warnings)


def test_branches_survive_a_damaged_header(file: Path) -> None:
    write(file, TORN_HEADER, *TALK, message("b", "a1", user("other")))
    session = SessionManager.open(file)
    assert said(session) == ["1", "other"]
    session.branch("a4")
    assert said(session) == ["1", "2", "3", "4"]


def test_entries_of_version_one_are_salvaged_as_a_chain(file: Path) -> None:
    old = [{"type": "message", "timestamp": "t", "message": user(str(n))} for n in (1, 2, 3)]
    write(file, b"junk\n", *old)
    assert said(SessionManager.open(file)) == ["1", "2", "3"]


def test_a_title_slot_without_a_header_is_no_header(file: Path) -> None:
    write(file, slot("title"), *TALK)
    session = SessionManager.open(file)
    assert said(session) == ["1", "2", "3", "4"]
    assert asides(file)[0].read_bytes() == lines(slot("title"), *TALK)


def test_a_title_slot_before_a_damaged_header_still_names_the_session(file: Path) -> None:
    write(file, slot("Named"), TORN_HEADER, *TALK)
    session = SessionManager.open(file)
    assert session.session_name == "Named"
    assert [warning.line for warning in session.warnings] == [None, 2]


@pytest.mark.parametrize("torn", [0, 28, 40])
def test_what_an_entry_says_is_not_taken_for_the_header(tmp_path: Path, torn: int) -> None:
    arguments = {"cwd": "/etc/other", "title": "no title", "timestamp": "2001", "type": "session"}
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": arguments}
    talk = [*chain(user("1"), assistant(content=[call])), entry("custom", "s", "a2", **arguments)]
    talk[-1]["type"] = "custom"
    file = tmp_path / "2026-02-16T10-20-30-000Z_abcdef0123456789.jsonl"
    write(file, dump(header())[:torn] + b"\n" * (not torn), *talk)
    session = SessionManager.open(file)
    assert session.session_id == "abcdef0123456789"
    assert session.header["timestamp"] == "2026-02-16T10:20:30.000Z"
    assert session.cwd != "/etc/other"
    assert session.session_name is None
    assert [found.id for found in session.get_entries()] == ["a1", "a2", "s"]


def test_orphans_and_doubles_below_a_damaged_header_are_mended_as_everywhere(file: Path) -> None:
    """The lost parent was in the line before: its child hangs on the entry before that line."""
    torn = dump(TALK[2])[:40] + b"\n"
    side, double = message("b", "a1", user("side")), message("a4", "a1", user("double"))
    write(file, TORN_HEADER, *TALK[:2], torn, side, TALK[3], double)
    session = SessionManager.open(file)
    whole = SessionManager.open(
        write(file.with_name("whole.jsonl"), header(), *TALK[:2], torn, side, TALK[3], double)
    )
    parents = [found.parent_id for found in session.get_entries()]
    assert parents == [None, "a1", "a1", "a2", "a1"]
    assert parents == [found.parent_id for found in whole.get_entries()]
    told = {str(warning) for warning in session.warnings}
    assert {text for text in map(str, whole.warnings) if "line" not in text} <= told
    assert [found.parent_id for found in SessionManager.open(file).get_entries()] == parents


def test_a_damaged_header_of_version_one_is_still_counted(file: Path) -> None:
    old = [{"type": "message", "timestamp": "t", "message": user(str(n))} for n in (1, 2, 4)]
    cut = {"type": "compaction", "timestamp": "t", "summary": "S", "firstKeptEntryIndex": 2}
    write(file, b"{torn header\n", *old[:2], cut, old[2])
    messages = SessionManager.open(file).build_session_context().messages
    assert [found.get("summary") or found["content"] for found in messages] == ["S", "2", "4"]


def test_a_session_without_a_header_stays_in_its_project(home: Path, tmp_path: Path) -> None:
    """Not in the one that somebody happened to stand in when it was recovered."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    sessions = home / ".sessiontree/agent/sessions"
    folder = sessions / f"--{str(theirs)[1:].replace('/', '-')}--"
    names = [f"2026-02-16T10-20-3{n}-000Z_abcdef012345678{n}.jsonl" for n in range(3)]
    manager = SessionManager.create(ours)
    alone = write(folder / names[0], b"junk\n", *TALK)
    manager.set_session_file(alone)
    assert read(alone)[0]["cwd"] == ""
    write(folder / names[1], header(cwd=str(theirs)), *TALK)
    beside = write(folder / names[2], b"junk\n", *TALK)
    manager.set_session_file(beside)
    assert read(beside)[0]["cwd"] == str(theirs)
    assert len(SessionManager.list(theirs)) == 3
    assert SessionManager.list(ours) == []


def test_a_session_begun_in_a_named_file_has_that_name(tmp_path: Path) -> None:
    file = tmp_path / "2026-02-16T10-20-30-000Z_abcdef0123456789.jsonl"
    assert SessionManager.open(file).session_id == "abcdef0123456789"


@pytest.mark.parametrize("data", [b"\x00" * 9_000, b"\n \n", b"\xef\xbb\xbf", TORN_HEADER])
def test_where_nothing_can_be_salvaged_a_new_session_begins(file: Path, data: bytes) -> None:
    write(file, data)
    session = SessionManager.open(file)
    assert session.get_entries() == []
    (aside,) = asides(file)
    assert aside.read_bytes() == data
    assert read(file) == [session.header]
    assert str(file) in str(session.warnings[0])
    assert str(aside) in str(session.warnings[0])


@pytest.mark.parametrize("name", ["{}.jsonl", ".{}.jsonl.draft"])
@pytest.mark.parametrize("start", [b"{", b'{"' + bytes(300), b'{"type":"', b'{"type":"session"'])
def test_the_first_bytes_of_a_header_are_a_crash_where_sessions_lie(
    tmp_path: Path, name: str, start: bytes
) -> None:
    file = tmp_path / name.format("2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234")
    file.write_bytes(start)
    with SessionManager.open(file) as session:
        assert session.get_entries() == []
    (aside,) = tmp_path.glob("*.corrupt-*")
    assert aside.read_bytes() == start


def test_the_first_bytes_of_a_header_elsewhere_are_anybodys(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_bytes(b'{"')
    with pytest.raises(NotASessionError):
        SessionManager.open(file)
    assert file.read_bytes() == b'{"'


def test_a_file_damaged_twice_is_set_aside_twice(file: Path) -> None:
    contents = [lines(b"junk %d\n" % n, *TALK) for n in range(5)]
    for damaged in contents:
        write(file, damaged)
        SessionManager.open(file).close()
    assert sorted(aside.read_bytes() for aside in asides(file)) == sorted(contents)


def test_a_file_damaged_twice_in_a_moment_is_set_aside_twice(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_771_237_230 * 10**9)
    contents = [lines(b"junk %d\n" % n, *TALK) for n in range(3)]
    for damaged in contents:
        write(file, damaged)
        SessionManager.open(file).close()
    assert sorted(aside.read_bytes() for aside in asides(file)) == sorted(contents)


def test_of_two_that_recover_a_file_none_overwrites_the_other(file: Path) -> None:
    write(file, b"junk\n", *TALK)
    storage = FaultyStorage(FileSessionStorage())

    def open_too() -> None:
        with SessionManager.open(file) as other:
            other.append_message(user("theirs"))

    thread = threading.Thread(target=open_too)

    def let_the_other_try() -> None:
        thread.start()
        thread.join(0.5)

    storage.interrupt("write_atomic", let_the_other_try)
    session = SessionManager.open(file, storage=storage)
    thread.join()
    session.append_message(user("ours"))
    session.close()
    assert [found["message"]["content"] for found in read(file)[-2:]] == ["theirs", "ours"]
    assert len(asides(file)) == 1


def test_of_two_that_begin_a_file_none_overwrites_the_other(tmp_path: Path) -> None:
    file = tmp_path / "new.jsonl"
    storage = FaultyStorage(FileSessionStorage())

    def be_faster() -> None:
        with SessionManager.open(file) as other:
            other.append_message(user("theirs"))

    storage.interrupt("open_writer", be_faster, path_part="new.jsonl")
    with SessionManager.open(file, storage=storage) as session:
        session.append_message(user("ours"))
        session.set_session_name("Mine")
    assert [found["type"] for found in read(file)] == ["session", "message", "message"]
    assert [found["message"]["content"] for found in read(file)[1:]] == ["theirs", "ours"]
    assert read(file)[0]["id"] == session.session_id


def test_what_is_set_aside_is_private(file: Path) -> None:
    write(file, b"junk\n", *TALK)
    SessionManager.open(file)
    assert stat.S_IMODE(asides(file)[0].stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("operation", ["write_atomic", "rename", "open_reader"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_recovery_that_fails_loses_nothing(file: Path, operation: str, at: int) -> None:
    damaged = lines(TORN_HEADER, *TALK)
    write(file, damaged)
    storage = FaultyStorage(FileSessionStorage())
    storage.fail(operation, errno.ENOSPC, at=at)
    try:
        SessionManager.open(file, storage=storage)
    except PersistenceError as error:
        assert str(file) in str(error)  # noqa: PT017
    kept = [path.read_bytes() for path in file.parent.iterdir()]
    assert damaged in kept
    storage.heal()
    assert said(SessionManager.open(file, storage=storage)) == ["1", "2", "3", "4"]


def test_a_folder_that_forbids_recovery_keeps_its_file() -> None:
    folder = processes.make_open_folder()
    file = write(folder / "closed" / "x.jsonl", TORN_HEADER, *TALK)
    file.chmod(0o444)
    file.parent.chmod(0o555)
    code = """
import sys
try:
    SessionManager.open(sys.argv[1])
except PersistenceError as error:
    print(sys.argv[1] in str(error))
"""
    assert processes.run(code, file, unprivileged=True) == "True\n"
    assert file.read_bytes() == lines(TORN_HEADER, *TALK)
    assert os.listdir(file.parent) == ["x.jsonl"]
    shutil.rmtree(folder)


def test_a_draft_with_a_damaged_header_is_recovered_too(tmp_path: Path) -> None:
    draft = tmp_path / ".2026-02-16T10-20-30-000Z_abc.jsonl.draft"
    write(draft, b'{"type":"sess\n', message("a", None, user("a precious prompt")))
    session = SessionManager.open(draft)
    assert said(session) == ["a precious prompt"]


# -- refused ----------------------------------------


@pytest.mark.parametrize("name", ["README.md", "README", "data.json", "x.jsonl.bak", "a.JSONL.txt"])
@pytest.mark.parametrize("content", [b"# Title\n", b'{"type":"message"}\n', b"\x7fELF\x00", b"x"])
def test_another_kind_of_file_is_refused_untouched(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    os.utime(path, ns=(1_000, 1_000))
    session = SessionManager.in_memory()
    for open_it in (
        SessionManager.open,
        lambda path: SessionManager.fork_from(path, tmp_path),
        SessionManager.create(tmp_path, tmp_path / "s").set_session_file,
    ):
        with pytest.raises(NotASessionError) as caught:
            open_it(path)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == content
    assert path.stat().st_mtime_ns == 1_000
    assert os.listdir(tmp_path) == [name]
    assert session.get_entries() == []


def test_a_document_that_quotes_a_session_is_refused_untouched(tmp_path: Path) -> None:
    session = write(tmp_path / "session.jsonl", header(), *TALK)
    path = tmp_path / "session.json"
    path.write_bytes(b'{"header":' + session.read_bytes().replace(b"}\n{", b'},"entries":[\n{', 1))
    content = path.read_bytes()
    for open_it in (SessionManager.open, lambda path: SessionManager.fork_from(path, tmp_path)):
        with pytest.raises(NotASessionError, match="not modified"):
            open_it(path)
    assert path.read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == ["session.json", "session.jsonl"]


def test_a_refused_switch_leaves_the_session_as_it_was(tmp_path: Path, file: Path) -> None:
    write(file, header(), *TALK)
    (tmp_path / "README.md").write_text("# Title\n")
    session = SessionManager.open(file)
    session.branch("a2")
    with pytest.raises(NotASessionError):
        session.set_session_file(tmp_path / "README.md")
    assert (session.session_file, session.leaf_id) == (str(file), "a2")
    session.append_message(user("on"))
    assert said(session) == ["1", "2", "on"]


def test_a_session_under_any_name_is_opened(tmp_path: Path) -> None:
    path = write(tmp_path / "session.txt", header(), *TALK)
    assert said(SessionManager.open(path)) == ["1", "2", "3", "4"]


# -- skipped lines are never destroyed ----------------------------------------

BAD = [b"<<<<<<< HEAD\n", dump(TALK[1])[:-30] + b"\n", b"\xff\xfe\x00\x01\n"]


@pytest.mark.parametrize("rewrite", ["rewrite_entries", "name", "arguments", "move"])
def test_skipped_lines_are_copied_beside_the_session_before_a_rewrite(
    tmp_path: Path, rewrite: str
) -> None:
    from tests.samples import calling

    call = message("c", "a1", calling("call"))
    file = write(tmp_path / "s" / "x.jsonl", header(), TALK[0], BAD[0], BAD[1], call, BAD[2])
    with SessionManager.open(file, tmp_path / "s") as session:
        match rewrite:
            case "rewrite_entries":
                session.rewrite_entries()
            case "name":
                session.set_session_name("name")
            case "arguments":
                assert session.rewrite_tool_call_args("call", {"command": "pwd"})
            case "move":
                session.move_to(tmp_path / "elsewhere")
    rejected = Path(f"{session.session_file}.rejected")
    kept = rejected.read_bytes()
    for line in BAD:
        assert line.strip() in kept
        assert line.strip() not in Path(str(session.session_file)).read_bytes()
    assert stat.S_IMODE(rejected.stat().st_mode) == 0o600
    again = SessionManager.open(str(session.session_file))
    assert [found.id for found in again.get_entries()] == ["a1", "c"]


def test_lines_rejected_later_are_added(file: Path) -> None:
    write(file, header(), TALK[0], BAD[0])
    with SessionManager.open(file) as session:
        session.rewrite_entries()
    with file.open("ab") as out:
        out.write(BAD[2] + lines(TALK[1]))
    with SessionManager.open(file) as session:
        session.rewrite_entries()
        session.rewrite_entries()
    kept = Path(f"{file}.rejected").read_bytes()
    assert kept.count(BAD[0].strip()) == kept.count(BAD[2].strip()) == 1


def test_a_rewrite_whose_rejects_can_not_be_kept_does_not_happen(file: Path) -> None:
    data = lines(header(), TALK[0], BAD[0])
    write(file, data)
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    storage.fail("write_line", errno.ENOSPC, path_part=".rejected")
    storage.fail("write_atomic", errno.ENOSPC, path_part=".rejected")
    with pytest.raises(PersistenceError):
        session.rewrite_entries()
    assert file.read_bytes() == data


def test_a_migration_keeps_skipped_lines_too(file: Path) -> None:
    old = {"type": "message", "timestamp": "t", "message": user("1")}
    write(file, header(version=None), old, BAD[0], BAD[2])
    SessionManager.open(file).close()
    kept = Path(f"{file}.rejected").read_bytes()
    assert BAD[0].strip() in kept
    assert BAD[2].strip() in kept
    assert read(file)[0]["version"] == 3


def test_an_append_alone_rejects_nothing(file: Path) -> None:
    write(file, header(), TALK[0], BAD[0], entry("custom", "c", "a1", customType="x"))
    with SessionManager.open(file) as session:
        session.append_message(assistant("2"))
    assert BAD[0] in file.read_bytes()
    assert os.listdir(file.parent) == [file.name]
