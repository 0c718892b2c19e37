"""Folders on the medium: what was made, renamed or removed in one is still so after a power cut.

The bytes of a file are synced by whoever holds its descriptor.
"""

from __future__ import annotations

import errno
import os

from sessiontree.storage.handles import Handle


def sync_folder(folder: str) -> None:
    """The folder's entries are on the medium (where the system can say so of a folder)."""
    try:
        handle = Handle(folder or ".", os.O_RDONLY)
    except PermissionError:
        return  # Windows, or a folder we may write to but not read
    try:
        os.fsync(handle.number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        handle.close()
