"""Read and write a session file's header, and the title slot that omp 18 puts before it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypedDict, cast

import msgspec

from sessiontree.model import codec
from sessiontree.model.lines import Record
from sessiontree.model.messages import as_text, text_or_none

CURRENT_VERSION = 3
SLOT_BYTES = 256
_SHORT_TIME = re.compile(r"[0-9A-Za-z:.+-]{1,32}")


class Header(TypedDict, total=False):
    """The header's fields in the file."""

    type: str
    version: int
    id: str
    timestamp: str
    cwd: str
    title: str
    titleSource: str
    parentSession: str


class TitleSlot(msgspec.Struct, frozen=True):
    """omp's fixed-size first line: a title that can be changed without moving anything else."""

    title: str
    source: str | None
    updated_at: str
    line: bytes = b""
    others: dict[str, Any] = {}

    @property
    def is_in_place(self) -> bool:
        """Whether the slot is in its file as a line of the standard size."""
        return len(self.line) == SLOT_BYTES

    def sealed(self) -> TitleSlot:
        """Return the same slot with its line, and as much of the title as fits.

        Fields of another version of omp stay, unless they leave no room at all.
        """
        title, line = self._fit()
        return msgspec.structs.replace(self, title=title, line=line)

    def encode(self) -> bytes:
        """The slot's line with its newline: as it was read, else made with the title cut to fit."""
        return self.line or self._fit()[1]

    def _fit(self) -> tuple[str, bytes]:
        title, others = self.title, self.others
        while True:
            fields: dict[str, Any] = {"type": "title", "v": 1, "title": title}
            if self.source is not None:
                fields["source"] = self.source
            fields |= {"updatedAt": self.updated_at, **others, "pad": ""}
            room = SLOT_BYTES - len(codec.encode(fields)) - 1
            if room >= 0:
                return title, codec.encode({**fields, "pad": " " * room}) + b"\n"
            if title:
                title = title[: max(0, min(len(title) - 1, len(title) + room // 4))]
            else:
                title, others = self.title, {}


def make_header(
    session_id: str, timestamp: str, cwd: str, *, parent_session: str | None = None
) -> Header:
    """Make the header of a new session."""
    header = Header(
        type="session", version=CURRENT_VERSION, id=session_id, timestamp=timestamp, cwd=cwd
    )
    if parent_session is not None:
        header["parentSession"] = parent_session
    return header


def set_fields(header: Header, fields: Mapping[str, Any]) -> None:
    """Set fields of a header; None removes one."""
    wire: dict[str, Any] = cast("dict[str, Any]", header)
    for key, value in fields.items():
        if value is None:
            wire.pop(key, None)
        else:
            wire[key] = value


def respell_header(header: Header, line: bytes) -> bytes:
    """Encode the header; unchanged fields keep their spelling in ``line``."""
    before = codec.decode(line)
    changed = {
        key: value
        for key, value in header.items()
        if key not in before or codec.encode(before[key]) != codec.encode(value)
    }
    return codec.replace_fields(line, changed, gone=before.keys() - header.keys())


def is_header(value: object) -> bool:
    """Whether a record is a valid session header."""
    return (
        isinstance(value, dict)
        and value.get("type") == "session"
        and isinstance(value.get("id"), str)
    )


def read_title_slot(value: object, line: bytes = b"") -> TitleSlot | None:
    """Read a file's first record as a title slot, if it is one; ``line`` is its whole line."""
    if not isinstance(value, dict) or value.get("type") != "title":
        return None
    title, updated_at, source = value.get("title"), value.get("updatedAt"), value.get("source")
    if not isinstance(title, str):
        return None
    return TitleSlot(
        title,
        source if source in ("auto", "user") else None,
        # as long as a time can be, so that a slot made of these fields always has its size
        updated_at if isinstance(updated_at, str) and _SHORT_TIME.fullmatch(updated_at) else "",
        line,
        {key: value for key, value in value.items() if key not in _SLOT_FIELDS},
    )


class HeaderFinder:
    """Find the header of a file: its first record, or the one after a title slot.

    This is the only place that knows where a header is. `find_header` is for callers that have the
    records at hand.
    """

    __slots__ = ("first", "slot")

    def __init__(self) -> None:
        self.slot: TitleSlot | None = None
        self.first: dict[str, Any] | None = None

    def take(self, value: dict[str, Any], line: bytes = b"") -> bool:
        """Take the file's next record; return whether it is in the header's place.

        ``line`` is the record's whole line, for a title slot to keep.
        """
        if self.slot is None and (slot := read_title_slot(value, line)) is not None:
            self.slot = slot
            return False
        self.first = value
        return True

    @property
    def header(self) -> Header | None:
        """The header; None if the record in its place is not one, or not reached yet."""
        return cast("Header", self.first) if is_header(self.first) else None


class FileStart(NamedTuple):
    """The title slot of a file, if any, and its first other record, if the data reaches so far."""

    slot: TitleSlot | None
    first: Record | None

    @property
    def header(self) -> Header | None:
        """The header; None if the first record is not one, or is missing."""
        if self.first is None or not is_header(self.first.value):
            return None
        return cast("Header", self.first.value)


def find_header(records: Iterable[Record]) -> FileStart:
    """Find title slot and header among a file's first records.

    Takes no more records than that, so a caller can continue with the same iterator.
    """
    finder = HeaderFinder()
    for record in records:
        if finder.take(record.value):
            return FileStart(finder.slot, record)
    return FileStart(finder.slot, None)


_SLOT_FIELDS = frozenset(("type", "v", "title", "source", "updatedAt", "pad"))


def apply_title_slot(header: Header, slot: TitleSlot | None) -> None:
    """Replace the header's title by the slot's; an empty one means no title."""
    if slot is None:
        return
    header.pop("title", None)
    header.pop("titleSource", None)
    if slot.title:
        header["title"] = slot.title
        if slot.source is not None:
            header["titleSource"] = slot.source


def get_version(header: Header) -> int:
    """Return the header's version; 1 without one."""
    version: object = header.get("version")
    if isinstance(version, float) and math.isfinite(version):
        return int(version)  # JSON has one kind of number: 3.0 and 3e0 are 3
    return version if isinstance(version, int) and not isinstance(version, bool) else 1


def get_title(header: Header) -> str | None:
    """Return the header's title; None without one."""
    return as_text(header.get("title")) or None


def get_timestamp(header: Header) -> str:
    """Return the session's start time as the header spells it; empty without one."""
    return as_text(header.get("timestamp"))


def get_cwd(header: Header) -> str:
    """Return the folder of the session's project; empty without one."""
    return as_text(header.get("cwd"))


def get_scope(header: Header) -> str | None:
    """Return the scope that the session belongs to; None without one."""
    return text_or_none(header.get("scope"))


def get_parent(header: Header) -> str | None:
    """Return what the header says the session was made of, a path or an id; None without."""
    return as_text(header.get("parentSession")) or None
