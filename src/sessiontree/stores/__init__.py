"""Stores keep sessions; this package says what a store is, and which one a URL names.

=============================== ====================================================================
``file:``                       the files of the profile, as without any URL
``file:/srv/agent``             an agent folder of its own: sessions, blobs and trash below it
``memory:``                     a store of its own, gone with the last manager that uses it
``memory:name``                 one that this process shares by its name
``postgresql://user@host/db``   a PostgreSQL database (extra ``postgres``; docs/teams.md)
any other scheme                a store that an installed package brings (entry point group
                                ``sessiontree.stores``, by the name of the scheme)
=============================== ====================================================================
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from sessiontree.errors import StoreError
from sessiontree.profiles import Profile, get_profile
from sessiontree.stores.base import Ref, SessionLog, SessionStore, StrPath

if TYPE_CHECKING:
    from sessiontree.storage.base import SessionStorage

__all__ = [
    "SessionLog",
    "SessionStore",
    "address_of",
    "choose_store",
    "open_store",
    "split_address",
]

Storage: TypeAlias = "SessionStore | SessionStorage | str"
"""What ``storage=`` takes: a store, its URL, or a storage of bytes."""

ENTRY_POINTS = "sessiontree.stores"
_KNOWN = "use file:, memory: or postgresql:"


def open_store(url: str, *, profile: str | Profile | None = None) -> SessionStore:
    """The store that a URL names. Raises StoreError, which never repeats a password.

    The profile is whose sessions they are: where its files lie, or how new sessions are spelled.
    """
    scheme, has_scheme, rest = url.partition(":")
    if not has_scheme:
        raise StoreError(f'"{_shown(url)}" is not a store URL; {_KNOWN}')
    match scheme.lower():
        case "file":
            return _open_files(rest, profile)
        case "memory":
            from urllib.parse import unquote

            from sessiontree.stores.memory import open_memory

            return open_memory(unquote(rest), profile)
        case "postgresql" | "postgres":
            return _open_postgres(url, profile)
        case other:
            return _open_installed(other, url, profile)


def choose_store(
    storage: Storage | None = None,
    profile: str | Profile | None = None,
    session_dir: StrPath | None = None,
) -> SessionStore:
    """The store for what a caller was given as ``storage=``; by default the profile's files.

    Raises StoreError, UnknownProfileError, and TypeError for anything that is not a storage.
    """
    from sessiontree.stores.files.store import FileStore

    store: SessionStore
    if isinstance(storage, str):
        store = open_store(storage, profile=profile)
    elif isinstance(storage, SessionStore):
        store = storage
    else:
        return FileStore(storage, profile, session_dir)
    if isinstance(store, FileStore):
        if profile is not None and not isinstance(storage, str):
            store = store.like(profile=get_profile(profile), has_given_profile=True)
        return store.like(session_dir=session_dir) if session_dir is not None else store
    if session_dir is not None:
        raise StoreError(f"{store.url} has no folders: leave session_dir out, or use scope")
    return store


def address_of(store: SessionStore, ref: Ref) -> str:
    """Name a session of a store for anybody: the path of a file, else ``URL#REF``.

    May be shown and logged: a store's ``url`` has no password.
    """
    from sessiontree.stores.files.store import FileStore

    is_path = isinstance(store, FileStore) and store.url.startswith("file:")
    return ref if is_path else f"{store.url}#{ref}"


def split_address(text: str) -> tuple[str, Ref] | None:
    """The URL, without a password, and the ref of ``URL#REF``; None for any other text."""
    url, mark, ref = text.partition("#")
    return (_without_password(url), ref) if mark and ref and _SCHEME.match(url) else None


def _without_password(url: str) -> str:
    """A URL as its store shows it."""
    from sessiontree.stores.postgres.address import SCHEMES, hide_password, parse_address

    if url.partition(":")[0] in SCHEMES:
        with contextlib.suppress(StoreError):
            return parse_address(url).shown
    return hide_password(url)


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def _open_files(rest: str, profile: str | Profile | None) -> SessionStore:
    from urllib.parse import unquote, urlsplit  # listings do without, and start quicker

    from sessiontree.stores.files.store import FileStore

    path = unquote(urlsplit("file:" + rest).path)
    if not path:
        return FileStore(profile=profile)
    if not os.path.isabs(path):
        raise StoreError(
            f"file:{path}: use an absolute path, or file: alone for the profile's files"
        )
    return FileStore(profile=replace(get_profile(profile), agent_dir=os.path.abspath(path)))


def _open_postgres(url: str, profile: str | Profile | None) -> SessionStore:
    try:
        from sessiontree.stores.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise StoreError(
            f"{_shown(url)} needs PostgreSQL's client: pip install 'sessiontree[postgres]'"
        ) from None
    return PostgresStore(url, profile)


def _open_installed(scheme: str, url: str, profile: str | Profile | None) -> SessionStore:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS, name=scheme):
        try:
            open_installed = point.load()
        except (ImportError, AttributeError) as error:
            told = f'The store "{scheme}:" cannot be loaded from {point.value}'
            raise StoreError(f"{told}: {error}") from error
        return _require_store(open_installed(url, profile=get_profile(profile)), point.value)
    raise StoreError(
        f'No store is called "{_shown(scheme)}:"; {_KNOWN}, '
        f"or install a package that brings this one"
    )


def _require_store(made: object, maker: str) -> SessionStore:
    """What a package made, if it is a store; else StoreError names what it lacks."""
    if isinstance(made, SessionStore):
        return made
    names = [name for name in vars(SessionStore) if not name.startswith("_")]
    lacking = ", ".join(name for name in names if not hasattr(made, name))
    raise StoreError(f"{maker} made a {type(made).__name__}, which is not a store: no {lacking}")


def _shown(text: str) -> str:
    """The part of a wrong URL that may be shown: nothing before the host."""
    return text.rpartition("@")[2][:80]
