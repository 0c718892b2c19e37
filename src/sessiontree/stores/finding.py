"""Find the session of a store that the user means: by address, ref, id, name, or as the latest.

Files have rules of their own (``discovery.resume``): a path, what a file is called, the folder that
it lies in. Every other store is asked for what it promises in ``SessionStore``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sessiontree.discovery.breadcrumbs import load_breadcrumb, write_breadcrumb
from sessiontree.discovery.paths import same_cwd
from sessiontree.errors import (
    AmbiguousSessionError,
    PersistenceError,
    SessionNotFoundError,
    SessionTreeError,
)
from sessiontree.stores import address_of, split_address
from sessiontree.stores.base import Ref, SessionStore
from sessiontree.stores.files.store import FileStore

if TYPE_CHECKING:
    from sessiontree.discovery.listing import SessionInfo
    from sessiontree.discovery.resume import ResolvedSession


def resolve_in(
    store: SessionStore, value: str, cwd: str, *, scope: str | None = None
) -> ResolvedSession:
    """Find the session with this address, ref, id prefix or exact name; this project's first.

    In files also by path and by the name of the file. Raises SessionNotFoundError,
    AmbiguousSessionError with the candidates, newest first; NotASessionError and PersistenceError
    for a path.
    """
    if isinstance(store, FileStore) and scope is None:
        from sessiontree.discovery.resume import resolve_session

        address = split_address(value)
        return resolve_session(
            address[1] if address is not None and address[0] == store.url else value,
            cwd,
            session_dir=store.session_dir,
            profile=store.profile,
            storage=store.storage,
        )
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
    """The ref that a text means: an address in this store, or a ref that it has.

    Raises SessionNotFoundError for an address in another store.
    """
    address = split_address(value)
    if address is not None:
        url, ref = address
        if url != store.url:
            raise SessionNotFoundError(
                value, f"{value} is in another store. Name that one: --store {url}"
            )
        if store.exists(ref):
            return ref
        raise SessionNotFoundError(value)
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
        listed = store.list(project, scope=scope)
        yield [info for info in listed if info.title and info.title.strip() == value.strip()]


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
