"""Rename a session that this process does not have open.

This does not use a ``SessionManager``, which would write a breadcrumb: this terminal's ``-c`` would
then open the renamed session. A file keeps its mtime, because other agents sort by it and a new
name is not activity.
"""

from __future__ import annotations

from collections.abc import Callable

from sessiontree.discovery.talked import set_time
from sessiontree.model.lines import SessionWarning
from sessiontree.session.live import LiveSession
from sessiontree.session.name import rename_live
from sessiontree.stores.base import Ref, SessionStore
from sessiontree.stores.files.store import FileStore


def rename_session(
    store: SessionStore,
    ref: Ref,
    name: str,
    on_warning: Callable[[SessionWarning], object] | None = None,
) -> str | None:
    """Set or clear (with an empty name) the name of a session; return the name.

    ``on_warning`` receives a warning for each thing that reading or writing had to repair. Raises
    SessionTreeError, or OSError if a file does not exist.
    """
    before = None
    if isinstance(store, FileStore):
        before = store.storage.stat(ref)
        store = store.like(has_given_profile=False)  # the file's place or content says whose it is
    live = LiveSession(store.open(ref))
    try:
        rename_live(live, name)
        live.flush()
    finally:
        live.close()
    if on_warning is not None:
        for warning in live.warnings:
            on_warning(warning)
    if before is not None and isinstance(store, FileStore):
        set_time(store.storage, ref, before.mtime_ns)
    return live.name
