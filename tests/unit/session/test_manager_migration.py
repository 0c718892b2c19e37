"""Older files: migrated on load and rewritten at once; who only looks writes nothing."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.samples import TIME, assistant, header, lines, message, read, said, user, write

from sessiontree import (
    FileSessionStorage,
    PersistenceError,
    SessionManager,
    load_entries_from_file,
)
from sessiontree.stores.files.reader import load_document
from sessiontree.testing import FaultyStorage

Wire = dict[str, Any]


def old(content: Wire) -> Wire:
    return {"type": "message", "timestamp": TIME, "message": content}


VERSION_ONE = lines(
    header(version=None),
    old(user("1")),
    old(assistant("2")),
    old(user("3")),
    {
        "type": "compaction",
        "timestamp": TIME,
        "summary": "S",
        "firstKeptEntryIndex": 3,
        "tokensBefore": 9,
    },
    old({"role": "hookMessage", "customType": "h", "content": "4", "display": True}),
)
ODD = b'{"type": "custom", "customType":"x", "data":{"n":1.0e2,"e":"\\u00e9"}, "id":"c",'
ODD += b'"parentId":"b","timestamp":"t"}\n'
VERSION_TWO = lines(
    header(version=2, extra={"kept": 1}),
    message("a", None, user("1")),
    message("b", "a", {"role": "hookMessage", "customType": "h", "content": "2", "display": True}),
    ODD,
    message("d", "c", assistant("3")),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def test_version_one_is_rewritten_at_once_as_version_three(file: Path) -> None:
    file.write_bytes(VERSION_ONE)
    session = SessionManager.open(file)
    head, *entries = read(file)
    assert head == header(version=3)
    assert all(re.fullmatch("[0-9a-f]{8}", record["id"]) for record in entries)
    assert [record["parentId"] for record in entries] == [
        None,
        *(record["id"] for record in entries[:-1]),
    ]
    assert entries[3]["firstKeptEntryId"] == entries[2]["id"]
    assert "firstKeptEntryIndex" not in entries[3]
    assert entries[4]["message"]["role"] == "custom"
    assert said(session) == ["S", "3", "4"]
    assert session.header["version"] == 3


def test_a_migrated_session_goes_on(file: Path) -> None:
    file.write_bytes(VERSION_ONE)
    with SessionManager.open(file) as session:
        session.append_message(user("5"))
    with SessionManager.open(file) as again:
        assert said(again) == ["S", "3", "4", "5"]
        assert again.warnings == []
    assert os.listdir(file.parent) == ["session.jsonl"]


def test_a_second_opening_migrates_nothing(file: Path) -> None:
    file.write_bytes(VERSION_ONE)
    SessionManager.open(file).close()
    before, time_ns = file.read_bytes(), file.stat().st_mtime_ns
    SessionManager.open(file).close()
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, time_ns)


def test_a_current_version_spelled_another_way_is_not_migrated(file: Path) -> None:
    whole = write(file, header(), message("a", None, user("1")), message("b", "a", assistant("2")))
    before = whole.read_bytes().replace(b'"version":3', b'"version":3.0')
    file.write_bytes(before)
    with SessionManager.open(file) as session:
        assert said(session) == ["1", "2"]
        assert session.warnings == []
    assert file.read_bytes() == before


def test_version_two_changes_only_what_it_must(file: Path) -> None:
    file.write_bytes(VERSION_TWO)
    SessionManager.open(file).close()
    assert file.read_bytes() == VERSION_TWO.replace(b'"version":2', b'"version":3').replace(
        b"hookMessage", b"custom"
    )


def test_numbers_that_python_cannot_hold_survive_a_migration(file: Path) -> None:
    odd = b'"data":{"a":1e400,"b":' + b"7" * 4_200 + b',"c":1.0}'
    hook = b'"message":{"role": "hookMessage","content":"x","n":1e400}'
    custom = b'{"type":"custom","customType":"n","timestamp":"t",' + odd + b"}\n"
    write(file, header(version=None), custom, b'{"type":"message",' + hook + b"}\n")
    SessionManager.open(file).close()
    written = file.read_bytes()
    assert odd in written
    assert b'"message":{"role":"custom","content":"x","n":1e400}' in written
    assert read(file)[2]["parentId"] == read(file)[1]["id"]


def test_a_header_without_a_change_keeps_its_other_fields(file: Path) -> None:
    file.write_bytes(VERSION_TWO)
    assert SessionManager.open(file).header == {**header(), "extra": {"kept": 1}}


def test_the_rewrite_is_atomic(file: Path) -> None:
    file.write_bytes(VERSION_ONE)
    storage = FaultyStorage(FileSessionStorage())
    inode = file.stat().st_ino
    SessionManager.open(file, storage=storage)
    assert storage.calls["write_atomic"] == 1
    assert storage.calls["write_line"] == storage.calls["truncate"] == 0
    assert file.stat().st_ino != inode


def test_a_rewrite_that_fails_is_told_and_leaves_the_file(file: Path) -> None:
    file.write_bytes(VERSION_ONE)
    storage = FaultyStorage(FileSessionStorage())
    storage.fail("write_atomic", errno.ENOSPC)
    with pytest.raises(PersistenceError, match=r"session\.jsonl.*space"):
        SessionManager.open(file, storage=storage)
    assert file.read_bytes() == VERSION_ONE


def test_those_who_only_look_migrate_in_memory_and_write_nothing(file: Path) -> None:
    file.write_bytes(VERSION_ONE)
    storage = FaultyStorage(FileSessionStorage())
    document = load_document(storage, str(file))
    assert document is not None
    looked = [(found.id, found.parent_id) for found in document.tree.entries]
    assert document.tree.path(document.tree.leaf_id)[0].parent_id is None
    assert len(document.tree.path(document.tree.leaf_id)) == 5
    assert load_entries_from_file(file)[0] == header(version=None)
    assert file.read_bytes() == VERSION_ONE
    opened = SessionManager.open(file)
    assert [(found.id, found.parent_id) for found in opened.get_entries()] == looked


def test_listing_writes_nothing(tmp_path: Path, file: Path) -> None:
    file.write_bytes(VERSION_ONE)
    (info,) = SessionManager.list("/work/pi", tmp_path)
    assert info.message_count == 4
    assert info.first_message == "1"
    assert file.read_bytes() == VERSION_ONE


def test_a_fork_of_version_one_is_migrated_and_the_source_is_not(tmp_path: Path) -> None:
    source = tmp_path / "source" / "old.jsonl"
    source.parent.mkdir()
    source.write_bytes(VERSION_ONE)
    forked = SessionManager.fork_from(source, tmp_path, tmp_path / "target")
    assert said(forked) == ["S", "3", "4"]
    assert len(forked.get_branch()) == 5
    assert read(str(forked.session_file))[0]["version"] == 3
    assert source.read_bytes() == VERSION_ONE


def test_branches_of_version_two_stay(file: Path) -> None:
    write(
        file,
        header(version=2),
        message("a", None, user("1")),
        message("b", "a", assistant("2")),
        message("c", "a", user("3")),
    )
    session = SessionManager.open(file)
    assert said(session) == ["1", "3"]
    assert [found.id for found in session.get_children("a")] == ["b", "c"]


def test_damage_in_an_old_file_is_bridged(file: Path) -> None:
    file.write_bytes(VERSION_TWO.replace(lines(message("a", None, user("1"))), b"garbage\n"))
    session = SessionManager.open(file)
    assert said(session) == ["2", "3"]
    assert any(warning.line == 2 for warning in session.warnings)
    assert Path(f"{file}.rejected").read_bytes() == b"garbage\n"


def test_a_compaction_in_a_damaged_version_one_file_keeps_the_right_entries(file: Path) -> None:
    """The index counts every line that once was, also one that can not be read any more."""
    damaged = VERSION_ONE.replace(lines(old(user("1"))), b"garbage\n")
    file.write_bytes(damaged)
    assert said(SessionManager.open(file)) == ["S", "3", "4"]


def test_a_title_slot_survives_a_migration(file: Path) -> None:
    from tests.samples import slot

    file.write_bytes(slot("title") + VERSION_TWO)
    session = SessionManager.open(file)
    assert session.session_name == "title"
    assert file.read_bytes().startswith(slot("title"))


def test_externalised_images_survive_a_migration(file: Path, home: Path) -> None:
    import base64
    import hashlib

    raw = b"picture" * 500
    digest = hashlib.sha256(raw).hexdigest()
    blobs = home / ".sessiontree" / "agent" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / digest).write_bytes(raw)
    block = {"type": "image", "data": f"blob:sha256:{digest}", "mimeType": "image/png"}
    write(file, header(version=None), old(user([block])), old(assistant("x")))
    session = SessionManager.open(file)
    (shown,) = session.build_session_context().messages[0]["content"]
    assert shown["data"] == base64.b64encode(raw).decode()
    assert read(file)[1]["message"]["content"][0]["data"] == f"blob:sha256:{digest}"


@pytest.mark.parametrize("odd", ["1", 0, -1, True, [], {}, None])
def test_a_version_that_is_none_is_tolerated(file: Path, odd: object) -> None:
    write(file, {**header(), "version": odd}, message("a", None), message("b", "a"))
    session = SessionManager.open(file)
    assert said(session) == ["a", "b"]
    session.append_message(assistant("c"))
    session.close()
    assert said(SessionManager.open(file)) == ["a", "b", "c"]


def test_entries_of_every_type_are_chained(file: Path) -> None:
    write(file, header(version=None), old(user("1")), {"type": "custom", "customType": "x"})
    session = SessionManager.open(file)
    assert [found.type for found in session.get_branch()] == ["message", "custom"]


def test_an_entry_without_a_parent_in_a_version_two_file_is_hung_on_the_one_before_it(
    file: Path,
) -> None:
    orphan = message("b", "a", {"role": "hookMessage", "customType": "h", "content": "2"})
    del orphan["parentId"]
    write(file, header(version=2), message("a", None, user("1")), orphan)
    with SessionManager.open(file) as session:
        assert [entry.parent_id for entry in session.get_entries()] == [None, "a"]
        assert [str(warning) for warning in session.warnings] == [
            "line 3: has no parentId; hung on the entry before it"
        ]
    with SessionManager.open(file) as again:
        assert [entry.parent_id for entry in again.get_entries()] == [None, "a"]
        assert again.warnings == []
