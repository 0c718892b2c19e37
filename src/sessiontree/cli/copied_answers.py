"""Answers that stand in several sessions because one was made of the other.

Forks, branched sessions, clones, conversions and bundles that were taken in again copy entries as
they are. An entry's id has only 8 digits, so that it says little among thousands of sessions: two
entries are the same answer only if their times agree too, and if their sessions are related. What
an answer costs is ``commands/usage.py``'s business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sessiontree.discovery.paths import parse_session_file_name
from sessiontree.errors import SessionTreeError
from sessiontree.model.entries import Entry
from sessiontree.model.header import find_header
from sessiontree.model.lines import Record, read_line
from sessiontree.storage.base import SessionStorage
from sessiontree.stores.base import Ref, SessionStore
from sessiontree.stores.files.store import FileStore

_HEAD_BYTES = 1 << 14
_ORIGINS = ("importedFrom", "convertedFrom")

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Origin:
    """Which sessions a file says it was made of, and its first entry, which every copy keeps."""

    parents: frozenset[str]
    first: Key | None


class Families:
    """Which of these sessions are related, by what their headers and first entries say."""

    def __init__(self, sessions: Sequence[Any], store: SessionStore) -> None:
        self._above: dict[Key, Key] = {}
        self._ids = {session.path: ("session", session.id) for session in sessions}
        origins = [(session, _read_origin(store, session)) for session in sessions]
        self._made = {session.path for session, origin in origins if origin.parents}
        copied = {origin.first for _, origin in origins if origin.parents and origin.first}
        for session, origin in origins:
            own = self._ids[session.path]
            for parent in origin.parents:
                self._join(own, ("session", parent))
            # What was between two copies may have been removed: both still begin alike.
            if origin.first is not None and origin.first in copied:
                self._join(own, ("entry", *origin.first))
        self._sizes = Counter(self._find(key) for key in self._ids.values())

    def sort(self, sessions: Iterable[Any]) -> list[Any]:
        """Family by family, and in each what was begun first comes first: an answer was paid for
        where it was given.
        """
        order: dict[Key, int] = {}
        for key in self._ids.values():
            order.setdefault(self._find(key), len(order))
        return sorted(
            sessions,
            key=lambda each: (order[self.of(each)], each.created, each.path in self._made),
        )

    def of(self, session: Any) -> Key:
        """What stands for the session's family."""
        return self._find(self._ids[session.path])

    def is_alone(self, session: Any) -> bool:
        """Whether no other session is related to this one."""
        return self._sizes[self.of(session)] == 1

    def _find(self, key: Key) -> Key:
        root = key
        while (above := self._above.get(root, root)) != root:
            root = above
        while key != root:
            self._above[key], key = root, self._above[key]
        return root

    def _join(self, one: Key, other: Key) -> None:
        top, below = self._find(one), self._find(other)
        if top != below:
            self._above[below] = top


class SeenAnswers:
    """The answers of one family that were met so far; of a session without one, nothing is kept."""

    def __init__(self, families: Families) -> None:
        self._families = families
        self._family: Key | None = None
        self._is_alone = True
        self._id = ""
        self._earlier: dict[Key, str] = {}
        self._own: dict[Key, str] = {}

    def begin(self, session: Any) -> None:
        """The answers asked about from now on are this session's. Families come one by one."""
        family = self._families.of(session)
        if family != self._family:
            self._family, self._earlier, self._own = family, {}, {}
        # Only now: what stands twice in one session was given twice.
        self._earlier |= self._own
        self._own = {}
        self._is_alone = self._families.is_alone(session)
        self._id = session.id

    def copy_of(self, entry: Entry, message: Any) -> str | None:
        """The id of the session that had this answer before; None for one that is new."""
        if self._is_alone:
            return None
        keys: list[Key] = [("entry", entry.id, entry.timestamp)]
        response = message.get("responseId")
        if isinstance(response, str) and response:
            # Not alone either: some servers number their responses from 1.
            keys.append(("response", response, entry.timestamp))
        found = next((self._earlier[key] for key in keys if key in self._earlier), None)
        for key in keys:
            self._own[key] = self._id
        return found


def _read_origin(store: SessionStore, session: Any) -> _Origin:
    parents = {session.parent_session} if session.parent_session else set()
    if isinstance(store, FileStore):
        header, first = _read_beginning(store.storage, session.path)
    else:
        header, first = _read_log(store, session.path)
    for name in _ORIGINS:
        told = header.get(name)
        parent = told.get("sessionId") if isinstance(told, dict) else None
        if isinstance(parent, str) and parent:
            parents.add(parent)
    return _Origin(frozenset(map(_id_of, parents)), first)


def _id_of(parent: str) -> str:
    """The id of a session that is named by its id or by its file."""
    named = parse_session_file_name(parent.replace("\\", "/").rpartition("/")[2])
    return named[1] if named else parent


def _read_beginning(storage: SessionStorage, path: str) -> tuple[dict[str, Any], Key | None]:
    """The header, and id and time of the first entry, as far as a file's first bytes show them."""
    try:
        prefix = storage.read_prefix(path, _HEAD_BYTES)
    except (OSError, SessionTreeError):
        return {}, None
    lines = prefix.split(b"\n")
    if len(prefix) == _HEAD_BYTES:
        lines.pop()
    records = (
        item
        for number, line in enumerate(lines)
        for item in read_line(line, number, number + 1)
        if isinstance(item, Record)
    )
    start = find_header(records)
    if start.first is None or start.header is None:
        return {}, None
    keys = (_key_of(record.value) for record in records)
    return start.first.value, next((key for key in keys if key is not None), None)


def _read_log(store: SessionStore, ref: Ref) -> tuple[dict[str, Any], Key | None]:
    """The same of a session in no file."""
    try:
        log = store.read(ref)
    except SessionTreeError:
        return {}, None
    first = log.tree.entries[:1]
    log.close()
    return dict(log.header), (first[0].id, first[0].timestamp) if first else None


def _key_of(value: dict[str, Any]) -> Key | None:
    entry_id, timestamp = value.get("id"), value.get("timestamp")
    if isinstance(entry_id, str) and isinstance(timestamp, str):
        return entry_id, timestamp
    return None
