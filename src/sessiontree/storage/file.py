"""``FileSessionStorage``: the real file system.

Everything it makes is private (folders 0700, files 0600). Replacing a file goes through a temporary
one in the same folder: write, fsync, rename, fsync the folder. Which names are opened at all, and
which links are followed, is said in ``regular``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat as stat_flags
from collections.abc import Iterable, Iterator

from sessiontree.storage import locks, regular
from sessiontree.storage.base import (
    FileRange,
    FileStat,
    Piece,
    SessionStorageReader,
    SessionStorageWriter,
    read_chunks,
)

TEMP_SUFFIX = ".tmp"
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_COPY_BYTES = 1 << 20


class FileSessionStorage:
    """Sessions as files. Stateless: any number may work on the same folders."""

    def ensure_dir(self, path: str) -> None:
        # os.makedirs gives its mode to the last folder only
        missing = []
        folder = path
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

    def sync_dir(self, path: str) -> None:
        sync_folder(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def stat(self, path: str) -> FileStat:
        found = os.stat(path)
        if stat_flags.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return _to_stat(path, found)

    def list_files(self, folder: str, suffix: str = "") -> list[FileStat]:
        found = []
        prefix = os.path.join(folder, "")
        try:
            with _scan(folder) as listing:
                for item in listing:
                    if not item.name.endswith(suffix):
                        continue
                    try:
                        if item.is_file():
                            found.append(_to_stat(prefix + item.name, item.stat()))
                    except OSError:
                        continue  # a link in a loop, or gone since the listing
        except (FileNotFoundError, NotADirectoryError):
            return []
        return found

    def list_names(self, folder: str, suffix: str = "") -> list[str]:
        try:
            return [name for name in os.listdir(folder) if name.endswith(suffix)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def list_dirs(self, folder: str) -> list[str]:
        try:
            with os.scandir(folder) as listing:
                return [item.path for item in listing if _is_dir(item)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str) -> bytes:
        with contextlib.closing(_FileReader(path)) as reader:
            return reader.read_at(0, reader.stat().size)

    def read_prefix(self, path: str, length: int) -> bytes:
        with contextlib.closing(_FileReader(path)) as reader:
            return reader.read_at(0, length)

    def read_suffix(self, path: str, length: int) -> bytes:
        with contextlib.closing(_FileReader(path)) as reader:
            size = reader.stat().size
            return reader.read_at(max(0, size - length), min(length, size))

    def open_reader(self, path: str) -> SessionStorageReader:
        return _FileReader(path)

    def write_atomic(
        self, path: str, pieces: bytes | Iterable[Piece], *, durable: bool = True
    ) -> FileStat:
        path, mode = regular.find_replaced(path)
        folder, name = os.path.split(path)
        temp = os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}{TEMP_SUFFIX}")
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC | _BINARY, 0o600)
        try:
            try:
                for piece in (pieces,) if isinstance(pieces, bytes) else pieces:
                    if isinstance(piece, bytes):
                        _write_all(fd, piece)
                    else:
                        _copy_range(fd, piece)
                if mode != 0o600:
                    os.chmod(temp, mode)
                if durable:
                    os.fsync(fd)
                written = _to_stat(path, os.fstat(fd))
            finally:
                os.close(fd)
            os.replace(temp, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise
        if durable:
            sync_folder(folder)
        sweep_temp_files(folder, name)
        return written

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        try:
            os.replace(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _move_across_devices(source, target)
        if not durable:
            return
        sync_folder(os.path.dirname(target))
        if os.path.dirname(source) != os.path.dirname(target):
            sync_folder(os.path.dirname(source))

    def touch(self, path: str) -> None:
        os.utime(path)

    def unlink(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def remove_dir(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(path):
                shutil.rmtree(path)

    def open_writer(self, path: str, *, create: bool = True) -> SessionStorageWriter:
        return _FileWriter(path, create)


class _FileReader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = regular.open_to_read(path)

    def fileno(self) -> int:
        return self._fd

    def stat(self) -> FileStat:
        return _to_stat(self._path, os.fstat(self._fd))

    def read_at(self, offset: int, length: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        if len(data) == length or not data:
            return data
        pieces = [data]  # the system gives at most about 2 GB a call, and may give less
        got = len(data)
        while got < length:
            data = os.pread(self._fd, length - got, offset + got)
            if not data:
                break
            pieces.append(data)
            got += len(data)
        return b"".join(pieces)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class _FileWriter:
    """Appends with O_APPEND, so that each line lands whole whoever else is writing."""

    def __init__(self, path: str, create: bool) -> None:
        self._path = path
        self._error: OSError | None = None
        self._gate = _gate_of(path)
        self._gate_fd = -1
        self._depth = 0
        self.has_locks = True
        self._fd, self._is_new = regular.open_to_append(path, create)
        self._own = os.fstat(self._fd)
        try:
            regular.require_regular(path, self._own)
        except OSError:
            self.close()
            raise

    def lock(self) -> FileStat | None:
        if self._depth == 0:
            self.has_locks = locks.lock(self._fd, self._path)
            try:
                self._hold_gate()
            except BaseException:
                self._drop()
                raise
        self._depth += 1
        try:
            return _to_stat(self._path, os.stat(self._path))
        except FileNotFoundError:
            return None
        except BaseException:
            self.unlock()
            raise

    def unlock(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._drop()

    def _drop(self) -> None:
        # What was written is written: a lock that cannot be let go of now goes with its descriptor.
        for fd in (self._gate_fd, self._fd if self.has_locks else -1):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    locks.unlock(fd)

    def _hold_gate(self) -> None:
        """Living omp serialises its writers by a lock on a file beside the session."""
        if self._gate_fd < 0:
            if not os.access(self._gate, os.F_OK):
                return
            try:
                self._gate_fd = os.open(
                    self._gate, os.O_RDWR | _CLOEXEC | regular.NONBLOCK | regular.NOFOLLOW
                )
            except OSError:
                return
        locks.lock(self._gate_fd, self._path)

    def owns(self, found: FileStat) -> bool:
        return found.inode == self._own.st_ino and found.device == self._own.st_dev

    def stat(self) -> FileStat:
        return _to_stat(self._path, os.fstat(self._fd))

    def write_line(self, line: bytes) -> int:
        try:
            written = os.write(self._fd, line)
            if written == len(line):
                return os.lseek(self._fd, 0, os.SEEK_CUR) - written
            self._undo_short_write(written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        except OSError as error:
            self._error = self._error or error
            raise

    def _undo_short_write(self, written: int) -> None:
        """Take half a line back, unless somebody else's line follows it already."""
        with contextlib.suppress(OSError):
            end = os.lseek(self._fd, 0, os.SEEK_CUR)
            if os.fstat(self._fd).st_size == end:
                os.ftruncate(self._fd, end - written)

    def overwrite(self, offset: int, data: bytes) -> None:
        # not through the appending descriptor: Linux would append there, whatever the offset
        fd = os.open(self._path, os.O_WRONLY | _CLOEXEC | _BINARY | regular.NONBLOCK)
        try:
            if not _is_same(os.fstat(fd), self._own):
                raise OSError(errno.ESTALE, "the file was replaced", self._path)
            os.pwrite(fd, data, offset)
        finally:
            os.close(fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def note_rename(self, path: str) -> None:
        self._path = path
        self._gate = _gate_of(path)
        self._is_new = True

    def flush(self) -> None:
        """Nothing is buffered here."""

    def fsync(self) -> None:
        try:
            os.fsync(self._fd)
            if self._is_new:
                sync_folder(os.path.dirname(self._path))
                self._is_new = False
        except OSError as error:
            self._error = self._error or error
            raise

    def close(self) -> None:
        for fd in (self._fd, self._gate_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._gate_fd = -1

    def get_error(self) -> OSError | None:
        return self._error

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


@contextlib.contextmanager
def _scan(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What is in a folder; by descriptor where that is possible, which makes each look shorter."""
    if os.scandir not in os.supports_fd:
        with os.scandir(folder) as listing:
            yield listing
        return
    fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | _CLOEXEC)
    try:
        with os.scandir(fd) as listing:
            yield listing
    finally:
        os.close(fd)


def _gate_of(path: str) -> str:
    """The file by which living omp serialises the writers of a session."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.lock.os")


def sync_folder(folder: str) -> None:
    """The folder's entries are on the medium (where the system can say so of a folder)."""
    try:
        fd = os.open(folder or ".", os.O_RDONLY | _CLOEXEC)
    except PermissionError:
        return  # Windows, or a folder we may write to but not read
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


def sweep_temp_files(folder: str, name: str) -> None:
    """Remove the temporary files that dead processes left beside ``name``."""
    prefix = f".{name}."
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            if not (item.name.startswith(prefix) and item.name.endswith(TEMP_SUFFIX)):
                continue
            owner, _, _ = item.name[len(prefix) :].partition("-")
            if owner.isdigit() and not is_process_alive(int(owner)):
                with contextlib.suppress(OSError):
                    os.unlink(item.path)


def is_process_alive(pid: int) -> bool:
    """Whether a process of this id runs; True when that cannot be told."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _copy_range(fd: int, source: FileRange) -> None:
    """Copy from another file, inside the kernel where it can."""
    offset, end = source.offset, source.offset + source.length
    if isinstance(source.reader, _FileReader) and hasattr(os, "copy_file_range"):
        while offset < end:
            try:
                copied = os.copy_file_range(source.reader.fileno(), fd, end - offset, offset)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG):
                    raise
                break  # other file systems, or a kernel that cannot: read and write instead
            if copied == 0:
                break
            offset += copied
    for chunk in read_chunks(source.reader, offset, end, _COPY_BYTES):
        _write_all(fd, chunk)
        offset += len(chunk)
    if offset != end:
        raise OSError(errno.EIO, "the source of a copy was cut short")


def _move_across_devices(source: str, target: str) -> None:
    """Copy, then remove: the target is whole before the source goes."""
    temp = f"{target}.{os.getpid()}-{os.urandom(4).hex()}{TEMP_SUFFIX}"
    try:
        if os.path.isdir(source):
            shutil.copytree(source, temp, symlinks=True)
        else:
            shutil.copy2(source, temp)
        os.replace(temp, target)
    except BaseException:
        if os.path.isdir(temp):
            shutil.rmtree(temp, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(temp)
        raise
    if os.path.isdir(source):
        shutil.rmtree(source)
    else:
        os.unlink(source)


def _to_stat(path: str, found: os.stat_result) -> FileStat:
    return FileStat(
        path,
        found.st_size,
        found.st_mtime_ns,
        found.st_ino,
        found.st_dev,
        found.st_ctime_ns,
    )


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_dev) == (other.st_ino, other.st_dev)


def _is_dir(item: os.DirEntry[str]) -> bool:
    try:
        return item.is_dir()
    except OSError:
        return False
