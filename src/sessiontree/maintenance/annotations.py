"""Rename or label a session that this process does not have open.

This leaves no breadcrumb, because this terminal's ``-c`` would then open that session. A file keeps
its mtime, because agents sort by it and a new name or label is not activity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sessiontree.model.lines import SessionWarning
from sessiontree.session.live import LiveSession
from sessiontree.session.manager import SessionManager
from sessiontree.session.name import rename_live
from sessiontree.stores.base import Ref, SessionStore, SetsTimes
from sessiontree.stores.finding import with_given_profile


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
    with _kept_time(store, ref) as own:
        live = LiveSession(own.open(ref))
        try:
            rename_live(live, name)
            live.flush()
        finally:
            live.close()
        if on_warning is not None:
            for warning in live.warnings:
                on_warning(warning)
    return live.name


def label_entry(store: SessionStore, ref: Ref, entry_id: str, label: str | None) -> None:
    """Label an entry of a session, or remove its label (None). Raises as `rename_session` does."""
    with (
        _kept_time(store, ref) as own,
        SessionManager(own.open(ref), leaves_breadcrumb=False) as manager,
    ):
        manager.append_label_change(entry_id, label)
        manager.flush()


@contextmanager
def _kept_time(store: SessionStore, ref: Ref) -> Iterator[SessionStore]:
    """Give the store to open a session with, and restore a file's mtime afterwards.

    The file's place or content says which profile it belongs to.
    """
    before_ns = store.get_time_ns(ref) if isinstance(store, SetsTimes) else None
    yield with_given_profile(store, False)
    if isinstance(store, SetsTimes) and before_ns is not None:
        store.set_time_ns(ref, before_ns)
