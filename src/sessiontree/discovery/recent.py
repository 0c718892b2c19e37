"""List the newest sessions of one folder quickly (docs/discovery.md).

It reads only the first 4 KB of each file it lists, and the ends of the few that may be the newest.
``listing`` gives all figures of a session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import groupby
from operator import attrgetter

import msgspec

from sessiontree.clock import now
from sessiontree.discovery.heads import PREFIX_BYTES, Head, parse_head
from sessiontree.discovery.last_used import by_last_use
from sessiontree.discovery.paths import SESSION_SUFFIX, parse_session_file_name
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.text.words import format_time_ago, make_name


class RecentSessionInfo(msgspec.Struct, frozen=True):
    """One recent session. ``name`` and ``time_ago`` are computed on access."""

    path: str
    modified: datetime
    head: Head | None

    @property
    def id(self) -> str:
        """The header's id, else the one in the file name, else empty."""
        if self.head is not None and self.head.session_id:
            return self.head.session_id
        named = parse_session_file_name(self.path)
        return named[1] if named else ""

    @property
    def cwd(self) -> str:
        return self.head.cwd if self.head is not None else ""

    @property
    def title(self) -> str | None:
        return self.head.title if self.head is not None else None

    @property
    def name(self) -> str:
        """Title, else first prompt, else id, else file name: one line of 40 characters."""
        prompt = self.head.first_prompt if self.head is not None else None
        return make_name(self.title, prompt, self.id, os.path.basename(self.path))

    @property
    def time_ago(self) -> str:
        """The time since the session was used, in words."""
        return format_time_ago(self.modified, now())


_MTIME = attrgetter("mtime_ns")
_PATH = attrgetter("path")


def get_recent_sessions(
    session_dir: str | os.PathLike[str],
    limit: int = 3,
    *,
    storage: SessionStorage | None = None,
) -> list[RecentSessionInfo]:
    """List the sessions of a folder that were used last; [] if the folder does not exist."""
    store = storage if storage is not None else FileSessionStorage()
    found: list[RecentSessionInfo] = []
    files = list(newest_first(store, os.fspath(session_dir)))
    for stat, modified in by_last_use(store, files):
        if len(found) >= limit:
            break
        try:
            prefix = store.read_prefix(stat.path, PREFIX_BYTES)
        except OSError:
            continue
        head = parse_head(prefix)
        # A session whose header is damaged still goes by its file name.
        if head is None and (not prefix or parse_session_file_name(stat.path) is None):
            continue
        found.append(RecentSessionInfo(stat.path, modified, head))
    return found


def find_most_recent_session(
    session_dir: str | os.PathLike[str], *, storage: SessionStorage | None = None
) -> str | None:
    """Find a folder's newest session file by mtime; None without one with a valid header."""
    store = storage if storage is not None else FileSessionStorage()
    for stat in newest_first(store, os.fspath(session_dir)):
        try:
            if parse_head(store.read_prefix(stat.path, PREFIX_BYTES)) is not None:
                return stat.path
        except OSError:
            continue
    return None


def newest_first(storage: SessionStorage, *folders: str) -> Iterator[FileStat]:
    """Sort the session files of some folders by mtime, then by name, latest first."""
    files = [stat for folder in folders for stat in list_session_files(storage, folder)]
    # names matter only where times are the same: most callers want a few of thousands
    files.sort(key=_MTIME, reverse=True)
    for _, same in groupby(files, _MTIME):
        yield from sorted(same, key=_PATH, reverse=True)


def list_session_files(
    storage: SessionStorage,
    folder: str,
    on_error: Callable[[str, OSError], object] | None = None,
) -> list[FileStat]:
    """List the session files directly in a folder, without hidden files.

    An unreadable folder gives none and is reported to ``on_error``.
    """
    try:
        files = storage.list_files(folder, SESSION_SUFFIX)
    except OSError as error:
        if on_error is not None:
            on_error(folder, error)
        return []
    hidden = os.path.join(folder, ".")
    return [stat for stat in files if not stat.path.startswith(hidden)]
