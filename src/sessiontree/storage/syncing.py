"""Sync folders, so that a creation, rename or removal in one survives a power cut.

The holder of a file's descriptor syncs the file's bytes.
"""

from __future__ import annotations

import errno
import os

from sessiontree.storage.handles import Handle


def sync_folder(folder: str) -> None:
    """Sync a folder's entries to disk, if the system can."""
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
