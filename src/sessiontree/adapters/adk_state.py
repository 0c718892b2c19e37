"""Keep the state of Google's ADK: of a conversation, and of the users and apps that conversations
share.

**Of a conversation** it is what the events on the branch where it stands have set, one after the
other. So it goes back with the conversation. Every hundred entries, one keeps the state as a whole
(``google-adk.state``), and readers stop there.

**Of users and apps** it outlives conversations, and any number of them write to it at once. A
session of its own, a draft that no listing shows, keeps each change as an entry; the value that
was set last counts, key by key, so writers never wait for each other and never lose a key.

Knows nothing of the SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sessiontree.adapters.entries import COUNT, holds_object, object_of, skip, wire
from sessiontree.adapters.learned import LearnedSession
from sessiontree.adapters.sessions import Wanted, append
from sessiontree.adapters.verbatim import UnpackError, pack, unpack
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.ids import sha256_hex

HARNESS = "google-adk"
SESSION = "google-adk.session"
STATE = "google-adk.state"
CHANGE = "google-adk.state-change"
SIGN = "adk"
"""The field of an event's entry that marks a special place, such as a rewind."""

APP, USER, TEMP = "app:", "user:", "temp:"
_OFTEN = 100

State = dict[str, Any]
Find = Callable[[str], Entry | None]


def split_state(state: Mapping[str, Any]) -> tuple[State, State, State]:
    """Split state into an app's, a user's and a conversation's own, without prefixes."""
    parts: tuple[State, State, State] = ({}, {}, {})
    for key, value in state.items():
        if key.startswith(APP):
            parts[0][key.removeprefix(APP)] = value
        elif key.startswith(USER):
            parts[1][key.removeprefix(USER)] = value
        elif not key.startswith(TEMP):
            parts[2][key] = value
    return parts


def merge_state(app: State, user: State, own: State) -> State:
    """The state as agents see it, with prefixes."""
    shared = {APP + key: value for key, value in app.items()}
    return {**own, **shared, **{USER + key: value for key, value in user.items()}}


# -- of a conversation -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Standing:
    """A conversation at one of its entries."""

    tip: str | None = None
    """The entry."""
    state: State = field(default_factory=dict)
    """Its own state there."""
    updated: float = 0.0
    """The time of its last event, or when it began."""
    latest: float = 0.0
    """The greatest time of an event."""
    steps: int = 0
    """The number of entries back to the one with the whole state."""


def read_standing(leaf: Entry | None, find: Find, known: Standing) -> Standing:
    """The conversation at this entry, with as little read as possible beyond what is known."""
    fresh: list[tuple[Entry, WireEntry]] = []
    entry, found = leaf, Standing()
    while entry is not None:
        if entry.id == known.tip:
            found = known
            break
        data = wire(entry)
        whole = _whole_state(entry, data)
        if whole is not None:
            found = whole
            break
        fresh.append((entry, data))
        entry = _above(entry, find)
    for entry, data in reversed(fresh):
        found = _step(found, entry, data, find)
    return found


def _step(before: Standing, entry: Entry, data: WireEntry, find: Find) -> Standing:
    after = replace(before, tip=entry.id, steps=before.steps + 1)
    if not holds_object(data, HARNESS):
        return after
    event = event_of(entry, data, find)
    if event is None:
        return after
    at = timestamp_of(event)
    after = replace(after, updated=at, latest=max(at, before.latest))
    delta = {} if is_rewind(data) else split_state(delta_of(event))[2]
    return replace(after, state={**before.state, **delta}) if delta else after


def _whole_state(entry: Entry, data: WireEntry) -> Standing | None:
    if entry.type != "custom" or data.get("customType") not in (SESSION, STATE):
        return None
    try:
        fields = unpack(data.get("data"))
        state = fields["state"]
        if not isinstance(state, dict):
            raise UnpackError("its state is not an object")
        return Standing(entry.id, state, float(fields["updated"]), float(fields["latest"]))
    except (UnpackError, KeyError, TypeError, ValueError) as error:
        skip(entry, STATE, error)
        return None


def state_entries(standing: Standing) -> list[Wanted]:
    """An entry with the whole state, if the last one is far above."""
    if standing.steps < _OFTEN:
        return []
    return [_entry(STATE, _fields(standing))]


def session_entry(fields: Mapping[str, Any], standing: Standing) -> Wanted:
    """The entry that begins a conversation."""
    return _entry(SESSION, {**fields, **_fields(standing)})


def _fields(standing: Standing) -> dict[str, Any]:
    return {
        "state": standing.state,
        "updated": standing.updated,
        "latest": standing.latest,
    }


def _entry(custom_type: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "custom", "customType": custom_type, "data": pack(dict(fields))}


# -- events ------------------------------------------------------------------------------------


def event_of(entry: Entry, data: WireEntry, find: Find) -> dict[str, Any] | None:
    """The event that an entry holds; None, with a warning, if it cannot be read."""
    try:
        event = object_of(data, _group_before(entry, data, find), HARNESS)
        if not isinstance(event, dict):
            raise UnpackError("it is not an object")
        return event
    except UnpackError as error:
        skip(entry, HARNESS, error)
        return None


def _group_before(entry: Entry, data: WireEntry, find: Find) -> list[WireEntry]:
    count = data.get(COUNT, 1)
    before: list[WireEntry] = []
    above = _above(entry, find)
    while above is not None and isinstance(count, int) and len(before) + 1 < count:
        before.append(wire(above))
        above = _above(above, find)
    return before[::-1]


def before_event(entry: Entry, find: Find) -> str | None:
    """The entry below which an event was appended."""
    count = wire(entry).get(COUNT, 1)
    first: Entry | None = entry
    for _ in range(count - 1 if isinstance(count, int) else 0):
        first = _above(first, find) if first is not None else None
    return first.parent_id if first is not None else None


def is_rewind(data: WireEntry) -> bool:
    """Whether the entry begins a branch: the state is that of where it began."""
    return _signs(data).get("rewound") is True


def is_late(data: WireEntry) -> bool:
    """Whether an event is older than one before it."""
    return _signs(data).get("late") is True


def _signs(data: WireEntry) -> dict[str, Any]:
    signs = data.get(SIGN)
    return signs if isinstance(signs, dict) else {}


def delta_of(event: Mapping[str, Any]) -> State:
    """The state that an event sets."""
    actions = event.get("actions")
    delta = actions.get("state_delta") if isinstance(actions, dict) else None
    return delta if isinstance(delta, dict) else {}


def timestamp_of(event: Mapping[str, Any]) -> float:
    """The time of an event."""
    at = event.get("timestamp")
    return float(at) if isinstance(at, int | float) else 0.0


def events_up(leaf: Entry | None, find: Find) -> Iterator[tuple[Entry, WireEntry, dict[str, Any]]]:
    """The events that lead to an entry, the last one first; each read when it is asked for."""
    entry = leaf
    while entry is not None:
        data = wire(entry)
        if holds_object(data, HARNESS):
            event = event_of(entry, data, find)
            if event is not None:
                yield entry, data, event
        entry = _above(entry, find)


def _above(entry: Entry, find: Find) -> Entry | None:
    return find(entry.parent_id) if entry.parent_id is not None else None


def _change_id(key: str) -> str:
    return f"change.{sha256_hex(key.encode('utf-8', 'surrogatepass'))[:32]}"


# -- of users and apps -------------------------------------------------------------------------


class SharedState(LearnedSession):
    """The state of a user or an app, in an open session of its own."""

    values: State
    users: dict[str, None]
    """Users of an app that have conversations, in the order in which they came."""

    def _forget(self) -> None:
        self.values = {}
        self.users = {}

    def _learn(self, entry: Entry) -> None:
        data = wire(entry)
        if entry.type != "custom" or data.get("customType") != CHANGE:
            return
        try:
            fields = unpack(data.get("data"))
            self.values.update(fields.get("state", {}))
            self.users.update(dict.fromkeys(fields.get("users", ())))
        except (UnpackError, AttributeError, TypeError, ValueError) as error:
            skip(entry, CHANGE, error)

    def set(self, delta: State, *, key: str | None = None) -> None:
        """Set values; a second time with the same ``key`` changes nothing."""
        entry_id = None if key is None else _change_id(key)

        def make() -> list[Wanted]:
            if entry_id is not None and self._manager.get_entry(entry_id) is not None:
                return []
            made = _entry(CHANGE, {"state": delta})
            return [made if entry_id is None else {**made, "id": entry_id}]

        append(self._manager, make)

    def add_user(self, user_id: str) -> None:
        """Note that a user has conversations."""

        def make() -> list[Wanted]:
            self.catch_up()
            return [] if user_id in self.users else [_entry(CHANGE, {"users": [user_id]})]

        append(self._manager, make)
