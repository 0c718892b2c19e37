"""Line 1 of a session file, and the title slot that omp 18 puts before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from sessiontree.model import codec

CURRENT_VERSION = 3
SLOT_BYTES = 256


class Header(TypedDict, total=False):
    """The header as it stands in the file."""

    type: str
    version: int
    id: str
    timestamp: str
    cwd: str
    title: str
    titleSource: str
    parentSession: str


@dataclass(frozen=True, slots=True)
class TitleSlot:
    """omp's fixed-size first line: a title that can be changed without moving anything else."""

    title: str
    source: str | None
    updated_at: str
    length: int = SLOT_BYTES

    def encode(self) -> bytes:
        """The slot's line, newline included, exactly ``length`` bytes; the title is cut to fit."""
        title = self.title
        while True:
            fields: dict[str, Any] = {"type": "title", "v": 1, "title": title}
            if self.source is not None:
                fields["source"] = self.source
            fields |= {"updatedAt": self.updated_at, "pad": ""}
            room = self.length - len(codec.encode(fields)) - 1
            if room >= 0:
                return codec.encode({**fields, "pad": " " * room}) + b"\n"
            if not title:
                raise ValueError(f"no title slot of {self.length} bytes can hold its own fields")
            title = title[: max(0, min(len(title) - 1, len(title) + room // 4))]


def make_header(
    session_id: str, timestamp: str, cwd: str, *, parent_session: str | None = None
) -> Header:
    """The header of a new session."""
    header = Header(
        type="session", version=CURRENT_VERSION, id=session_id, timestamp=timestamp, cwd=cwd
    )
    if parent_session is not None:
        header["parentSession"] = parent_session
    return header


def is_header(value: object) -> bool:
    """Whether a record is a valid session header."""
    return (
        isinstance(value, dict)
        and value.get("type") == "session"
        and isinstance(value.get("id"), str)
    )


def read_title_slot(value: object, length: int) -> TitleSlot | None:
    """The title slot that a file's first record is, if it is one of ``length`` bytes in all."""
    if not isinstance(value, dict) or value.get("type") != "title":
        return None
    title, updated_at, source = value.get("title"), value.get("updatedAt"), value.get("source")
    if not isinstance(title, str):
        return None
    return TitleSlot(
        title,
        source if isinstance(source, str) else None,
        updated_at if isinstance(updated_at, str) else "",
        length,
    )


def get_version(header: Header) -> int:
    """The header's version; 1 if it has none."""
    version: object = header.get("version")
    return version if isinstance(version, int) and not isinstance(version, bool) else 1


def get_cwd(header: Header) -> str:
    """The folder the session belongs to; empty if the header does not say."""
    cwd: object = header.get("cwd")
    return cwd if isinstance(cwd, str) else ""
