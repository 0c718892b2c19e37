"""Giving a name to a session that nobody has open here.

Not through a ``SessionManager``: that would make it the session which its terminal continues.
The file keeps its time, since a new name is no work on the session: other agents list sessions by
the times of their files.
"""

from __future__ import annotations

from collections.abc import Callable

from sessiontree.discovery.talked import set_time
from sessiontree.model.lines import SessionWarning
from sessiontree.session.live import LiveSession
from sessiontree.session.name import rename_live
from sessiontree.storage.base import SessionStorage
from sessiontree.stores.files.store import FileStore


def rename_session(
    storage: SessionStorage,
    path: str,
    name: str,
    on_warning: Callable[[SessionWarning], object] | None = None,
) -> str | None:
    """Name the session in this file, or clear its name; what it is called now.

    ``on_warning`` hears what reading or writing the file had to repair. Raises SessionTreeError;
    OSError if the file is not there.
    """
    before = storage.stat(path)
    live = LiveSession(FileStore(storage).open(path))
    try:
        rename_live(live, name)
        live.flush()
    finally:
        live.close()
    if on_warning is not None:
        for warning in live.warnings:
            on_warning(warning)
    set_time(storage, path, before.mtime_ns)
    return live.name
