"""Copy sessions from one store to another: files to a database, a database to files, any to any.

A session keeps its id, header and times, and each entry its line, byte for byte, with its blobs.
Only what the target lacks goes over, in pieces of some hundred entries: a transfer that was cut
short goes on where it stopped, and one that is repeated does nothing. Entries that only the target
has stay there. Two sessions of one id that have no entry in common are two: the second is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from sessiontree.errors import (
    PersistenceError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
)
from sessiontree.model import codec
from sessiontree.model.entries import Entry, entry_of_line
from sessiontree.model.header import Header, get_scope
from sessiontree.stores.base import KeepsBlobs, KnowsLastLines, Ref, SessionLog, SessionStore
from sessiontree.stores.files.store import FileStore

if TYPE_CHECKING:
    from sessiontree.discovery.listing import SessionInfo

OnProgress = Callable[[int, int], object]

_SESSIONS_AT_ONCE = 500
_ENTRIES_AT_ONCE = 500
_BYTES_AT_ONCE = 4 << 20
_BLOB = re.compile(rb"blob:sha256:[0-9a-f]{64}")
_OF_ONE_STORE = ("previousSessionFiles",)
_HEADER_FIELDS = ("title", "titleSource", "cwd")


@dataclass(slots=True)
class Transfer:
    """The result for each session that was to go over."""

    new: int = 0
    grown: int = 0
    same: int = 0
    entries: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Sessions that stayed behind, each with the reason."""
    is_stopped: bool = False
    """Whether a store was out of reach, so that the sessions behind the last failed one wait."""


def transfer(
    source: SessionStore,
    target: SessionStore,
    sessions: Iterable[SessionInfo],
    on_progress: OnProgress | None = None,
    *,
    total: int = 0,
) -> Transfer:
    """Copy these sessions of ``source`` to ``target``; ``total`` is how many, if it is known."""
    made = Transfer()
    for done, info in enumerate(sessions):
        if on_progress is not None:
            on_progress(done, total)
        try:
            if _is_same(source, target, info):
                made.same += 1
            else:
                _bring(source, target, info.path, made)
        except SessionTreeError as error:
            made.failed.append((info.id, str(error)))
            if isinstance(error, PersistenceError) and error.is_out_of_reach:
                made.is_stopped = True
                break
    return made


def _is_same(source: SessionStore, target: SessionStore, info: SessionInfo) -> bool:
    """Whether the listing's lines and the last lines show that there is nothing to copy."""
    if not (isinstance(source, KnowsLastLines) and isinstance(target, KnowsLastLines)):
        return False
    found = target.locate(info.id)  # one of a scope is found by its header, and compared whole
    there = target.get_info(found) if found is not None else None
    if there is None or there.path != found or _facts(there) != _facts(info):
        return False
    line = source.read_last_line(info.path)
    return line is not None and line == target.read_last_line(there.path)


def _facts(info: SessionInfo) -> tuple[object, ...]:
    return info.message_count, info.title, info.cwd, info.size, info.first_message


def _bring(source: SessionStore, target: SessionStore, ref: Ref, made: Transfer) -> None:
    log = source.read(ref)
    try:
        session_id = str(log.header.get("id", ""))
        found = target.locate(session_id, scope=get_scope(log.header))
        if found is None:
            _write_all(log, _begin(target, log), made)
            made.new += 1
            return
        there = target.read(found)
        try:
            missing = [entry for entry in log.tree.entries if entry.id not in there.tree.by_id]
            is_other = len(missing) == len(log.tree.entries) and bool(there.tree.entries)
            header = _new_fields(log, there)
            is_unfinished = there.is_draft and not log.is_draft
        finally:
            there.close()
        if is_other and missing:
            raise SessionExistsError(session_id, found)
        if not missing and not header and not is_unfinished:
            made.same += 1
            return
        held = target.open(found)
        try:
            if header:
                held.write_header(header)
            _write(held, missing, made)
        finally:
            held.close()
        made.grown += 1
    finally:
        log.close()


def _begin(target: SessionStore, log: SessionLog) -> SessionLog:
    """A session of the same header in the target, of which nothing is written yet."""
    header = cast("Header", codec.copy(dict(log.header)))
    for name in _OF_ONE_STORE:
        cast("dict[str, object]", header).pop(name, None)
    return target.create(header)


def _new_fields(log: SessionLog, there: SessionLog) -> dict[str, object]:
    """The header fields that differ in the source, if the target has no entries of its own."""
    if any(entry.id not in log.tree.by_id for entry in there.tree.entries):
        return {}
    ours, theirs = dict(log.header), dict(there.header)
    return {name: ours.get(name) for name in _HEADER_FIELDS if ours.get(name) != theirs.get(name)}


def _write_all(log: SessionLog, held: SessionLog, made: Transfer) -> None:
    try:
        _write(held, log.tree.entries, made)
    finally:
        held.close()


def _write(held: SessionLog, entries: Sequence[Entry], made: Transfer) -> None:
    kept: set[str] = set()
    for piece in _pieces(entries):
        if isinstance(held, KeepsBlobs):
            for entry, line in piece:
                _bring_blobs(entry, line, held, kept)
            held.append([entry_of_line(entry, line) for entry, line in piece])
        else:
            held.append([Entry.from_wire(entry.decode()) for entry, _ in piece])
        made.entries += len(piece)
    held.flush()


def _bring_blobs(entry: Entry, line: bytes, held: KeepsBlobs, kept: set[str]) -> None:
    """Keep the values that a line names; a missing one stays missing."""
    for ref in map(bytes.decode, _BLOB.findall(line)):
        data = entry.fetch_blob(ref) if ref not in kept else None
        if data is not None:
            held.keep_blob(data)
        kept.add(ref)


def _pieces(entries: Sequence[Entry]) -> Iterator[list[tuple[Entry, bytes]]]:
    """The entries with their lines, some hundred at a time."""
    piece: list[tuple[Entry, bytes]] = []
    size = 0
    for entry in entries:
        line = entry.line()
        piece.append((entry, line))
        size += len(line)
        if len(piece) >= _ENTRIES_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def find_wanted(
    store: SessionStore, wanted: Sequence[str], cwd: str | None
) -> tuple[Iterable[SessionInfo], int]:
    """The sessions of these ids or beginnings of one, or all of a project or a store; how many.

    0 is not known. Files come oldest first, so that a fork follows what it was made of; any other
    store is listed a page at a time. Raises SessionNotFoundError.
    """
    if not wanted:
        if isinstance(store, FileStore):
            listed = store.list(cwd)
            return reversed(listed), len(listed)
        return _pages(store, cwd), store.list(cwd, limit=0).total or 0
    found: dict[Ref, SessionInfo] = {}
    for prefix in wanted:
        matching = store.find(prefix)
        if not matching:
            raise SessionNotFoundError(prefix)
        found |= {info.path: info for info in matching}
    return found.values(), len(found)


def _pages(store: SessionStore, cwd: str | None) -> Iterator[SessionInfo]:
    mark = None
    while page := store.list(cwd, limit=_SESSIONS_AT_ONCE, before=mark):
        yield from page
        mark = page[-1].modified, page[-1].path
