"""A folder full of traps: nothing hangs, nothing fails, nothing good is hidden."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.processes import make_open_folder, run
from tests.samples import dump, header, message, user, write
from tests.unit.discovery.places import put, talk

from sessiontree import (
    SessionManager,
    find_most_recent_session,
    get_recent_sessions,
    resolve_session,
    search,
)
from sessiontree.discovery import paths
from sessiontree.discovery.drafts import find_drafts
from sessiontree.discovery.listing import list_sessions
from sessiontree.discovery.resume import choose_recent
from sessiontree.profiles import get_profile
from sessiontree.stores.files.relinking import relink

CWD = "/code/pi"


@pytest.fixture
def folder(home: Path) -> Iterator[Path]:
    """One good session among everything that a folder can hold. Short paths, for the socket."""
    place = Path(paths.session_folders(get_profile(), CWD)[0])
    short = Path(tempfile.mkdtemp(prefix="st-"))
    place.parent.mkdir(parents=True)
    place.symlink_to(short)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(short / "s.jsonl"))
    os.mkfifo(short / "fifo.jsonl")
    os.mkfifo(short / ".fifo.jsonl.draft")
    (short / "loop.jsonl").symlink_to("loop.jsonl")
    (short / "gone.jsonl").symlink_to("nowhere")
    (short / "zero.jsonl").symlink_to("/dev/zero")
    (short / "folder.jsonl").mkdir()
    (short / "self").symlink_to(".")
    (short / "empty.jsonl").touch()
    (short / "null.jsonl").write_bytes(b"\x00" * 100_000)
    (short / "binary.jsonl").write_bytes(os.urandom(50_000))
    (short / "deep.jsonl").write_bytes(b"[" * 200_000)
    (short / "line.jsonl").write_bytes(b"x" * 3_000_000)
    (short / "keys.jsonl").write_bytes(b'{"type":"session","id":{}}\n{"type":["message"]}\n')
    put(short, *talk("a needle", "found"), session_id="good", cwd=CWD, mtime=1_790_000_000)
    odd = "new\nline \x1b[31mred\x1b[0m \u202e;rm -rf '$HOME'.jsonl"
    write(short / odd, header(id="odd\x1b[31m", cwd=CWD, title="\x1b]0;evil\x07"), *talk("needle"))
    os.utime(short / odd, (1_789_000_000, 1_789_000_000))
    os.rename(
        put(short, *talk("needle"), session_id="bytes", cwd=CWD, mtime=1_788_000_000),
        os.fsencode(short) + b"/\xff\xfe.jsonl",
    )
    yield place
    listener.close()
    shutil.rmtree(short)


def test_listing_tells_what_it_could_not_show(folder: Path) -> None:
    found = list_sessions(CWD)
    assert [info.id for info in found] == ["good", "odd\x1b[31m", "bytes"]
    assert all(info.status in ("complete", "interrupted") for info in found)
    names = {os.path.basename(item.path) for item in found.unreadable}
    assert names == {"binary.jsonl", "deep.jsonl", "line.jsonl", "keys.jsonl", "null.jsonl"}
    assert found.empty_count == 1
    assert [info.id for info in SessionManager.list_all()] == [info.id for info in found]
    assert found == SessionManager.list(CWD)


def test_the_other_ways_to_find_a_session_work_too(folder: Path) -> None:
    assert choose_recent(CWD) == str(folder / "2026-02-16T10-20-30-000Z_good.jsonl")
    assert find_most_recent_session(folder) == choose_recent(CWD)
    names = [found.name for found in get_recent_sessions(folder, 9)]
    assert names[0] == "a needle"
    assert all("\x1b" not in name and "\n" not in name for name in names)
    assert resolve_session("good", CWD).is_local
    assert resolve_session("odd", CWD).id == "odd\x1b[31m"
    assert {hit.session.id for hit in search("needle")} == {"good", "odd\x1b[31m", "bytes"}
    assert {hit.session.id for hit in search("needle")} == {"good", "odd\x1b[31m", "bytes"}
    assert find_drafts(CWD) == []


def test_relinking_takes_only_sessions_along(folder: Path, tmp_path: Path) -> None:
    report = relink(CWD, tmp_path / "new", dry_run=False)
    assert len(report.sessions) == 3
    assert len(SessionManager.list(tmp_path / "new")) == 3
    assert SessionManager.list(CWD) == []


UNPRIVILEGED = """
import json, sys
from sessiontree import *
from sessiontree.discovery.search import search
found = SessionManager.list("/code/pi", sys.argv[1])
locked = SessionManager.list("/code/pi", sys.argv[1] + "/locked")
print(json.dumps({
    "ids": [info.id for info in found],
    "unreadable": [(item.path.rsplit("/", 1)[1], item.reason) for item in found.unreadable],
    "locked": [item.reason for item in locked.unreadable],
    "recent": [info.id for info in get_recent_sessions(sys.argv[1])],
    "chosen": (SessionManager.continue_recent("/code/pi", sys.argv[1]).session_id),
}))
"""


def test_files_and_folders_that_may_not_be_read_are_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import json

    folder = make_open_folder()
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(folder / "agent"))
    try:
        good = put(folder, *talk("x"), session_id="good", cwd=CWD, mtime=1_790_000_000)
        good.chmod(0o666)
        secret = put(folder, *talk("x"), name="secret.jsonl", cwd=CWD, mtime=1_790_000_001)
        secret.chmod(0)
        (folder / "locked").mkdir(mode=0)
        found = json.loads(run(UNPRIVILEGED, folder, unprivileged=True))
    finally:
        shutil.rmtree(folder)
    assert found == {
        "ids": ["good"],
        "unreadable": [["secret.jsonl", "Permission denied"]],
        "locked": ["Permission denied"],
        "recent": ["good"],
        "chosen": "good",
    }


def test_a_file_that_shrinks_while_it_is_read_is_survived(home: Path, tmp_path: Path) -> None:
    from sessiontree.storage.base import SessionStorageReader, StrPath
    from sessiontree.storage.file import FileSessionStorage

    file = put(tmp_path, *talk(*["x" * 400_000] * 4))

    class Storage(FileSessionStorage):
        def open_reader(self, path: StrPath) -> SessionStorageReader:
            reader = super().open_reader(path)
            stat = reader.stat()
            reader.stat = lambda: stat  # type: ignore[method-assign]
            os.truncate(path, 900_000)
            return reader

    (info,) = SessionManager.list(CWD, tmp_path, storage=Storage())
    assert info.status == "damaged"
    assert SessionManager.list(CWD, tmp_path)[0].size == file.stat().st_size == 900_000


def test_a_tool_result_of_many_megabytes_is_counted_without_being_held(
    home: Path, tmp_path: Path
) -> None:
    big = message(
        "a0000002",
        "a0000001",
        {
            "role": "toolResult",
            "toolCallId": "t1",
            "toolName": "bash",
            "content": [{"type": "text", "text": "y" * 120_000_000}],
            "isError": False,
            "timestamp": 1_771_237_230_000,
        },
    )
    put(
        tmp_path,
        message("a0000001", None, user("x")),
        dump(big) + b"\n",
        *talk("q", "a", start="b"),
    )
    code = """
import sys
from pathlib import Path
from sessiontree import SessionManager
(info,) = SessionManager.list("/x", sys.argv[1])
peak_kb = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
print(info.message_count, info.status, info.all_messages_text, peak_kb < 100_000)
"""
    assert run(code, tmp_path).split() == ["4", "complete", "x", "q", "a", "True"]
