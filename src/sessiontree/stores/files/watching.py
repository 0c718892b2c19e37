"""Wait for others to write to a session file: by events of the system, else by polling.

With ``watchfiles`` installed the system says when something happens in the file's folder (inotify,
kqueue). The system reports every file there and sometimes none at all (network file systems), so
what it says is only a reason to look, and now and then we look unasked. A look is one ``stat``.

The system reports only what happens after it was asked to. So the first wait asks it, then looks at
the file again; later waits get what happened since the one before.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from sessiontree.discovery import paths
from sessiontree.storage.base import FileStat
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import Watch
from sessiontree.stores.watching import LookingWatch

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

    from sessiontree.stores.files.store import FileStore

_GATHER_MS = 10
_STEP_MS = 5


def watch_file(store: FileStore, path: str) -> Watch:
    """Waits for a change of this session file, or of its draft."""
    has_events = (
        isinstance(store.storage, FileSessionStorage)
        and importlib.util.find_spec("watchfiles") is not None
    )
    return _FileWatch(store, path, has_events=has_events)


class _FileWatch(LookingWatch["tuple[FileStat | None, ...]"]):
    def __init__(self, store: FileStore, path: str, *, has_events: bool) -> None:
        super().__init__()
        self._storage = store.storage
        self._path = path
        self._has_events = has_events
        self._notifier: RustNotify | None = None
        self._seen = self._look()

    def close(self) -> None:
        """Stop waiting, in whatever thread."""
        super().close()
        self._notifier = None  # its thread ends with the last reference, a wait's

    def _look(self) -> tuple[FileStat | None, ...]:
        return tuple(map(self._stat, (self._path, paths.draft_path(self._path))))

    def _stat(self, path: str) -> FileStat | None:
        try:
            return self._storage.stat(path)
        except OSError:
            return None

    def _pause(self, left: float | None) -> None:
        """Wait for an event, or a moment; not at all if the system was asked to report only now."""
        notifier = self._notifier
        if notifier is None and self._has_events and self._ask_to_be_told():
            return
        if notifier is None:
            super()._pause(left)
            return
        longest = self._longest_s(left)
        told = notifier.watch(_GATHER_MS, _STEP_MS, max(1, round(longest * 1000)), self._stop)
        if told == "signal":
            raise KeyboardInterrupt

    def _ask_to_be_told(self) -> bool:
        """Ask the system to report events; False if it can't, such as for a missing folder."""
        folder = os.path.dirname(self._path)
        if not os.path.isdir(folder):
            return False
        from watchfiles._rust_notify import RustNotify

        try:
            self._notifier = RustNotify([folder], False, False, 0, False, False)
        except OSError:
            # removed just now, or the system watches as many folders as it will for one user
            self._has_events = not os.path.isdir(folder)
        return self._notifier is not None
