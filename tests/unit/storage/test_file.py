"""The real file system: private, whole, linked and oddly named files, and what is refused."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import processes

from sessiontree import BlobStore
from sessiontree.storage.base import SessionStorageReader, SessionStorageWriter
from sessiontree.storage.file import FileSessionStorage


@pytest.fixture
def storage() -> FileSessionStorage:
    return FileSessionStorage()


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_close_that_failed_is_not_done_again(
    storage: FileSessionStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a closed file may belong to another one by then."""
    closed: list[int] = []

    def close(fd: int) -> None:
        closed.append(fd)
        really_close(fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    really_close = os.close
    monkeypatch.setattr(os, "close", close)
    held: list[SessionStorageWriter | SessionStorageReader] = [
        storage.open_writer(str(tmp_path / "x")),
        storage.open_reader(str(tmp_path / "x")),
    ]
    for each in held:
        with pytest.raises(OSError):
            each.close()
        each.close()
    assert len(closed) == len(set(closed)) == 2


# -- privacy ----------------------------------------


@pytest.mark.usefixtures("umask")
def test_everything_made_is_private(storage: FileSessionStorage, tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two" / "three"
    storage.ensure_dir(str(folder))
    storage.write_atomic(str(folder / "atomic"), b"1")
    writer = storage.open_writer(str(folder / "appended"))
    writer.close()
    assert [mode(folder), mode(folder.parent), mode(folder.parent.parent)] == [0o700] * 3
    assert [mode(folder / "atomic"), mode(folder / "appended")] == [0o600] * 2


def test_rights_that_were_given_are_kept(storage: FileSessionStorage, tmp_path: Path) -> None:
    file = tmp_path / "shared"
    file.write_bytes(b"1")
    file.chmod(0o640)
    tmp_path.chmod(0o750)
    storage.ensure_dir(str(tmp_path))
    storage.write_atomic(str(file), b"2")
    assert (mode(file), mode(tmp_path)) == (0o640, 0o750)


# -- whole files ----------------------------------------


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_failing_replacement_leaves_the_file_and_nothing_else(
    failing: str, storage: FileSessionStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "x"
    file.write_bytes(b"whole")
    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        with pytest.raises(OSError, match="No space"):
            storage.write_atomic(str(file), [b"half", b"more"])
    assert file.read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["x"]


def test_a_replacement_is_synced_before_it_takes_the_name_and_the_folder_after(
    storage: FileSessionStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(fd: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def note_replace(source: str, target: str) -> None:
        order.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    storage.write_atomic(str(tmp_path / "x"), b"1")
    assert order == ["file", "rename", "folder"]


def test_a_new_file_is_synced_with_its_folder(
    storage: FileSessionStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[bool] = []
    fsync = os.fsync

    def note(fd: int) -> None:
        kinds.append(stat.S_ISDIR(os.fstat(fd).st_mode))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", note)
    writer = storage.open_writer(str(tmp_path / "x"))
    writer.write_line(b"1\n")
    writer.fsync()
    assert kinds == [False, True]
    writer.fsync()
    assert kinds == [False, True, False]
    writer.close()


def test_temporary_files_of_the_dead_are_swept_and_those_of_the_living_are_not(
    storage: FileSessionStorage, tmp_path: Path
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / f".x.jsonl.{dead.pid}-00000000.tmp").write_bytes(b"old")
    alive = tmp_path / f".x.jsonl.{os.getpid()}-00000000.tmp"
    other = tmp_path / f".y.jsonl.{dead.pid}-00000000.tmp"
    foreign = tmp_path / ".x.jsonl.snowflake.tmp"
    for file in (alive, other, foreign):
        file.write_bytes(b"keep")
    storage.write_atomic(str(tmp_path / "x.jsonl"), b"1")
    assert sorted(os.listdir(tmp_path)) == sorted([alive.name, other.name, foreign.name, "x.jsonl"])


def test_a_process_killed_while_replacing_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"whole\n")
    process = processes.start(
        """
import sys, time
from sessiontree import BlobStore, FileSessionStorage
def pieces():
    yield b"half"
    print("writing", flush=True)
    time.sleep(60)
FileSessionStorage().write_atomic(sys.argv[1], pieces())
""",
        file,
    )
    processes.wait_for(process, "writing")
    process.kill()
    process.communicate()
    assert file.read_bytes() == b"whole\n"
    assert len(os.listdir(tmp_path)) == 2
    FileSessionStorage().write_atomic(str(file), b"next\n")
    assert os.listdir(tmp_path) == ["x.jsonl"]


# -- short writes ----------------------------------------

SHORT = """
import os, resource, sys
from sessiontree import FileSessionStorage
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
writer = FileSessionStorage().open_writer(sys.argv[1])
try:
    writer.write_line(b"y" * 30 + b"\\n")
except OSError as error:
    print("failed", str(writer.get_error()) == str(error), os.path.getsize(sys.argv[1]))
"""


def test_a_line_that_does_not_fit_is_taken_back_whole(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    file = tmp_path / "x"
    file.write_bytes(b"x" * 79 + b"\n")
    assert processes.run(SHORT, file) == "failed True 80\n"
    assert file.read_bytes() == b"x" * 79 + b"\n"


# -- links, names, kinds ----------------------------------------


def test_a_link_to_a_session_is_followed_and_kept(
    storage: FileSessionStorage, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "x.jsonl", tmp_path / "link.jsonl"
    target.write_bytes(b"1\n")
    link.symlink_to(target)
    writer = storage.open_writer(str(link))
    writer.write_line(b"2\n")
    assert writer.lock() == 4
    writer.unlock()
    writer.close()
    storage.write_atomic(str(link), b"3\n")
    assert link.is_symlink()
    assert target.read_bytes() == b"3\n"
    assert os.listdir(tmp_path / "real") == ["x.jsonl"]


@pytest.mark.parametrize(
    ("name", "target"),
    [("link.jsonl", "x.txt"), ("link.jsonl", "x"), ("link", "x.jsonl"), ("link", "gone")],
)
def test_any_other_link_is_not_written_through(
    storage: FileSessionStorage, tmp_path: Path, name: str, target: str
) -> None:
    """Appending is refused; a replacement takes the place of the link, and is private."""
    (tmp_path / "real").mkdir()
    there, link = tmp_path / "real" / target, tmp_path / name
    if target != "gone":
        there.write_bytes(b"1\n")
        there.chmod(0o644)
    link.symlink_to(there)
    with pytest.raises(OSError, match="link"):
        storage.open_writer(str(link))
    storage.write_atomic(str(link), b"3\n")
    assert not link.is_symlink()
    assert (link.read_bytes(), stat.S_IMODE(link.stat().st_mode)) == (b"3\n", 0o600)
    assert not there.exists() if target == "gone" else there.read_bytes() == b"1\n"


def test_links_that_lead_nowhere_are_refused(storage: FileSessionStorage, tmp_path: Path) -> None:
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="link"):
        storage.open_writer(str(loop))
    with pytest.raises(OSError, match="symbolic link"):
        storage.open_reader(str(loop))


def test_a_device_is_not_replaced(
    storage: FileSessionStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root could otherwise lose ``/dev/null`` to the name of an output file."""
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    storage.write_atomic(str(link), b"x")
    assert link.read_bytes() == b"x"

    def refuse(*paths: str) -> None:
        """Should it be tried after all, the machine that tests must not lose its device."""
        pytest.fail(f"tried to replace: {paths}")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="not a regular file"):
        storage.write_atomic("/dev/null", b"x")


def test_names_need_not_be_utf8(storage: FileSessionStorage, tmp_path: Path) -> None:
    folder = os.path.join(str(tmp_path), os.fsdecode(b"caf\xe9"))
    path = os.path.join(folder, os.fsdecode(b"\xff\xfe.jsonl"))
    storage.ensure_dir(folder)
    storage.write_atomic(path, b"1\n")
    writer = storage.open_writer(path)
    writer.write_line(b"2\n")
    writer.close()
    assert storage.read(path) == b"1\n2\n"
    assert [file.path for file in storage.list_files(folder, ".jsonl")] == [path]
    assert os.listdir(os.fsencode(folder)) == [b"\xff\xfe.jsonl"]


def test_only_regular_files_are_listed(storage: FileSessionStorage, tmp_path: Path) -> None:
    (tmp_path / "file.jsonl").write_bytes(b"1")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "file.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(tmp_path / "socket.jsonl"))
        except OSError:
            (tmp_path / "socket.jsonl").symlink_to("nowhere")  # the path is too long for a socket
        names = {os.path.basename(file.path) for file in storage.list_files(str(tmp_path))}
    assert names == {"file.jsonl", "link.jsonl"}


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    code = """
import sys
import time
from sessiontree import FileSessionStorage
for open_it in (FileSessionStorage().open_reader, FileSessionStorage().open_writer):
    try:
        open_it(sys.argv[1])
    except OSError:
        print("refused")
"""
    assert processes.run(code, tmp_path / "pipe", timeout_s=5) == "refused\nrefused\n"


def test_a_refused_file_costs_no_descriptor(storage: FileSessionStorage, tmp_path: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(OSError):
            storage.open_reader(str(tmp_path))
        with pytest.raises(OSError):
            storage.open_writer(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_file_moves_to_another_file_system(
    storage: FileSessionStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rename across devices fails with EXDEV; what follows must be complete."""
    replace = os.replace

    def refuse(source: str, target: str) -> None:
        if ".tmp" not in str(source):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    (tmp_path / "x").write_bytes(b"1")
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "y").write_bytes(b"2")
    storage.rename(str(tmp_path / "x"), str(tmp_path / "z"))
    storage.rename(str(tmp_path / "folder"), str(tmp_path / "moved"))
    assert sorted(os.listdir(tmp_path)) == ["moved", "z"]
    assert (tmp_path / "moved" / "sub" / "y").read_bytes() == b"2"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_moves_to_another_file_system_is_private_on_its_way(
    storage: FileSessionStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    source = tmp_path / "x"
    seen: list[int] = []
    if kind == "folder":
        source.mkdir(0o750)
    (source if kind == "file" else source / "y").write_bytes(b"1")
    (source if kind == "file" else source / "y").chmod(0o640)
    give_rights, replace = shutil.copystat, os.replace

    def refuse(source: str, target: str) -> None:
        if ".tmp" not in str(source):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(source, target)

    def watch(*args: Any, **options: Any) -> None:
        seen.extend(mode(path) for path in tmp_path.glob(".*.tmp"))
        give_rights(*args, **options)

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(shutil, "copystat", watch)
    before = os.umask(0)
    try:
        storage.rename(source, tmp_path / "z")
    finally:
        os.umask(before)
    assert set(seen) == {0o600 if kind == "file" else 0o700}
    assert mode(tmp_path / "z") == (0o640 if kind == "file" else 0o750)


def test_what_a_killed_move_left_is_swept_by_the_next_write(
    storage: FileSessionStorage, tmp_path: Path
) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"1\n")
    code = """
import errno, os, sys
from sessiontree import FileSessionStorage

def refuse_or_die(source, target):
    if source.endswith(".tmp"):
        os._exit(9)
    raise OSError(errno.EXDEV, "Invalid cross-device link")

os.replace = refuse_or_die
FileSessionStorage().rename(sys.argv[1] + "/x.jsonl", sys.argv[1] + "/z.jsonl")
"""
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 9
    assert len(os.listdir(tmp_path)) == 2
    assert (tmp_path / "x.jsonl").read_bytes() == b"1\n"
    storage.write_atomic(str(tmp_path / "z.jsonl"), b"2\n")
    assert sorted(os.listdir(tmp_path)) == ["x.jsonl", "z.jsonl"]


# -- rights ----------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    folder = processes.make_open_folder()
    yield folder
    shutil.rmtree(folder)


def test_what_the_system_forbids_is_its_own_error(open_folder: Path) -> None:
    (open_folder / "file").write_bytes(b"1")
    (open_folder / "file").chmod(0o444)
    (open_folder / "folder").mkdir(mode=0o555)
    (open_folder / "secret").write_bytes(b"1")
    (open_folder / "secret").chmod(0o000)
    code = """
import sys
import time
from sessiontree import FileSessionStorage
storage, root = FileSessionStorage(), sys.argv[1]
for work in (
    lambda: storage.open_writer(root + "/file"),
    lambda: storage.write_atomic(root + "/folder/x", b"1"),
    lambda: storage.ensure_dir(root + "/folder/sub"),
    lambda: storage.open_writer(root + "/folder/x"),
    lambda: storage.read(root + "/secret"),
    lambda: storage.open_reader(root + "/secret"),
):
    try:
        work()
        print("done")
    except PermissionError:
        print("forbidden")
"""
    assert processes.run(code, open_folder, unprivileged=True) == "forbidden\n" * 6


def test_a_folder_that_may_not_be_read_lists_nothing_or_says_so(open_folder: Path) -> None:
    (open_folder / "closed").mkdir(mode=0o000)
    code = """
import sys
import time
from sessiontree import FileSessionStorage
try:
    print(FileSessionStorage().list_files(sys.argv[1]))
except PermissionError:
    print("forbidden")
"""
    said = processes.run(code, open_folder / "closed", unprivileged=True)
    assert said in ("[]\n", "forbidden\n")


def test_a_new_blob_does_not_cost_a_look_at_all_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "sessiontree.storage.file.sweep_temp_files", lambda *names: looks.append(names)
    )
    blobs = BlobStore(tmp_path, FileSessionStorage())
    for number in range(50):
        blobs.put(b"%d" % number)
    assert looks == []
    FileSessionStorage().write_atomic(tmp_path / "session.jsonl", b"x")
    assert looks == [(str(tmp_path), "session.jsonl")]


@pytest.mark.parametrize("has_second_name", [False, True])
@pytest.mark.parametrize("how", ["replaced", "removed", "linked"])
def test_a_lock_taken_at_once_again_sees_that_the_file_was_changed_for_another(
    storage: FileSessionStorage, tmp_path: Path, how: str, has_second_name: bool
) -> None:
    """Within a moment of the last look the name itself is not looked at."""
    path, other = tmp_path / "x", tmp_path / "y"
    path.write_bytes(b"one\n")
    if has_second_name:
        os.link(path, tmp_path / "backup")
    with contextlib.closing(storage.open_writer(str(path))) as writer:
        for _ in range(3):
            assert writer.lock() == path.stat().st_size
            writer.write_line(b"line\n")
            writer.unlock()
        if how == "replaced":
            other.write_bytes(b"another\n")
            os.replace(other, path)
        elif how == "removed":
            path.unlink()
        else:
            path.unlink()
            path.symlink_to(other)
        assert writer.lock() is None
        writer.unlock()


def test_a_hidden_file_that_got_its_name_is_seen_at_once(
    storage: FileSessionStorage, tmp_path: Path
) -> None:
    draft = tmp_path / ".x.draft"
    with contextlib.closing(storage.open_writer(str(draft))) as writer:
        assert writer.lock() == 0
        writer.unlock()
        draft.rename(tmp_path / "x")
        assert writer.lock() is None
        writer.unlock()


def test_a_file_that_was_renamed_is_seen_after_a_moment(
    storage: FileSessionStorage, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    with contextlib.closing(storage.open_writer(str(path))) as writer:
        assert writer.lock() == 0
        writer.unlock()
        path.rename(tmp_path / "y")
        time.sleep(0.02)
        assert writer.lock() is None
        writer.unlock()
