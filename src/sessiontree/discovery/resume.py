"""Choose the session that ``--resume VALUE`` or ``--continue`` means.

docs/discovery.md#resuming-and-continuing states the rules. An id is first searched in file names,
so only matching files are opened; a full listing is made only if no name matches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessiontree.discovery.breadcrumbs import began_new_session, read_breadcrumb
from sessiontree.discovery.drafts import is_blank, list_draft_files
from sessiontree.discovery.heads import Head, read_head
from sessiontree.discovery.last_used import by_last_use
from sessiontree.discovery.paths import (
    DRAFT_SUFFIX,
    SESSION_SUFFIX,
    belongs_to,
    draft_path,
    list_session_folders,
    parse_session_file_name,
    same_cwd,
    session_folders,
    session_of_draft,
)
from sessiontree.discovery.recent import list_session_files
from sessiontree.errors import (
    AmbiguousSessionError,
    NotASessionError,
    PersistenceError,
    SessionNotFoundError,
)
from sessiontree.profiles import Profile, get_profile
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.regular import leads_beside

if TYPE_CHECKING:  # loaded only for names and for telling candidates apart: continuing is quicker
    from sessiontree.discovery.listing import SessionInfo, SessionList

_Match = tuple[str, Head | None]
_BEGINS_LIKE_A_FILE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class ResolvedSession:
    """The session that was found. ``is_local`` if it belongs to the caller's project.

    ``cwd`` is empty if the header has none or is lost: then the session's folder decides.
    """

    path: str
    id: str
    cwd: str
    is_local: bool
    title: str | None = None


def resolve_session(
    value: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    *,
    session_dir: str | os.PathLike[str] | None = None,
    profile: str | Profile | None = None,
    storage: SessionStorage | None = None,
) -> ResolvedSession:
    """Find the session with this path, id prefix or exact name.

    A value with a slash or backslash, or one ending in ``.jsonl``, is a path. Else ids are tried,
    in this project and then (without ``session_dir``) in all; then, likewise, what files are called
    (``2026-02-16T10``), the ids of files that are named after another one, and names. Raises
    SessionNotFoundError, AmbiguousSessionError with the candidates as ``SessionInfo``, newest
    first, NotASessionError and PersistenceError for a path.
    """
    text = os.fspath(value)
    project = os.fspath(cwd) if cwd is not None else os.getcwd()
    query = _Query(
        text,
        project,
        os.path.abspath(session_dir) if session_dir is not None else None,
        get_profile(profile),
        storage if storage is not None else FileSessionStorage(),
    )
    if not text.strip():
        raise SessionNotFoundError(text, "No session is named by an empty value.")
    if not isinstance(value, str) or "/" in text or "\\" in text or text.endswith(SESSION_SUFFIX):
        return query.by_path()
    found = query.by_id() or query.by_file_name() or query.by_listing()
    if found is None:
        raise SessionNotFoundError(text)
    return found


def choose_recent(
    cwd: str | os.PathLike[str],
    session_dir: str | os.PathLike[str] | None = None,
    *,
    profile: str | Profile | None = None,
    storage: SessionStorage | None = None,
) -> str | None:
    """Choose the file to continue: this terminal's last session here, else the project's last.

    None if this terminal had begun a new session here, which was never written.
    The path of a draft if that session was never answered; None if there is nothing to continue.
    """
    chosen = get_profile(profile)
    store = storage if storage is not None else FileSessionStorage()
    crumb = read_breadcrumb(chosen, cwd, storage=store)
    folders = session_folders(chosen, cwd)
    if session_dir is not None:
        folders = [os.path.abspath(session_dir)]
        if crumb is not None and not same_cwd(os.path.dirname(crumb), folders[0]):
            crumb = None
    if crumb is not None:
        return crumb if store.exists(crumb) else draft_path(crumb)
    given = folders[0] if session_dir is not None else None
    if began_new_session(chosen, cwd, given, storage=store):
        return None
    belongs = belongs_to(cwd)
    for stat, _ in by_last_use(store, _newest_with_drafts(store, folders)):
        head = _try_head(store, stat.path)
        if head is None or not belongs(head.cwd):
            continue
        if session_of_draft(stat.path) is None or not is_blank(store, stat):
            return stat.path
    return None


def choose_newest(folders: list[str], storage: SessionStorage) -> str | None:
    """Choose the file, or draft, of the newest session in some folders, of any project."""
    for stat in _newest_with_drafts(storage, folders):
        if _try_head(storage, stat.path) is not None:
            return stat.path
    return None


def find_by_id(
    prefix: str, folders: list[str], *, profile: Profile, storage: SessionStorage
) -> list[SessionInfo]:
    """Find the sessions and drafts in some folders whose id begins with ``prefix``."""
    query = _Query(prefix, "", None, profile, storage)
    return query.infos([path for path, _ in query.find_ids(folders)])


@dataclass(frozen=True, slots=True)
class _Query:
    value: str
    cwd: str
    session_dir: str | None
    profile: Profile
    storage: SessionStorage

    @property
    def _own_folders(self) -> list[str]:
        return [self.session_dir] if self.session_dir else session_folders(self.profile, self.cwd)

    def _is_local(self, path: str, cwd: str) -> bool:
        """Whether a session is this project's: by its cwd, else by its folder."""
        if cwd:
            return belongs_to(self.cwd)(cwd)
        return os.path.dirname(path) in self._own_folders

    def by_path(self) -> ResolvedSession:
        path = os.path.join(os.path.abspath(self.cwd), os.path.expanduser(self.value))
        try:
            if not self.storage.exists(path):
                draft = draft_path(path)
                if not self.storage.exists(draft):
                    raise SessionNotFoundError(self.value)
                path = draft
            head = read_head(self.storage, path)
        except OSError as error:
            raise PersistenceError.from_os_error(path, error) from error
        if head is None:
            named = parse_session_file_name(path)
            if not path.endswith(SESSION_SUFFIX):
                raise NotASessionError(path)
            # damaged: opening it reports that and salvages what is readable
            session_id = named[1] if named else ""
            return ResolvedSession(path, session_id, "", self._is_local(path, ""))
        is_local = self._is_local(path, head.cwd)
        return ResolvedSession(path, head.session_id, head.cwd, is_local, head.title)

    def by_id(self) -> ResolvedSession | None:
        return self._nearest(self.find_ids)

    def by_file_name(self) -> ResolvedSession | None:
        """Find by the time in the file name, given at least to the day."""
        return self._nearest(self._find_files) if _BEGINS_LIKE_A_FILE.match(self.value) else None

    def _nearest(self, find: Callable[[list[str]], list[_Match]]) -> ResolvedSession | None:
        """Return the matches in this project, else in all."""
        own = self._own_folders
        matches = find(own)
        if self.session_dir is None:
            local = [match for match in matches if self._is_local(match[0], _cwd_of(match[1]))]
            if local:
                return self._pick(local)
            everywhere = _list_folders(self.storage, self.profile)
            matches += find([folder for folder in everywhere if folder not in own])
        return self._pick(matches) if matches else None

    def by_listing(self) -> ResolvedSession | None:
        """Find by a listing: the id in a header, whatever the file's name, or a session's name."""
        for listed in self._listings():
            found = self._with_id(listed) or self._with_title(listed)
            if len(found) > 1:
                raise AmbiguousSessionError(self.value, found)
            if found:
                (session,) = found
                is_local = self._is_local(session.path, session.cwd)
                return ResolvedSession(
                    session.path, session.id, session.cwd, is_local, session.title
                )
        return None

    def _listings(self) -> Iterator[SessionList]:
        """Yield this project's sessions, then those of all, which may take long to read."""
        from sessiontree.discovery.listing import list_all_sessions, list_sessions

        yield list_sessions(self.cwd, self.session_dir, profile=self.profile, storage=self.storage)
        if self.session_dir is None:
            yield list_all_sessions(profile=self.profile, storage=self.storage)

    def _with_id(self, listed: SessionList) -> list[SessionInfo]:
        found = [info for info in (*listed, *listed.empty) if info.id.startswith(self.value)]
        found.sort(key=lambda info: info.modified, reverse=True)
        return [info for info in found if info.id == self.value] or found

    def _with_title(self, listed: SessionList) -> list[SessionInfo]:
        wanted = self.value.strip()
        return [info for info in listed if info.title and info.title.strip() == wanted]

    def find_ids(self, folders: list[str]) -> list[_Match]:
        """Find the sessions and drafts in these folders whose id begins with the value."""
        found: list[_Match] = []
        for path in self._candidates(folders):
            named = parse_session_file_name(session_of_draft(path) or path)
            if named is not None and not named[1].startswith(self.value):
                continue
            if leads_beside(path):
                continue
            head = _try_head(self.storage, path)
            if named is not None or (head and head.session_id.startswith(self.value)):
                found.append((path, head))
        return found

    def _find_files(self, folders: list[str]) -> list[_Match]:
        """Find the sessions and drafts in these folders whose file name begins with the value."""
        return [
            (path, _try_head(self.storage, path))
            for path in self._candidates(folders)
            if os.path.basename(session_of_draft(path) or path).startswith(self.value)
            and not leads_beside(path)
        ]

    def _candidates(self, folders: list[str]) -> Iterator[str]:
        for folder in folders:
            try:
                names = set(self.storage.list_names(folder))
            except OSError:
                continue
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(SESSION_SUFFIX) and not name.startswith("."):
                    yield path
                elif name.endswith(DRAFT_SUFFIX):
                    session_file = session_of_draft(name)
                    if session_file is not None and session_file not in names:
                        yield path

    def _pick(self, matches: list[_Match]) -> ResolvedSession:
        """Return the only match, or the only exact one; raise AmbiguousSessionError otherwise."""
        exact = [match for match in matches if _id_of(*match) == self.value]
        chosen = exact or matches
        if len(chosen) > 1:
            raise AmbiguousSessionError(self.value, self.infos([path for path, _ in chosen]))
        path, head = chosen[0]
        cwd = _cwd_of(head)
        title = head.title if head is not None else None
        return ResolvedSession(path, _id_of(path, head), cwd, self._is_local(path, cwd), title)

    def infos(self, paths: list[str]) -> list[SessionInfo]:
        from sessiontree.discovery.catalogue import survey
        from sessiontree.discovery.listing import in_order, make_session_info

        stats: list[FileStat] = []
        for path in paths:
            try:
                stats.append(self.storage.stat(path))
            except OSError:
                continue
        surveyed = survey(stats, self.storage, is_complete=False)
        return in_order(
            (stat, make_session_info(stat, summary, self.profile.dialect, self.storage))
            for stat, summary in surveyed.found
        )


def _list_folders(storage: SessionStorage, profile: Profile) -> list[str]:
    try:
        return list_session_folders(profile, storage)
    except OSError:
        return []


def _id_of(path: str, head: Head | None) -> str:
    if head is not None:
        return head.session_id
    named = parse_session_file_name(session_of_draft(path) or path)
    return named[1] if named else ""


def _cwd_of(head: Head | None) -> str:
    return head.cwd if head is not None else ""


def _newest_with_drafts(storage: SessionStorage, folders: list[str]) -> list[FileStat]:
    files = [stat for folder in folders for stat in list_session_files(storage, folder)]
    files += list_draft_files(storage, folders)
    return sorted(files, key=lambda stat: (stat.mtime_ns, stat.path), reverse=True)


def _try_head(storage: SessionStorage, path: str) -> Head | None:
    try:
        return read_head(storage, path)
    except OSError:
        return None
