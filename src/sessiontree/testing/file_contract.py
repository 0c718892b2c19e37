"""The storage contract for whole files: folders, what is there, reading, replacing."""

from __future__ import annotations

from collections.abc import Iterator

from sessiontree.storage.base import FileRange, Piece, SessionStorage
from sessiontree.testing.contract_steps import EVERY_BYTE, PathObject, fill, raises


class FileContract:
    """Folders and files as wholes."""

    # -- folders ---------------------------------------------------------------------------

    def test_a_folder_is_made_with_its_parents(self, storage: SessionStorage, root: str) -> None:
        storage.ensure_dir(f"{root}/a/b/c")
        assert storage.exists(f"{root}/a/b/c")
        assert storage.exists(f"{root}/a")

    def test_ensuring_a_folder_twice_is_fine(self, storage: SessionStorage, root: str) -> None:
        fill(storage, f"{root}/a", x=b"1")
        storage.ensure_dir(f"{root}/a")
        assert storage.read(f"{root}/a/x") == b"1"

    def test_a_folder_can_not_take_the_place_of_a_file(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, x=b"1")
        with raises(OSError):
            storage.ensure_dir(f"{root}/x")
        assert storage.read(f"{root}/x") == b"1"

    def test_syncing_a_folder_that_is_there_is_fine(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, x=b"1")
        storage.sync_dir(root)
        assert storage.read(f"{root}/x") == b"1"

    def test_a_folder_is_removed_with_all_that_is_in_it(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, f"{root}/a/b", x=b"1")
        fill(storage, f"{root}/ab", y=b"2")
        storage.remove_dir(f"{root}/a")
        assert not storage.exists(f"{root}/a/b/x")
        assert not storage.exists(f"{root}/a")
        assert storage.read(f"{root}/ab/y") == b"2"

    def test_removing_a_folder_that_is_not_there_is_fine(
        self, storage: SessionStorage, root: str
    ) -> None:
        storage.remove_dir(f"{root}/nowhere")

    # -- what is there ---------------------------------------------------------------------

    def test_nothing_exists_before_it_is_made(self, storage: SessionStorage, root: str) -> None:
        storage.ensure_dir(root)
        assert not storage.exists(f"{root}/x")
        with raises(FileNotFoundError):
            storage.stat(f"{root}/x")
        with raises(FileNotFoundError):
            storage.read(f"{root}/x")
        with raises(FileNotFoundError):
            storage.open_reader(f"{root}/x")

    def test_a_stat_tells_path_size_and_identity(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"12345", y=b"")
        first, other = storage.stat(f"{root}/x"), storage.stat(f"{root}/y")
        assert (first.path, first.size, other.size) == (f"{root}/x", 5, 0)
        assert first.is_same_file(storage.stat(f"{root}/x"))
        assert not first.is_same_file(other)

    def test_a_folder_is_not_a_file(self, storage: SessionStorage, root: str) -> None:
        storage.ensure_dir(f"{root}/a")
        with raises(IsADirectoryError):
            storage.stat(f"{root}/a")
        with raises(OSError):
            storage.open_reader(f"{root}/a")
        with raises(OSError):
            storage.write_atomic(f"{root}/a", b"1")
        with raises(IsADirectoryError):
            storage.open_writer(f"{root}/a", create=False)

    def test_files_are_listed_right_in_their_folder(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, **{"a.jsonl": b"1", "b.jsonl": b"22", "c.txt": b"3", ".h.jsonl": b"4"})
        fill(storage, f"{root}/sub.jsonl", **{"d.jsonl": b"5"})
        listed = {file.path: file.size for file in storage.list_files(root, ".jsonl")}
        assert listed == {f"{root}/a.jsonl": 1, f"{root}/b.jsonl": 2, f"{root}/.h.jsonl": 1}
        assert len(storage.list_files(root)) == 4

    def test_names_of_files_and_folders_are_listed(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, **{"a.jsonl": b"1", "c.txt": b"3"})
        storage.ensure_dir(f"{root}/sub.jsonl")
        assert sorted(storage.list_names(root, ".jsonl")) == ["a.jsonl", "sub.jsonl"]
        assert len(storage.list_names(root)) == 3

    def test_folders_are_listed_right_in_their_folder(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, f"{root}/a/b", x=b"1")
        fill(storage, f"{root}/c", y=b"1")
        fill(storage, root, z=b"1")
        assert sorted(storage.list_dirs(root)) == [f"{root}/a", f"{root}/c"]

    def test_a_missing_folder_lists_nothing(self, storage: SessionStorage, root: str) -> None:
        assert storage.list_files(f"{root}/nowhere") == []
        assert storage.list_names(f"{root}/nowhere") == []
        assert storage.list_dirs(f"{root}/nowhere") == []

    # -- reading ---------------------------------------------------------------------------

    def test_every_byte_comes_back(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=EVERY_BYTE)
        assert storage.read(f"{root}/x") == EVERY_BYTE

    def test_beginning_and_end_can_be_read_alone(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"0123456789")
        path = f"{root}/x"
        assert (storage.read_prefix(path, 3), storage.read_suffix(path, 3)) == (b"012", b"789")
        assert storage.read_prefix(path, 99) == storage.read_suffix(path, 99) == b"0123456789"
        assert storage.read_prefix(path, 0) == storage.read_suffix(path, 0) == b""

    def test_a_reader_gives_any_range(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"0123456789")
        reader = storage.open_reader(f"{root}/x")
        assert reader.read_at(2, 3) == b"234"
        assert reader.read_at(8, 99) == b"89"
        assert reader.read_at(10, 1) == b""
        assert reader.stat().size == 10
        reader.close()

    def test_a_reader_keeps_its_file_when_the_name_goes(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, x=b"old", y=b"gone")
        replaced, removed = storage.open_reader(f"{root}/x"), storage.open_reader(f"{root}/y")
        storage.write_atomic(f"{root}/x", b"new")
        storage.unlink(f"{root}/y")
        assert replaced.read_at(0, 9) == b"old"
        assert removed.read_at(0, 9) == b"gone"
        assert not replaced.stat().is_same_file(storage.stat(f"{root}/x"))
        replaced.close()
        removed.close()

    def test_a_reader_sees_what_is_appended(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"1\n")
        reader, writer = storage.open_reader(f"{root}/x"), storage.open_writer(f"{root}/x")
        writer.write_line(b"2\n")
        assert reader.read_at(0, 9) == b"1\n2\n"
        reader.close()
        writer.close()

    def test_a_closed_reader_reads_nothing_more(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"1\n")
        reader = storage.open_reader(f"{root}/x")
        reader.close()
        with raises(OSError):
            reader.read_at(0, 1)
        with raises(OSError):
            reader.stat()
        reader.close()

    # -- paths -----------------------------------------------------------------------------

    def test_every_path_may_be_an_object(self, storage: SessionStorage, root: str) -> None:
        folder, file = PathObject(f"{root}/a"), PathObject(f"{root}/a/x")
        storage.ensure_dir(folder)
        storage.write_atomic(file, b"12345")
        storage.sync_dir(folder)
        assert storage.exists(folder)
        assert storage.exists(file)
        assert storage.list_names(folder) == ["x"]
        assert storage.read(file) == b"12345"
        assert (storage.read_prefix(file, 2), storage.read_suffix(file, 2)) == (b"12", b"45")
        storage.touch(file, 1_700_000_000_000_000_000)
        assert storage.stat(file).mtime_ns == 1_700_000_000_000_000_000
        storage.rename(file, PathObject(f"{root}/a/y"))
        storage.rename(folder, PathObject(f"{root}/b"))
        assert storage.read(f"{root}/b/y") == b"12345"
        storage.unlink(PathObject(f"{root}/b/y"))
        assert storage.list_names(f"{root}/b") == []
        storage.remove_dir(PathObject(f"{root}/b"))
        assert not storage.exists(f"{root}/b")

    def test_a_path_that_is_given_back_is_a_string(
        self, storage: SessionStorage, root: str
    ) -> None:
        folder, file = PathObject(f"{root}/a"), PathObject(f"{root}/a/x")
        storage.ensure_dir(folder)
        written = storage.write_atomic(file, b"1")
        reader = storage.open_reader(file)
        listed = storage.list_files(folder)
        for found in (written, storage.stat(file), reader.stat(), *listed):
            assert found.path == f"{root}/a/x"
        assert len(listed) == 1
        assert storage.list_dirs(PathObject(root)) == [f"{root}/a"]
        reader.close()

    # -- replacing -------------------------------------------------------------------------

    def test_a_file_is_replaced_as_a_whole(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"a long first content")
        before = storage.stat(f"{root}/x")
        written = storage.write_atomic(f"{root}/x", iter([b"sec", b"", b"ond"]))
        assert storage.read(f"{root}/x") == b"second"
        assert (written.path, written.size) == (f"{root}/x", 6)
        assert written.is_same_file(storage.stat(f"{root}/x"))
        assert not before.is_same_file(storage.stat(f"{root}/x"))
        storage.write_atomic(f"{root}/x", b"third", durable=False)
        assert storage.read(f"{root}/x") == b"third"
        storage.write_atomic(f"{root}/x", b"fourth", private=True)
        assert storage.read(f"{root}/x") == b"fourth"
        assert storage.list_names(root) == ["x"]

    def test_pieces_of_an_open_file_can_be_copied(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"0123456789")
        reader = storage.open_reader(f"{root}/x")
        pieces: list[Piece] = [b"<", FileRange(reader, 2, 3), b"|", FileRange(reader, 8, 2), b">"]
        storage.write_atomic(f"{root}/y", pieces)
        assert storage.read(f"{root}/y") == b"<234|89>"
        storage.write_atomic(f"{root}/x", [FileRange(reader, 5, 5)])
        assert storage.read(f"{root}/x") == b"56789"
        reader.close()

    def test_a_file_whose_new_content_fails_is_as_it_was(
        self, storage: SessionStorage, root: str
    ) -> None:
        def content() -> Iterator[bytes]:
            yield b"half"
            raise RuntimeError("no more")

        fill(storage, root, x=b"whole")
        with raises(RuntimeError):
            storage.write_atomic(f"{root}/x", content())
        assert storage.read(f"{root}/x") == b"whole"
        assert storage.list_names(root) == ["x"]

    def test_writing_into_a_missing_folder_fails(self, storage: SessionStorage, root: str) -> None:
        storage.ensure_dir(root)
        with raises(FileNotFoundError):
            storage.write_atomic(f"{root}/nowhere/x", b"1")
        with raises(FileNotFoundError):
            storage.open_writer(f"{root}/nowhere/x")
        assert not storage.exists(f"{root}/nowhere")

    def test_a_file_is_renamed_over_another(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"1", y=b"2")
        before = storage.stat(f"{root}/x")
        storage.rename(f"{root}/x", f"{root}/y")
        assert storage.read(f"{root}/y") == b"1"
        assert storage.stat(f"{root}/y").is_same_file(before)
        assert storage.list_names(root) == ["y"]

    def test_a_folder_is_renamed_with_all_that_is_in_it(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, f"{root}/a/b", x=b"1")
        fill(storage, f"{root}/ab", y=b"2")
        storage.rename(f"{root}/a", f"{root}/c", durable=False)
        assert storage.read(f"{root}/c/b/x") == b"1"
        assert storage.read(f"{root}/ab/y") == b"2"
        assert not storage.exists(f"{root}/a")

    def test_nothing_is_renamed_from_or_to_nowhere(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, y=b"2")
        with raises(FileNotFoundError):
            storage.rename(f"{root}/x", f"{root}/y")
        with raises(FileNotFoundError):
            storage.rename(f"{root}/y", f"{root}/nowhere/y")
        assert storage.read(f"{root}/y") == b"2"
        assert not storage.exists(f"{root}/nowhere")

    def test_a_file_is_removed_at_most_once(self, storage: SessionStorage, root: str) -> None:
        fill(storage, root, x=b"1")
        storage.unlink(f"{root}/x")
        storage.unlink(f"{root}/x")
        assert not storage.exists(f"{root}/x")

    def test_a_touched_file_keeps_its_bytes_and_counts_as_changed(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, x=b"1")
        before = storage.stat(f"{root}/x")
        storage.touch(f"{root}/x")
        assert storage.read(f"{root}/x") == b"1"
        assert storage.stat(f"{root}/x").mtime_ns >= before.mtime_ns
        with raises(FileNotFoundError):
            storage.touch(f"{root}/y")

    def test_a_file_can_be_given_the_time_it_counts_as_changed_at(
        self, storage: SessionStorage, root: str
    ) -> None:
        fill(storage, root, x=b"1")
        then_ns = 1_700_000_000_123_000_000
        storage.touch(f"{root}/x", then_ns)
        assert storage.stat(f"{root}/x").mtime_ns == then_ns
        assert [file.mtime_ns for file in storage.list_files(root)] == [then_ns]
        with raises(FileNotFoundError):
            storage.touch(f"{root}/y", then_ns)
