"""Open regular files only; never write through a planted link.

Pipes, sockets, devices and folders in the place of a file are refused without blocking.

Reading follows links. Writing follows a link only if both its name and its target end in
``.jsonl``: a user may keep a session elsewhere, with a link in its place. Any other link is not
written through, so an attacker who plants a link in the place of a draft, a blob or a session can't
choose which file is changed.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from sessiontree.storage.handles import Handle

NONBLOCK = getattr(os, "O_NONBLOCK", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# not to wait for a writer, should the name be a pipe's, nor to get a terminal by its name
_READ = os.O_RDONLY | NONBLOCK | getattr(os, "O_NOCTTY", 0)
_APPEND = os.O_RDWR | os.O_APPEND | NONBLOCK | NOFOLLOW
_IS_A_LINK = frozenset((errno.ELOOP, errno.EMLINK))
_LINKED_SUFFIX = ".jsonl"


def open_for_reading(path: str) -> BinaryIO:
    """Open a file without a storage; OSError at once for a pipe or a device."""
    return open_to_read(path).to_file()


def open_to_read(path: str) -> Handle:
    """Open a file for reading. OSError if it is not a regular one."""
    handle = Handle(path, _READ)
    try:
        require_regular(path, os.fstat(handle.number))
    except OSError:
        handle.close()
        raise
    return handle


def open_to_append(path: str, create: bool) -> tuple[Handle, bool]:
    """Open a file to append; tell whether it is new. OSError if it must not be written to.

    The caller still has to ask for a regular file: it looks at the descriptor anyway.
    """
    try:
        return Handle(path, _APPEND), False
    except FileNotFoundError:
        if not create:
            raise
    except OSError as error:
        if error.errno not in _IS_A_LINK:
            raise
        target = _follow(path)
        if target == path:
            raise OSError(errno.ELOOP, "a link that does not lead to a session", path) from error
        return open_to_append(target, create)
    return Handle(path, _APPEND | os.O_CREAT), True


def find_replaced(path: str) -> tuple[str, int]:
    """Find the file that a replacement replaces, and the mode it keeps."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            path = _follow(path)
            found = os.lstat(path)
    except FileNotFoundError:
        return path, 0o600
    if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    # the mode of a link says nothing
    is_file = stat.S_ISREG(found.st_mode)
    return path, stat.S_IMODE(found.st_mode) if is_file else 0o600


def _follow(link: str) -> str:
    """Return the target of a link that writing follows; otherwise the path itself."""
    target = os.path.realpath(link)
    is_session = link.endswith(_LINKED_SUFFIX) and target.endswith(_LINKED_SUFFIX)
    return target if is_session else link


def leads_beside(link: str) -> bool:
    """Whether a link leads to a file of the same name in a neighbouring folder.

    A move leaves such a link for programs that still look at the old place. The session is listed
    where it is now.
    """
    folder, name = os.path.split(link)
    try:
        beside, target = os.path.split(os.readlink(link))
    except OSError:
        return False
    return target == name and os.path.dirname(beside) == os.path.dirname(folder)


def require_regular(path: str, found: os.stat_result) -> None:
    """Raise OSError unless this is the stat of a regular file."""
    if not stat.S_ISREG(found.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(code, "not a regular file", path)
