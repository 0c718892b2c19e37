"""List every folder that may hold files of a profile, including custom session folders.

``--session-dir`` may keep sessions in any folder, with their blobs in the profile's store. Before
garbage collection removes a blob it must search those folders for references too. So opening a
session there appends the folder to ``<agent dir>/session-dirs``, one a line.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from sessiontree.errors import PersistenceError
from sessiontree.profiles import Profile, list_profiles
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.blobs import USERS_FILE
from sessiontree.storage.file import FileSessionStorage

_T = TypeVar("_T")
_REMOVED_AT_MOST = 20


def work_in(storage: SessionStorage, folder: str, work: Callable[[], _T]) -> _T:
    """Make a folder and do the work that puts a file there.

    Between the two, a process that deletes the last session of a scope may remove the folder: then
    both are done again. The work changes nothing before its first file is there. Raises OSError.
    """
    for _ in range(_REMOVED_AT_MOST):
        storage.ensure_dir(folder)
        with contextlib.suppress(FileNotFoundError):
            return work()
    storage.ensure_dir(folder)
    return work()


def remember_session_dir(profile: Profile, folder: str) -> None:
    """Record that this folder holds sessions of the profile. Best effort: never raises."""
    folder = os.path.realpath(folder)
    if "\n" in folder or folder in known_session_dirs(profile):
        return
    path = os.path.join(profile.agent_dir, USERS_FILE)
    storage = FileSessionStorage()
    with contextlib.suppress(OSError):
        storage.ensure_dir(profile.agent_dir)
        with contextlib.closing(storage.open_writer(path)) as writer:
            writer.write_line(os.fsencode(folder) + b"\n")


def known_session_dirs(profile: Profile) -> list[str]:
    """Return the recorded folders, and those of the sessions that breadcrumbs name."""
    found: dict[str, None] = {}
    with contextlib.suppress(OSError):
        noted = FileSessionStorage().read(os.path.join(profile.agent_dir, USERS_FILE))
        for line in noted.splitlines():
            found.setdefault(os.fsdecode(line))
    for path in _breadcrumb_targets(profile):
        found.setdefault(os.path.dirname(path))
    return [folder for folder in found if os.path.isabs(folder)]


def _breadcrumb_targets(profile: Profile) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(profile.terminal_sessions_dir) as listing:
        for item in listing:
            with contextlib.suppress(OSError, ValueError):
                lines = FileSessionStorage().read_prefix(item.path, 1 << 16).splitlines()
                if len(lines) > 1:
                    yield os.path.realpath(os.fsdecode(lines[1]))


def files_with_references(profile: Profile, folders: Iterable[str] = ()) -> Iterator[str]:
    """Yield every file that may refer to a blob of this profile.

    Files of all profiles are included: a session opened under another profile than that of its
    folder keeps its blobs in the other one. Raises PersistenceError for what can't be read.
    """
    profiles = {profile.agent_dir: profile}
    for other in list_profiles():
        profiles.setdefault(other.agent_dir, other)
    stores = frozenset(os.path.realpath(each.blobs_dir) for each in profiles.values())
    flat = dict.fromkeys(os.path.abspath(folder) for folder in folders)
    for each in profiles.values():
        for item in walk_files(each.agent_dir, skip=stores):
            yield item.path
        flat |= dict.fromkeys(known_session_dirs(each))
        if each.session_dir is not None:
            flat[each.session_dir] = None
    for folder in flat:
        # Without subfolders: the folder may be a home directory.
        for item in _files_in(folder):
            if ".jsonl" in item.name:
                yield item.path


def _files_in(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listing:
            return [item for item in listing if item.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise PersistenceError.from_os_error(folder, error) from error


def walk_files(
    folder: str, *, skip: frozenset[str] = frozenset(), follow_links: bool = True
) -> Iterator[os.DirEntry[str]]:
    """Yield all regular files below a folder, entering each folder once.

    Follow links to folders when searching for references, so that none is missed; do not follow
    them when searching for files to remove, since a link may lead anywhere. The folder itself may
    be a link, or missing. Raises PersistenceError for what can't be read: an unread file may hold
    a reference.
    """
    seen: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            place = os.stat(current)
            if os.path.realpath(current) in skip or (place.st_dev, place.st_ino) in seen:
                continue
            seen.add((place.st_dev, place.st_ino))
            with os.scandir(current) as listing:
                for item in listing:
                    if item.is_dir(follow_symlinks=follow_links):
                        waiting.append(item.path)
                    elif item.is_file():
                        yield item
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise PersistenceError.from_os_error(current, error) from error
