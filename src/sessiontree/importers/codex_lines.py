"""The lines of a Codex rollout in one form, and what its events say of how tool calls ended."""

from __future__ import annotations

from dataclasses import dataclass

from sessiontree.importers import codex_items as items
from sessiontree.importers.records import WireRecord, get_object, get_text


@dataclass(slots=True)
class RolloutLine:
    """A record of either format: what it is, and its payload."""

    kind: str
    payload: WireRecord
    timestamp: object
    record: WireRecord


def read_line(record: WireRecord) -> RolloutLine:
    """The record in one form, whichever of the two formats it is in."""
    kind = get_text(record, "type")
    timestamp = record.get("timestamp")
    payload = record.get("payload")
    if kind is not None and isinstance(payload, dict):
        return RolloutLine(kind, payload, timestamp, record)
    if kind is None and get_text(record, "id") and "timestamp" in record:
        return RolloutLine("session_meta", record, timestamp, record)
    if kind in items.ITEMS:
        return RolloutLine("response_item", record, timestamp, record)
    return RolloutLine(kind or get_text(record, "record_type") or "unknown", {}, timestamp, record)


def find_endings(lines: list[RolloutLine]) -> dict[str, WireRecord]:
    """For each tool call, the event that says how it ended."""
    found = {}
    for line in lines:
        ending = ending_of(line.payload) if line.kind == "event_msg" else None
        if ending is not None:
            found[ending[0]] = ending[1]
    return found


def ending_of(event: WireRecord) -> tuple[str, WireRecord] | None:
    """The id of the call whose end this event tells, and what it tells; None for other events."""
    kind = get_text(event, "type") or ""
    if kind == "item_completed":
        item = get_object(event, "item")
        call_id = get_text(item, "id")
        return (call_id, item) if call_id is not None else None
    call_id = get_text(event, "call_id")
    if call_id is None or not kind.endswith("_end"):
        return None
    return call_id, event


def has_failed(ending: WireRecord | None) -> bool:
    """Whether a call came to a bad end."""
    if ending is None:
        return False
    code = ending.get("exit_code")
    return (isinstance(code, int) and code != 0) or ending.get("success") is False
