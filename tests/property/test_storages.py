"""Files and memory are one storage: the same operations, the same answers, the same errors."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sessiontree import FileSessionStorage, MemorySessionStorage
from sessiontree.storage.base import SessionStorage, SessionStorageReader, SessionStorageWriter

NAMES = st.sampled_from(["a", "b", "c/d", "c/e", "c", "f/g/h"])
FOLDERS = st.sampled_from(["", "c", "f", "f/g", "a"])
DATA = st.binary(max_size=12)
LINES = st.binary(max_size=8).map(lambda raw: raw.replace(b"\n", b"") + b"\n")
SUFFIXES = st.sampled_from(["", "a", "d", "/"])


class Storages(RuleBasedStateMachine):
    """Every rule is done to both; their answers are compared."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="sessiontree-test-")
        self.storages: list[SessionStorage] = [FileSessionStorage(), MemorySessionStorage()]
        self.writers: list[list[SessionStorageWriter]] = []
        self.readers: list[list[SessionStorageReader]] = []

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def both(self, work: Callable[[SessionStorage], Any], *, any_error: bool = False) -> Any:
        """The one answer of both storages; errors are answers.

        ``any_error`` is for what may fail for two reasons: which is met first is not defined.
        """
        answers = []
        for storage in self.storages:
            try:
                answers.append(("gave", work(storage)))
            except OSError as error:
                missing = isinstance(error, FileNotFoundError) and not any_error
                answers.append(("raised", "nothing there" if missing else "refused"))
        assert answers[0] == answers[1], answers
        return answers[0]

    @initialize()
    def begin(self) -> None:
        self.both(lambda storage: storage.ensure_dir(self.root))

    @rule(folder=FOLDERS)
    def ensure_dir(self, folder: str) -> None:
        self.both(lambda storage: storage.ensure_dir(self.path(folder)))

    @rule(name=NAMES, data=DATA)
    def write_atomic(self, name: str, data: bytes) -> None:
        self.both(lambda storage: storage.write_atomic(self.path(name), data).size)

    @rule(name=NAMES)
    def read(self, name: str) -> None:
        self.both(lambda storage: storage.read(self.path(name)))

    @rule(name=NAMES, length=st.integers(0, 15))
    def read_parts(self, name: str, length: int) -> None:
        self.both(lambda storage: storage.read_prefix(self.path(name), length))
        self.both(lambda storage: storage.read_suffix(self.path(name), length))

    @rule(name=NAMES)
    def look(self, name: str) -> None:
        self.both(lambda storage: storage.exists(self.path(name)))
        self.both(lambda storage: storage.stat(self.path(name)).size)

    @rule(folder=FOLDERS, suffix=SUFFIXES)
    def list_all(self, folder: str, suffix: str) -> None:
        path = self.path(folder)
        self.both(lambda s: sorted((f.path, f.size) for f in s.list_files(path, suffix)))
        self.both(lambda s: sorted(s.list_names(path, suffix)))
        self.both(lambda s: sorted(s.list_dirs(path)))

    @rule(source=NAMES, goal=NAMES)
    def rename_file(self, source: str, goal: str) -> None:
        if all(_is_file_or_missing(storage, self.path(source)) for storage in self.storages):
            self.both(lambda s: s.rename(self.path(source), self.path(goal)), any_error=True)

    @rule(name=NAMES)
    def unlink(self, name: str) -> None:
        if all(_is_file_or_missing(storage, self.path(name)) for storage in self.storages):
            self.both(lambda storage: storage.unlink(self.path(name)))

    @rule(folder=st.sampled_from(["c", "f", "f/g"]))
    def remove_dir(self, folder: str) -> None:
        if not any(_is_file(storage, self.path(folder)) for storage in self.storages):
            self.both(lambda storage: storage.remove_dir(self.path(folder)))

    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        if all(_is_file_or_missing(storage, self.path(name)) for storage in self.storages):
            self.both(lambda storage: storage.touch(self.path(name)))

    @rule(name=NAMES, create=st.booleans())
    def open_writer(self, name: str, create: bool) -> None:
        made: list[SessionStorageWriter] = []
        self.both(lambda s: made.append(s.open_writer(self.path(name), create=create)))
        if made:
            self.writers.append(made)

    @rule(name=NAMES)
    def open_reader(self, name: str) -> None:
        made: list[SessionStorageReader] = []
        self.both(lambda storage: made.append(storage.open_reader(self.path(name))))
        if made:
            self.readers.append(made)

    @rule(data=st.data(), line=LINES)
    def write_line(self, data: st.DataObject, line: bytes) -> None:
        if self.writers:
            pair = data.draw(st.sampled_from(self.writers))
            offsets = [writer.write_line(line) for writer in pair]
            assert offsets[0] == offsets[1]

    @rule(data=st.data(), part=st.floats(0, 1))
    def cut(self, data: st.DataObject, part: float) -> None:
        if self.writers:
            pair = data.draw(st.sampled_from(self.writers))
            size = int(pair[0].stat().size * part)
            for writer in pair:
                writer.truncate(size)

    @rule(data=st.data())
    def lock(self, data: st.DataObject) -> None:
        if self.writers:
            pair = data.draw(st.sampled_from(self.writers))
            answers = []
            for writer in pair:
                answers.append(writer.lock())
                writer.unlock()
            assert answers[0] == answers[1]

    @invariant()
    def readers_and_writers_agree(self) -> None:
        for pair in self.readers:
            assert pair[0].read_at(0, 100) == pair[1].read_at(0, 100)
            assert pair[0].stat().size == pair[1].stat().size
        for writers in self.writers:
            assert writers[0].stat().size == writers[1].stat().size

    def teardown(self) -> None:
        for writers in self.writers:
            for writer in writers:
                writer.close()
        for readers in self.readers:
            for reader in readers:
                reader.close()
        shutil.rmtree(self.root)


def _is_file(storage: SessionStorage, path: str) -> bool:
    return storage.exists(path) and not _is_folder(storage, path)


def _is_folder(storage: SessionStorage, path: str) -> bool:
    try:
        storage.stat(path)
    except IsADirectoryError:
        return True
    except OSError:
        return False
    return False


def _is_file_or_missing(storage: SessionStorage, path: str) -> bool:
    return not _is_folder(storage, path)


Storages.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestFilesAndMemory = Storages.TestCase
