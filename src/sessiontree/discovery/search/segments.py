"""Cut what a session says into segments, the rows of the search index.

A segment ends where about enough was said. Its words are spelled for the index here, so that this
work, most of what indexing costs, can be done in several processes at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import msgspec

from sessiontree.discovery import catalogue
from sessiontree.discovery.adapters import get_adapter
from sessiontree.discovery.adapters.base import AgentAdapter
from sessiontree.discovery.catalogue import freshness
from sessiontree.discovery.catalogue.answers import Reading
from sessiontree.discovery.kept import open_session
from sessiontree.discovery.search import tool_words
from sessiontree.discovery.search.words import spell_for_index
from sessiontree.discovery.texts import SPOKEN_ROLES, TOOL_ROLES, SaidText, read_texts
from sessiontree.storage.base import FileStat, SessionStorageReader
from sessiontree.storage.file import FileSessionStorage

SEGMENT_BITS = 12
MOST_SEGMENTS = 64
"""A session with more segments that has grown is read whole again, which makes them fewer."""
MOST_NEW_SEGMENTS = (1 << SEGMENT_BITS) - MOST_SEGMENTS
_SEGMENT_CHARS = 1 << 18
_TOOL_CHARS = 1 << 22
# Stands between two messages, so that no phrase reaches from one into the next.
_BOUNDARY = " ꙮ "


class Segment(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A byte range of a session file, and the time of the newest message in it."""

    start: int
    end: int
    newest_ms: int


class SegmentText(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A segment, and the words in it of users, the model and tools, spelled for the index."""

    segment: Segment
    user: str
    assistant: str
    tools: str

    @property
    def size(self) -> int:
        return len(self.user) + len(self.assistant) + len(self.tools)


class _Cutter:
    """Gathers texts and cuts them into segments."""

    def __init__(self, start: int, most: int) -> None:
        self.made: list[SegmentText] = []
        self._most = most
        self._begin = start
        self._clear()

    def _clear(self) -> None:
        self._spoken: dict[str, list[str]] = {role: [] for role in SPOKEN_ROLES}
        self._tools = tool_words.Gathering()
        self._length = self._newest_ms = 0
        # Agents that write a text twice may have it yielded late, after the texts that follow it.
        self._lowest: int | None = None
        self._highest = -1

    def add(self, said: SaidText) -> None:
        """Add one text; where a segment is full, it begins the next."""
        is_full = self._length >= _SEGMENT_CHARS or self._tools.size >= _TOOL_CHARS
        if is_full and len(self.made) + 1 < self._most and said.offset > self._highest:
            self.close(said.offset)
        if said.role in self._spoken:
            text = spell_for_index(said.text)
            self._spoken[said.role].append(text)
            self._length += len(text) + 1
        elif said.role in TOOL_ROLES:
            self._tools.add(said.text)
        else:
            return
        if said.time_ms is not None and said.time_ms > self._newest_ms:
            self._newest_ms = said.time_ms
        if self._lowest is None or said.offset < self._lowest:
            self._lowest = said.offset
        if said.offset > self._highest:
            self._highest = said.offset

    def close(self, end: int) -> None:
        """End the present segment."""
        if self._lowest is not None:
            segment = Segment(min(self._begin, self._lowest), end, self._newest_ms)
            user, assistant = (_BOUNDARY.join(self._spoken[role]) for role in ("user", "assistant"))
            self.made.append(SegmentText(segment, user, assistant, self._tools.spell()))
        self._begin = end
        self._clear()


class SessionText(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """The text of a session from some offset on, and its file's stat when it was read."""

    found: FileStat
    stamp: freshness.Stamp
    has_final_newline: bool
    texts: list[SegmentText]


def read_text(
    reader: SessionStorageReader, adapter: AgentAdapter, start: int, read_ns: int
) -> SessionText | None:
    """Read from ``start``, the beginning of a line; None for a file that was just written.

    Such a file might change again without our noticing. ``read_ns`` is when the reader was opened.
    """
    found = reader.stat()
    texts = read_texts(reader, start, found.size, include_tools=True, adapter=adapter)
    return _cut(reader, found, texts, start, read_ns)


def _cut(
    reader: SessionStorageReader,
    found: FileStat,
    texts: Iterator[SaidText],
    start: int,
    read_ns: int,
) -> SessionText | None:
    stamp = freshness.make_stamp(reader, found, read_ns)
    if not stamp.holds_for(found):
        return None
    is_whole = found.size == 0 or reader.read_at(found.size - 1, 1) == b"\n"
    cutter = _Cutter(start, MOST_NEW_SEGMENTS)
    for said in texts:
        if said.text:
            cutter.add(said)
    cutter.close(found.size)
    return SessionText(found, stamp, is_whole, cutter.made)


# -- in a process of its own (``discovery.workers``) -----------------------------------------------

READ_TEXT = "sessiontree.discovery.search.segments:read_encoded"
READ_NEW = "sessiontree.discovery.search.segments:read_new"


class ReadSession(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """What a worker read of a session: its text, and with ``READ_NEW`` the catalogue's row."""

    text: SessionText
    row: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
decode_session = msgspec.msgpack.Decoder(ReadSession).decode


def read_encoded(agent: str, path: str) -> bytes:
    """Read the text of a whole session. Raises OSError; b"" if it was just written."""
    adapter = get_adapter(agent)
    read_ns = freshness.read_clock_ns()
    reader = open_session(adapter, path, FileSessionStorage())
    try:
        text = read_text(reader, adapter, 0, read_ns)
        return b"" if text is None else _encode(ReadSession(text))
    finally:
        reader.close()


def read_new(agent: str, path: str) -> bytes:
    """Read a session that the catalogue does not know either, also for that."""
    adapter = get_adapter(agent)
    read_ns = freshness.read_clock_ns()
    reader = open_session(adapter, path, FileSessionStorage())
    try:
        found = reader.stat()
        reading: Reading | None = None

        def both(texts: Generator[SaidText, None, Reading]) -> Iterator[SaidText]:
            nonlocal reading
            reading = yield from texts

        texts = adapter.read_with_texts(reader, path, found.size)
        if texts is None:
            text = read_text(reader, adapter, 0, read_ns)
        else:
            text = _cut(reader, found, adapter.drop_repeated(both(texts)), 0, read_ns)
        if text is None:
            return b""
        # A name must not be older than the stamp under which the index keeps it.
        try:
            if reading is not None:
                row = catalogue.encode_reading(reader, found, read_ns, reading)
            else:
                row = catalogue.read_encoded(agent, path)
        except UnicodeEncodeError:  # half an emoji in a title: the caller reads and spells it
            row = b""
        return _encode(ReadSession(text, row))
    finally:
        reader.close()
