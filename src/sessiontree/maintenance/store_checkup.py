"""Check the sessions of a store without files. Only reads."""

from __future__ import annotations

from collections.abc import Iterator

from sessiontree.discovery.listing import SessionInfo
from sessiontree.errors import SessionTreeError
from sessiontree.maintenance.checkup import Checkup, Finding, Progress
from sessiontree.maintenance.secrets import search_entries
from sessiontree.stores import address_of
from sessiontree.stores.base import SessionStore


def check_store(
    store: SessionStore, *, secrets: bool = False, on_progress: Progress | None = None
) -> Checkup:
    """Read every session that the store lists; ``secrets`` searches them for passwords and keys."""
    sessions = store.list()
    checkup = Checkup(sessions=len(sessions))
    for done, info in enumerate(sessions, 1):
        checkup.findings += _check(store, info, secrets)
        if on_progress is not None:
            on_progress(done, len(sessions))
    return checkup


def _check(store: SessionStore, info: SessionInfo, secrets: bool) -> Iterator[Finding]:
    address = address_of(store, info.path)
    try:
        log = store.read(info.path)
    except SessionTreeError as error:
        yield Finding("unreadable", address, str(error))
        return
    try:
        found = search_entries(log.header, log.tree.entries) if secrets else None
        for entry in log.tree.entries:
            entry.decode()  # what it refers to may be missing
        for warning in log.warnings:
            yield Finding("damaged", address, str(warning))
        if found:
            yield Finding("secret", address, found)
    except SessionTreeError as error:
        yield Finding("unreadable", address, str(error))
    finally:
        log.close()
