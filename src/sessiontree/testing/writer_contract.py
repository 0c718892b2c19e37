"""The storage contract for writers: lines appended, and locks."""

from __future__ import annotations

import threading

from sessiontree.storage.base import SessionStorage
from sessiontree.testing.contract_steps import EVERY_BYTE, PathObject, fill, raises


class WriterContract:
    """Files that grow by lines, from one writer or several."""

    # -- appending -------------------------------------------------------------------------

    def test_a_writer_makes_its_file_only_if_it_may(
        self, storage: SessionStorage, root: str
    ) -> None:
        storage.ensure_dir(root)
        with raises(FileNotFoundError):
            storage.open_writer(f"{root}/x", create=False)
        assert not storage.exists(f"{root}/x")
        storage.open_writer(f"{root}/x").close()
        assert storage.read(f"{root}/x") == b""
        storage.open_writer(f"{root}/x", create=False).close()

    def test_lines_are_appended_and_seen_at_once(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"0\n")
        one, two = storage.open_writer(f"{root}/x"), storage.open_writer(f"{root}/x")
        offsets = [one.write_line(b"1\n"), two.write_line(b"22\n"), one.write_line(b"3\n")]
        assert offsets == [2, 4, 7]
        assert storage.read(f"{root}/x") == b"0\n1\n22\n3\n"
        assert one.stat().size == two.stat().size == 9
        assert one.get_error() is None
        one.close()
        two.close()

    def test_a_long_line_lands_whole(self, storage: SessionStorage, root: str) -> None:
        storage.ensure_dir(root)
        line = EVERY_BYTE * (1 << 14) + b"\n"
        writer = storage.open_writer(f"{root}/x")
        writer.write_line(line)
        writer.close()
        assert storage.read(f"{root}/x") == line

    def test_flushing_and_syncing_change_no_byte(self, storage: SessionStorage, root: str) -> None:
        storage.ensure_dir(root)
        writer = storage.open_writer(f"{root}/x")
        writer.write_line(b"1\n")
        writer.flush()
        writer.fsync()
        writer.close()
        writer.close()
        assert storage.read(f"{root}/x") == b"1\n"

    def test_bytes_are_overwritten_in_place(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"title\nrest\n")
        before = storage.stat(f"{root}/x")
        writer = storage.open_writer(f"{root}/x")
        writer.overwrite(0, b"TITLE")
        assert storage.read(f"{root}/x") == b"TITLE\nrest\n"
        assert storage.stat(f"{root}/x").is_same_file(before)
        assert writer.write_line(b"more\n") == 11
        writer.close()

    def test_a_file_can_be_cut_and_goes_on_from_there(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, x=b"1\n2\nhalf")
        writer = storage.open_writer(f"{root}/x")
        writer.truncate(4)
        assert writer.write_line(b"3\n") == 4
        writer.close()
        assert storage.read(f"{root}/x") == b"1\n2\n3\n"

    def test_a_closed_writer_writes_nothing_more(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"1\n")
        writer = storage.open_writer(f"{root}/x")
        writer.close()
        with raises(OSError):
            writer.write_line(b"2\n")
        assert isinstance(writer.get_error(), OSError)
        with raises(OSError):
            writer.overwrite(0, b"2")
        with raises(OSError):
            writer.truncate(0)
        with raises(OSError):
            writer.fsync()
        with raises(OSError):
            writer.stat()
        writer.flush()
        writer.close()
        assert storage.read(f"{root}/x") == b"1\n"

    # -- locks -----------------------------------------------------------------------------

    def test_a_lock_tells_whether_the_name_still_stands_for_the_file(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, x=b"1\n")
        writer = storage.open_writer(f"{root}/x")
        assert writer.lock() == 2
        assert writer.owns(storage.stat(f"{root}/x"))
        assert isinstance(writer.has_locks, bool)
        writer.unlock()
        storage.write_atomic(f"{root}/x", b"other\n")
        assert writer.lock() is None
        assert not writer.owns(storage.stat(f"{root}/x"))
        writer.unlock()
        storage.unlink(f"{root}/x")
        assert writer.lock() is None
        writer.unlock()
        writer.close()

    def test_a_writer_goes_on_with_its_file_under_another_name(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, x=b"1\n")
        writer = storage.open_writer(f"{root}/x")
        storage.rename(f"{root}/x", f"{root}/y")
        assert writer.lock() is None
        writer.unlock()
        writer.note_rename(f"{root}/y")
        assert writer.lock() == 2
        assert writer.stat().path == f"{root}/y"
        writer.write_line(b"2\n")
        writer.overwrite(0, b"0")
        writer.fsync()
        writer.unlock()
        writer.close()
        assert storage.read(f"{root}/y") == b"0\n2\n"
        assert not storage.exists(f"{root}/x")

    def test_the_path_of_a_writer_may_be_an_object(
        self, storage: SessionStorage, root: str
    ) -> None:
        storage.ensure_dir(root)
        writer = storage.open_writer(PathObject(f"{root}/x"))
        writer.write_line(b"1\n")
        assert writer.lock() == 2
        assert writer.stat().path == f"{root}/x"
        storage.rename(f"{root}/x", f"{root}/y")
        writer.note_rename(PathObject(f"{root}/y"))
        assert writer.lock() == 2
        assert writer.stat().path == f"{root}/y"
        writer.close()

    def test_a_lock_may_be_nested(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"")
        writer = storage.open_writer(f"{root}/x")
        writer.lock()
        writer.lock()
        writer.unlock()
        assert not _can_lock(storage, f"{root}/x", wait_s=0.1)
        writer.unlock()
        assert _can_lock(storage, f"{root}/x")
        writer.close()

    def test_closing_a_writer_lets_its_lock_go(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"")
        writer = storage.open_writer(f"{root}/x")
        writer.lock()
        writer.close()
        assert _can_lock(storage, f"{root}/x")

    def test_a_closed_writer_locks_nothing_more(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"")
        writer = storage.open_writer(f"{root}/x")
        writer.lock()
        writer.close()
        with raises(OSError):
            writer.lock()
        writer.unlock()
        with raises(OSError):
            writer.lock()
        assert _can_lock(storage, f"{root}/x")

    def test_writers_at_once_lose_and_tear_nothing(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, x=b"")

        def append(name: int) -> None:
            writer = storage.open_writer(f"{root}/x")
            for number in range(50):
                writer.lock()
                size = writer.stat().size
                assert writer.write_line(b"%d %d\n" % (name, number)) == size
                writer.unlock()
            writer.close()

        threads = [threading.Thread(target=append, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = storage.read(f"{root}/x").splitlines()
        assert sorted(lines) == sorted(b"%d %d" % (a, b) for a in range(4) for b in range(50))


def _can_lock(storage: SessionStorage, path: str, wait_s: float = 5) -> bool:
    """Whether a writer of its own, in another thread, gets the lock in time."""
    got = threading.Event()

    def try_it() -> None:
        writer = storage.open_writer(path)
        writer.lock()
        got.set()
        writer.unlock()
        writer.close()

    threading.Thread(target=try_it, daemon=True).start()
    return got.wait(wait_s)
