"""New sessions made of an open one: forks, which have all of it, and branched sessions.

Until a copy is used, the receiver of ``announce`` removes it.
"""

from __future__ import annotations

import os
from collections import ChainMap

from sessiontree.core.tree import SessionTree
from sessiontree.model.entries import Entry, WireEntry, respell
from sessiontree.model.header import Header
from sessiontree.model.ids import new_entry_id
from sessiontree.session.live import LiveSession
from sessiontree.stores.base import Announce
from sessiontree.stores.identity import derive_header


def fork_live(session: LiveSession, announce: Announce) -> LiveSession | None:
    """Copy a whole open session; None if nothing of it is kept yet."""
    log = session.log
    log.check()
    if not log.store.is_kept or not log.is_started:
        return None
    session.refresh()
    parent = log.ref if log.dialect == "pi" else session.header.get("id", log.ref)
    copy = LiveSession(log.store.copy(log, _header_of(session, parent), announce=announce))
    copy.move_leaf(session.tree.leaf_id)
    copy.mark_leaf()
    return copy


def branch_live(session: LiveSession, leaf_id: str, announce: Announce) -> LiveSession:
    """Make a session that holds just the path to ``leaf_id``. EntryNotFoundError.

    Labels are left out of the chain, and their children attached to the entry before them; labels
    that still apply are written again at the end.
    """
    log = session.log
    log.check()
    path = session.tree.path(leaf_id)
    entries = _without_labels(path) if any(entry.type == "label" for entry in path) else path
    entries += _move_labels(session.tree, entries)
    header = _header_of(session, session.file or session.header.get("id", ""))
    return LiveSession(log.store.copy(log, header, entries, announce=announce))


def _header_of(session: LiveSession, parent: str) -> Header:
    """The header of a copy of a session."""
    dialect = session.log.dialect
    title = session.name if dialect != "pi" else None
    return derive_header(session.header, title, session.cwd, dialect, parent, session.log.store)


def _without_labels(path: list[Entry]) -> list[Entry]:
    kept: list[Entry] = []
    parent_id: str | None = None
    labels: list[str] = []
    instead: dict[str, str] = {}  # for each label, the first entry after it that is not a label
    for entry in path:
        if entry.type == "label":
            labels.append(entry.id)
            continue
        if labels:
            instead |= dict.fromkeys(labels, entry.id)
            labels = []
        changes: WireEntry = {}
        if entry.parent_id != parent_id:
            changes["parentId"] = parent_id
        if entry.type == "compaction":
            first_kept = entry.data.get("firstKeptEntryId")
            if isinstance(first_kept, str) and first_kept in instead:
                changes["firstKeptEntryId"] = instead[first_kept]
        kept.append(respell(entry.line(), entry.source, changes) if changes else entry)
        parent_id = entry.id
    return kept


def _move_labels(tree: SessionTree, kept: list[Entry]) -> list[Entry]:
    """Labels for the entries that were kept, to stand behind them."""
    made: list[Entry] = []
    labels = tree.labels()
    on_path = {entry.id for entry in kept if entry.id in labels}
    taken = ChainMap[str, Entry]({}, tree.by_id)
    parent_id = kept[-1].id if kept else None
    for target_id, (label, timestamp) in labels.items():
        if target_id not in on_path:
            continue
        entry_id = new_entry_id(taken, os.urandom)
        data: WireEntry = {
            "type": "label",
            "id": entry_id,
            "parentId": parent_id,
            "timestamp": timestamp,
            "targetId": target_id,
            "label": label,
        }
        taken[entry_id] = Entry.from_wire(data)
        made.append(taken[entry_id])
        parent_id = entry_id
    return made
