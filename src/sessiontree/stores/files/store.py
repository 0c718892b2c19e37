"""``FileStore``: sessions as JSONL files in an agent's folders, which other programs may write too.

A ref is the path of a session file. The store says where files lie; ``log`` reads and writes one,
``discovery`` lists and searches them.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Self

from sessiontree.clock import Clock, now_ms
from sessiontree.discovery import paths
from sessiontree.errors import AmbiguousSessionError, PersistenceError, SessionNotFoundError
from sessiontree.model.entries import Entry, is_answer
from sessiontree.model.header import Header, get_cwd, get_scope
from sessiontree.profiles import Dialect, Profile, get_profile
from sessiontree.storage.base import FileStat, SessionStorage, require_storage
from sessiontree.storage.blobs import BlobStore
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import (
    Announce,
    Durability,
    EntryPlace,
    ListMark,
    Ref,
    SessionLog,
    StrPath,
    Watch,
)

if TYPE_CHECKING:  # loaded when they are needed: a listing opens no session
    from sessiontree.discovery.listing import SessionInfo, SessionList
    from sessiontree.discovery.search.hits import SearchResults
    from sessiontree.discovery.search.times import Since
    from sessiontree.stores.files.log import FileLog
    from sessiontree.stores.files.relinking import Relinked
    from sessiontree.stores.files.trash import TrashItem

_LONGEST_LAST_LINE = 1 << 16


class FileStore:
    """The sessions of one profile, or those in one folder, on a storage of bytes.

    With a ``profile`` every file is in its dialect; without one the profile is the default one, and
    of a file that lies in another profile's folder, or shows another dialect, that one.
    ``session_dir`` is one folder for all sessions, whatever their project. Sessions of a store that
    is not ``is_kept`` have no file that anybody else could open.
    """

    def __init__(
        self,
        storage: SessionStorage | None = None,
        profile: str | Profile | None = None,
        session_dir: StrPath | None = None,
        *,
        clock: Clock = now_ms,
        is_kept: bool = True,
    ) -> None:
        if storage is not None:
            require_storage(storage)
        self.storage: SessionStorage = storage if storage is not None else FileSessionStorage()
        self.profile = get_profile(profile)
        self.has_given_profile = profile is not None
        self.session_dir = os.path.abspath(session_dir) if session_dir is not None else None
        self.clock = clock
        self.is_kept = is_kept

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    @property
    def url(self) -> str:
        """``file:`` and the agent folder, or the one folder of all sessions."""
        from urllib.parse import quote

        return f"file:{quote(self.session_dir or self.profile.agent_dir)}"

    @property
    def dialect(self) -> Dialect:
        """The dialect of new sessions."""
        return self.profile.dialect

    def like(
        self,
        *,
        profile: Profile | None = None,
        session_dir: StrPath | None = None,
        is_kept: bool | None = None,
        has_given_profile: bool | None = None,
    ) -> Self:
        """The same store but for these."""
        made = copy.copy(self)
        if profile is not None:
            made.profile = profile
        if session_dir is not None:
            made.session_dir = os.path.abspath(session_dir)
        if is_kept is not None:
            made.is_kept = is_kept
        if has_given_profile is not None:
            made.has_given_profile = has_given_profile
        return made

    # -- where files lie -------------------------------------------------------------------

    @property
    def root(self) -> str:
        """The folder below which all sessions lie."""
        return self.session_dir or self.profile.sessions_dir

    def folders(self, scope: str | None = None) -> list[str]:
        """The folders with sessions of a scope; without one, those with sessions of none."""
        if scope is not None:
            return [os.path.join(self.root, paths.scope_name(scope))]
        if self.session_dir is not None:
            return [self.session_dir]
        try:
            found = self.storage.list_dirs(self.root)
        except OSError as error:
            raise PersistenceError.from_os_error(self.root, error) from error
        return [folder for folder in found if not paths.is_scope_folder(folder)]

    def folder_for(self, cwd: str, scope: str | None = None) -> str:
        """The folder for a new session. Raises PersistenceError if that cannot be told."""
        if scope is not None:
            return os.path.join(self.root, paths.scope_name(scope))
        return self.session_dir or paths.default_session_dir(self.profile, cwd, self.storage)

    def blobs_for(self, path: str) -> BlobStore:
        """The blobs that a file's lines may name: to be kept in the profile's."""
        from sessiontree.stores.files.opening import make_blob_store

        if not self.is_kept:
            return BlobStore(self.profile.blobs_dir, self.storage)
        return make_blob_store(self.profile, path, self.storage)

    def other_places(self, path: str) -> Iterator[str]:
        """The places to which another program may have moved a file."""
        return paths.other_places(self.profile, path, self.storage)

    def get_time_ns(self, ref: Ref) -> int:
        """The mtime of a session's file. Raises OSError if it does not exist."""
        return self.storage.stat(ref).mtime_ns

    def set_time_ns(self, ref: Ref, time_ns: int) -> None:
        """Set the mtime of a session's file. Best effort."""
        from sessiontree.discovery.talked import set_time

        set_time(self.storage, ref, time_ns)

    def bring_last(self, cwd: str) -> Relinked | None:
        """Move this terminal's last session here, if its project's folder is now this one."""
        from sessiontree.stores.files.relinking import bring_last_session

        return bring_last_session(cwd, self.session_dir, profile=self.profile, storage=self.storage)

    def artifacts_dir(self, ref: Ref) -> str | None:
        """The folder for what belongs to a session beside its log; it need not exist."""
        return paths.artifacts_dir(ref)

    def new_log(
        self,
        header: Header,
        *,
        durability: Durability = "flush",
        is_draft: bool = True,
        folder: str | None = None,
    ) -> FileLog:
        """The log of a session of which nothing is written yet."""
        from sessiontree.stores.files.log import FileLog
        from sessiontree.stores.identity import require_durability

        require_durability(durability)
        if folder is None:
            folder = self.folder_for(get_cwd(header), get_scope(header))
        name = paths.session_file_name(header.get("timestamp", ""), header.get("id", ""))
        path = os.path.join(folder, name)
        return FileLog(self, header, path, self.dialect, durability, is_draft=is_draft)

    # -- sessions --------------------------------------------------------------------------

    def create(
        self,
        header: Header,
        *,
        durability: Durability = "flush",
        is_new_id: bool = True,
        beside: SessionLog | None = None,
    ) -> FileLog:
        """A new session; its file appears with the first answer, its draft with the first entry.

        One whose id is not new has its draft at once, so that of several who want the id one has
        it. Raises SessionExistsError.
        """
        from sessiontree.stores.files.claims import claim_id

        folder = os.path.dirname(beside.ref) if beside is not None else None
        log = self.new_log(header, durability=durability, folder=folder)
        if not is_new_id:
            claim_id(log)
        return log

    def open(
        self, ref: Ref, *, cwd: str | None = None, durability: Durability = "flush"
    ) -> FileLog:
        """The session in a file; a missing or empty file becomes a new session.

        Raises NotASessionError for a file of another kind, PersistenceError if it cannot be read.
        """
        from sessiontree.stores.files.opening import open_log

        return open_log(self._store_of(ref), ref, cwd, durability)

    def read(self, ref: Ref) -> FileLog:
        """The session in a file, which stays as it is; nothing can be written.

        Raises SessionNotFoundError, NotASessionError, PersistenceError.
        """
        from sessiontree.stores.files.opening import read_log

        return read_log(self._store_of(ref), ref)

    def _store_of(self, ref: Ref) -> FileStore:
        """This store, of the profile that the file belongs to."""
        from sessiontree.stores.files.opening import profile_for

        if self.has_given_profile or not self.is_kept:
            return self
        return self.like(profile=profile_for(os.path.abspath(ref), None, self.profile))

    def copy(
        self,
        log: SessionLog,
        header: Header,
        entries: Sequence[Entry] | None = None,
        *,
        announce: Announce | None = None,
    ) -> FileLog:
        """A new file beside that of an open session, with all its entries or with these.

        All of them bring the artifacts along. It is a draft if nothing in it has been answered.
        """
        from sessiontree.stores.files.copying import write_copy  # store < copying < log

        is_whole = entries is None
        if entries is None:
            entries = log.tree.entries
            is_draft = log.is_draft
        else:
            is_draft = not any(
                entry.type == "message" and is_answer(entry.decode()) for entry in entries
            )
        made = self.new_log(
            header,
            durability=log.durability,
            is_draft=is_draft,
            folder=os.path.dirname(log.ref),
        )
        made.dialect = made.filer.dialect = log.dialect
        artifacts = paths.artifacts_dir(log.ref) if is_whole else None
        return write_copy(made, entries, artifacts=artifacts, announce=announce)

    def fork(
        self,
        ref: Ref,
        cwd: str,
        *,
        scope: str | None = None,
        durability: Durability = "flush",
    ) -> FileLog:
        """A copy of a session file in another project. The source is only read.

        Raises SessionNotFoundError, NotASessionError, PersistenceError.
        """
        from sessiontree.stores.files.fork import fork_file

        return fork_file(self, ref, cwd, scope, durability)

    # -- finding ---------------------------------------------------------------------------

    def exists(self, ref: Ref) -> bool:
        """Whether there is a session file, or its draft. Raises PersistenceError."""
        try:
            return self.storage.exists(ref) or self.storage.exists(paths.draft_path(ref))
        except OSError as error:
            raise PersistenceError.from_os_error(ref, error) from error

    def get_info(self, ref: Ref) -> SessionInfo | None:
        """The listing's line of a session file or draft; None if there is none to be read."""
        from sessiontree.discovery.catalogue import survey
        from sessiontree.discovery.listing import make_session_info

        path = os.path.abspath(ref)
        for file in (path, paths.draft_path(path)):
            try:
                found = survey([self.storage.stat(file)], self.storage, is_complete=False).found
            except OSError:
                continue
            if found:
                stat, summary = found[0]
                return make_session_info(stat, summary, self._store_of(ref).dialect, self.storage)
        return None

    def read_last_line(self, ref: Ref) -> bytes | None:
        """The line that was written last; None if there is none, or it is a long one."""
        try:
            end = self.storage.read_suffix(ref, _LONGEST_LAST_LINE)
        except OSError:
            return None
        _, *lines = end.rstrip(b"\r\n").split(b"\n")
        return lines[-1].rstrip(b"\r") if lines else None

    def locate(self, session_id: str, *, scope: str | None = None) -> Ref | None:
        """The file of the session that has exactly this id, a draft's too, if there is one."""
        from sessiontree.stores.files.claims import find_id

        return find_id(self, session_id, scope)

    def latest(self, cwd: str | None, *, scope: str | None = None) -> Ref | None:
        """This terminal's last session of the project, else the newest; of a scope, the newest."""
        from sessiontree.discovery.resume import choose_newest, choose_recent

        if scope is not None or cwd is None:
            return choose_newest(self.folders(scope), self.storage)
        return choose_recent(cwd, self.session_dir, profile=self.profile, storage=self.storage)

    def list(
        self,
        cwd: str | None = None,
        *,
        scope: str | None = None,
        limit: int | None = None,
        before: ListMark | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> SessionList:
        """The sessions of a project, a scope, or all, newest first; at most ``limit`` of them.

        With one folder for all sessions, all that it holds.
        """
        from sessiontree.discovery.listing import list_all_sessions, list_sessions

        storage, profile = self.storage, self.profile
        if scope is not None:
            (folder,) = self.folders(scope)
            found = list_sessions("", folder, on_progress, profile=profile, storage=storage)
        elif self.session_dir is not None or cwd is not None:
            found = list_sessions(
                cwd or "", self.session_dir, on_progress, profile=profile, storage=storage
            )
        else:
            found = list_all_sessions(on_progress, profile=profile, storage=storage)
        found.total = len(found)
        if before is not None:
            del found[: _place_behind(found, before)]
        if limit is not None:
            del found[limit:]
        return found

    def find(
        self, prefix: str, *, cwd: str | None = None, scope: str | None = None
    ) -> Sequence[SessionInfo]:
        """The sessions and drafts whose id begins so, newest first; of a project, scope, or all."""
        from sessiontree.discovery.resume import find_by_id

        if cwd is not None and scope is None and self.session_dir is None:
            folders = paths.session_folders(self.profile, cwd)
        else:
            folders = self.folders(scope)
        return find_by_id(prefix, folders, profile=self.profile, storage=self.storage)

    def find_entry(self, entry_id: str) -> Sequence[EntryPlace]:
        """Find the entries of this id, in all sessions; each file is looked through."""
        from sessiontree.stores.files.entry_search import find_entry

        return find_entry(self, entry_id)

    def search(
        self,
        query: str,
        *,
        cwd: str | None = None,
        scope: str | None = None,
        role: str | None = None,
        since: Since | None = None,
        include_tools: bool = False,
        limit: int | None = 20,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> SearchResults:
        """The sessions that contain the words of a query, best first, as ``search`` does it."""
        from sessiontree.discovery.search import search

        folders = None
        if scope is not None or self.session_dir is not None:
            folders = self.folders(scope)
        return search(
            query,
            cwd=cwd if scope is None else None,
            profile=self.profile,
            folders=folders,
            role=role,
            since=since,
            include_tools=include_tools,
            limit=limit,
            on_progress=on_progress,
            storage=self.storage,
        )

    def leave_breadcrumb(self, cwd: str, ref: Ref) -> None:
        """Note that this terminal works on a session. Best effort."""
        if isinstance(self.storage, FileSessionStorage):
            from sessiontree.discovery.breadcrumbs import write_breadcrumb

            write_breadcrumb(self.profile, cwd, ref)

    def watch(self, ref: Ref) -> Watch:
        """Waits for others to write to a session."""
        from sessiontree.stores.files.watching import watch_file

        return watch_file(self, ref)

    # -- removing --------------------------------------------------------------------------

    def delete(
        self, ref: Ref, *, permanently: bool = False, batch: str | None = None
    ) -> TrashItem | None:
        """Move a session to the trash, or remove it with all that only it needs.

        Raises SessionNotFoundError, PersistenceError.
        """
        from sessiontree.stores.files import removal, trash

        try:
            if not permanently:
                return trash.move_to_trash(
                    ref,
                    profile=self.profile,
                    storage=self.storage,
                    batch=batch,
                    clock=self.clock,
                )
            removal.remove(self, ref)
        except OSError as error:
            raise PersistenceError.from_os_error(ref, error) from error
        return None

    def is_in_trash(self, path: str, found: FileStat) -> bool:
        """Whether this very file, which was at ``path``, is in the trash."""
        from sessiontree.stores.files import trash

        try:
            return trash.holds_file(self.profile, path, found, storage=self.storage)
        except OSError:
            return False

    def list_trash(self) -> Sequence[TrashItem]:
        """List the profile's trash, what was removed last first. PersistenceError."""
        from sessiontree.stores.files import trash

        return trash.list_trash(self.profile, storage=self.storage)

    def restore(self, session_id: str) -> Ref:
        """Take a session out of the trash; return its file.

        The id, its beginning, or where the file was. Of several that were removed from one place
        the latest comes back. Raises SessionNotFoundError; AmbiguousSessionError if sessions of
        several places have this id.
        """
        from sessiontree.stores.files import trash

        found = trash.find_in_trash(session_id, self.profile, storage=self.storage)
        if not found:
            raise SessionNotFoundError(session_id)
        exact = [item for item in found if session_id in (item.session_id, item.id)] or found
        if len({item.path for item in exact}) > 1:
            raise AmbiguousSessionError(session_id, exact)
        return trash.restore(exact[0], storage=self.storage)

    def purge(self, before: datetime) -> int:
        """Delete for good what was removed before this time; return how many sessions.

        Sessions without a time of removal stay. Raises PersistenceError.
        """
        from sessiontree.stores.files import trash

        expired = [item for item in self.list_trash() if trash.is_older(item, before)]
        for item in expired:
            trash.delete_forever(item, storage=self.storage)
        return len(expired)

    def close(self) -> None:
        """Files are held by logs only."""


def _place_behind(found: Sequence[SessionInfo], mark: ListMark) -> int:
    """How many sessions a listing has up to a place in it; the session there may be gone."""
    modified, ref = mark
    for place, info in enumerate(found):
        if info.path == ref:
            return place + 1
        if info.modified < modified:
            return place
    return len(found)
