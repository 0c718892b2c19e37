"""Sample sessions for newcomers: made as any program makes sessions, marked, removable in one step.

Each begins with a ``custom`` entry of the type ``sessiontree.sample``, and its title says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, cast

from sessiontree.discovery.paths import list_session_folders
from sessiontree.discovery.recent import list_session_files
from sessiontree.profiles import Profile
from sessiontree.samples import branched, compacted, pictured
from sessiontree.samples.speaking import SampleSession
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.file import FileSessionStorage

MARK = "sessiontree.sample"
_MARK_BYTES = b'"customType":"sessiontree.sample"'
_LOOKED_AT = 1 << 14
_HOUR_NS = 3_600_000_000_000

_SAMPLES: tuple[tuple[str, Callable[[SampleSession], None]], ...] = (
    ("Sample: two ways out of a failing test", branched.tell),
    ("Sample: a long talk, compacted", compacted.tell),
    ("Sample: a picture of a tree", pictured.tell),
)


def create_samples(
    cwd: str, *, profile: Profile, session_dir: str | None = None
) -> list[tuple[str, str]]:
    """Make the samples in this project; (id, title) of each. Raises PersistenceError."""
    made = []
    storage = cast("SessionStorage", _Quiet(FileSessionStorage()))
    now_ns = time.time_ns()
    for number, (title, tell) in enumerate(_SAMPLES, 1):
        with SampleSession.create(cwd, session_dir, profile=profile, storage=storage) as manager:
            # Never newer than what the person does: --continue must not pick a sample then.
            manager.hours_ago = number
            manager.append_custom_entry(MARK, {"note": "sessiontree demo --remove takes it away"})
            manager.set_session_name(title)
            tell(manager)
            made.append((manager.session_id, title))
            path = manager.session_file
        if path is not None:
            before = now_ns - number * _HOUR_NS
            os.utime(path, ns=(before, before))
    return made


def find_samples(*, profile: Profile, session_dir: str | None = None) -> list[str]:
    """The files of all samples in the profile, or in one folder."""
    storage = FileSessionStorage()
    folders = [session_dir] if session_dir else list_session_folders(profile, storage)
    return sorted(
        stat.path
        for folder in folders
        for stat in list_session_files(storage, folder)
        if _is_sample(storage.read_prefix(stat.path, _LOOKED_AT))
    )


def _is_sample(beginning: bytes) -> bool:
    """Whether a file begins as a sample does; what somebody made from one is theirs."""
    head, mark, _ = beginning.partition(_MARK_BYTES)
    return bool(mark) and b'"parentSession":' not in head


class _Quiet:
    """A storage of files that is not the terminal's own: no breadcrumb leads to a sample."""

    def __init__(self, storage: FileSessionStorage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)
