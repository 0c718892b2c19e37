"""A project folder that file tools cannot leave.

Owns the way from a path that a model wrote to an open descriptor inside the project. Knows nothing
of tools, messages or confirmation.

A path is never checked and then opened: between the two, a link may be swapped. Instead the path
is walked one name at a time, each name opened relative to the descriptor of the folder before it,
and never through a link (``O_NOFOLLOW``). A link is read and its target walked in the same way, so
a link that stays inside works and one that leads out is refused whatever happens meanwhile. ``..``
goes back along the descriptors that were walked; it is never given to the system, so a folder that
is moved during the walk does not open a way up.

What this cannot see: a hard link to a file outside looks like any file. Reading one is allowed;
writing replaces the name inside the project and leaves the outside file as it was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from sessiontree.errors import SessionTreeError
from sessiontree.storage.rights import is_refusal

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe must not wait for its other end; it is refused right after.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40
_MAX_DEPTH = 256


class ConfinementError(SessionTreeError):
    """The path cannot be used inside the project folder; the message is fit for a model."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The marks by which a file is recognized as the one that was read."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    mode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Fingerprint:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)


@dataclass(frozen=True, slots=True)
class DirectoryItem:
    """One name in a folder; ``kind`` is ``file``, ``directory``, ``link`` or ``other``."""

    name: str
    kind: str


class _Walk:
    """The descriptors from the project folder down to where a walk has come."""

    def __init__(self, root: int) -> None:
        self.descriptors = [root]
        self.names: list[str] = []

    @property
    def here(self) -> int:
        return self.descriptors[-1]

    def down(self, name: str, descriptor: int) -> None:
        self.descriptors.append(descriptor)
        self.names.append(name)

    def up(self) -> bool:
        if not self.names:
            return False
        self.names.pop()
        os.close(self.descriptors.pop())
        return True

    def back_to_root(self) -> None:
        while self.up():
            pass

    def close(self) -> None:
        self.back_to_root()
        os.close(self.descriptors.pop())


class ProjectFolder:
    """Opens, lists and replaces files below one folder, and nothing else.

    All methods raise ConfinementError for paths that lead out or are of the wrong kind, and
    OSError for what the system refuses.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.given = os.path.abspath(os.fspath(root))
        self.root = os.path.realpath(self.given)
        if not os.path.isdir(self.root):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.given)

    def relative(self, path: str) -> str:
        """The path below the project folder as it was written, ``.`` for the folder itself."""
        names = self._names(path)
        return "/".join(names) or "."

    def place(self, path: str) -> str:
        """The absolute path that a path leads to, links followed, whether it exists or not.

        For showing and comparing. Whether it may be opened is judged when it is.
        """
        return os.path.realpath(os.path.join(self.root, *self._names(path)))

    def read_bytes(self, path: str, limit: int | None = None) -> tuple[bytes, Fingerprint]:
        """The content of a regular file, at most ``limit`` bytes of it, and its fingerprint."""
        with self.open_file(path) as descriptor:
            found = os.fstat(descriptor)
            return _read_all(descriptor, limit), Fingerprint.of(found)

    @contextlib.contextmanager
    def open_file(self, path: str) -> Iterator[int]:
        """A read-only descriptor of a regular file."""
        with self._parent(path) as (walk, name):
            descriptor = open_file_at(name, walk.here)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def open_directory(self, path: str) -> Iterator[int]:
        """A descriptor of a folder."""
        with self._walked(path, self._names(path), create=False) as walk:
            yield walk.here

    def list_directory(self, path: str) -> list[DirectoryItem]:
        """The names in a folder, sorted without regard to case."""
        with self.open_directory(path) as descriptor:
            return list_descriptor(descriptor)

    def kind(self, path: str) -> str:
        """``file``, ``directory`` or ``other``, links followed inside the project."""
        names = self._names(path)
        if not names:
            return "directory"
        try:
            with self.open_directory(path):
                return "directory"
        except NotADirectoryError:
            pass
        with self._parent(path) as (walk, name):
            mode = os.stat(name, dir_fd=walk.here, follow_symlinks=False).st_mode
        return "file" if stat.S_ISREG(mode) else "other"

    def fingerprint(self, path: str) -> Fingerprint | None:
        """The fingerprint of a regular file, or None when there is no file of that name."""
        try:
            with self.open_file(path) as descriptor:
                return Fingerprint.of(os.fstat(descriptor))
        except FileNotFoundError:
            return None

    def replace(self, path: str, content: bytes, *, expected: Fingerprint | None) -> Fingerprint:
        """Write a whole file atomically, missing folders created; returns the new fingerprint.

        ``expected`` is the fingerprint the caller last saw (None: no such file). Anything else on
        disk is ConfinementError, and nothing is written. So is a file that is marked read-only:
        replacing it would not ask the system.
        """
        if expected is not None and not expected.mode & 0o222:
            raise ConfinementError(path, "the file is read-only")
        with self._parent(path, create=True) as (walk, name):
            folder = walk.here
            # Not made from the name, which may be as long as names can be.
            temporary = f".sessiontree-{secrets.token_hex(8)}.tmp"
            descriptor = os.open(temporary, _CREATE, 0o666, dir_fd=folder)
            try:
                try:
                    _write_all(descriptor, content)
                    if expected is not None:
                        _keep_rights(descriptor, expected.mode & 0o777)
                    os.fsync(descriptor)
                    written = Fingerprint.of(os.fstat(descriptor))
                finally:
                    os.close(descriptor)
                _require_unchanged(path, folder, name, expected)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            os.fsync(folder)
            return written

    def _names(self, path: str) -> list[str]:
        """The names to walk from the project folder; ``..`` is kept, it is the walk's to judge."""
        if "\0" in path:
            raise ConfinementError(path.replace("\0", "\\0"), "a path cannot hold a NUL character")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            shown = path.encode("utf-8", "backslashreplace").decode("ascii", "replace")
            raise ConfinementError(shown, "not a valid file name") from None
        if path == "~" or path.startswith("~/"):
            path = os.path.expanduser(path)
        names = [name for name in path.split("/") if name not in ("", ".")]
        if len(names) > _MAX_DEPTH:
            raise ConfinementError(path[:80] + "…", "the path is too deep")
        if path.startswith("/"):
            return self._below_root(path, names)
        return names

    def _below_root(self, path: str, names: list[str]) -> list[str]:
        for spelling in (self.root, self.given):
            root = [name for name in spelling.split("/") if name]
            if names[: len(root)] == root:
                return names[len(root) :]
        raise ConfinementError(path, f"outside the project folder {self.given}")

    @contextlib.contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[_Walk, str]]:
        """The folder that holds the path's last name, links of that name followed inside."""
        names = self._names(path)
        if not names:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        for _ in range(_MAX_LINKS):
            if names[-1] == "..":
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            with self._walked(path, names[:-1], create=create) as walk:
                target = _link_target(names[-1], walk.here)
                if target is None:
                    yield walk, names[-1]
                    return
                names = self._through_link(path, walk, target)
                if not names:
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def _through_link(self, path: str, walk: _Walk, target: str) -> list[str]:
        """The names from the project folder that a link found at the end of ``walk`` stands for."""
        names = [name for name in target.split("/") if name not in ("", ".")]
        if not target.startswith("/"):
            return [*walk.names, *names]
        try:
            return self._below_root(target, names)
        except ConfinementError:
            raise ConfinementError(path, "a link that leads out of the project folder") from None

    @contextlib.contextmanager
    def _walked(self, path: str, names: list[str], *, create: bool) -> Iterator[_Walk]:
        walk = _Walk(os.open(self.root, _DIRECTORY))
        try:
            self._follow(path, walk, names, create=create)
            yield walk
        finally:
            walk.close()

    def _follow(self, path: str, walk: _Walk, names: list[str], *, create: bool) -> None:
        pending = list(reversed(names))
        links = 0
        while pending:
            name = pending.pop()
            if name == "..":
                if not walk.up():
                    raise ConfinementError(path, "leads out of the project folder")
                continue
            try:
                walk.down(name, _open_folder(name, walk.here, create=create))
                continue
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                target = _link_target(name, walk.here)
                if target is None:
                    raise NotADirectoryError(
                        errno.ENOTDIR, os.strerror(errno.ENOTDIR), path
                    ) from error
            links += 1
            if links > _MAX_LINKS or len(pending) > _MAX_DEPTH * 2:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            resolved = self._through_link(path, walk, target)
            walk.back_to_root()
            pending.extend(reversed(resolved))


def list_descriptor(descriptor: int) -> list[DirectoryItem]:
    """The names in an open folder, sorted without regard to case."""
    items = []
    with os.scandir(descriptor) as found:
        for item in found:
            if item.is_symlink():
                kind = "link"
            elif item.is_dir(follow_symlinks=False):
                kind = "directory"
            else:
                kind = "file" if item.is_file(follow_symlinks=False) else "other"
            items.append(DirectoryItem(item.name, kind))
    return sorted(items, key=lambda item: (item.name.casefold(), item.name))


def open_folder_at(name: str, parent: int) -> int:
    """A descriptor of the folder of that name in an open folder; a link is OSError."""
    return os.open(name, _DIRECTORY, dir_fd=parent)


def open_file_at(name: str, parent: int) -> int:
    """A descriptor of the regular file of that name in an open folder; a link is OSError."""
    descriptor = os.open(name, _READ, dir_fd=parent)
    try:
        _require_regular(name, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_folder(name: str, parent: int, *, create: bool) -> int:
    try:
        return open_folder_at(name, parent)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    return open_folder_at(name, parent)


def _link_target(name: str, parent: int) -> str | None:
    """Where a link points, or None for anything else, missing names included."""
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _require_regular(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):
        raise ConfinementError(path, "not a regular file")


def _require_unchanged(path: str, folder: int, name: str, expected: Fingerprint | None) -> None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if expected is None:
            return
        raise ConfinementError(path, "the file was removed meanwhile; read it again") from None
    _require_regular(path, found)
    if expected is None or Fingerprint.of(found) != expected:
        raise ConfinementError(path, "the file was changed meanwhile; read it again")


def _read_all(descriptor: int, limit: int | None) -> bytes:
    chunks = []
    left = limit
    while left is None or left > 0:
        chunk = os.read(descriptor, 1 << 20 if left is None else min(left, 1 << 20))
        if not chunk:
            break
        chunks.append(chunk)
        if left is not None:
            left -= len(chunk)
    return b"".join(chunks)


def _keep_rights(descriptor: int, mode: int) -> None:
    """Give a file the rights of the one it replaces, where the system lets us."""
    try:
        os.fchmod(descriptor, mode)
    except OSError as error:
        if not is_refusal(error):
            raise


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
