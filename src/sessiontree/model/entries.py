"""``Entry``: one line of a session after the header.

Reading a file decodes only each entry's place in the tree; the rest of its line is decoded on the
first access to ``data``. An entry made or changed in memory carries its data. ``PayloadSource``
provides the bytes; this module does no I/O itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from sessiontree.model import codec
from sessiontree.model.messages import as_text

WireEntry = dict[str, Any]


class PayloadSource(Protocol):
    """Read the bytes of an entry, and the values that its line refers to."""

    def read_line(self, offset: int, length: int) -> bytes:
        """Read the bytes of one entry's JSON text."""

    def restore(self, data: WireEntry, line: bytes) -> WireEntry:
        """Put the externalised values of the entry in ``line`` back in place."""

    def is_plain(self, block: bytes) -> bool:
        """Whether no line in ``block`` needs ``restore``."""

    def fetch_blob(self, ref: str) -> bytes | None:
        """Read the content that a blob reference names; None if it is not available."""


# A field that no line has is named by a text that no JSON line can contain.
_SECRET = os.urandom(8).hex()


def _wire_name(field: str) -> str:
    if field in ("type", "id", "timestamp"):
        return field
    return "parentId" if field == "parent_id" else f"{field}:{_SECRET}"


class Entry(msgspec.Struct, gc=False, eq=False, rename=_wire_name):
    """One entry of a session. Compare entries by ``id``.

    ``type``, ``id``, ``parent_id`` and ``timestamp`` are the fields that every entry has;
    ``data`` is the whole wire object. The remaining fields say where its line is and what of it is
    decoded: ``cached`` is all of it, ``message`` that part alone; never both.
    """

    type: str
    id: str
    parent_id: str | None
    timestamp: str
    source: PayloadSource | None = None
    offset: int = 0
    length: int = 0
    cached: WireEntry | None = None
    message: dict[str, Any] | None = None
    is_changed: bool = False

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Entry:
        """Make an entry of a wire object, which it keeps."""
        kept = data if isinstance(data, dict) else dict(data)
        return cls(
            as_text(kept.get("type")),
            as_text(kept.get("id")),
            kept["parentId"] if isinstance(kept.get("parentId"), str) else None,
            as_text(kept.get("timestamp")),
            cached=kept,
        )

    def __repr__(self) -> str:
        own = f"{self.type!r}, {self.id!r}, {self.parent_id!r}, {self.timestamp!r}"
        return f"{type(self).__name__}({own})"

    @property
    def data(self) -> WireEntry:
        """The whole wire object, decoded on first use and kept.

        Change it only together with ``SessionManager.rewrite_entries``.
        """
        cached = self.cached
        if cached is None:
            cached = self.decode()
            if self.message is not None:
                cached["message"] = self.message
            self.cached, self.message = cached, None
        return cached

    @property
    def is_loaded(self) -> bool:
        """Whether a caller may hold, and may have changed, a part of ``data``."""
        return self.cached is not None or self.message is not None

    def is_edited(self) -> bool:
        """Whether ``data`` differs from the line.

        Also for values that are never written: a line need not hold all of ``data``.
        """
        if not self.is_loaded or self.source is None:
            return False
        said = self.decode()
        # in a file that was overwritten another entry may stand there
        return said.get("id") == self.id and codec.encode(said) != codec.encode(self.data)

    def decode(self) -> WireEntry:
        """Decode the whole wire object without keeping it."""
        if self.source is None:
            return codec.copy(self.data)
        line = self.source.read_line(self.offset, self.length)
        data: WireEntry = codec.decode(line)
        if self.is_changed:
            data["id"] = self.id
            data["parentId"] = self.parent_id
        return self.source.restore(data, line)

    def fetch_blob(self, ref: str) -> bytes | None:
        """A blob that this entry refers to; None if it is not available.

        For values that ``data`` leaves as references, because they are large and rarely needed.
        """
        return None if self.source is None else self.source.fetch_blob(ref)

    def raw(self) -> bytes | None:
        """Return the exact bytes of the entry's line; None if it was not read from one."""
        if self.source is None:
            return None
        return self.source.read_line(self.offset, self.length)

    def line(self) -> bytes:
        """Return the line to write: the bytes read, if nothing has changed since.

        Externalised values stay as the line has them.
        """
        raw = self.raw()
        if raw is None:
            return codec.encode(self.data)
        if not self.is_changed:
            return raw
        return codec.replace_fields(raw, {"id": self.id, "parentId": self.parent_id})

    def place(self, entry_id: str, parent_id: str | None) -> None:
        """Set another id or parent in memory; the next rewrite encodes the entry again."""
        self.id = entry_id
        self.parent_id = parent_id
        self.is_changed = True
        if self.cached is not None:
            self.cached["id"] = entry_id
            self.cached["parentId"] = parent_id

    def hang_back(self, parent_id: str) -> bool:
        """Restore the parent that the entry's line names; False if that is another id."""
        raw = self.raw()
        said = self.data if raw is None else codec.decode(raw)
        if said.get("parentId") != parent_id:
            return False
        self.place(self.id, parent_id)
        self.is_changed = said.get("id") != self.id
        return True

    def attach(self, payloads: PayloadSource, offset: int, length: int) -> None:
        """Set the position of the entry's line; decoded data stays."""
        self.source = payloads
        self.offset = offset
        self.length = length
        self.is_changed = False

    def release(self) -> None:
        """Drop decoded data that can be read again."""
        if self.source is not None:
            self.cached = self.message = None


class _OwnLine:
    """The source of an entry whose line is not in a file yet."""

    def __init__(self, line: bytes, before: PayloadSource) -> None:
        self._line = line
        self._before = before

    def read_line(self, offset: int, length: int) -> bytes:
        return self._line[offset : offset + length]

    def restore(self, data: WireEntry, line: bytes) -> WireEntry:
        return self._before.restore(data, line)

    def is_plain(self, block: bytes) -> bool:
        return self._before.is_plain(block)

    def fetch_blob(self, ref: str) -> bytes | None:
        return self._before.fetch_blob(ref)


def respell(
    line: bytes,
    source: PayloadSource | None,
    fields: Mapping[str, object],
    *,
    gone: Iterable[str] = (),
) -> Entry:
    """Make an entry of a line with fields set and removed; the others keep their spelling.

    Of ``message`` only the role is set. ``source`` gives the values that the line refers to.
    """
    changes = dict(fields)
    message = changes.pop("message", None)
    line = codec.replace_fields(line, changes, gone=gone)
    if isinstance(message, dict):
        line = codec.replace_nested(line, "message", {"role": message["role"]})
    entry = Entry.from_wire(codec.decode(line))
    if source is not None:
        entry.attach(_OwnLine(line, source), 0, len(line))
        entry.release()
    return entry


def entry_of_line(entry: Entry, line: bytes) -> Entry:
    """Make another entry of the same line, to be written somewhere else."""
    source = _OwnLine(line, entry.source) if entry.source is not None else None
    if source is None:
        return Entry.from_wire(codec.decode(line))
    return Entry(entry.type, entry.id, entry.parent_id, entry.timestamp, source, 0, len(line))


SETTINGS = frozenset(("model_change", "thinking_level_change", "mode_change", "session_info"))
"""Types of entries that a program may write before anybody has said anything."""

LEAF_MARKER = "sessiontree.leaf"
"""The type of the `custom` entry that stands last so that its parent is the leaf for others."""


def is_leaf_marker(entry: Entry) -> bool:
    """Whether an entry says nothing but where the leaf is."""
    if entry.type != "custom":
        return False
    data = entry.cached if entry.cached is not None else entry.decode()
    return data.get("customType") == LEAF_MARKER


def is_answer(data: WireEntry) -> bool:
    """Whether an entry is an assistant's message: what makes a session worth a file."""
    message = data.get("message")
    return (
        data.get("type") == "message"
        and isinstance(message, dict)
        and message.get("role") == "assistant"
    )


def attach_lines(
    entries: list[Entry], payloads: PayloadSource, chunk: bytes, size: int, offset: int
) -> bool:
    """Whether the entries are the lines of a chunk, one each; if so they are attached to them.

    The lines end at ``size``; the chunk begins at ``offset`` of its file. A newline between "}" and
    "{" can only stand between two objects, so as many such lines as entries mean one entry a line.
    Texts that nearly all entries share are stored once, which saves a quarter of the memory.
    """
    find = chunk.find
    suspicious = codec.shortest_suspicious_length()
    start = 0
    previous: str | None = None
    for entry in entries:
        end = find(b"\n", start)
        if end < 0 or chunk[start] != _OPEN or chunk[end - 1] != _CLOSE:
            return False
        length = end - start
        if length >= suspicious and codec.is_too_deep(chunk[start:end]):
            return False
        entry.source = payloads
        entry.offset = offset + start
        entry.length = length
        if entry.type == "message":
            entry.type = "message"
        if entry.parent_id == previous:
            entry.parent_id = previous
        previous = entry.id
        start = end + 1
    return start == size


_OPEN, _CLOSE = b"{}"


def preload_messages(entries: Iterable[Entry]) -> None:
    """Decode the ``message`` of many ``message`` entries at once: what a context needs of them.

    Lines that are neighbours are decoded together, and nothing is kept of them but the message.
    ``data`` decodes what cannot be read this way, and messages without content.
    """
    run: list[Entry] = []
    source: PayloadSource | None = None
    following = limit = 0
    for entry in entries:
        if (
            entry.type != "message"
            or entry.message is not None
            or entry.cached is not None
            or entry.is_changed
        ):
            continue
        offset = entry.offset
        if offset != following or offset > limit or entry.source is not source:
            _decode_run(run, following - 1)
            run = []
            source = entry.source
            limit = offset + _RUN_BYTES
        run.append(entry)
        following = offset + entry.length + 1
    _decode_run(run, following - 1)


class _MessageOnly(msgspec.Struct, gc=False):
    message: dict[str, Any] | None = None


_message_of = attrgetter("message")
_RUN_BYTES = 1 << 18
_decode_messages = msgspec.json.Decoder(_MessageOnly).decode_lines


def _decode_run(run: list[Entry], end: int) -> None:
    if len(run) < 2 or run[0].source is None:
        return
    block = run[0].source.read_line(run[0].offset, end - run[0].offset)
    if not run[0].source.is_plain(block):
        return
    try:
        values = _decode_messages(block)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    if len(values) == len(run):
        for entry, message in zip(run, map(_message_of, values), strict=True):
            # asked here, where it is in the processor's cache: asked again later it costs six times
            # as much
            if message is not None and message.get("content") is not None:
                entry.message = message


envelope_decoder = msgspec.json.Decoder(Entry)
"""Reads just the fields every entry has, and checks the rest for well-formedness."""
