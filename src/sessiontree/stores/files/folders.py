"""Every folder in which something of a profile may lie, also those that only the user knows.

Sessions may be kept in any folder (``--session-dir``), with their blobs in the profile's store.
Whoever wants to know that nothing refers to a blob must look into those folders too, so they are
noted when they are used, one a line in ``<agent dir>/session-dirs``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from sessiontree.errors import PersistenceError
from sessiontree.profiles import Profile, list_profiles
from sessiontree.storage.blobs import USERS_FILE
from sessiontree.storage.file import FileSessionStorage


def remember_session_dir(profile: Profile, folder: str) -> None:
    """Note that sessions of this profile are kept in this folder. Best effort: never raises."""
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
    """The folders noted for this profile, and those that terminals' breadcrumbs lead to."""
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
    """Every file that may refer to a blob of this profile.

    All profiles' files are among them: a session can be opened under another profile than the one
    it lies in, and then keeps its blobs there. Raises PersistenceError for what can't be read.
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
        # Not below it: it may well be somebody's home.
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
    """All regular files below a folder, each folder once; a missing one is empty.

    Whoever looks for what is needed follows links to folders below it; whoever looks for what can
    go does not, since a link may lead anywhere. The folder itself may be a link in either case.
    Raises PersistenceError for what can't be read: to pass over it would be to guess.
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
