"""Tell when a session was last used: the time of its last message, not the file's mtime.

A copy, a restored backup or a clone gives every file a new mtime without a new message. The
messages' own times stay true, so listings, the picker and ``--continue`` use those. A time in the
future counts as now; a session without messages has its header's time, and without a header its
file's mtime.

``by_last_use`` sorts files this way without opening all of them. It takes them newest mtime first.
No message in a file is later than the file's mtime, so once the latest message found so far is
later than the next mtime, no later file can beat it: usually one or two files are opened. After a
copy all files have the same new mtime, which bounds nothing; then it takes the other times from the
catalogue, and reads the ends of the files that the catalogue does not know. A message later than
its own file proves that the mtimes are wrong; then it uses no bound at all.
"""

from __future__ import annotations

import contextlib
from bisect import insort
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from sessiontree.clock import now_ms
from sessiontree.discovery.heads import PREFIX_BYTES, parse_head
from sessiontree.discovery.paths import parse_session_file_name, session_of_draft
from sessiontree.model.ids import parse_timestamp
from sessiontree.model.lines import Record, read_line
from sessiontree.model.messages import as_text, said_ms
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.text.words import to_moment

_TAIL_BYTES = 4096
_LONGEST_TAIL_BYTES = 1 << 24
_FEW = 8
# Some file systems keep times in steps of two seconds.
_SLACK_MS = 2_000
_NS_PER_MS = 1_000_000


class _Message(msgspec.Struct, gc=False):
    role: Any = None
    timestamp: Any = None


class _Line(msgspec.Struct, gc=False):
    type: str
    timestamp: Any = None
    message: _Message | None = None


_decode_line = msgspec.json.Decoder(_Line).decode


class _Use(msgspec.Struct, order=True, frozen=True):
    """A file's sort key: last message, start time, and what breaks ties."""

    used_ms: int
    begun: str
    mtime_ns: int
    path: str


def by_last_use(
    storage: SessionStorage, files: Sequence[FileStat]
) -> Iterator[tuple[FileStat, datetime]]:
    """Yield files with the times of their last messages, latest first. Lazy.

    ``files`` must be sorted newest first. Of files with equal times the one begun last comes first.
    """
    present_ms = now_ms()
    stats = {stat.path: stat for stat in files}
    found: list[_Use] = []  # latest last
    known: dict[str, int] = {}
    is_bounded = True
    for count, stat in enumerate(files):
        if count == _FEW:
            known = _recall(files[count:], storage)
        newest_ms = stat.mtime_ns // _NS_PER_MS + _SLACK_MS
        while is_bounded and found and found[-1].used_ms > newest_ms:
            latest = found.pop()
            yield stats[latest.path], to_moment(latest.used_ms * _NS_PER_MS)
        used_ms = known.get(stat.path)
        if used_ms is None:
            used_ms = read_last_use_ms(storage, stat)
        is_bounded = is_bounded and used_ms <= newest_ms
        insort(found, _Use(min(used_ms, present_ms), _begun(stat.path), stat.mtime_ns, stat.path))
    for use in reversed(found):
        yield stats[use.path], to_moment(use.used_ms * _NS_PER_MS)


def last_use_ms(last_message_ms: int | None, header_time: str | None, stat: FileStat) -> int:
    """Return the time of last use from data read from the file; it may be in the future."""
    if last_message_ms is not None:
        return last_message_ms
    began_ms = parse_timestamp(header_time)
    return began_ms if began_ms is not None else stat.mtime_ns // _NS_PER_MS


def read_last_use_ms(storage: SessionStorage, stat: FileStat) -> int:
    """Read that time from the end of the file; an unreadable file gives its mtime."""
    length = _TAIL_BYTES
    with contextlib.suppress(OSError):
        while length <= _LONGEST_TAIL_BYTES:
            tail = storage.read_suffix(stat.path, length)
            is_whole = len(tail) < length
            last_ms = _latest_message(tail if is_whole else tail.partition(b"\n")[2])
            if last_ms is not None:
                return last_ms
            if is_whole:
                head = parse_head(tail[:PREFIX_BYTES])
                return last_use_ms(None, head.timestamp if head is not None else None, stat)
            length *= 16
    return stat.mtime_ns // _NS_PER_MS


def _recall(files: Sequence[FileStat], storage: SessionStorage) -> dict[str, int]:
    """Look these files up in the catalogue."""
    from sessiontree.discovery.catalogue import recall

    known = recall(files, storage)
    return {
        stat.path: last_use_ms(summary.last_message_ms, summary.timestamp, stat)
        for stat in files
        if (summary := known.get(stat.path)) is not None
    }


def _latest_message(lines: bytes) -> int | None:
    times = (time_ms for line in lines.split(b"\n") for time_ms in _message_times(line))
    return max(times, default=None)


def _message_times(line: bytes) -> Iterator[int]:
    try:
        found = [_decode_line(line)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        records = (item.value for item in read_line(line, 0, 0) if isinstance(item, Record))
        found = [_from_wire(value) for value in records]
    for entry in found:
        if entry.type == "message" and entry.message is not None:
            time_ms = said_ms(entry.message.role, entry.message.timestamp, entry.timestamp)
            if time_ms is not None:
                yield time_ms


def _from_wire(value: dict[str, Any]) -> _Line:
    message = value.get("message")
    return _Line(
        as_text(value.get("type")),
        value.get("timestamp"),
        _Message(message.get("role"), message.get("timestamp"))
        if isinstance(message, dict)
        else None,
    )


def _begun(path: str) -> str:
    """Return the session's start time in its file's name."""
    named = parse_session_file_name(session_of_draft(path) or path)
    return named[0] if named else ""
