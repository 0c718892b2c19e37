"""New sessions made of open ones: forks and branched sessions.

Entries that need no change are copied byte for byte. A new file is written whole before anything
refers to it, and removed again if nobody goes over to it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import ChainMap
from collections.abc import Callable
from typing import Any, cast

from sessiontree.core.tree import SessionTree
from sessiontree.discovery import paths
from sessiontree.errors import PersistenceError
from sessiontree.model import codec
from sessiontree.model.entries import Entry, WireEntry, is_answer, respell
from sessiontree.model.header import CURRENT_VERSION, Header, get_version
from sessiontree.model.ids import format_timestamp, new_entry_id
from sessiontree.profiles import Dialect
from sessiontree.session.live import LiveSession
from sessiontree.session.opening import make_log, make_session_id
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.blobs import BlobStore
from sessiontree.stores.files.document import SessionDocument, document_of_copy
from sessiontree.stores.files.log import Durability, SessionLog
from sessiontree.stores.files.unsaved import UnsavedLog
from sessiontree.stores.place import Place

_PLAIN_ID = re.compile(r"[0-9A-Za-z_-]+")
Announce = Callable[[LiveSession], object]
# What is true of one file only.
_OWN_FIELDS = ("previousSessionFiles",)


def derive_header(
    source: Header, title: str | None, place: Place, dialect: Dialect, parent: str
) -> Header:
    """The header of a session made from another: its own identity, the other's fields."""
    wire: dict[str, Any] = {
        "type": "session",
        "version": max(get_version(source), CURRENT_VERSION),
        "id": make_session_id(dialect, place.clock),
        "timestamp": format_timestamp(place.clock()),
        "cwd": place.cwd,
    }
    for key, value in source.items():
        if key not in wire and key not in _OWN_FIELDS:
            wire[key] = value
    wire.pop("title", None)
    if title:
        wire["title"] = title
    else:
        wire.pop("titleSource", None)
    wire["parentSession"] = parent
    return cast("Header", wire)


def session_path(place: Place, header: Header) -> str:
    """The file of a session that is made from another."""
    name = paths.session_file_name(header.get("timestamp", ""), header.get("id", ""))
    return os.path.join(place.session_dir, name)


def write_session(
    place: Place,
    header: Header,
    entries: list[Entry],
    dialect: Dialect,
    durability: Durability,
    *,
    is_draft: bool = False,
    artifacts: str | None = None,
    source_blobs: BlobStore | None = None,
    announce: Announce | None = None,
) -> LiveSession:
    """A new session file of known entries, open; ``artifacts`` are copied beside it."""
    head = codec.encode(header) + b"\n"

    def write(log: SessionLog) -> SessionDocument:
        place.storage.ensure_dir(place.session_dir)
        written = log.filer.write_file(
            log.file, head, entries, source_blobs=source_blobs, durable=False
        )
        return document_of_copy(
            place.storage, log.file, header, head, written.placed(), log.filer.blobs
        )

    return settle_copy(
        place,
        header,
        dialect,
        durability,
        write,
        is_draft=is_draft,
        artifacts=artifacts,
        announce=announce,
    )


def settle_copy(
    place: Place,
    header: Header,
    dialect: Dialect,
    durability: Durability,
    write: Callable[[SessionLog], SessionDocument],
    *,
    is_draft: bool = False,
    artifacts: str | None = None,
    announce: Announce | None = None,
) -> LiveSession:
    """A session on the file that ``write`` leaves, with copies of ``artifacts`` beside it.

    It is on the medium only after ``flush``: until then what it was made of is still there. If
    anything fails nothing is left of it. Whoever wants to answer for it until somebody stands on
    it hears of it by ``announce``, before anything of it is on disk.
    """
    path = session_path(place, header)
    log = make_log(place, path, dialect, durability)
    log.begin(path, is_draft=is_draft)
    copy = LiveSession(place, header, log)
    if announce is not None:
        announce(copy)
    try:
        document = write(log)
        if artifacts is not None:
            copy_folder(place.storage, artifacts, paths.artifacts_dir(path))
        log.adopt(document, is_draft=is_draft)
        log.note_new_name()
    except BaseException as error:
        _discard(place.storage, log)
        if isinstance(error, OSError):
            raise PersistenceError.from_os_error(log.file, error) from error
        raise
    return copy


def finish_copy(copy: LiveSession, step: Callable[[], object]) -> None:
    """The last step of a copy; if it fails, the copy is removed again."""
    try:
        step()
    except BaseException:
        discard_live(copy)
        raise


def discard_live(copy: LiveSession) -> None:
    """Remove a copy that nobody will go over to."""
    copy.abandon()
    if isinstance(copy.log, SessionLog):
        _discard(copy.place.storage, copy.log)


def _discard(storage: SessionStorage, log: SessionLog) -> None:
    with contextlib.suppress(OSError):
        storage.unlink(log.file)
        storage.remove_dir(paths.artifacts_dir(log.path))


def copy_folder(storage: SessionStorage, source: str, target: str) -> int:
    """Copy a folder's files, those of folders in it too; how many. Links are not followed."""
    count = 0
    for file in storage.list_files(source):
        if not os.path.islink(file.path):
            storage.ensure_dir(target)
            name = os.path.basename(file.path)
            storage.write_atomic(os.path.join(target, name), storage.read(file.path))
            count += 1
    for folder in storage.list_dirs(source):
        if not os.path.islink(folder):
            count += copy_folder(storage, folder, os.path.join(target, os.path.basename(folder)))
    return count


def fork_live(session: LiveSession, announce: Announce) -> LiveSession | None:
    """A copy of an open session, all of it; None if there is no file to copy.

    Until somebody stands on it, removing it is for whoever hears of it by ``announce``.
    """
    log = session.log
    log.check()
    if not isinstance(log, SessionLog) or log.document is None:
        return None
    session.refresh()
    parent = log.path if log.dialect == "pi" else session.header.get("id", log.path)
    title = session.name if log.dialect != "pi" else None
    header = derive_header(session.header, title, session.place, log.dialect, parent)
    copy = write_session(
        session.place,
        header,
        session.tree.entries,
        log.dialect,
        log.durability,
        is_draft=log.is_draft,
        artifacts=paths.artifacts_dir(log.path),
        announce=announce,
    )
    copy.move_leaf(session.tree.leaf_id)
    copy.mark_leaf()
    return copy


def branch_live(session: LiveSession, leaf_id: str, announce: Announce) -> LiveSession:
    """A session that holds just the path to ``leaf_id``. EntryNotFoundError.

    Until somebody stands on it, removing it is for whoever hears of it by ``announce``.

    Labels are left out of the chain, their children hung on what is before them, and those that
    still hold are made anew at the end.
    """
    log = session.log
    log.check()
    path = session.tree.path(leaf_id)
    entries = _without_labels(path) if any(entry.type == "label" for entry in path) else path
    entries += _labels_anew(session.tree, entries)
    parent = session.file or session.header.get("id", "")
    title = session.name if log.dialect != "pi" else None
    header = derive_header(session.header, title, session.place, log.dialect, parent)
    if not isinstance(log, SessionLog):
        unsaved = UnsavedLog(log.dialect)
        for entry in entries:
            unsaved.tree.add(Entry.from_wire(entry.decode()))
        unsaved.tree.leaf_id = unsaved.tree.last_id
        return LiveSession(session.place, header, unsaved)
    has_answer = any(entry.type == "message" and is_answer(entry.decode()) for entry in entries)
    return write_session(
        session.place,
        header,
        entries,
        log.dialect,
        log.durability,
        is_draft=not has_answer,
        announce=announce,
    )


def _without_labels(path: list[Entry]) -> list[Entry]:
    kept: list[Entry] = []
    parent_id: str | None = None
    labels: list[str] = []
    instead: dict[str, str] = {}  # of each label, the first entry after it that is none
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


def _labels_anew(tree: SessionTree, kept: list[Entry]) -> list[Entry]:
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


def rewrite_tool_call(session: LiveSession, tool_call_id: str, arguments: dict[str, Any]) -> bool:
    """Replace the arguments of a recorded tool call; whether there was one."""
    session.log.check()
    if _find_call(session.tree, tool_call_id) is None:
        return False
    return session.catch_up(lambda: _rewrite_held(session, tool_call_id, arguments))


def _rewrite_held(session: LiveSession, tool_call_id: str, arguments: dict[str, Any]) -> bool:
    found = _find_call(session.tree, tool_call_id)  # the file may have been another one
    if found is None:
        return False
    entry, call = found
    before = call.get("arguments")
    try:
        call["arguments"] = arguments
        session.write_anew(find_changes=True)
    except Exception:
        call["arguments"] = before
        raise
    except BaseException:
        entry.release()  # interrupted: the file tells which they are
        raise
    return True


def _find_call(tree: SessionTree, tool_call_id: str) -> tuple[Entry, dict[str, Any]] | None:
    """The latest tool call of this id, as it stands in its message, and the entry of that."""
    # a plain id stands in its line as it is; any other may be escaped there
    needle = tool_call_id.encode() if _PLAIN_ID.fullmatch(tool_call_id) else b""
    for entry in reversed(tree.entries):
        if entry.type != "message":
            continue
        raw = entry.raw()
        if raw is not None and needle not in raw and not entry.is_loaded:
            continue
        message = entry.data.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if (
                isinstance(block, dict)
                and block.get("type") == "toolCall"
                and block.get("id") == tool_call_id
            ):
                return entry, block
    return None
