"""Count the records at the start of a rollout that are copied from another one. Pure.

A fork, and a subagent that inherits its caller's context, begin with the lines of the other
rollout, rewritten with new times. The other rollout counts the tokens of those answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sessiontree.discovery.adapters.records import WireRecord, get_object, get_text, read_time

_AHEAD = 50
"""How many lines of the original a copy may have left out in one place."""

_PAUSE_MS = 100
"""Copying pauses no longer than this between two lines; no model answers as fast."""

_HEAD = 20


def find_parent(records: Sequence[WireRecord]) -> str | None:
    """Return the id of the thread that a rollout may have copied."""
    metas = [
        get_object(record, "payload")
        for record in records[:_HEAD]
        if record.get("type") == "session_meta"
    ]
    if not metas:
        return None
    own = get_text(metas[0], "id")
    ancestors = [get_text(meta, "id") for meta in metas[1:]]
    other = next((each for each in ancestors if each is not None and each != own), None)
    return get_text(metas[0], "forked_from_id") or other


def count_copied(records: Sequence[WireRecord], original: Sequence[WireRecord]) -> int:
    """Count the first records that equal the original's, in its order."""
    at = 0
    for index, record in enumerate(records):
        if record.get("type") == "session_meta":
            continue
        wanted = _said(record)
        ahead = original[at : at + _AHEAD]
        step = next((n for n, each in enumerate(ahead) if _said(each) == wanted), None)
        if step is None:
            return index
        at += step + 1
    return len(records)


def count_burst(records: Sequence[WireRecord]) -> int:
    """Count the first records that were written at once: the best guess without the original."""
    count = 1
    for before, after in pairwise(read_time(record.get("timestamp")) for record in records):
        if before is None or after is None or not 0 <= after - before < _PAUSE_MS:
            break
        count += 1
    return count


def _said(record: WireRecord) -> tuple[Any, WireRecord]:
    payload = get_object(record, "payload")
    return record.get("type"), {key: payload[key] for key in payload if key not in _UNSTABLE}


_UNSTABLE = frozenset(("id", "status", "internal_chat_message_metadata_passthrough"))
