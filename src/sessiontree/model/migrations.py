"""Migrate older files to version 3, in memory.

Ids given to entries that had none follow from the session's id and their position, so that a
reader that only looks names them as the rewriting one will.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from sessiontree.model.header import CURRENT_VERSION, Header, get_version
from sessiontree.model.ids import derived_entry_id


def migrate_entries(records: list[dict[str, Any]], gaps: Sequence[int] = ()) -> bool:
    """Migrate ``records`` (header first) in place to the current version; whether it did.

    A version above the current one is left as it is. ``gaps`` tells how many entries stood before
    each line that could not be read: version 1 counts those lines too.
    """
    if not records:
        return False
    header: Any = records[0]
    version = get_version(header)
    if version < 2:
        _give_ids(header, records, gaps)
    if version < 3:
        _rename_hook_messages(records)
    if version >= CURRENT_VERSION:
        return False
    header["version"] = CURRENT_VERSION
    return True


def _give_ids(header: Header, records: list[dict[str, Any]], gaps: Sequence[int]) -> None:
    """v1 → v2: a linear chain in file order; ids and known parents that are there already stay.

    Version 1 has no roots but the first entry, so a parent given as null is one not given.
    """
    session_id: object = header.get("id")
    taken = {entry["id"] for entry in records[1:] if isinstance(entry.get("id"), str)}
    seen: set[str] = set()
    previous: str | None = None
    for index, entry in enumerate(records[1:], 1):
        entry_id = entry.get("id")
        if not isinstance(entry_id, str) or entry_id in seen:
            entry_id = derived_entry_id(taken, session_id, index)
            taken.add(entry_id)
            entry["id"] = entry_id
        parent = entry.get("parentId")
        if not isinstance(parent, str) or parent not in taken:
            entry["parentId"] = previous
        seen.add(entry_id)
        previous = entry_id
    lost_at = [gap + lost for lost, gap in enumerate(gaps)]
    for entry in records[1:]:
        if entry.get("type") == "compaction" and "firstKeptEntryIndex" in entry:
            said = entry.pop("firstKeptEntryIndex")
            if isinstance(said, int) or (isinstance(said, float) and said.is_integer()):
                index = int(said)
                index -= bisect_left(lost_at, index - 1)  # each lost line moved it up by one
                if 0 < index < len(records):
                    entry["firstKeptEntryId"] = records[index]["id"]


def _rename_hook_messages(records: list[dict[str, Any]]) -> None:
    """v2 → v3: the role ``hookMessage`` is now ``custom``."""
    for entry in records[1:]:
        message = entry.get("message")
        if isinstance(message, dict) and message.get("role") == "hookMessage":
            entry["message"] = {**message, "role": "custom"}
