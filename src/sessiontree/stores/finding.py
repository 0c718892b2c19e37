"""Find the session of a store that the user means: by address, ref, id, name, or as the latest.

Files have rules of their own (``discovery.resume``): a path, what a file is called, the folder that
it lies in. Every other store is asked for what it promises in ``SessionStore``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sessiontree.discovery.breadcrumbs import load_breadcrumb, write_breadcrumb
from sessiontree.discovery.paths import same_cwd
from sessiontree.errors import (
    AmbiguousSessionError,
    PersistenceError,
    SessionNotFoundError,
    SessionTreeError,
)
from sessiontree.profiles import Profile
from sessiontree.stores import Storage, address_of, choose_store, split_address
from sessiontree.stores.base import FindsNames, Ref, SessionStore, StrPath
from sessiontree.stores.files.store import FileStore

if TYPE_CHECKING:
    from sessiontree.discovery.adapters import Agents
    from sessiontree.discovery.listing import SessionInfo
    from sessiontree.discovery.resume import ResolvedSession
    from sessiontree.discovery.search.hits import SearchResults
    from sessiontree.discovery.search.times import Since
    from sessiontree.stores.files.relinking import Relinked

DEFAULT_LIMIT = 20
DEFAULT_INDEXING_S = 1.0


def search(
    query: str,
    *,
    cwd: StrPath | None = None,
    scope: str | None = None,
    profile: str | Profile | None = None,
    agents: Agents = None,
    role: str | None = None,
    since: Since | None = None,
    include_tools: bool = False,
    limit: int | None = DEFAULT_LIMIT,
    on_progress: Callable[[int, int], object] | None = None,
    max_indexing_s: float | None = DEFAULT_INDEXING_S,
    storage: Storage | None = None,
) -> SearchResults:
    """Find the sessions that contain the words of a query, best first; any text is a query.

    By default the sessions of all agents are searched, where they lie; ``agents`` narrows it to
    some by their names, ``profile`` to one of pi's family, ``storage`` to a store or its URL,
    ``cwd`` to a project, ``scope`` to one of the store's scopes.
    Words may be in messages and in the session's name; where only the name has them, the hit's
    role is ``name`` and it has no entry id. With a ``role`` (what users, the model or tools said:
    ``user``, ``assistant``, ``tool``) names don't count; with ``since`` those of sessions written
    to from then on do. Calls of tools and their output count only with ``include_tools`` or a role
    of theirs. The index of files is brought up to date for at most ``max_indexing_s`` (None: until
    done); ``on_progress`` hears of sessions indexed or read, and their number. Raises ValueError
    for an unknown role and for a ``since`` that is not a time, StoreError for a wrong URL,
    UnknownAgentError.
    """
    if scope is None and not isinstance(storage, str | SessionStore):
        from sessiontree.discovery.search import search as search_files

        return search_files(
            query,
            cwd=cwd,
            profile=profile,
            agents=agents,
            role=role,
            since=since,
            include_tools=include_tools,
            limit=limit,
            on_progress=on_progress,
            max_indexing_s=max_indexing_s,
            storage=storage,
        )
    return choose_store(storage, profile).search(
        query,
        cwd=os.fspath(cwd) if cwd is not None else None,
        scope=scope,
        role=role,
        since=since,
        include_tools=include_tools,
        limit=limit,
        on_progress=on_progress,
    )


def resolve_session(
    value: StrPath,
    cwd: StrPath | None = None,
    *,
    session_dir: StrPath | None = None,
    scope: str | None = None,
    profile: str | Profile | None = None,
    storage: Storage | None = None,
) -> ResolvedSession:
    """Find the session with this path, address, ref, id prefix or exact name.

    A value with a slash or backslash, or one ending in ``.jsonl``, is a path, unless ``storage``
    names a store without files. Else ids are tried, in this project and then (without
    ``session_dir``) in all; then, likewise, what files are called (``2026-02-16T10``), the ids of
    files that are named after another one, and names. Raises SessionNotFoundError,
    AmbiguousSessionError with the candidates as ``SessionInfo``, newest first, NotASessionError and
    PersistenceError for a path, StoreError for a wrong URL.
    """
    store = choose_store(storage, profile, session_dir)
    project = os.fspath(cwd) if cwd is not None else os.getcwd()
    return resolve_in(store, value, project, scope=scope)


def resolve_in(
    store: SessionStore, value: StrPath, cwd: str, *, scope: str | None = None
) -> ResolvedSession:
    """Find the session with this address, ref, id prefix or exact name; this project's first.

    In files also by path and by the name of the file. Raises SessionNotFoundError,
    AmbiguousSessionError with the candidates, newest first; NotASessionError and PersistenceError
    for a path.
    """
    if isinstance(store, FileStore) and scope is None:
        from sessiontree.discovery.resume import resolve_session as resolve_file

        address = split_address(value) if isinstance(value, str) else None
        return resolve_file(
            address[1] if address is not None and address[0] == store.url else value,
            cwd,
            session_dir=store.session_dir,
            profile=store.profile,
            storage=store.storage,
        )
    value = os.fspath(value)
    if not value.strip():
        raise SessionNotFoundError(value, "No session is named by an empty value.")
    ref = ref_in(store, value)
    if ref is not None:
        return _read(store, ref, cwd)
    for found in _candidates(store, value, cwd, scope):
        if len(found) > 1:
            raise AmbiguousSessionError(value, list(found))
        if found:
            return _resolved(found[0], cwd)
    raise SessionNotFoundError(value)


def ref_in(store: SessionStore, value: str) -> Ref | None:
    """Find the ref that a text means: an address in this store, or a ref that it has.

    Raises SessionNotFoundError for an address in another store.
    """
    address = split_address(value)
    if address is not None:
        url, ref = address
        shown = f"{url}#{ref}"
        if url != store.url:
            raise SessionNotFoundError(
                shown, f"{shown} is in another store. Name that one: --store {url}"
            )
        if store.exists(ref):
            return ref
        raise SessionNotFoundError(shown)
    try:
        return value if store.exists(value) else None
    except PersistenceError:
        raise
    except (SessionTreeError, ValueError):  # a text that can be no ref of this store
        return None


def _candidates(
    store: SessionStore, value: str, cwd: str, scope: str | None
) -> Iterator[Sequence[SessionInfo]]:
    """Sessions that may be meant, the nearest first; a name is looked for if no id begins so."""
    for project in (cwd, None) if scope is None else (None,):
        found = store.find(value, cwd=project, scope=scope)
        yield [info for info in found if info.id == value] or found
    for project in (cwd, None) if scope is None else (None,):
        yield _named(store, value, project, scope)
    if scope is None:  # the sessions of scopes, which no project has
        found = _in_scopes(store, value)
        yield [info for info in found if info.id == value] or found


def _named(
    store: SessionStore, name: str, cwd: str | None, scope: str | None
) -> Sequence[SessionInfo]:
    if isinstance(store, FindsNames):
        return store.find_named(name, cwd=cwd, scope=scope)
    listed = store.list(cwd, scope=scope)
    return [info for info in listed if info.title and info.title.strip() == name.strip()]


def _in_scopes(store: SessionStore, prefix: str) -> Sequence[SessionInfo]:
    if isinstance(store, FindsNames):
        return store.find_in_scopes(prefix)
    return [info for info in store.list() if info.id.startswith(prefix)]


def _resolved(info: SessionInfo, cwd: str) -> ResolvedSession:
    from sessiontree.discovery.resume import ResolvedSession

    is_local = same_cwd(info.cwd, cwd)
    return ResolvedSession(info.path, info.id, info.cwd, is_local, info.title)


def _read(store: SessionStore, ref: Ref, cwd: str) -> ResolvedSession:
    from sessiontree.discovery.resume import ResolvedSession
    from sessiontree.model.header import get_cwd, get_title

    log = store.read(ref)
    try:
        project, title = get_cwd(log.header), get_title(log.header)
        session_id = str(log.header.get("id", ""))
        return ResolvedSession(log.ref, session_id, project, same_cwd(project, cwd), title)
    finally:
        log.close()


# -- what is true of files only ----------------------------------------------------------------


def ref_of_path(store: SessionStore, path: StrPath) -> Ref:
    """The ref that a path means: of files the absolute path, else the ref as it was given."""
    return os.path.abspath(path) if isinstance(store, FileStore) else os.fspath(path)


def with_given_profile(store: SessionStore, is_given: bool) -> SessionStore:
    """The same store, for sessions of its profile, or for files of any: their place says whose."""
    return store.like(has_given_profile=is_given) if isinstance(store, FileStore) else store


def bring_last(store: SessionStore, cwd: str) -> Relinked | None:
    """Move this terminal's last file here, if its project's folder was renamed to this one."""
    return store.bring_last(cwd) if isinstance(store, FileStore) else None


# -- this terminal's last session ------------------------------------------------------------


def latest_in(store: SessionStore, cwd: str, *, scope: str | None = None) -> Ref | None:
    """This terminal's last session of the project, else the one that the store says.

    Raises PersistenceError.
    """
    if scope is None and not isinstance(store, FileStore):
        ref = _last_here(store, cwd)
        if ref is not None:
            return ref
    return store.latest(cwd, scope=scope)


def _last_here(store: SessionStore, cwd: str) -> Ref | None:
    crumb = load_breadcrumb(store.profile)
    if crumb is None or not same_cwd(crumb.cwd, cwd):
        return None
    address = split_address(crumb.address)
    if address is None or address[0] != store.url or not store.exists(address[1]):
        return None
    return address[1]


def leave_breadcrumb(store: SessionStore, cwd: str, ref: Ref) -> None:
    """Note that this terminal works on a session. Best effort."""
    if not store.is_kept:
        return
    if isinstance(store, FileStore):
        store.leave_breadcrumb(cwd, ref)
    else:
        write_breadcrumb(store.profile, cwd, address_of(store, ref), is_path=False)
