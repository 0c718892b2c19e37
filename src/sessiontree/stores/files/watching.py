"""Waiting for others to write to a session file: told by the system, else by looking.

With ``watchfiles`` installed the system says when something happens in the file's folder (inotify,
kqueue). The system reports every file there and sometimes none at all (network file systems), so
what it says is only a reason to look, and now and then we look unasked. A look is one ``stat``.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from typing import TYPE_CHECKING

from sessiontree.discovery import paths
from sessiontree.storage.base import FileStat
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import Watch

if TYPE_CHECKING:
    from sessiontree.stores.files.store import FileStore

POLL_S = 0.25
_UNASKED_S = 2.0


def watch_file(store: FileStore, path: str) -> Watch:
    """Waits for a change of this session file, or of its draft."""
    has_events = (
        isinstance(store.storage, FileSessionStorage)
        and importlib.util.find_spec("watchfiles") is not None
    )
    return _FileWatch(store, path, has_events=has_events)


class _FileWatch:
    def __init__(self, store: FileStore, path: str, *, has_events: bool) -> None:
        self._storage = store.storage
        self._path = path
        self._has_events = has_events
        self._stop = threading.Event()
        self._seen = self._look()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether the file is another than at the last ``wait``, or at the beginning."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._stop.is_set():
            found = self._look()
            if found != self._seen:
                self._seen = found
                return True
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._pause(left)
        return False

    def close(self) -> None:
        """Stop waiting, in whatever thread."""
        self._stop.set()

    def _look(self) -> tuple[FileStat | None, ...]:
        return tuple(map(self._stat, (self._path, paths.draft_path(self._path))))

    def _stat(self, path: str) -> FileStat | None:
        try:
            return self._storage.stat(path)
        except OSError:
            return None

    def _pause(self, left: float | None) -> None:
        """Wait for an event, or a moment."""
        folder = os.path.dirname(self._path)
        if not self._has_events or not os.path.isdir(folder):
            self._stop.wait(POLL_S if left is None else min(POLL_S, left))
            return
        from watchfiles import watch

        longest = _UNASKED_S if left is None else min(_UNASKED_S, left)
        for _ in watch(
            folder,
            watch_filter=None,
            debounce=10,
            step=5,
            stop_event=self._stop,
            rust_timeout=max(1, round(longest * 1000)),
            yield_on_timeout=True,
            raise_interrupt=True,
            recursive=False,
        ):
            return
