"""Move the sessions of a project whose folder was moved or renamed.

``rerooting`` moves each file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from sessiontree.discovery.breadcrumbs import read_moved_breadcrumb
from sessiontree.discovery.catalogue import Unreadable
from sessiontree.discovery.heads import Head, read_head
from sessiontree.discovery.moved_projects import project_folders
from sessiontree.discovery.paths import (
    DRAFT_SUFFIX,
    SESSION_SUFFIX,
    default_session_dir,
    draft_path,
    resolve_cwd,
    same_cwd,
    session_folders,
    session_of_draft,
)
from sessiontree.discovery.recent import list_session_files
from sessiontree.errors import PersistenceError, SessionTreeError
from sessiontree.profiles import Profile, get_profile
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.open_elsewhere import find_users, may_be_written, was_written_lately
from sessiontree.stores.files.rerooting import reroot_session


@dataclass(frozen=True, slots=True)
class Relinked:
    """One session and where it goes."""

    path: str
    new_path: str
    cwd: str
    new_cwd: str


@dataclass(slots=True)
class RelinkReport:
    """The result of ``relink``, or of its rehearsal (``is_dry_run``), and the failures."""

    is_dry_run: bool
    sessions: list[Relinked] = field(default_factory=list)
    skipped: list[Unreadable] = field(default_factory=list)


def relink(
    old_cwd: str | os.PathLike[str],
    new_cwd: str | os.PathLike[str],
    *,
    dry_run: bool = True,
    profile: str | Profile | None = None,
    storage: SessionStorage | None = None,
) -> RelinkReport:
    """Re-root the sessions of a folder, and of folders below it, that now is at ``new_cwd``.

    With ``dry_run`` nothing is changed. A session that cannot be moved stays as it was and is
    reported; the others go on.
    """
    chosen = get_profile(profile)
    store = storage if storage is not None else FileSessionStorage()
    report = RelinkReport(dry_run)
    root = _Root(os.fspath(old_cwd), os.fspath(new_cwd))
    planned: list[Relinked] = []
    for stat, head in _all_heads(chosen, store, report.skipped):
        target_cwd = root.reroot(head.cwd)
        if target_cwd is not None:
            new_path = _new_path(stat.path, head.cwd, target_cwd, chosen, store)
            planned.append(Relinked(stat.path, new_path, head.cwd, target_cwd))
    if dry_run:
        report.sessions = planned
        return report
    new_paths = {item.path: item.new_path for item in planned}
    for item in planned:
        try:
            _require_unused(store, item.path)
            leave_link = _is_link_wanted(store, item.path, item.cwd)
            reroot_session(
                store, item.path, item.new_path, item.new_cwd, new_paths, leave_link=leave_link
            )
            report.sessions.append(item)
        except (SessionTreeError, OSError) as error:
            reason = error.reason if isinstance(error, PersistenceError) else str(error)
            report.skipped.append(Unreadable(item.path, reason))
    return report


def bring_last_session(
    cwd: str | os.PathLike[str],
    session_dir: str | os.PathLike[str] | None = None,
    *,
    profile: str | Profile | None = None,
    storage: SessionStorage | None = None,
) -> Relinked | None:
    """Re-root this terminal's last session, if its project's folder is now ``cwd``.

    Only where a breadcrumb proves that it is the same folder (see ``read_moved_breadcrumb``). The
    other sessions of the project stay for ``relink``. Raises SessionTreeError.
    """
    chosen = get_profile(profile)
    store = storage if storage is not None else FileSessionStorage()
    found = read_moved_breadcrumb(chosen, cwd, storage=store)
    if found is None:
        return None
    path, old_cwd = found
    if session_dir is not None and not same_cwd(os.path.dirname(path), session_dir):
        return None
    new_cwd = os.path.abspath(cwd)
    try:
        file = path if store.exists(path) else draft_path(path)
        head = read_head(store, file)
        if head is None or not same_cwd(head.cwd, old_cwd):
            return None
        new_path = _new_path(file, old_cwd, new_cwd, chosen, store)
        leave_link = _is_link_wanted(store, file, old_cwd)
        reroot_session(store, file, new_path, new_cwd, {}, leave_link=leave_link)
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
    return Relinked(file, new_path, old_cwd, new_cwd)


def _require_unused(storage: SessionStorage, path: str) -> None:
    """PersistenceError if another program has the session open: it would go on at the old place."""
    users = find_users(path) if isinstance(storage, FileSessionStorage) else []
    if users:
        raise PersistenceError(path, f"is open in {users[0]}; close it there first")


def _is_link_wanted(storage: SessionStorage, path: str, cwd: str) -> bool:
    """Whether a program may go on writing to the old place that finds the file by its name."""
    if not isinstance(storage, FileSessionStorage) or not path.endswith(SESSION_SUFFIX):
        return False
    return was_written_lately(path) or may_be_written(path, cwd)


class _Root:
    """An old folder and its new place."""

    def __init__(self, old: str, new: str) -> None:
        self._new = os.path.abspath(new)
        lexical = os.path.abspath(old)
        # A folder that is gone may have been recorded through a link that is still there.
        self._olds = {lexical} if os.path.isdir(lexical) else {lexical, resolve_cwd(old)}

    def reroot(self, cwd: str) -> str | None:
        """The new place of a project at or below the old folder; None for any other."""
        for old in self._olds:
            for spelled in (cwd.rstrip("/\\") or cwd, resolve_cwd(cwd)):
                below = spelled.removeprefix(old)
                if spelled == old or (below != spelled and below[:1] in ("/", "\\")):
                    made = self._new + below
                    return made if made != cwd else None
        return None


def _new_path(
    path: str, old_cwd: str, new_cwd: str, profile: Profile, storage: SessionStorage
) -> str:
    folder, name = os.path.split(path)
    if folder not in session_folders(profile, old_cwd):
        return path  # it did not lie in its project's folder before, so it stays where it is
    return os.path.join(default_session_dir(profile, new_cwd, storage), name)


def _all_heads(
    profile: Profile, storage: SessionStorage, skipped: list[Unreadable]
) -> Iterator[tuple[FileStat, Head]]:
    """Every session and draft of a profile that tells its project."""

    def skip(path: str, error: OSError) -> None:
        skipped.append(Unreadable(path, error.strerror or str(error)))

    for folder in project_folders(profile, storage, skip):
        try:
            drafts = [
                stat
                for stat in storage.list_files(folder, DRAFT_SUFFIX)
                if session_of_draft(stat.path) is not None
            ]
        except OSError as error:
            skip(folder, error)
            continue
        for stat in (*list_session_files(storage, folder, skip), *drafts):
            try:
                head = read_head(storage, stat.path)
            except OSError as error:
                skip(stat.path, error)
                continue
            if head is not None and head.cwd:
                yield stat, head
