"""``FileSessionStorage``: sessions on the file system, by names: folders, listings, files, moves.

Everything it makes is private (folders 0700, files 0600). It replaces a file through a temporary
one in the same folder: write, fsync, rename, fsync the folder. So after a crash the name means the
old file or the complete new one. ``regular`` decides which names are opened and which links are
followed; ``descriptors`` works on open files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat as stat_flags
from collections.abc import Iterable, Iterator
from functools import partial

from sessiontree.storage import regular
from sessiontree.storage.atomic import copy_range, move_across_devices, write_all
from sessiontree.storage.base import (
    FileStat,
    Growth,
    Piece,
    SessionStorageReader,
    SessionStorageWriter,
    StrPath,
)
from sessiontree.storage.descriptors import FileReader, FileWriter, to_stat
from sessiontree.storage.handles import Handle
from sessiontree.storage.rights import give_rights
from sessiontree.storage.syncing import sync_folder
from sessiontree.storage.temp_files import make_temp_file, make_temp_path, sweep_temp_files

_BLOB_NAME = re.compile(r"[0-9a-f]{64}")


class FileSessionStorage:
    """Sessions as files. Stateless: any number of objects may use the same folders."""

    def ensure_dir(self, path: StrPath) -> None:
        # os.makedirs gives its mode to the last folder only
        missing = []
        folder = os.fspath(path)
        while not os.path.isdir(folder):
            missing.append(folder)
            parent = os.path.dirname(folder)
            if parent == folder:
                break
            folder = parent
        for folder in reversed(missing):
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                if not os.path.isdir(folder):
                    raise
            sync_folder(os.path.dirname(folder))

    def sync_dir(self, path: StrPath) -> None:
        sync_folder(os.fspath(path))

    def exists(self, path: StrPath) -> bool:
        return os.path.exists(path)

    def stat(self, path: StrPath) -> FileStat:
        path = os.fspath(path)
        found = os.stat(path)
        if stat_flags.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return to_stat(path, found)

    def list_files(self, folder: StrPath, suffix: str = "") -> list[FileStat]:
        found = []
        prefix = os.path.join(folder, "")
        try:
            with _scan(folder) as listing:
                for item in listing:
                    name = item.name
                    try:
                        if not (name.endswith(suffix) and item.is_file()):
                            continue
                        if not (item.is_symlink() and regular.leads_beside(prefix + name)):
                            found.append(to_stat(prefix + name, item.stat()))
                    except OSError:
                        continue  # a link in a loop, or gone since the listing
        except (FileNotFoundError, NotADirectoryError):
            return []
        return found

    def list_names(self, folder: StrPath, suffix: str = "") -> list[str]:
        try:
            return [name for name in os.listdir(folder) if name.endswith(suffix)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def list_dirs(self, folder: StrPath) -> list[str]:
        try:
            with os.scandir(folder) as listing:
                return [item.path for item in listing if _is_dir(item)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: StrPath) -> bytes:
        with contextlib.closing(FileReader(path)) as reader:
            return reader.read_at(0, reader.stat().size)

    def read_prefix(self, path: StrPath, length: int) -> bytes:
        with contextlib.closing(FileReader(path)) as reader:
            return reader.read_at(0, length)

    def read_suffix(self, path: StrPath, length: int) -> bytes:
        with contextlib.closing(FileReader(path)) as reader:
            size = reader.stat().size
            return reader.read_at(max(0, size - length), min(length, size))

    def open_reader(self, path: StrPath) -> SessionStorageReader:
        return FileReader(path)

    def write_atomic(
        self,
        path: StrPath,
        pieces: bytes | Iterable[Piece],
        *,
        durable: bool = True,
        private: bool = False,
        growth: Growth | None = None,
    ) -> FileStat:
        given = os.fspath(path)
        path, mode = regular.find_replaced(given)
        folder, name = os.path.split(path)
        temp = make_temp_path(path)
        handle: Handle | None = None
        try:
            handle = make_temp_file(temp)
            _write_pieces(handle, pieces)
            if growth is None:
                found = _finish(handle, temp, path, 0o600 if private else mode, durable)
                _replace(handle, temp, path)
            else:
                from sessiontree.storage import omp_lock

                # What others append while this takes its time is small: little is left to be
                # copied while they have to wait.
                write_all(handle.number, growth())
                found = _finish(handle, temp, path, 0o600 if private else mode, durable)
                if omp_lock.hold(given, partial(_catch_up, handle, temp, path, growth)):
                    found = _sync_growth(handle, path, durable)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise
        finally:
            if handle is not None:
                handle.close()
        if durable:
            sync_folder(folder)
        # a blob is written once, and its leftovers are for gc: looking costs the whole folder
        if not _BLOB_NAME.fullmatch(name):
            sweep_temp_files(folder, name)
        return to_stat(path, found)

    def rename(self, source: StrPath, target: StrPath, *, durable: bool = True) -> None:
        source, target = os.fspath(source), os.fspath(target)
        try:
            os.replace(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            move_across_devices(source, target)
        if not durable:
            return
        sync_folder(os.path.dirname(target))
        if os.path.dirname(source) != os.path.dirname(target):
            with contextlib.suppress(FileNotFoundError):  # emptied, and removed since
                sync_folder(os.path.dirname(source))

    def touch(self, path: StrPath, mtime_ns: int | None = None) -> None:
        if mtime_ns is None:
            os.utime(path)
        else:
            os.utime(path, ns=(mtime_ns, mtime_ns))

    def unlink(self, path: StrPath) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def remove_dir(self, path: StrPath) -> None:
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(path):
                import shutil  # only here: it is large, and listings start quicker without

                shutil.rmtree(path)

    def open_writer(self, path: StrPath, *, create: bool = True) -> SessionStorageWriter:
        return FileWriter(path, create)


def _write_pieces(handle: Handle, pieces: bytes | Iterable[Piece]) -> None:
    for piece in (pieces,) if isinstance(pieces, bytes) else pieces:
        if isinstance(piece, bytes):
            write_all(handle.number, piece)
        else:
            copy_range(handle.number, piece)


def _finish(handle: Handle, temp: str, path: str, mode: int, durable: bool) -> os.stat_result:
    """Set the mode of a file just written, and sync it; return its stat."""
    if mode != 0o600:
        give_rights(temp, mode, path)
    if durable:
        os.fsync(handle.number)
    return os.fstat(handle.number)


def _replace(handle: Handle, temp: str, path: str) -> None:
    if os.name == "nt":  # pragma: no cover - an open file cannot be renamed there
        handle.close()
    os.replace(temp, path)


def _catch_up(handle: Handle, temp: str, path: str, growth: Growth) -> bool:
    """Append what the old file has gained since, and rename; return whether it had gained any."""
    more = growth()
    write_all(handle.number, more)
    _replace(handle, temp, path)
    return bool(more)


def _sync_growth(handle: Handle, path: str, durable: bool) -> os.stat_result:
    if os.name == "nt":  # pragma: no cover - closed before it was renamed
        return os.stat(path)
    if durable:
        os.fsync(handle.number)
    return os.fstat(handle.number)


@contextlib.contextmanager
def _scan(folder: StrPath) -> Iterator[Iterator[os.DirEntry[str]]]:
    """List a folder, by its descriptor where possible: that makes each lookup faster."""
    if os.scandir not in os.supports_fd:
        with os.scandir(folder) as listing:
            yield listing
        return
    handle = Handle(os.fspath(folder) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(handle.number) as listing:
            yield listing
    finally:
        handle.close()


def _is_dir(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:
        return False
