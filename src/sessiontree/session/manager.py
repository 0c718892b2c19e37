"""``SessionManager``: one session, as a tree and a log. A façade; the rules live elsewhere.

The names are fixed. A manager works on one session at a time and can be moved to another;
everything that can fail happens before the move. One thread at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sessiontree.discovery import paths
from sessiontree.discovery.breadcrumbs import write_breadcrumb
from sessiontree.errors import SessionTreeError
from sessiontree.model.dialects import extension_key
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Profile, get_profile
from sessiontree.session import copying, move, opening
from sessiontree.session import fork as forking
from sessiontree.session.appends import SessionAppends, put_given
from sessiontree.session.facts import SessionFacts
from sessiontree.session.live import LiveSession
from sessiontree.session.name import rename_live
from sessiontree.storage.base import SessionStorage, require_storage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.memory import MemorySessionStorage
from sessiontree.stores.files.log import Durability
from sessiontree.stores.place import Place

if TYPE_CHECKING:
    from sessiontree.discovery.listing import SessionList

StrPath = str | os.PathLike[str]
Progress = Callable[[int, int], object]


class SessionManager(SessionFacts, SessionAppends):
    """A session to read, append to, branch, fork and move. Also a context manager.

    Made by ``create``, ``open``, ``continue_recent``, ``fork_from`` or ``in_memory``. All of them
    take ``profile`` (whose session: a name; by default ``SESSIONTREE_PROFILE``, else ours),
    ``storage`` (where sessions live; by default files) and ``durability`` ("flush": the medium is
    waited for by ``flush()``; "entry": by every append). What cannot be done is a SessionTreeError.
    """

    def __init__(self, session: LiveSession, durability: Durability = "flush") -> None:
        self._session = session
        self._durability = durability
        self._leave_breadcrumb()

    # -- constructors ----------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        cwd: StrPath,
        session_dir: StrPath | None = None,
        *,
        profile: str | Profile | None = None,
        storage: SessionStorage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """A new session for a project. Its file appears with the first answer."""
        place = _place(cwd, session_dir, get_profile(profile), storage)
        return cls(opening.start_session(place, durability), durability)

    @classmethod
    def open(
        cls,
        path: StrPath,
        session_dir: StrPath | None = None,
        *,
        profile: str | Profile | None = None,
        storage: SessionStorage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """The session in a file; a missing or empty file becomes a new session.

        Raises NotASessionError for a file of another kind, PersistenceError if it cannot be read.
        """
        session = opening.open_session(
            os.fspath(path),
            profile=profile,
            storage=_choose(storage),
            durability=durability,
            session_dir=os.path.abspath(session_dir) if session_dir is not None else None,
        )
        return cls(session, durability)

    @classmethod
    def continue_recent(
        cls,
        cwd: StrPath,
        session_dir: StrPath | None = None,
        *,
        profile: str | Profile | None = None,
        storage: SessionStorage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """This terminal's last session of the project, else the one used last, else a new one.

        Where the project's folder was renamed, this terminal's last session comes along.
        """
        from sessiontree.discovery.resume import choose_recent

        storage = _choose(storage)
        found = choose_recent(cwd, session_dir, profile=profile, storage=storage)
        moved = None
        if found is None:
            from sessiontree.discovery.moved_projects import bring_last_session

            moved = bring_last_session(cwd, session_dir, profile=profile, storage=storage)
            if moved is None:
                return cls.create(
                    cwd, session_dir, profile=profile, storage=storage, durability=durability
                )
            found = moved.new_path
        session = opening.open_session(
            found,
            profile=get_profile(profile),
            storage=storage,
            durability=durability,
            session_dir=os.path.abspath(session_dir) if session_dir is not None else None,
        )
        if moved is not None:
            told = f"the project was renamed: the session moved here from {moved.cwd}"
            session.warn(SessionWarning(told))
        return cls(session, durability)

    @classmethod
    def fork_from(
        cls,
        source_path: StrPath,
        cwd: StrPath,
        session_dir: StrPath | None = None,
        *,
        profile: str | Profile | None = None,
        storage: SessionStorage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """A copy of a session, whole, in the project ``cwd``. The source is only read.

        Raises SessionNotFoundError, NotASessionError, PersistenceError.
        """
        place = _place(cwd, session_dir, get_profile(profile), storage)
        return cls(forking.fork_file(os.fspath(source_path), place, durability), durability)

    @classmethod
    def in_memory(
        cls,
        cwd: StrPath | None = None,
        *,
        profile: str | Profile | None = None,
        storage: SessionStorage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """A session that is kept nowhere."""
        store = storage if storage is not None else MemorySessionStorage()
        place = _place(cwd or os.getcwd(), None, get_profile(profile), store)
        return cls(opening.start_unsaved(place), durability)

    @staticmethod
    def list(
        cwd: StrPath,
        session_dir: StrPath | None = None,
        on_progress: Progress | None = None,
        *,
        profile: str | Profile | None = None,
        storage: SessionStorage | None = None,
    ) -> SessionList:
        """The sessions of one project, newest first; those without a message are left out."""
        from sessiontree.discovery.listing import list_sessions

        return list_sessions(cwd, session_dir, on_progress, profile=profile, storage=storage)

    @staticmethod
    def list_all(
        on_progress: Progress | None = None,
        *,
        profile: str | Profile | None = None,
        storage: SessionStorage | None = None,
    ) -> SessionList:
        """The sessions of all projects of a profile, newest first."""
        from sessiontree.discovery.listing import list_all_sessions

        return list_all_sessions(on_progress, profile=profile, storage=storage)

    @property
    def durability(self) -> Durability:
        """When appends wait for the medium: at a flush, or at every entry."""
        return self._durability

    # -- the leaf --------------------------------------------------------------------------

    def branch(self, id: str) -> None:  # noqa: A002 - the name is fixed
        """Go on from an earlier entry. EntryNotFoundError; PersistenceError until ``recover``."""
        self._session.move_leaf(id)

    def reset_leaf(self) -> None:
        """Go on from before the first entry. PersistenceError until ``recover``."""
        self._session.move_leaf(None)

    def put_leaf_back(self, leaf_id: str | None) -> None:
        """Undo ``branch`` or ``reset_leaf``, also where an error came after it that is latched."""
        self._session.put_leaf_back(leaf_id)

    def branch_with_summary(
        self,
        id_or_none: str | None,
        summary: str,
        details: Any = None,
        from_extension: bool | None = None,
        *,
        usage: Any = None,
    ) -> str:
        """Go on from an earlier entry with a summary of what was left. EntryNotFoundError.

        None stands for before the first entry; ``usage`` is what the summary cost.
        """
        before = self.leaf_id
        self._session.move_leaf(id_or_none)
        fields: dict[str, Any] = {"fromId": id_or_none or "root", "summary": summary}
        put_given(fields, "details", details)
        put_given(fields, "usage", usage)
        put_given(fields, extension_key(self._session.log.dialect), from_extension)
        try:
            return self._session.append("branch_summary", fields)
        except BaseException:
            self._session.put_leaf_back(before)
            raise

    # -- whole-session operations ----------------------------------------------------------

    def set_session_file(self, path: StrPath) -> None:
        """Go over to the session in another file. If that fails, nothing has changed."""
        place = self._session.place
        if os.path.abspath(path) == self.session_file and not self._session.has_failed:
            self._session.close()  # what leaving writes is part of what is then read
        self._switch(
            opening.open_session(
                os.fspath(path),
                profile=None,
                default_profile=place.profile,
                storage=place.storage,
                durability=self._durability,
                session_dir=place.session_dir if place.has_explicit_dir else None,
                cwd=place.cwd,
                clock=place.clock,
            )
        )

    def new_session(self, parent_session: str | None = None, id: str | None = None) -> str | None:  # noqa: A002
        """Go over to a new session of the same project; its file's path."""
        place = self._session.place
        if self.is_persisted:
            made = opening.start_session(
                place, self._durability, parent_session=parent_session, session_id=id
            )
        else:
            made = opening.start_unsaved(place)
            made.change_header(parentSession=parent_session)
            if id is not None:
                made.change_header(id=id)
        self._switch(made)
        return self.session_file

    def set_session_name(self, name: str) -> None:
        """Name the session, as its dialect writes names; an empty name clears it."""
        rename_live(self._session, name)

    def fork(self) -> tuple[str, str] | None:
        """Copy the session, whole, and go over to the copy; (old path, new path).

        None if there is nothing on disk to copy.
        """
        old = self.session_file
        forked = self._switch_to_copy(lambda tell: copying.fork_live(self._session, tell))
        if forked is None or forked.file is None or old is None:
            return None
        return old, forked.file

    def create_branched_session(self, leaf_id: str) -> str | None:
        """Go over to a new session that holds just the path to ``leaf_id``; its file.

        None if the session is kept nowhere. EntryNotFoundError.
        """
        self._switch_to_copy(lambda tell: copying.branch_live(self._session, leaf_id, tell))
        return self.session_file

    def move_to(self, new_cwd: StrPath) -> None:
        """Move the session to another project: file, artifacts and header, all or nothing."""
        place = self._session.place
        cwd = os.path.abspath(new_cwd)
        folder = (
            place.session_dir
            if place.has_explicit_dir
            else paths.default_session_dir(place.profile, cwd, place.storage)
        )
        move.move_live(self._session, replace(place, cwd=cwd, session_dir=folder))
        self._leave_breadcrumb()

    def rewrite_entries(self) -> None:
        """Write the file anew, with what was changed in entries' ``data``."""
        self._session.rewrite(find_changes=True)

    def rewrite_tool_call_args(self, tool_call_id: str, arguments: dict[str, Any]) -> bool:
        """Give a recorded tool call other arguments, in memory and in the file; whether found."""
        return copying.rewrite_tool_call(self._session, tool_call_id, arguments)

    def refresh(self) -> int:
        """Read what other processes appended; how many entries that were."""
        return self._session.refresh()

    def flush(self) -> None:
        """Everything appended is on the medium when this returns; PersistenceError if not."""
        self._session.flush()

    def recover(self) -> None:
        """Go on after a PersistenceError, once its cause is gone; raises it again if not."""
        self._session.recover()

    def close(self) -> None:
        """Leave the session, keeping its leaf. What is in memory can still be read."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except SessionTreeError:
            if error is None:
                raise

    def _switch_to_copy(
        self, make: Callable[[copying.Announce], LiveSession | None]
    ) -> LiveSession | None:
        """Go over to a copy, if one is made; one that we do not get to is removed again."""
        made: list[LiveSession] = []
        try:
            copy = make(made.append)
            if copy is not None:
                self._switch(copy)
        except BaseException:
            for copy in made:
                if copy is not self._session:
                    copying.discard_live(copy)
            raise
        return copy

    def _switch(self, session: LiveSession) -> None:
        """Leave the old session, then stand on the new one; a failing leave changes nothing.

        A session whose writing had failed before has said so, and does not hold us back.
        """
        if self._session.has_failed:
            self._session.abandon()
        else:
            self._session.close()
        self._session = session
        self._leave_breadcrumb()

    def _leave_breadcrumb(self) -> None:
        place = self._session.place
        if self.session_file is not None and isinstance(place.storage, FileSessionStorage):
            write_breadcrumb(place.profile, place.cwd, self.session_file)


def _place(
    cwd: StrPath, session_dir: StrPath | None, profile: Profile, storage: SessionStorage | None
) -> Place:
    store = _choose(storage)
    absolute = os.path.abspath(cwd)
    folder = (
        os.path.abspath(session_dir)
        if session_dir is not None
        else paths.default_session_dir(profile, absolute, store)
    )
    return Place(profile, store, absolute, folder, session_dir is not None)


def _choose(storage: SessionStorage | None) -> SessionStorage:
    """The storage that was asked for, else files. TypeError for what is no storage."""
    if storage is None:
        return FileSessionStorage()
    require_storage(storage)
    return storage
