"""Compute the figures that a listing shows for one session file.

This module defines ``SessionInfo``'s figures
(docs/discovery.md#full-listings-sessionmanagerlist-list_all). A ``Summary`` depends on the file's
bytes alone, and can be extended when the file has grown. Reads through a storage's reader; knows
nothing of folders or caches.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sessiontree.discovery.catalogue import fast_lines
from sessiontree.discovery.catalogue.fast_lines import Block, line_end, read_blocks
from sessiontree.discovery.catalogue.leaves import Leaf, Status, find_leaf
from sessiontree.model import codec
from sessiontree.model.dialects import session_name
from sessiontree.model.header import HeaderFinder, get_cwd, get_version
from sessiontree.model.lines import Record, SkippedText, read_line
from sessiontree.model.messages import as_text, said_ms, text_of, text_or_none
from sessiontree.profiles import Dialect
from sessiontree.storage.base import SessionStorageReader

_HEAD_TYPES = ("session", "title")
_BRACE = ord("}")
_NEWLINE = ord("\n")
_AT_ID, _AFTER_ID = fast_lines.AT_ID, fast_lines.AT_ID + fast_lines.ID_BYTES
_AT_PARENT, _AFTER_PARENT = fast_lines.AT_PARENT, fast_lines.AT_PARENT + fast_lines.ID_BYTES
_AT_ROLE = fast_lines.AT_ROLE
_AT_ROLE_NAME = fast_lines.AT_ROLE_NAME
_TIME_FROM_END = fast_lines.TIME_FROM_END
_MILLISECONDS_FROM_END = fast_lines.MILLISECONDS_FROM_END
_END = fast_lines.END


class Summary(msgspec.Struct, array_like=True, gc=False):
    """The figures of one session file up to ``end``."""

    session_id: str | None = None
    cwd: str = ""
    timestamp: str | None = None
    parent_session: str | None = None
    header_title: str | None = None
    info_name: str | None = None
    short_summary: str | None = None
    message_count: int = 0
    last_message_ms: int | None = None
    first_message: str | None = None
    skipped_count: int = 0
    is_headless: bool = False
    is_chain: bool = False
    leaf: Leaf | None = None
    end: int = 0
    has_final_newline: bool = True
    origin: str | None = None
    """The session that this one was imported or converted from: ``agent:id``."""
    first: str | None = None
    """The first message as the agent names it; files that share it share their beginning.

    In pi's family id and time of the first entry."""
    last: str | None = None
    """The agent's own id of the last message."""
    owner: str | None = None
    """The id of the session that this file is a part of, for a subagent's transcript."""

    @property
    def can_go_on(self) -> bool:
        """Whether appended lines can be added without reading the old ones again.

        After damage the next lines may change its extent: see ``fast_lines``.
        """
        return self.session_id is not None and self.has_final_newline and not self.skipped_count

    def title(self, dialect: Dialect) -> str | None:
        """The session's name, else the latest compaction's short summary."""
        return session_name(dialect, self.header_title, self.info_name, self.short_summary)

    @property
    def status(self) -> Status:
        if self.is_headless or self.skipped_count:
            return "damaged"
        return self.leaf.status if self.leaf is not None else "empty"


class _Message(msgspec.Struct, gc=False):
    role: Any = None
    timestamp: Any = None


class _Fields(msgspec.Struct, gc=False, rename={"short_summary": "shortSummary"}):
    """The fields of a line that a summary may need; the parser checks and skips the rest."""

    type: str
    timestamp: Any = None
    message: _Message | None = None
    name: Any = None
    short_summary: Any = None


class _First(msgspec.Struct, gc=False):
    id: Any = None
    timestamp: Any = None


_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_first = msgspec.json.Decoder(_First).decode


def read_summary(reader: SessionStorageReader, size: int, known: Summary | None = None) -> Summary:
    """Summarize the first ``size`` bytes of a file.

    ``known`` is the summary of its first ``known.end`` bytes, which must be whole lines that have
    not changed; then only what follows is read.
    """
    scan = _Scan(msgspec.structs.replace(known) if known is not None else Summary())
    last_block = b""
    for block in read_blocks(reader, scan.summary.end, size):
        scan.feed(block)
        last_block = block.data if block.cut == len(block.data) else b""
    summary = scan.summary
    if scan.is_in_head and summary.end:
        summary.is_headless = True
    summary.leaf = None
    if summary.message_count and not (summary.is_headless or summary.skipped_count):
        leaf = known.leaf if known is not None else None
        summary.leaf = scan.passed_over or find_leaf(
            reader, summary.end, last_block, leaf, is_chain=summary.is_chain
        )
    return summary


class _Scan:
    """Adds blocks of whole lines to a summary."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self.is_in_head = summary.session_id is None and not summary.is_headless
        self.passed_over: Leaf | None = None
        self._finder = HeaderFinder()

    def feed(self, block: Block) -> None:
        """Take in whole lines."""
        if block.is_long_line:
            self._pass_over(block)
            return
        data, start, cut = block.data, 0, block.cut
        while self.is_in_head and start < cut:
            end = line_end(data, start, cut)
            self._read(data[start:end], block.offset + start)
            start = end + 1
        if start < cut:
            if self.summary.first is None:
                self._note_first(data[start : line_end(data, start, cut)])
            before = msgspec.structs.replace(self.summary)
            if not self._scan_frames(data, start, cut):
                self.summary = before
                self._scan_lines(data, start, cut)
        self.summary.end += cut
        self.summary.has_final_newline = data[cut - 1] == _NEWLINE
        self.passed_over = None

    def _pass_over(self, block: Block) -> None:
        """Count one tool result that was recognized by its frame."""
        self.summary.first = self.summary.first or ""
        self.summary.message_count += 1
        self.summary.end += block.length
        entry_id = block.data[_AT_ID:_AFTER_ID].decode("utf-8", "replace")
        self.passed_over = Leaf(entry_id, "interrupted", self.summary.end)

    def _scan_frames(self, block: bytes, start: int, cut: int) -> bool:
        """Count lines with a frame and parse the rest; False if frames can't be trusted here.

        A whole entry glued to a torn one hides in one frame. The next line then names the hidden
        one as its parent, so a line is searched for a second beginning only if what follows it is
        not framed as its child.
        """
        find, startswith = block.find, block.startswith
        entry, role, time = fast_lines.ENTRY, fast_lines.ROLE, fast_lines.TIME
        wants_user = self.summary.first_message is None
        framed = 0
        latest = b""
        previous, previous_id = start, b""
        at = start
        while at < cut:
            end = find(b"\n", at, cut)
            if end < 0:
                end = cut
            if (
                startswith(entry, at)
                and block[end - 1] == _BRACE
                and startswith(role, at + _AT_ROLE)
                and startswith(time, end - _TIME_FROM_END)
            ):
                framed += 1
                if block[at + _AT_PARENT : at + _AFTER_PARENT] != previous_id and (
                    find(entry, previous + 1, at) >= 0
                ):
                    return False
                previous_id = block[at + _AT_ID : at + _AFTER_ID]
                said = block[end - _MILLISECONDS_FROM_END : end - len(_END)]
                if said > latest and startswith(fast_lines.SPOKEN, at + _AT_ROLE_NAME):
                    latest = said
                if wants_user and startswith(fast_lines.USER, at + _AT_ROLE_NAME):
                    self._note_user(block[at:end])
                    wants_user = self.summary.first_message is None
            else:
                if find(entry, previous + 1, at) >= 0:
                    return False
                previous_id = b""
                self._read(block[at:end], self.summary.end + at)
                wants_user = self.summary.first_message is None
            previous = at
            at = end + 1
        self.summary.message_count += framed
        if latest:
            if not latest.isdigit():
                return False
            self._note_time(int(latest))
        return find(entry, previous + 1, cut) < 0 and not fast_lines.has_hole(block, start, cut)

    def _scan_lines(self, block: bytes, start: int, cut: int) -> None:
        at = start
        while at < cut:
            end = line_end(block, at, cut)
            self._read(block[at:end], self.summary.end + at)
            at = end + 1

    def _read(self, line: bytes, offset: int) -> None:
        """Add one line of any kind."""
        if not self.is_in_head:
            try:
                fields = _decode_fields(line)
                if fields.type not in _HEAD_TYPES:
                    self._note(fields, line)
                    return
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass
        for item in read_line(line, offset, 0):
            if isinstance(item, SkippedText):
                self.summary.skipped_count += 1
            elif self.is_in_head:
                self._note_head(item)
            else:
                self._note_record(item)

    def _note_head(self, item: Record) -> None:
        summary, value = self.summary, item.value
        finder = self._finder
        if not finder.take(value):
            # "" means no title, whatever the header says.
            summary.header_title = finder.slot.title if finder.slot is not None else None
            return
        self.is_in_head = False
        if finder.header is None:
            summary.is_headless = True
            self._note_record(item)
            return
        summary.session_id = value["id"]
        summary.is_chain = get_version(value) < 2  # type: ignore[arg-type]
        summary.cwd = get_cwd(value)  # type: ignore[arg-type]
        summary.timestamp = text_or_none(value.get("timestamp"))
        summary.parent_session = text_or_none(value.get("parentSession"))
        summary.origin = _origin(value)
        if finder.slot is None:
            summary.header_title = as_text(value.get("title"))

    def _note_record(self, item: Record) -> None:
        """Add a record that only the tolerant parser could read."""
        value = item.value
        kind = value.get("type")
        if kind in _HEAD_TYPES:
            self.summary.skipped_count += 1  # a second header is not an entry
            return
        message = value.get("message")
        role = message.get("role") if isinstance(message, dict) else None
        fields = _Fields(
            as_text(kind),
            value.get("timestamp"),
            _Message(role, message.get("timestamp") if isinstance(message, dict) else None),
            value.get("name"),
            value.get("shortSummary"),
        )
        self._note(fields, codec.encode(value))

    def _note(self, fields: _Fields, line: bytes) -> None:
        summary = self.summary
        match fields.type:
            case "message":
                summary.message_count += 1
                if fields.message is not None:
                    role = fields.message.role
                    self._note_time(said_ms(role, fields.message.timestamp, fields.timestamp))
                    if role == "user":
                        self._note_user(line)
            case "session_info":
                summary.info_name = as_text(fields.name).strip()
            case "compaction":
                summary.short_summary = text_or_none(fields.short_summary) or summary.short_summary

    def _note_first(self, line: bytes) -> None:
        """Name the first entry by id and time, which every copy of it keeps; "" without both."""
        self.summary.first = ""
        try:
            named = _decode_first(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if isinstance(named.id, str) and isinstance(named.timestamp, str):
            self.summary.first = f"{named.id} {named.timestamp}"

    def _note_time(self, time_ms: int | None) -> None:
        last_ms = self.summary.last_message_ms
        if time_ms is not None and (last_ms is None or time_ms > last_ms):
            self.summary.last_message_ms = time_ms

    def _note_user(self, line: bytes) -> None:
        if self.summary.first_message is not None:
            return
        try:
            message = codec.decode(line.strip(b" \t\r\x00")).get("message")
        except (ValueError, AttributeError):
            return
        text = text_of(message.get("content")) if isinstance(message, dict) else ""
        if text and not text.isspace():
            self.summary.first_message = text


def _origin(header: dict[str, Any]) -> str | None:
    for key in ("importedFrom", "convertedFrom"):
        told = header.get(key)
        if isinstance(told, dict) and isinstance(told.get("sessionId"), str):
            return f"{told.get('agent') or told.get('profile') or ''}:{told['sessionId']}"
    return None
