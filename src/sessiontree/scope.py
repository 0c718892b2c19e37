"""``Scope``: the one value for "which sessions are in question".

Every command, screen and lookup has one. It says where sessions are (the files of a profile, one
folder of them, or the store of a URL), where the person stands, and how far to look from there:

- ``"project"``: the sessions of the folder ``cwd``; with ``session_dir`` all of that folder.
- ``"all"``: those of all projects.

``agents`` are the agents whose sessions count: ``"all"``, a name, or several; without, those of the
profile or the store. Sessions of all agents are read where they lie (see ``discovery.adapters``).
``key`` narrows all of it to a scope that programs give their sessions, such as a tenant's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from sessiontree.errors import StoreError
from sessiontree.profiles import Profile, get_profile, list_profiles

if TYPE_CHECKING:  # loaded when the store is asked for: a program's help is there sooner
    from sessiontree.discovery.adapters import Agents
    from sessiontree.discovery.listing import SessionInfo, SessionList
    from sessiontree.discovery.resume import ResolvedSession
    from sessiontree.discovery.search.hits import SearchResults
    from sessiontree.discovery.search.times import Since
    from sessiontree.discovery.selection import Selection
    from sessiontree.discovery.usage import UsageTable
    from sessiontree.stores.base import ListMark, SessionStore
    from sessiontree.stores.files.store import FileStore

STORE_VARIABLE = "SESSIONTREE_STORE"
"""The environment's store, for the program."""

_PAGE = 500

Reach = Literal["project", "all"]
Progress = Callable[[int, int], object]


class Scope(msgspec.Struct, frozen=True, dict=True):
    """The sessions in question. ``url`` is None for files of the profile."""

    cwd: str
    profile: Profile
    session_dir: str | None = None
    url: str | None = None
    reach: Reach = "project"
    agents: Agents = None
    key: str | None = None
    is_profile_named: bool = False
    """Whether a person chose the profile: then it holds for files that lie elsewhere, too."""
    is_store_named: bool = False
    """Whether a person chose the store just now; the environment's need not be named again."""

    @property
    def is_in_files(self) -> bool:
        """Whether the sessions in question are in files; ``files`` loads what reads those."""
        return self.url is None

    @cached_property
    def store(self) -> SessionStore:
        """The store of new sessions, in which ids are looked up. Raises StoreError."""
        from sessiontree.stores import choose_store

        return self.files or choose_store(self.url, self.profile)

    @cached_property
    def files(self) -> FileStore | None:
        """The store, if it is the profile's files: for what is true of files only."""
        from sessiontree.stores.files.store import FileStore

        if not self.is_in_files:
            return None
        store = FileStore(profile=self.profile, session_dir=self.session_dir)
        is_given = self.is_profile_named or self.session_dir is not None
        return store.like(has_given_profile=is_given)

    def reaching(self, reach: Reach, *, agents: Agents = None) -> Scope:
        """The same scope with another reach."""
        return replace(self, reach=reach, agents=agents)

    @cached_property
    def others(self) -> tuple[SessionStore, ...]:
        """The stores of the other agents of this user that have sessions."""
        from sessiontree.discovery.paths import list_session_folders
        from sessiontree.stores.files.store import FileStore

        if self.url is not None:
            return ()
        stores = (FileStore(profile=each) for each in list_profiles())
        return tuple(
            store
            for store in stores
            if store.root != self.profile.sessions_dir
            and list_session_folders(store.profile, store.storage)
        )

    @property
    def stores(self) -> tuple[SessionStore, ...]:
        """All stores in question, one's own first."""
        return (self.store, *(self.others if self.agents else ()))

    def store_of(self, ref: str) -> SessionStore:
        """The one of this user's stores that a listed session is in."""
        for other in self.others:
            root = other.profile.session_dir or other.profile.sessions_dir
            if ref.startswith(os.path.join(root, "")):
                return other
        return self.store

    def address(self, ref: str) -> str:
        """The name of a session for anybody who reads it: its path, or its store and ref."""
        from sessiontree.stores import address_of

        return address_of(self.store, ref)

    # -- looking ---------------------------------------------------------------------------

    def list(self, on_progress: Progress | None = None, *, limit: int | None = None) -> SessionList:
        """List the sessions in question, newest first. Raises what the store raises."""
        is_near = self.reach == "project"
        cwd = self.cwd if is_near and self.key is None else None
        if self._is_of_agents:
            from sessiontree.discovery.agent_sessions import list_agent_sessions

            found = list_agent_sessions(self.agents, cwd, on_progress)
            if limit is not None:
                del found[limit:]
            return found
        # of one folder of sessions all are listed, and those of this project are marked
        near = self.cwd if self.session_dir is not None else cwd
        return self.store.list(near, scope=self.key, limit=limit, on_progress=on_progress)

    def pages(self, on_progress: Progress | None = None) -> Iterator[SessionList]:
        """List them a page at a time; files are one page. Raises what the store raises."""
        if self.files is not None:
            yield self.list(on_progress)
            return
        cwd = self.cwd if self.reach == "project" and self.key is None else None
        mark: ListMark | None = None
        while page := self.store.list(cwd, scope=self.key, limit=_PAGE, before=mark):
            yield page
            mark = page[-1].modified, page[-1].path

    @property
    def has_agents(self) -> bool:
        """Whether agents may be asked for; a store, or one folder, has only its own."""
        is_usual = self.url is None and self.profile == get_profile(self.profile.name)
        return is_usual and self.session_dir is None

    @property
    def _is_of_agents(self) -> bool:
        return bool(self.agents) and self.has_agents

    def search(
        self,
        query: str,
        *,
        role: str | None = None,
        since: Since | None = None,
        include_tools: bool = False,
        limit: int | None = 20,
        on_progress: Progress | None = None,
        accept: Callable[[SessionInfo], bool] | None = None,
        on_part: Callable[[SearchResults], object] | None = None,
    ) -> SearchResults:
        """Find the sessions in question that contain the words of a query, best first.

        ``accept`` decides about each session that has them.
        """
        cwd = self.cwd if self.reach == "project" else None
        if self._is_of_agents:
            from sessiontree.discovery.search import search

            return search(  # one index has the files of all agents
                query,
                cwd=cwd,
                agents=self.agents,
                role=role,
                since=since,
                include_tools=include_tools,
                limit=limit,
                on_progress=on_progress,
                max_indexing_s=None,  # it takes less time than reading the files would
                accept=accept,
                on_part=on_part,
            )
        from sessiontree.stores.base import SearchesAccepted

        search_store: Callable[..., SearchResults] = self.store.search
        unfiltered = accept
        if accept is not None and isinstance(self.store, SearchesAccepted):
            search_store = partial(self.store.search_accepted, accept=accept)
            unfiltered = None
        found = search_store(
            query,
            cwd=cwd,
            scope=self.key,
            role=role,
            since=since,
            include_tools=include_tools,
            limit=limit if unfiltered is None else None,
            on_progress=on_progress,
        )
        return found if unfiltered is None else _keep_accepted(found, unfiltered, limit)

    def agent_of(self, info: SessionInfo) -> str:
        """The name of the agent whose session this is."""
        return info.agent or self.agent_at(info.path)

    def agent_at(self, ref: str) -> str:
        """The name of the agent of pi's family whose sessions lie there; else the scope's own."""
        return self.store_of(ref).profile.name if self.url is None else self.profile.name

    def usage(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        is_estimating: bool = True,
        on_progress: Progress | None = None,
    ) -> UsageTable:
        """Add up what the sessions in question used, each paid call once."""
        from sessiontree.discovery.usage import count_usage, read_paid_sessions

        cwd = self.cwd if self.reach == "project" and self.session_dir is None else None
        if self.files is None:
            from sessiontree.stores.usage import read_paid_logs

            near = cwd if self.key is None else None
            paid, unreadable = read_paid_logs(self.store, self.key, near, on_progress)
        else:
            paid, unreadable = read_paid_sessions(self._select(cwd), on_progress)
        table = count_usage(paid, since=since, until=until, is_estimating=is_estimating)
        table.unreadable += unreadable
        return table

    def _select(self, cwd: str | None) -> Selection:
        from sessiontree.discovery.selection import select_sessions

        assert self.files is not None
        if self._is_of_agents:
            return select_sessions(cwd, None, self.files.storage, agents=self.agents)
        folders = [self.session_dir] if self.session_dir is not None else None
        return select_sessions(cwd, self.profile, self.files.storage, folders)

    def resolve(self, value: str) -> ResolvedSession:
        """Find the session with this path, address, id prefix or name, in this project first.

        Raises SessionNotFoundError, AmbiguousSessionError, NotASessionError, PersistenceError.
        """
        from sessiontree.stores.finding import resolve_in

        return resolve_in(self.store, value, self.cwd, scope=self.key)

    def latest(self) -> str | None:
        """This terminal's last session here, else the one used last, if there is one."""
        from sessiontree.stores.finding import latest_in

        return latest_in(self.store, self.cwd, scope=self.key)


def choose_scope(
    cwd: str | None = None,
    *,
    profile: str | Profile | None = None,
    session_dir: str | os.PathLike[str] | None = None,
    url: str | None = None,
    key: str | None = None,
) -> Scope:
    """The scope for what a person chose; by default the environment's store and profile.

    ``SESSIONTREE_STORE`` counts unless a ``url`` or a ``session_dir`` is given. Raises
    UnknownProfileError, and StoreError for a wrong URL, at the latest when the store is asked for.
    """
    is_named = bool(url)
    if not url and not session_dir:
        url = os.environ.get(STORE_VARIABLE)
    chosen = get_profile(profile)
    if url:
        url, chosen = _choose_files(url, chosen, session_dir)
    return Scope(
        cwd if cwd is not None else os.getcwd(),
        chosen,
        os.path.abspath(os.path.expanduser(session_dir)) if session_dir else None,
        url or None,
        key=key,
        is_profile_named=profile is not None,
        is_store_named=is_named,
    )


def _choose_files(
    url: str, profile: Profile, session_dir: str | os.PathLike[str] | None
) -> tuple[str | None, Profile]:
    """Of a ``file:`` URL just the profile is left: its files are where any profile's would be."""
    from sessiontree.stores import open_store

    is_files = url.lower().startswith("file:")
    if is_files:
        return None, open_store(url, profile=profile).profile
    if session_dir is not None:
        shown = open_store(url, profile=profile).url
        raise StoreError(f"--session-dir is for files: {shown} has no folders")
    return url, profile


__all__ = ["Reach", "Scope", "choose_scope"]


def _keep_accepted(
    found: SearchResults, accept: Callable[[SessionInfo], bool], limit: int | None
) -> SearchResults:
    """Leave out what is not accepted, and what is then beyond the limit."""
    is_all = found.total is not None
    found[:] = [hit for hit in found if accept(hit.session)]
    found.total = len(found) if is_all else None
    if limit is not None:
        del found[limit:]
    return found
