"""Find and remove garbage: unreferenced blobs, and files that crashes left behind.

``find_garbage`` only reads; ``remove_garbage`` takes its report and checks each file again. A blob
stays if any session, draft, trashed session or set-aside file of any profile names it, or if it is
younger than an hour: a session stores the blob first and writes the line that names it later. An
unreadable file stops the search, because it may refer to any blob.

Another process may store the same blob while this one removes it. Storing touches a blob that
exists, so removal renames the file first and looks at its time afterwards: an earlier touch shows
in the time, and a later one fails, so that process writes the blob again.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from sessiontree.clock import SecondsClock, now_s
from sessiontree.discovery import paths
from sessiontree.errors import PersistenceError
from sessiontree.profiles import Profile
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.open_elsewhere import find_users
from sessiontree.storage.regular import leads_beside
from sessiontree.storage.temp_files import TEMP_SUFFIX, is_abandoned, make_temp_path
from sessiontree.stores.files.claims import is_empty_folder, remove_empty_scope
from sessiontree.stores.files.folders import walk_files
from sessiontree.stores.files.reader import load_entries_from_file
from sessiontree.stores.files.references import find_references

SAFE_AGE_S = 3600.0
_LINK_AGE_S = 7 * 86_400.0
_BLOB_NAME = re.compile(r"([0-9a-f]{64})(?:\.[a-z0-9]{1,8})?")
_TEMP_OWNER = re.compile(r"\.(\d+)-[0-9a-f]+\.tmp$")

Kind = Literal["blob", "temporary file", "answered draft", "empty folder", "link of a move"]


@dataclass(frozen=True, slots=True)
class Garbage:
    """One file, folder or link that can be removed."""

    kind: Kind
    path: str
    size: int = 0


@dataclass(slots=True)
class GarbageReport:
    """The removable files, and how many blobs stay because they are referenced or young."""

    garbage: list[Garbage] = field(default_factory=list)
    referenced: int = 0
    young: int = 0

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.garbage)


@dataclass(slots=True)
class Removal:
    """The removed files, the failures, and how many files were spared."""

    removed: list[Garbage] = field(default_factory=list)
    failed: list[PersistenceError] = field(default_factory=list)
    spared: int = 0

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.removed)


def find_garbage(
    profile: Profile,
    *,
    folders: Iterable[str] = (),
    clock: SecondsClock = now_s,
    on_progress: Callable[[int, int], object] | None = None,
) -> GarbageReport:
    """Report what can be removed from this profile. Changes nothing.

    ``folders`` are further folders whose files may refer to its blobs; ``on_progress`` is called
    with the files searched so far and their number. Raises PersistenceError if a file that may hold
    a reference can't be read.
    """
    report = GarbageReport()
    blobs = list(_blobs(profile))
    if blobs:
        named = find_references(profile, folders, on_progress)
        for digest, item in blobs:
            size = item.stat().st_size
            if digest in named:
                report.referenced += 1
            elif _is_young(item.path, clock):
                report.young += 1
            else:
                report.garbage.append(Garbage("blob", item.path, size))
    report.garbage += find_leftovers(profile, clock=clock)
    return report


def remove_garbage(report: GarbageReport, *, clock: SecondsClock = now_s) -> Removal:
    """Remove what the report lists, except files used since."""
    removal = Removal()
    for piece in report.garbage:
        try:
            if piece.kind == "empty folder":
                if not remove_empty_scope(FileSessionStorage(), piece.path):
                    os.rmdir(piece.path)
            elif piece.kind == "link of a move":
                os.unlink(piece.path)
            elif not _remove_unless_used(piece.path, clock):
                removal.spared += 1
                continue
        except FileNotFoundError:
            continue
        except OSError as error:
            removal.failed.append(PersistenceError.from_os_error(piece.path, error))
        else:
            removal.removed.append(piece)
    return removal


def _remove_unless_used(path: str, clock: SecondsClock) -> bool:
    """Remove a file and return True, or keep it if another process touched it since."""
    aside = make_temp_path(path)
    os.rename(path, aside)
    if clock() - os.stat(aside).st_mtime >= SAFE_AGE_S:
        os.unlink(aside)
        return True
    os.rename(aside, path)
    return False


def _blobs(profile: Profile) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield hash and file of each blob, and of omp's links to it (``<hash>.png``)."""
    for item in walk_files(profile.blobs_dir, follow_links=False):
        name = _BLOB_NAME.fullmatch(item.name)
        if name is not None:
            yield name[1], item


def _is_young(path: str, clock: SecondsClock) -> bool:
    found = os.stat(path)
    return clock() - max(found.st_mtime, found.st_ctime) < SAFE_AGE_S


# -- leftovers -------------------------------------------------------------------------------------


def find_leftovers(profile: Profile, *, clock: SecondsClock = now_s) -> Iterator[Garbage]:
    """Find what crashes leave: temporary files, drafts of answered sessions, empty folders."""
    for folder in (profile.sessions_dir, profile.blobs_dir):
        for item in walk_files(folder, follow_links=False):
            with contextlib.suppress(FileNotFoundError):
                if item.is_symlink() and leads_beside(item.path):
                    if _is_unused_link(item.path, clock):
                        yield Garbage("link of a move", item.path)
                    continue
                if _is_young(item.path, clock):
                    continue
                size = item.stat().st_size
                if _is_abandoned(item.path, item.name):
                    yield Garbage("temporary file", item.path, size)
                elif is_answered_draft(item.path):
                    yield Garbage("answered draft", item.path, size)
    with contextlib.suppress(OSError), os.scandir(profile.sessions_dir) as listing:
        for item in listing:
            is_empty = item.is_dir(follow_symlinks=False) and is_empty_folder(item.path)
            if is_empty and not _is_young(item.path, clock):
                yield Garbage("empty folder", item.path)


def _is_unused_link(path: str, clock: SecondsClock) -> bool:
    """Whether the link that a move left is old and no process has the file open through it."""
    return clock() - os.lstat(path).st_mtime >= _LINK_AGE_S and not find_users(path)


def _is_abandoned(path: str, name: str) -> bool:
    """Whether this is a temporary file of a process that ended. Raises FileNotFoundError."""
    if not name.startswith(".") or not name.endswith(TEMP_SUFFIX):
        return False
    owner = _TEMP_OWNER.search(name)
    return owner is None or is_abandoned(path, int(owner[1]))


def is_answered_draft(path: str) -> bool:
    """Whether this is a draft whose entries are all in its session's file."""
    session = paths.session_of_draft(path)
    if session is None or not os.path.exists(session):
        return False
    kept = {record.get("id") for record in load_entries_from_file(session)}
    drafted = load_entries_from_file(path)
    return bool(drafted) and all(record.get("id") in kept for record in drafted)
