"""Read the paid calls of sessions that are in no file, for ``discovery.usage`` to count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sessiontree.core.usage import PAID_TYPES
from sessiontree.discovery.adapters.tree import add_paid
from sessiontree.discovery.catalogue import OnProgress, Unreadable
from sessiontree.discovery.catalogue.answers import Answers
from sessiontree.discovery.families import Kin, kin_of_header
from sessiontree.discovery.usage import PaidSession, UsedSession
from sessiontree.errors import SessionTreeError
from sessiontree.model.entries import Entry
from sessiontree.stores.base import SessionStore


def read_paid_logs(
    store: SessionStore, scope: str | None, cwd: str | None, on_progress: OnProgress | None = None
) -> tuple[list[PaidSession], list[Unreadable]]:
    """Read the paid calls of a project's sessions or of all; and the sessions that could not be."""
    found = store.list(cwd, scope=scope)
    unreadable = list(found.unreadable)
    made = []
    for done, info in enumerate(found, 1):
        try:
            log = store.read(info.path)
        except SessionTreeError as error:
            unreadable.append(Unreadable(info.path, str(error)))
        else:
            answers = paid_calls(log.tree.entries)
            if answers.rows:
                session = UsedSession(
                    info.id,
                    info.path,
                    info.agent or store.profile.name,
                    info.cwd,
                    info.title or info.first_message,
                    info.created,
                    info.modified,
                )
                made.append(PaidSession(session, _kin(log.header, log.tree.entries), [answers]))
            log.close()
        if on_progress is not None:
            on_progress(done, len(found))
    return made, unreadable


def read_models(store: SessionStore, ref: str) -> list[str]:
    """The models that answered in a session; none if it can't be read."""
    try:
        log = store.read(ref)
    except SessionTreeError:
        return []
    try:
        return [*paid_calls(log.tree.entries).models]
    finally:
        log.close()


def paid_calls(entries: Iterable[Entry]) -> Answers:
    """The usage that entries record."""
    answers = Answers()
    for entry in entries:
        if entry.type in PAID_TYPES:
            add_paid(answers, entry.decode())
    return answers


def _kin(header: Mapping[str, Any], entries: list[Entry]) -> Kin:
    first = f"{entries[0].id} {entries[0].timestamp}" if entries else None
    return kin_of_header(header, first)
