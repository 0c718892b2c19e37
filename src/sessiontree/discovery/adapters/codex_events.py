"""Find the events of a rollout whose content is in no item.

A rollout is two logs in one: the exchange with the model (items) and what the screen showed
(events). Most events repeat an item. After an interrupted turn its answer, its reasoning and even
its prompt may exist only as events, so each event is compared with the items of its turn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from sessiontree.discovery.adapters import codex_items as items
from sessiontree.discovery.adapters.codex_items import RolloutLine
from sessiontree.discovery.adapters.records import WireRecord, get_text

_TURN_EVENTS = ("task_started", "turn_started")
_SHORT = 20
"""Texts shorter than this are the same only if they are equal: "ok" is in many a text."""

_NEAREST = 50
"""The number of items on either side that an event is compared with; a turn has fewer of one
kind."""


class _Said(msgspec.Struct):
    """The text of an item or an event, its position, and its turn."""

    index: int
    turn: int
    kind: str
    text: str
    item: WireRecord


def find_untold(lines: Sequence[RolloutLine]) -> dict[int, WireRecord]:
    """Map the line index of each event without an item to the item it stands for."""
    items_said, events_said = _collect(lines)
    if not events_said:
        return {}
    left = []
    for shown_by in {str(each.item.get("shown_by")) for each in events_said}:
        events = [each for each in events_said if each.item.get("shown_by") == shown_by]
        left += _unmatched(items_said, events)
    near = defaultdict(list)
    for said in items_said:
        near[said.turn, said.kind].append(said)
    untold = [each for each in left if not _is_part(each, near[each.turn, each.kind])]
    return {each.index: each.item for each in untold}


def _collect(lines: Sequence[RolloutLine]) -> tuple[list[_Said], list[_Said]]:
    has_turns = any(_begins_turn(line) for line in lines)
    items_said: list[_Said] = []
    events_said: list[_Said] = []
    turn = 0
    for index, line in enumerate(lines):
        if _begins_turn(line) if has_turns else line.kind == "turn_context":
            turn += 1
        if line.kind == "response_item":
            said = _read(index, turn, line.payload)
            if said is not None:
                items_said.append(said)
        elif line.kind == "event_msg":
            item = items.as_item(line.payload)
            said = _read(index, turn, item) if item is not None else None
            if said is not None:
                events_said.append(said)
    return items_said, events_said


def _begins_turn(line: RolloutLine) -> bool:
    return line.kind == "event_msg" and line.payload.get("type") in _TURN_EVENTS


def _read(index: int, turn: int, item: WireRecord) -> _Said | None:
    kind = get_text(item, "type")
    if kind == "message":
        role = item.get("role")
        if role not in ("user", "assistant"):
            return None
        blocks, _ = items.convert_content(item.get("content"))
        text = " ".join(block["text"] for block in blocks if block["type"] == "text")
        kind = str(role)
    elif kind == "reasoning":
        text = " ".join(items.reasoning_texts(item))
    elif kind == items.WEB_SEARCH:
        text = items.search_text(item)
    else:
        return None
    text = " ".join(text.split())
    return _Said(index, turn, kind, text, item) if text else None


def _unmatched(items_said: Sequence[_Said], events: Sequence[_Said]) -> list[_Said]:
    """Return those events, all of one type, that have no item with the same text.

    Compare within a turn, then with the next one, whose first records may come before its start.
    """
    matched: set[int] = set()
    for reach in (0, 1):
        open_ones: dict[tuple[str, str], list[tuple[bool, _Said]]] = defaultdict(list)
        both = [(False, each) for each in items_said] + [(True, each) for each in events]
        for is_event, said in sorted(both, key=lambda pair: pair[1].index):
            if said.index in matched:
                continue
            # Two with no unmatched record of this text between them are a pair.
            waiting = open_ones[said.kind, said.text]
            if waiting and waiting[-1][0] != is_event and said.turn - waiting[-1][1].turn <= reach:
                matched |= {said.index, waiting.pop()[1].index}
            else:
                waiting.append((is_event, said))
    return [each for each in events if each.index not in matched]


def _is_part(event: _Said, said: Sequence[_Said]) -> bool:
    """Whether an item of the turn contains the event's text, or nearly all of it."""
    if len(event.text) < _SHORT:
        return False
    before = bisect_left(said, event.index, key=lambda each: each.index)
    for each in said[max(0, before - _NEAREST) : before + _NEAREST]:
        if event.text in each.text or (len(each.text) >= _SHORT and each.text in event.text):
            return True
    return False
