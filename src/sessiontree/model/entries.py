"""``Entry``: one line of a session after the header.

An entry read from a file knows its place in the tree at once and decodes the rest of its line
only when ``data`` is first asked for. An entry that was made or changed in memory carries its
data. Where the bytes come from is behind ``PayloadSource``; this module does no I/O itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from sessiontree.model import codec

WireEntry = dict[str, Any]


class PayloadSource(Protocol):
    """Gives back the bytes of an entry, and the values that its line only refers to."""

    def read_line(self, offset: int, length: int) -> bytes:
        """The bytes of one entry's JSON text, as they were read."""

    def restore(self, data: WireEntry, line: bytes) -> WireEntry:
        """The entry that ``line`` holds with its externalised values put back, in place."""


class _Cached:
    """Holds decoded data. A class of its own, so that no JSON text can fill the field."""

    __slots__ = ("data",)

    def __init__(self, data: WireEntry) -> None:
        self.data = data


class _Source:
    """Wraps a PayloadSource, for the same reason."""

    __slots__ = ("payloads",)

    def __init__(self, payloads: PayloadSource) -> None:
        self.payloads = payloads


# Fields of ours must not be filled from a line, whatever keys it has.
_WIRE_NAMES = {
    "parent_id": "parentId",
    "source": "sessiontree:source",
    "offset": "sessiontree:offset",
    "length": "sessiontree:length",
    "cached": "sessiontree:cached",
    "is_changed": "sessiontree:is_changed",
}


class Entry(msgspec.Struct, gc=False, eq=False, rename=_WIRE_NAMES):
    """One entry of a session. Compare entries by ``id``.

    ``type``, ``id``, ``parent_id`` and ``timestamp`` are the fields that every entry has;
    ``data`` is the whole wire object. The remaining fields say where its line is.
    """

    type: str
    id: str
    parent_id: str | None
    timestamp: str
    source: _Source | None = None
    offset: int = 0
    length: int = 0
    cached: _Cached | None = None
    is_changed: bool = False

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Entry:
        """An entry made of a wire object, which it keeps."""
        kept = data if isinstance(data, dict) else dict(data)
        return cls(
            _text(kept.get("type")),
            _text(kept.get("id")),
            kept["parentId"] if isinstance(kept.get("parentId"), str) else None,
            _text(kept.get("timestamp")),
            cached=_Cached(kept),
        )

    @property
    def data(self) -> WireEntry:
        """The whole wire object, decoded on first use and kept.

        Change it only together with ``SessionManager.rewrite_entries``.
        """
        cached = self.cached
        if cached is None:
            cached = self.cached = _Cached(self.decode())
        return cached.data

    def decode(self) -> WireEntry:
        """The whole wire object, decoded afresh and not kept."""
        if self.source is None:
            return codec.copy(self.data)
        payloads = self.source.payloads
        line = payloads.read_line(self.offset, self.length)
        data: WireEntry = codec.decode(line)
        if self.is_changed:
            data["id"] = self.id
            data["parentId"] = self.parent_id
        return payloads.restore(data, line)

    def raw(self) -> bytes | None:
        """The exact bytes of the entry's line, if it was read from one; else None."""
        if self.source is None:
            return None
        return self.source.payloads.read_line(self.offset, self.length)

    def line(self) -> bytes:
        """The bytes this entry is to be written as: its own if nothing changed since it was read.

        Externalised values stay as the line has them.
        """
        raw = self.raw()
        if raw is None:
            return codec.encode(self.data)
        if not self.is_changed:
            return raw
        data = codec.decode(raw)
        data["id"] = self.id
        data["parentId"] = self.parent_id
        return codec.encode(data)

    def place(self, entry_id: str, parent_id: str | None) -> None:
        """Give the entry another id or parent in memory; a rewrite will then spell it anew."""
        self.id = entry_id
        self.parent_id = parent_id
        self.is_changed = True
        if self.cached is not None:
            self.cached.data["id"] = entry_id
            self.cached.data["parentId"] = parent_id

    def attach(self, payloads: PayloadSource, offset: int, length: int) -> None:
        """From now on the entry's line is at ``offset``; what was decoded stays."""
        self.source = _Source(payloads)
        self.offset = offset
        self.length = length
        self.is_changed = False

    def release(self) -> None:
        """Forget decoded data that can be read again."""
        if self.source is not None:
            self.cached = None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class SourceHandle:
    """Attaches many entries to one source without an allocation each."""

    __slots__ = ("_wrapped", "payloads")

    def __init__(self, payloads: PayloadSource) -> None:
        self.payloads = payloads
        self._wrapped = _Source(payloads)

    def attach(self, entry: Entry, offset: int, length: int) -> None:
        entry.source = self._wrapped
        entry.offset = offset
        entry.length = length

    def attach_lines(self, entries: list[Entry], block: bytes, offset: int) -> None:
        """The entries are the lines of ``block``, which begins at ``offset`` of its file."""
        wrapped = self._wrapped
        find = block.find
        start = 0
        for entry in entries:
            end = find(b"\n", start)
            entry.source = wrapped
            entry.offset = offset + start
            entry.length = end - start
            entry.cached = None
            entry.is_changed = False
            start = end + 1


envelope_decoder = msgspec.json.Decoder(Entry)
"""Reads just the fields every entry has, and checks the rest for well-formedness."""
