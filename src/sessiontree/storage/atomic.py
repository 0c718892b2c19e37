"""Write bytes to a descriptor, copy them between files, move files across devices.

Nothing here syncs: the caller decides how durable the result must be.
"""

from __future__ import annotations

import contextlib
import errno
import os

from sessiontree.storage.base import FileRange, read_chunks
from sessiontree.storage.descriptors import FileReader
from sessiontree.storage.rights import copy_stat
from sessiontree.storage.temp_files import make_temp_path

_COPY_BYTES = 1 << 20


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, in as many writes as the system needs; OSError at the first that fails."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def copy_range(fd: int, source: FileRange) -> None:
    """Copy from another file, inside the kernel where it can."""
    offset, end = source.offset, source.offset + source.length
    if isinstance(source.reader, FileReader) and hasattr(os, "copy_file_range"):
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
        write_all(fd, chunk)
        offset += len(chunk)
    if offset != end:
        raise OSError(errno.EIO, "the source of a copy was cut short")


def move_across_devices(source: str, target: str) -> None:
    """Copy, then remove: the target is complete before the source goes, and always as private.

    The copies get the rights of what they are made of only once they are filled.
    """
    import shutil  # only here: it is large, and commands start quicker without

    temp = make_temp_path(target)
    try:
        if os.path.isdir(source):
            _copy_folder(source, temp)
        else:
            _copy_file(source, temp)
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


def _copy_file(source: str, target: str) -> None:
    from shutil import copyfile

    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    copyfile(source, target)
    copy_stat(source, target)


def _copy_folder(source: str, target: str) -> None:
    os.mkdir(target, 0o700)
    with os.scandir(source) as listing:
        for item in listing:
            copy = os.path.join(target, item.name)
            if item.is_symlink():
                os.symlink(os.readlink(item.path), copy)
            elif item.is_dir():
                _copy_folder(item.path, copy)
            else:
                _copy_file(item.path, copy)
    copy_stat(source, target)
