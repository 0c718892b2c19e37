"""One session for the viewer: its rows, articles on request, and news of it.

Rows are made once, of all entries; an article is made when a browser is about to show it. What is
new is found by asking the session's place whether it has changed, and reading it again: so sessions
of every agent and store grow in the same way. An asker says how many rows it has, and the mark of
them: if these are not the first rows of what is there now (the session was rewritten, or converts
to another order), it has to load the page again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from sessiontree.core.tree_entries import Digester
from sessiontree.errors import SessionTreeError
from sessiontree.export.html.entries import Articles, Place, sketch_height
from sessiontree.export.html.outline import Outline, number_all
from sessiontree.export.html.outline import Row as OutlineRow
from sessiontree.export.html.usage import UsageTable
from sessiontree.export.view import SessionView
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.serving.sessions import Row, ServedSessions

MOST_ARTICLES = 400
"""Articles in one answer."""
_KEPT = 4
_REST, _QUICK_S = 4.0, 0.1
"""A session is not read again for this many times as long as the last reading took."""
_CALLS_BACK = 60


@dataclass(slots=True)
class News:
    """The additions for an asker; ``is_other`` if its rows are no longer the session's."""

    rows: list[OutlineRow]
    start: int
    leaf: int
    labels: dict[int, str]
    mark: str
    is_other: bool = False


@dataclass(slots=True)
class _State:
    """The result of one reading, which the next one replaces as a whole."""

    view: SessionView
    rows: list[OutlineRow] = field(default_factory=list)
    usage: UsageTable = field(default_factory=UsageTable)
    messages: int = 0
    outline: Outline | None = None
    digester: Digester = field(default_factory=Digester)
    took_s: float = 0.0


class Reading:
    """A session that somebody looks at. May be used from several threads."""

    def __init__(self, served: ServedSessions, row: Row) -> None:
        self._served = served
        self.row = row
        self.lock = threading.RLock()
        self.is_closed = False
        self._watch = served.watch(row)
        self._marks: tuple[int, str] = (0, _hash(()))
        self._state = self._read()
        self._read_at = time.monotonic()

    # -- what is there ---------------------------------------------------------------------

    @property
    def view(self) -> SessionView:
        return self._state.view

    @property
    def rows(self) -> list[OutlineRow]:
        return self._state.rows

    @property
    def usage(self) -> UsageTable:
        return self._state.usage

    @property
    def messages(self) -> int:
        return self._state.messages

    @property
    def leaf(self) -> int:
        """The number of the entry that the session continues from; -1 if it is empty."""
        path = self.view.path
        return self.number(path[-1].id) if path else -1

    def number(self, entry_id: str) -> int:
        """An entry's number; -1 if there is none."""
        entry = self.view.tree.by_id.get(entry_id)
        assert self._state.outline is not None
        return self._state.outline.number(entry) if entry is not None else -1

    @property
    def mark(self) -> str:
        """The mark that an asker sends back: a name for the rows, one for the rest of the page."""
        return f"{self._mark_rows(len(self.rows))}.{_hash((self.view.name or '', str(self.leaf)))}"

    def _mark_rows(self, count: int) -> str:
        if self._marks[0] != count:
            entries = self.view.tree.entries[:count]
            self._marks = (count, _hash(entry.id for entry in entries))
        return self._marks[1]

    def labels(self) -> dict[int, str]:
        """The labelled entries' numbers and labels."""
        return {number: row[7] for number, row in enumerate(self.rows) if row[7]}

    # -- reading ---------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the session again if it has changed and the last reading was not just now."""
        with self.lock:
            took = self._state.took_s
            rest = took * _REST if took > _QUICK_S else 0
            if time.monotonic() - self._read_at < rest or not self._watch.has_changed():
                return
            self._reread()

    def reread(self) -> None:
        """Read it again: it was changed here."""
        with self.lock:
            self._watch.has_changed()
            self._reread()

    def _reread(self) -> None:
        old = self._state
        self._state = self._read()
        self._marks = (-1, "")
        self._read_at = time.monotonic()
        old.view.close()

    def _read(self) -> _State:
        began = time.monotonic()
        state = _State(self._served.read(self.row))
        state.outline = Outline(state.view.tree)
        entries = state.view.tree.entries
        number_all(state.outline, entries)
        for entry in entries:
            data = decode(entry)
            digest = state.digester.digest_data(entry, data)
            label = state.outline.label(entry)
            height = sketch_height(data)
            state.rows.append(state.outline.row(entry, entry.id, digest, height, label))
            state.usage.add(data)
            state.messages += entry.type == "message"
        state.took_s = time.monotonic() - began
        return state

    def news(self, count: int, mark: str) -> News | None:
        """The additions for an asker with the first ``count`` rows; None if nothing has changed."""
        with self.lock:
            self.refresh()
            if mark == self.mark:
                return None
            known = mark.partition(".")[0]
            is_other = count > len(self.rows) or self._mark_rows(count) != known
            rows = [] if is_other else self.rows[count:]
            return News(rows, count, self.leaf, self.labels(), self.mark, is_other)

    # -- articles, and search --------------------------------------------------------------

    def articles(self, numbers: Iterable[int]) -> Iterator[str]:
        """The articles of entries, by their numbers."""
        made = Articles()
        entries = self.view.tree.entries
        for number in numbers:
            if not 0 <= number < len(entries):
                continue
            entry = entries[number]
            data = decode(entry)
            message = data.get("message")
            if isinstance(message, dict) and message.get("role") == "toolResult":
                self._note_call(made, entry)
            label = self.rows[number][7] or None
            yield made.make(Place(number, entry.id, entry.timestamp, label), data)

    def _note_call(self, made: Articles, entry: Entry) -> None:
        """Tell a result its call, which names the file of the text."""
        by_id = self.view.tree.by_id
        for _ in range(_CALLS_BACK):
            parent = by_id.get(entry.parent_id or "")
            if parent is None:
                return
            entry = parent
            message = decode(entry).get("message")
            if isinstance(message, dict) and message.get("role") == "assistant":
                made.note_calls(message)
                return

    def find(self, query: str) -> list[int]:
        """The numbers of the entries with all words in their texts, calls or output."""
        words = query.casefold().split()
        found = []
        for number, entry in enumerate(self.view.tree.entries):
            row = self.rows[number]
            said = f"{row[3]} {row[4]} {row[7]} {said_in(decode(entry))}".casefold()
            if all(word in said for word in words):
                found.append(number)
        return found

    def close(self) -> None:
        """Close the session's file."""
        with self.lock:
            self.is_closed = True
            self._watch.close()
            self._state.view.close()


class Readings:
    """The sessions that were looked at last, open."""

    def __init__(self, served: ServedSessions) -> None:
        self._served = served
        self._lock = threading.Lock()
        self._open: OrderedDict[str, Reading] = OrderedDict()

    @contextmanager
    def use(self, key: str, *, is_fresh: bool = False) -> Iterator[Reading]:
        """The session with this key, up to date and locked for other threads meanwhile.

        Raises SessionNotFoundError, NotASessionError, PersistenceError.
        """
        row = self._served.get(key)
        while True:
            reading = self._get(row)
            with reading.lock:
                if reading.is_closed:
                    continue  # others were looked at since
                reading.row = row
                if is_fresh:
                    reading.reread()
                else:
                    reading.refresh()
                yield reading
                return

    def _get(self, row: Row) -> Reading:
        with self._lock:
            reading = self._open.pop(row.key, None)
            if reading is None:
                reading = Reading(self._served, row)
            self._open[row.key] = reading
            while len(self._open) > _KEPT:
                _, oldest = self._open.popitem(last=False)
                oldest.close()
            return reading

    def forget(self, key: str) -> None:
        """Close a session: it is gone, or another one now."""
        with self._lock:
            reading = self._open.pop(key, None)
            if reading is not None:
                reading.close()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()


def decode(entry: Entry) -> WireEntry:
    """An entry's data; almost nothing if it cannot be read any more."""
    try:
        return entry.decode()
    except (OSError, ValueError, SessionTreeError):
        return {"type": entry.type, "id": entry.id}


def said_in(data: Mapping[str, Any]) -> str:
    """All text of an entry, without images and signatures."""
    pieces: list[str] = []
    message = data.get("message")
    _gather(message if isinstance(message, dict) else data, pieces, 0)
    return "\n".join(pieces)


_SILENT = frozenset(("data", "mimeType", "id", "parentId", "timestamp", "type", "role", "api"))


def _gather(value: object, pieces: list[str], depth: int) -> None:
    if isinstance(value, str):
        pieces.append(value)
    elif isinstance(value, list) and depth < 12:
        for each in value:
            _gather(each, pieces, depth + 1)
    elif isinstance(value, dict) and depth < 12:
        for name, each in value.items():
            if not (name in _SILENT or name.endswith("Signature") or name == "usage"):
                _gather(each, pieces, depth + 1)


def _hash(ids: Iterable[str]) -> str:
    joined = "\0".join(ids).encode("utf-8", "surrogatepass")
    return blake2b(joined, digest_size=9).hexdigest()
