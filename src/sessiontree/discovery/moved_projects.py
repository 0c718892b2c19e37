"""Find projects whose folder was moved or renamed.

A session records its project as a path. When the user moves the folder, the sessions keep the old
path; ``relink`` updates them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sessiontree.discovery.heads import Head, read_head
from sessiontree.discovery.paths import encode_cwd, list_session_folders, resolve_cwd
from sessiontree.discovery.recent import newest_first
from sessiontree.profiles import Profile, get_profile
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.text.words import to_moment

_MOST_HEADS = 200


@dataclass(frozen=True, slots=True)
class MovedProject:
    """A missing folder with sessions and the same name as an existing one."""

    cwd: str
    session_count: int
    modified: datetime


def find_moved_projects(
    cwd: str | os.PathLike[str],
    *,
    profile: str | Profile | None = None,
    storage: SessionStorage | None = None,
) -> list[MovedProject]:
    """Find projects that may be this one under an older path, newest first.

    Reads headers only in folders whose encoded name ends like this project's.
    """
    chosen = get_profile(profile)
    store = storage if storage is not None else FileSessionStorage()
    name = os.path.basename(resolve_cwd(cwd))
    if not name:
        return []
    ending = "-" + encode_cwd("/" + name).strip("-")
    counts: Counter[str] = Counter()
    newest: dict[str, int] = {}
    for folder in project_folders(chosen, store):
        if not os.path.basename(folder).rstrip("-").endswith(ending):
            continue
        for stat, _ in zip(newest_first(store, folder), range(_MOST_HEADS), strict=False):
            head = _try_head(store, stat.path)
            if head is None or os.path.basename(head.cwd.rstrip("/\\")) != name:
                continue
            counts[head.cwd] += 1
            newest[head.cwd] = max(newest.get(head.cwd, 0), stat.mtime_ns)
    found = [
        MovedProject(old, count, to_moment(newest[old]))
        for old, count in counts.items()
        if not os.path.isdir(old)
    ]
    return sorted(found, key=lambda project: project.modified, reverse=True)


def project_folders(
    profile: Profile,
    storage: SessionStorage,
    on_error: Callable[[str, OSError], object] | None = None,
) -> list[str]:
    """The folders of a profile's sessions, usually one for each project; errors go to
    ``on_error``."""
    try:
        return sorted(list_session_folders(profile, storage))
    except OSError as error:
        if on_error is not None:
            on_error(profile.sessions_dir, error)
        return []


def _try_head(storage: SessionStorage, path: str) -> Head | None:
    try:
        return read_head(storage, path)
    except OSError:
        return None
