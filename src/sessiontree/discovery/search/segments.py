"""What of a session goes into the search index: its text, cut into segments of about one size.

Knows session files, not the index: what is made of a segment is for the caller to say.
"""

from __future__ import annotations

import msgspec

from sessiontree.discovery.search.texts import SPOKEN_ROLES, read_texts
from sessiontree.discovery.search.words import spell_for_index
from sessiontree.storage.base import SessionStorageReader

_SEGMENT_CHARS = 1 << 18
# Stands between two messages, so that no phrase reaches from one into the next.
_BOUNDARY = " ꙮ "


class Segment(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A range of a session file, and when the newest message in it was said."""

    start: int
    end: int
    newest_ms: int


class SegmentText(msgspec.Struct, gc=False, frozen=True):
    """A segment and what users and the model said in it, spelled for the index."""

    segment: Segment
    user: str
    assistant: str

    @property
    def size(self) -> int:
        return len(self.user) + len(self.assistant)


def cut_segments(
    reader: SessionStorageReader, start: int, size: int, most: int
) -> list[SegmentText]:
    """What was said between ``start``, the beginning of a line, and ``size``: at most ``most``."""
    made: list[SegmentText] = []
    spoken: dict[str, list[str]] = {role: [] for role in SPOKEN_ROLES}
    length = newest_ms = 0
    begin = start

    def close(end: int) -> None:
        nonlocal length, newest_ms, begin
        if length:
            user, assistant = (_BOUNDARY.join(spoken[role]) for role in ("user", "assistant"))
            made.append(SegmentText(Segment(begin, end, newest_ms), user, assistant))
        for texts in spoken.values():
            texts.clear()
        length, newest_ms, begin = 0, 0, end

    for said in read_texts(reader, start, size):
        if said.role not in spoken or not said.text:
            continue
        if length >= _SEGMENT_CHARS and len(made) + 1 < most:
            close(said.offset)
        text = spell_for_index(said.text)
        spoken[said.role].append(text)
        length += len(text) + 1
        newest_ms = max(newest_ms, said.time_ms or 0)
    close(size)
    return made
