"""Reaching the disk: deferral, whole lines, durability, and blobs before lines."""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import os
import re
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import processes
from tests.samples import (
    ONE_TURN,
    assistant,
    header,
    message,
    read,
    said,
    user,
    write,
)

from sessiontree import FileSessionStorage, MemorySessionStorage, SessionManager
from sessiontree.testing import FaultyStorage

LONG = "y" * 600_000
PICTURE = base64.b64encode(b"picture" * 500).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage(FileSessionStorage())


@pytest.fixture(autouse=True)
def narrow_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


# -- new sessions ----------------------------------------


@pytest.mark.parametrize("value", ["hello", None, [{"type": "text", "text": "hello"}]])
def test_what_is_no_message_is_refused_at_once_and_not_passed_over_later(value: Any) -> None:
    session = SessionManager.in_memory()
    with pytest.raises(TypeError, match=r"A message is a dictionary, not (str|NoneType|list)"):
        session.append_message(value)
    assert session.get_entries() == []


def test_a_new_session_has_a_file_name_of_time_and_id(tmp_path: Path, home: Path) -> None:
    session = SessionManager.create("/work/some:where")
    file = Path(str(session.session_file))
    stamp = re.sub(r"[:.]", "-", session.header["timestamp"])
    assert file.name == f"{stamp}_{session.session_id}.jsonl"
    assert file.parent == home / ".sessiontree/agent/sessions/--work-some-where--"
    assert re.fullmatch("[0-9a-f]{16}", session.session_id)
    assert session.cwd == "/work/some:where"


def test_pi_sessions_have_uuids_and_lie_in_pis_folder(home: Path) -> None:
    import uuid

    session = SessionManager.create("/work", profile="pi")
    assert uuid.UUID(session.session_id).version == 7
    assert Path(str(session.session_file)).parent == home / ".pi/agent/sessions/--work--"


def test_sessions_made_at_once_are_different_sessions(folder: Path) -> None:
    sessions = [SessionManager.create("/work", folder) for _ in range(3_000)]
    assert len({session.session_id for session in sessions}) == 3_000
    assert len({session.session_file for session in sessions}) == 3_000


def test_nothing_is_made_before_something_is_said(folder: Path, home: Path) -> None:
    with SessionManager.create("/work", folder) as session:
        session.flush()
        assert session.session_file is not None
        assert session.leaf_id is None
    assert not folder.exists()
    assert os.listdir(home) == []


def test_the_session_file_comes_with_the_first_answer(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    file = Path(str(session.session_file))
    session.append_model_change("a/b")
    session.append_message(user("question"))
    assert not file.exists()
    session.append_message(assistant("answer"))
    assert [record["type"] for record in read(file)] == [
        *["session", "model_change", "message", "message"]
    ]
    assert read(file)[0] == session.header
    session.append_message(user("more"))
    assert len(read(file)) == 5


def test_an_answer_may_come_first(folder: Path) -> None:
    session = SessionManager.create("/work", folder)
    session.append_message(assistant("hello"))
    assert len(read(str(session.session_file))) == 2


def test_an_answer_given_before_keeps_a_session_written_at_once(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header())
    session = SessionManager.open(file)
    session.append_message(user("question"))
    assert len(read(file)) == 2


def test_everything_made_is_private(tmp_path: Path, home: Path) -> None:
    session = SessionManager.create(tmp_path)
    session.append_message(user("question"))
    session.append_message(assistant("answer", content=[{"type": "text", "text": LONG}]))
    session.set_session_name("name")
    session.append_message(user("more"))
    made = [path for path in home.rglob("*") if not path.is_symlink()]
    assert len(made) > 5
    for path in made:
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_in_memory_nothing_is_kept(home: Path) -> None:
    with SessionManager.in_memory() as session:
        session.append_message(user("1"))
        session.append_message(assistant("2"))
        session.branch_with_summary(None, "B")
        session.set_session_name("name")
        session.flush()
        assert said(session) == ["B"]
        assert session.session_name == "name"
        assert not session.is_persisted
        assert session.session_file is None
        assert session.fork() is None
    assert os.listdir(home) == []


# -- lines ----------------------------------------


def test_an_entry_is_one_write_of_one_whole_line(tmp_path: Path, storage: FaultyStorage) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    session = SessionManager.open(file, storage=storage)
    session.append_message(user("first"))
    storage.trace.clear()
    size = file.stat().st_size
    for number in range(10):
        session.append_message(user(f"é\n\u2028{number}"))
        assert storage.calls["write_line"] == number + 1
    assert set(storage.calls) <= {"write_line", "lock", "read_at"}
    added = file.read_bytes()[size:]
    assert added.count(b"\n") == 10
    assert [json.loads(line)["message"]["content"][:2] for line in added.splitlines()] == [
        "é\n"
    ] * 10


def test_what_was_appended_is_in_memory_and_in_the_file_when_append_returns(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    session = SessionManager.open(file)
    made = session.append_message(user("now"))
    assert read(file)[-1]["id"] == made
    found = session.get_entry(made)
    assert found is not None
    assert found.data == read(file)[-1]


def test_what_json_can_not_say_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    session = SessionManager.open(file)
    before = file.read_bytes()
    with pytest.raises(TypeError):
        session.append_custom_entry("x", object())
    with pytest.raises(TypeError):
        SessionManager.in_memory().append_custom_entry("x", object())
    assert file.read_bytes() == before
    assert session.leaf_id == "a2"
    session.append_message(user("on"))
    assert len(read(file)) == 4


KILL = """
import os, sys
from sessiontree import SessionManager
session = SessionManager.open(sys.argv[1])
for number in range(5):
    session.append_message({"role": "user", "content": str(number), "timestamp": 1})
print("done", flush=True)
sys.stdin.read()
"""


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    process = processes.start(KILL, file)
    processes.wait_for(process, "done")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert said(SessionManager.open(file)) == ["1", "2", "0", "1", "2", "3", "4"]


def test_a_process_killed_at_any_moment_leaves_only_whole_acknowledged_lines(
    tmp_path: Path,
) -> None:
    code = """
import sys
from sessiontree import SessionManager
session = SessionManager.open(sys.argv[1])
number = 0
while True:
    session.append_message({"role": "user", "content": str(number) * 50_000, "timestamp": 1})
    print(number, flush=True)
    number += 1
"""
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    process = processes.start(code, file)
    processes.wait_for(process, "20")
    process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    rest = process.stdout.read().splitlines(keepends=True)
    process.communicate()
    acknowledged = max([20, *(int(line) for line in rest if line.endswith("\n"))])
    session = SessionManager.open(file)
    assert len(session.get_branch()) - 2 > acknowledged
    assert all(set(text) == {text[0]} for text in said(session)[2:] if len(text) == 50_000)
    session.append_message(user("on"))
    assert said(SessionManager.open(file))[-1] == "on"


# -- durability ----------------------------------------


def test_by_default_appends_are_not_synced_and_a_flush_is(
    tmp_path: Path, storage: FaultyStorage
) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    session = SessionManager.open(file, storage=storage)
    for _ in range(5):
        session.append_message(user("x"))
    assert storage.calls["fsync"] == 0
    session.flush()
    assert storage.calls["fsync"] == 1


def test_entry_durability_syncs_every_append_after_its_write(
    tmp_path: Path, storage: FaultyStorage
) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    session = SessionManager.open(file, storage=storage, durability="entry")
    for _ in range(5):
        session.append_message(user("x"))
    written = [name for name, _ in storage.trace if name in ("write_line", "fsync")]
    assert written == ["write_line", "fsync"] * 5


def test_a_misspelt_durability_is_refused_before_anything_is_done(folder: Path) -> None:
    torn = write(folder / "session.jsonl", header(), *ONE_TURN)
    torn.write_bytes(b'{"type":"sess\n' + torn.read_bytes())
    before = torn.read_bytes()
    wrong: Any = "always"
    makers: list[Callable[[], SessionManager]] = [
        lambda: SessionManager.create("/work", folder, durability=wrong),
        lambda: SessionManager.open(torn, durability=wrong),
        lambda: SessionManager.continue_recent("/work", folder, durability=wrong),
        lambda: SessionManager.fork_from(torn, "/work", folder, durability=wrong),
    ]
    for make in makers:
        with pytest.raises(ValueError, match="'flush' or 'entry', not 'always'"):
            make()
    assert torn.read_bytes() == before
    assert os.listdir(folder) == ["session.jsonl"]


@pytest.mark.parametrize("durability", ["entry", "flush"])
def test_a_new_file_is_synced_with_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, durability: Any
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def note(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    session = SessionManager.create("/work", folder, durability=durability)
    session.append_message(user("question"))
    session.append_message(assistant("answer"))
    if durability == "flush":
        assert not {path for path in synced if path.startswith(str(folder))}
        session.flush()
    assert {session.session_file, str(folder)} <= set(synced)
    assert any(path.endswith(".draft") for path in synced) is (durability == "entry")


def test_a_close_after_an_append_syncs(tmp_path: Path, storage: FaultyStorage) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    with SessionManager.open(file, storage=storage) as session:
        session.append_message(user("x"))
    assert storage.calls["fsync"] == 1


# -- trimming on the way ----------------------------------------


def test_blobs_are_stored_before_the_line_that_names_them(
    tmp_path: Path, storage: FaultyStorage
) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    session = SessionManager.open(file, storage=storage)
    image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    session.append_message(user([image, {"type": "text", "text": LONG}]))
    writes = [
        "blob" if "/blobs/" in path else name
        for name, path in storage.trace
        if name in ("write_atomic", "write_line") and not path.endswith("session-dirs")
    ]
    assert writes == ["blob", "blob", "write_line"]


def test_memory_keeps_the_full_value_and_loading_gives_it_back(tmp_path: Path, home: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    content = user([image, {"type": "text", "text": LONG, "partialJson": "{"}])
    with SessionManager.open(file) as session:
        made = session.append_message(content)
        assert session.build_session_context().messages[-1] == content
    line = read(file)[-1]
    digest = hashlib.sha256(base64.b64decode(PICTURE)).hexdigest()
    assert line["message"]["content"][0]["data"] == f"blob:sha256:{digest}"
    assert len(line["message"]["content"][1]["text"]) == 500_000
    assert list(line["spilled"]) == ["/message/content/1/text"]
    blobs = home / ".sessiontree/agent/blobs"
    assert sorted(os.listdir(blobs)) == sorted([digest, hashlib.sha256(LONG.encode()).hexdigest()])
    del content["content"][1]["partialJson"]
    again = SessionManager.open(file)
    assert again.build_session_context().messages[-1] == content
    found = again.get_entry(made)
    assert found is not None
    assert "spilled" not in found.data
    assert again.warnings == []


def test_a_rewrite_keeps_what_is_externalised(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    with SessionManager.open(file) as session:
        session.append_message(user([{"type": "text", "text": LONG}]))
        before = file.read_bytes()
        session.build_session_context()
        session.rewrite_entries()
    with SessionManager.open(file) as session:
        session.build_session_context()
        session.rewrite_entries()
    assert file.read_bytes() == before
    assert said(SessionManager.open(file))[-1] == LONG


@pytest.mark.parametrize("damage", ["missing", "wrong", "empty"])
def test_a_missing_or_wrong_blob_is_reported_and_the_rest_is_there(
    tmp_path: Path, home: Path, damage: str
) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    with SessionManager.open(file) as session:
        session.append_message(user([image, {"type": "text", "text": LONG}]))
    for blob in (home / ".sessiontree/agent/blobs").iterdir():
        if damage == "missing":
            blob.unlink()
        else:
            blob.write_bytes(b"" if damage == "empty" else b"something else")
    before = file.read_bytes()
    session = SessionManager.open(file)
    shown = session.build_session_context().messages[-1]["content"]
    assert shown[0]["data"].startswith("blob:sha256:")
    assert shown[1]["text"].endswith("[Session persistence truncated large content]")
    told = " ".join(map(str, session.warnings))
    assert told.count("blob:sha256:") == 2
    session.build_session_context()
    assert len(session.warnings) == 2
    session.rewrite_entries()
    assert file.read_bytes() == before


def test_pi_sessions_stay_whole(tmp_path: Path, home: Path) -> None:
    session = SessionManager.create(tmp_path, profile="pi")
    image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    content = assistant("x", content=[image, {"type": "text", "text": LONG, "partialJson": "x"}])
    session.append_message(content)
    del content["content"][1]["partialJson"]
    assert read(str(session.session_file))[1]["message"] == content
    assert not (home / ".pi/agent/blobs").exists()


def test_the_same_session_in_memory_and_in_files(folder: Path) -> None:
    memory = MemorySessionStorage()
    made = []
    for storage in (memory, FileSessionStorage()):
        session = SessionManager.create("/work", folder, storage=storage)
        session.append_message(user("1"))
        first = session.append_message(assistant("2"))
        session.append_message(user([{"type": "text", "text": LONG}]))
        session.branch(first)
        session.append_label_change(first, "label")
        session.set_session_name("name")
        session.close()
        data = storage.read(str(session.session_file))
        records = [json.loads(line) for line in data.splitlines()]
        names = {record["id"]: str(at) for at, record in enumerate(records)}
        for record in records:
            for key in ("id", "parentId", "targetId"):
                record[key] = names.get(record.get(key, ""))
            record.pop("timestamp")
        made.append(records)
    assert made[0] == made[1]


# -- after closing ----------------------------------------


def test_what_is_in_memory_can_be_read_after_a_close(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    session = SessionManager.open(file)
    session.close()
    assert said(session) == ["1", "2"]
    assert session.get_entries()[0].data == ONE_TURN[0]


def test_a_session_leaves_no_descriptor_open(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    gc.collect()
    gc.disable()
    try:
        before = os.listdir("/proc/self/fd")
        for _ in range(5):
            with SessionManager.open(file) as session:
                session.append_message(user("x"))
                session.rewrite_entries()
            del session
        assert len(os.listdir("/proc/self/fd")) == len(before)
    finally:
        gc.enable()


def test_the_next_session_is_another_one(tmp_path: Path) -> None:
    session = SessionManager.create("/work", tmp_path)
    first = session.session_id
    session.append_message(assistant("1"))
    old = session.session_file
    new = session.new_session(parent_session="parent")
    assert new == session.session_file != old
    assert session.session_id != first
    assert session.header["parentSession"] == "parent"
    assert session.get_entries() == []
    session.append_message(assistant("2"))
    assert len(read(str(old))) == len(read(str(new))) == 2


@pytest.mark.parametrize("odd", ["../../evil", "a/b\\c", "x\x00y\n", "." * 20])
def test_an_id_can_not_lead_out_of_the_folder(tmp_path: Path, odd: str) -> None:
    session = SessionManager.create("/work", tmp_path / "s")
    session.new_session(id=odd)
    session.append_message(assistant("x"))
    assert session.session_id == odd
    assert Path(str(session.session_file)).parent == tmp_path / "s"
    assert len(os.listdir(tmp_path / "s")) == 1
    assert os.listdir(tmp_path) == ["s"]
    assert SessionManager.open(str(session.session_file)).session_id == odd


def test_messages_are_kept_as_they_were_given(tmp_path: Path) -> None:
    file = write(tmp_path / "x.jsonl", header(), *ONE_TURN)
    odd = {"role": "user", "content": "x", "lone": "\ud83d", "big": 2**90, "n": 1e400, "e": ""}
    session = SessionManager.open(file)
    session.append_message(odd)
    session.close()
    found = SessionManager.open(file).build_session_context().messages[-1]
    assert found == {**odd, "n": None}


def test_a_path_may_be_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "x.jsonl", header(), message("a", None, assistant("1")))
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "x.jsonl", str(tmp_path / "x.jsonl"), "x.jsonl", Path("x.jsonl")):
        assert SessionManager.open(path).session_file == str(tmp_path / "x.jsonl")


# -- breadcrumbs ----------------------------------------


@pytest.fixture
def crumb(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMUX_PANE", "%7")
    return home / ".sessiontree/agent/terminal-sessions/tmux-%7"


def test_the_terminal_remembers_where_it_works(crumb: Path, tmp_path: Path) -> None:
    session = SessionManager.create("/work/one")
    assert crumb.read_text() == f"/work/one\n{session.session_file}\n"
    session.append_message(assistant("1"))
    other = write(tmp_path / "other.jsonl", header(cwd="/work/two"), *ONE_TURN)
    session.set_session_file(other)
    assert crumb.read_text() == f"/work/two\n{other}\n"
    session.new_session()
    assert crumb.read_text() == f"/work/two\n{session.session_file}\n"


def test_a_moved_session_is_remembered_where_it_is(crumb: Path) -> None:
    session = SessionManager.create("/work/one")
    session.append_message(assistant("1"))
    session.move_to("/work/two")
    assert crumb.read_text() == f"/work/two\n{session.session_file}\n"
    assert SessionManager.continue_recent("/work/two").session_id == session.session_id


def test_a_terminal_that_can_not_remember_stops_nobody(home: Path, crumb: Path) -> None:
    crumb.parent.parent.mkdir(parents=True)
    crumb.parent.write_text("a file where the folder should be")
    session = SessionManager.create("/work/one")
    session.append_message(assistant("1"))
    assert len(read(str(session.session_file))) == 2


def test_a_session_that_is_kept_nowhere_is_not_remembered(crumb: Path) -> None:
    SessionManager.in_memory("/work/one").append_message(assistant("1"))
    SessionManager.create("/work", storage=MemorySessionStorage()).append_message(assistant("1"))
    assert not crumb.exists()
