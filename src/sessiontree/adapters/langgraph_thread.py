"""A thread of LangGraph as a session: which entries its checkpoints are, and what they say.

A checkpoint is one ``langgraph.checkpoint`` entry below its parent checkpoint, so forks are
branches. What it needs stands before it, each once in the session:

    checkpoint ── writes ── message ── value ── checkpoint ── …
                                    └─ …        a fork

- **The id of an entry says what it is**, so that opening a session decodes nothing: ``cp:KEY`` is a
  checkpoint, ``wr:KEY:1`` its pending writes, ``rm:1`` says which checkpoints were deleted, and a
  value's id is its digest. KEY is the checkpoint's id, with a digest of its namespace.
- **A value** is ``{"v": spelled}``, ``{"ref": digest}``, ``{"list": node}``, or ``{"same": id}``
  for a list that has not changed since the checkpoint entry of that id.
- **A list's node** has ``items`` that follow the first ``keep`` items of the same channel's list in
  the entry ``of``. Now and then one has all items, so reading a list takes steps in proportion to
  its length, whatever the number of checkpoints.
- **A message** of the channel ``messages`` is a message entry, where it was said first. If it is
  removed from the list or replaced in it, a ``context_edit`` says so. So the session's context is
  what the graph sees.

Nothing is ever taken out. Any thread uses one of these at a time (``adapters.sessions``).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.base import (
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    writes_sort_key,
)

from sessiontree.adapters.entries import skip, wire
from sessiontree.adapters.langgraph_lists import DIGEST, Coder, Item, Listed, note_items
from sessiontree.adapters.langgraph_messages import PROVIDER
from sessiontree.adapters.langgraph_values import MSGPACK, Typed, is_spelled, join, unspell
from sessiontree.adapters.learned import LearnedSession
from sessiontree.adapters.verbatim import NATIVE, UnpackError, unpack
from sessiontree.logs import get_logger
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.ids import sha256_hex
from sessiontree.session.manager import SessionManager

logger = get_logger(__name__)

HARNESS = PROVIDER
CHECKPOINT = "langgraph.checkpoint"
WRITES = "langgraph.writes"
VALUE = "langgraph.value"
DELETED = "langgraph.deleted"
MESSAGES = "messages"

_SIMPLE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST}}}")
_CACHED_BYTES = 16 << 20
_SHOWN_AT_MOST = 8
_RECORDS_AT_MOST = 64


class CheckpointPlace(NamedTuple):
    """A checkpoint: what orders it, and its entry."""

    id: str
    entry_id: str


def key_of(ns: str, checkpoint_id: str) -> str:
    """The stem of the ids of a checkpoint's entries."""
    name = checkpoint_id
    if not _SIMPLE.fullmatch(name):
        name = "~" + sha256_hex(name.encode("utf-8", "surrogatepass"))[:DIGEST]
    return _join_key(name, _ns_key(ns))


def _join_key(name: str, space: str) -> str:
    return f"{name}@{space}" if space else name


def _ns_key(ns: str) -> str:
    return sha256_hex(ns.encode("utf-8", "surrogatepass"))[:16] if ns else ""


class Thread(LearnedSession):
    """An open session, with what is known of its checkpoints."""

    def __init__(self, manager: SessionManager) -> None:
        self._typed: OrderedDict[str, Typed] = OrderedDict()
        self._typed_bytes = 0
        super().__init__(manager)

    def _forget(self) -> None:
        self._spaces: dict[str, dict[str, str]] = {}
        self._latest: dict[str, str] = {}
        self._writes: dict[str, list[str]] = {}
        self._deleted: dict[str, tuple[str, list[str]]] = {}
        self._tips: dict[str, str] = {}
        self._records: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._listed: dict[tuple[str, str], tuple[str, Listed]] = {}
        self._versions: dict[str, Mapping[str, Any]] = {}
        self._shown: OrderedDict[str | None, dict[str, str]] = OrderedDict()

    # -- which entries there are -----------------------------------------------------------

    def _learn(self, entry: Entry) -> None:
        if entry.type != "custom":
            return
        key = entry.id[3:].partition(":")[0]
        match entry.id[:3]:
            case "cp:":
                name, _, space = key.partition("@")
                self._spaces.setdefault(space, {})[name] = entry.id
                self._note_latest(space, name)
                self._tips[key] = entry.id
            case "wr:":
                self._writes.setdefault(key, []).append(entry.id)
                self._tips[key] = entry.id
            case "rm:":
                self._unlearn(entry)

    def _note_latest(self, space: str, name: str) -> None:
        latest = self._latest.get(space)
        if name.startswith("~") or (latest is None and len(self._spaces[space]) > 1):
            self._latest.pop(space, None)  # to be told only by looking
        elif latest is None or name > latest:
            self._latest[space] = name

    def _unlearn(self, entry: Entry) -> None:
        data = wire(entry).get("data")
        keys = data.get("keys") if isinstance(data, dict) else None
        for key in keys if isinstance(keys, list) else ():
            name, _, space = str(key).partition("@")
            gone = self._spaces.get(space, {}).pop(name, None)
            self._latest.pop(space, None)
            if gone is not None:
                self._deleted[key] = (gone, self._writes.pop(key, []))

    def entry_of(self, key: str) -> str | None:
        name, _, space = key.partition("@")
        return self._spaces.get(space, {}).get(name)

    def find(self, ns: str, checkpoint_id: str | None) -> Iterator[str]:
        """The checkpoint's entry; without an id those of the namespace, the newest first."""
        if checkpoint_id is not None:
            found = self.entry_of(key_of(ns, checkpoint_id))
            yield from () if found is None else (found,)
            return
        at = _ns_key(ns)
        space = self._spaces.get(at, {})
        if not space:
            return
        latest = self._latest.get(at)
        if latest is None:
            latest = self._latest[at] = max(space, key=lambda name: self._id_of(space, name))
        yield space[latest]
        rest = sorted(space, key=lambda name: self._id_of(space, name), reverse=True)
        yield from (space[name] for name in rest if name != latest)

    def _id_of(self, space: Mapping[str, str], name: str) -> str:
        """The checkpoint's id, by which they are ordered; "" if it cannot be told."""
        if not name.startswith("~"):
            return name
        record = self.record(space[name])
        return "" if record is None else str(record["id"])

    def places(self, ns: str | None) -> list[CheckpointPlace]:
        """All checkpoints of a namespace, or of all of them."""
        spaces = [*self._spaces.values()] if ns is None else [self._spaces.get(_ns_key(ns), {})]
        return [
            CheckpointPlace(self._id_of(space, name), entry_id)
            for space in spaces
            for name, entry_id in space.items()
        ]

    def keys_of_runs(self, run_ids: set[str], coder: Coder) -> list[str]:
        """The keys of all checkpoints that these runs have made."""
        return [
            _join_key(name, at)
            for at, space in self._spaces.items()
            for name, entry_id in space.items()
            if self.metadata(entry_id, coder).get("run_id") in run_ids
        ]

    def keys_but_latest(self) -> list[str]:
        """The keys of all checkpoints but the newest of each namespace."""
        found = []
        for at, space in self._spaces.items():
            ordered = sorted(space, key=lambda name, space=space: self._id_of(space, name))  # type: ignore[misc]
            found += [_join_key(name, at) for name in ordered[:-1]]
        return found

    # -- reading ---------------------------------------------------------------------------

    def record(self, entry_id: str) -> dict[str, Any] | None:
        """The checkpoint in an entry; None, with a warning, if it cannot be read."""
        known = self._records.get(entry_id)
        if known is not None:
            return known
        entry = self._manager.get_entry(entry_id)
        if entry is None:
            return None
        try:
            record = _check_record(unpack(wire(entry).get("data")))
        except UnpackError as error:
            skip(entry, HARNESS, error)
            return None
        self._keep_record(entry_id, record)
        return record

    def _keep_record(self, entry_id: str, record: dict[str, Any]) -> None:
        self._records[entry_id] = record
        while len(self._records) > _RECORDS_AT_MOST:
            self._records.popitem(last=False)

    def metadata(self, entry_id: str, coder: Coder) -> dict[str, Any]:
        """A checkpoint's metadata; nothing if it cannot be read."""
        record = self.record(entry_id)
        if record is None:
            return {}
        found = self._load(record["metadata"], coder, entry_id, "metadata")
        return found if isinstance(found, dict) else {}

    def read(
        self, thread_id: Any, entry_id: str, coder: Coder, *, is_next: bool = False
    ) -> CheckpointTuple | None:
        """The checkpoint of an entry; None, with a warning, if it cannot be read.

        ``is_next`` says that the graph is about to continue it with these very objects.
        """
        record = self.record(entry_id)
        if record is None:
            return None
        checkpoint = self._load(record["checkpoint"], coder, entry_id, "checkpoint")
        if not isinstance(checkpoint, dict):
            return None
        ns, parent = record["ns"], record["parent"]
        values = {}
        for channel, value in record["values"].items():
            found = self._read_value(value, coder, entry_id, channel, ns if is_next else None)
            if found is not _NOTHING:
                values[channel] = found
        return CheckpointTuple(
            _config(thread_id, ns, record["id"]),
            {**checkpoint, "channel_values": values},  # type: ignore[typeddict-item]
            self.metadata(entry_id, coder),  # type: ignore[arg-type]
            _config(thread_id, ns, parent) if parent else None,
            self._pending(key_of(ns, record["id"]), coder),
        )

    def _read_value(
        self, value: Any, coder: Coder, entry_id: str, channel: str, ns: str | None
    ) -> Any:
        origin = value.get("same", entry_id) if isinstance(value, dict) else entry_id
        try:
            items = self.items(origin, channel, value)
            if items is None:
                return self._load_value(value, coder)
            found, is_whole = self._load_items(items, coder, entry_id)
        except UnpackError as error:
            _warn(entry_id, channel, error)
            return _NOTHING
        if ns is not None and is_whole:
            self.note_listed(ns, channel, origin, note_items(found, items))
        return found

    def _load(self, spelled: Any, coder: Coder, entry_id: str, name: str) -> Any:
        try:
            return _loads(coder, unspell(spelled))
        except UnpackError as error:
            _warn(entry_id, name, error)
            return _NOTHING

    def _load_value(self, value: Any, coder: Coder) -> Any:
        """A value other than a list. Raises UnpackError."""
        match value:
            case {"v": spelled}:
                return _loads(coder, unspell(spelled))
            case {"ref": str(digest)}:
                return _loads(coder, self._stored(digest))
        raise UnpackError(f"{str(value)[:40]!r} is not a value that this version knows")

    def items(self, entry_id: str, channel: str, value: Any) -> list[Item] | None:
        """The items of a list; None for any other value. Raises UnpackError."""
        nodes: list[dict[str, Any]] = []
        seen: set[str] = set()
        while True:
            if isinstance(value, dict) and "same" in value:
                value = self._value_at(value["same"], channel)
            if not isinstance(value, dict) or "list" not in value:
                if nodes:
                    raise UnpackError(f"{entry_id} has no list in {channel}")
                return None
            node = _check_node(value["list"])
            nodes.append(node)
            of = node.get("of")
            if of is None:
                break
            if of in seen:
                raise UnpackError(f"{of} continues itself")
            seen.add(of)
            entry_id, value = of, self._value_at(of, channel)
        items: list[Item] = []
        for node in reversed(nodes):
            del items[node.get("keep", 0) :]
            items += node["items"]
        return items

    def _value_at(self, entry_id: str, channel: str) -> Any:
        record = self.record(entry_id)
        if record is None:
            raise UnpackError(f"{entry_id} is missing or cannot be read")
        return record["values"].get(channel)

    def _load_items(
        self, items: Sequence[Item], coder: Coder, entry_id: str
    ) -> tuple[list[Any], bool]:
        """The objects of a list, and whether all of them could be read."""
        typed: list[Typed] = []
        for item in items:
            try:
                typed.append(self._typed_of(item))
            except UnpackError as error:
                _warn(entry_id, "an item of a list", error)
        is_whole = len(typed) == len(items)
        if coder.is_plain and all(kind == MSGPACK for kind, _ in typed):
            found = _loads(coder, (MSGPACK, join([data for _, data in typed])))
            return found, is_whole
        return [_loads(coder, each) for each in typed], is_whole

    def _typed_of(self, item: Item) -> Typed:
        if isinstance(item, str):
            return self._stored(item)
        return unspell(item if is_spelled(item) else {MSGPACK: item})

    def _stored(self, digest: str) -> Typed:
        """The serialized value of this digest. Raises UnpackError."""
        known = self._typed.get(digest)
        if known is not None:
            return known
        entry = self._manager.get_entry(digest)
        if entry is None:
            raise UnpackError(f"there is no value {digest}")
        try:
            typed = unspell(_spelled_in(wire(entry)))
        except UnpackError as error:
            raise UnpackError(f"value {digest}: {error}") from None
        self._keep_typed(digest, typed)
        return typed

    def _keep_typed(self, digest: str, typed: Typed) -> None:
        self._typed[digest] = typed
        self._typed_bytes += len(typed[1])
        while self._typed_bytes > _CACHED_BYTES:
            _, (_, oldest) = self._typed.popitem(last=False)
            self._typed_bytes -= len(oldest)

    # -- pending writes --------------------------------------------------------------------

    def written(self, key: str) -> dict[tuple[str, int], tuple[str, str, Any, str]]:
        """The writes after a checkpoint: path, channel, value and entry by task and number.

        A special write replaces the one before; of any other the first counts.
        """
        found: dict[tuple[str, int], tuple[str, str, Any, str]] = {}
        gone = () if self.entry_of(key) else self._deleted.get(key, ("", ()))[1]
        for entry_id in self._writes.get(key) or gone:
            entry = self._manager.get_entry(entry_id)
            if entry is None:
                continue
            try:
                task_id, path, writes = _check_writes(unpack(wire(entry).get("data")))
            except UnpackError as error:
                skip(entry, HARNESS, error)
                continue
            for index, channel, value in writes:
                if index < 0 or (task_id, index) not in found:
                    found[task_id, index] = (path, channel, value, entry_id)
        return found

    def _pending(self, key: str, coder: Coder, channel: str | None = None) -> list[PendingWrite]:
        written = self.written(key)
        ordered = sorted(written, key=lambda at: writes_sort_key(written[at][0], *at))
        pending: list[PendingWrite] = []
        for at in ordered:
            _, name, value, entry_id = written[at]
            if channel is not None and name != channel:
                continue
            found = self._read_value(value, coder, entry_id, name, None)
            if found is not _NOTHING:
                pending.append((at[0], name, found))
        return pending

    def history(
        self, ns: str, checkpoint_id: str | None, channels: Sequence[str], coder: Coder
    ) -> dict[str, DeltaChannelHistory]:
        """The writes to channels since their last stored value, above a checkpoint.

        Deleted checkpoints count as well: what stands below them needs their writes.
        """
        found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        open_channels = set(channels)
        record = next(
            (made for at in self.find(ns, checkpoint_id) if (made := self.record(at))), None
        )
        parent = None if record is None else record["parent"]
        seen: set[str] = set()
        while parent and parent not in seen and open_channels:
            seen.add(parent)
            key = key_of(ns, parent)
            entry_id = self.entry_of(key) or self._deleted.get(key, ("",))[0]
            record = self.record(entry_id)
            if record is None:
                break
            for channel in [*open_channels]:
                found[channel]["writes"][:0] = self._pending(key, coder, channel)
                if channel in record["values"]:
                    value = record["values"][channel]
                    seed = self._read_value(value, coder, entry_id, channel, None)
                    if seed is not _NOTHING:
                        found[channel]["seed"] = seed
                    open_channels.discard(channel)
            parent = record["parent"]
        return found

    # -- what writing needs ----------------------------------------------------------------

    @property
    def manager(self) -> SessionManager:
        """The session."""
        return self._manager

    def has(self, entry_id: str) -> bool:
        """Whether there is such an entry."""
        return self._manager.get_entry(entry_id) is not None

    def tip(self, key: str) -> str | None:
        """The entry below which a checkpoint goes on: its own, or the last of its writes."""
        return self._tips.get(key)

    def count_writes(self, key: str) -> int:
        """The number of entries of pending writes that a checkpoint has."""
        return len(self._writes.get(key, ()))

    def versions(self, entry_id: str, coder: Coder) -> Mapping[str, Any]:
        """The versions of a checkpoint's channels."""
        known = self._versions.get(entry_id)
        if known is not None:
            return known
        record = self.record(entry_id)
        found = None
        if record is not None:
            found = self._load(record["checkpoint"], coder, entry_id, "checkpoint")
        versions = found.get("channel_versions") if isinstance(found, dict) else None
        return versions if isinstance(versions, dict) else {}

    def origin(self, entry_id: str, channel: str) -> tuple[str, dict[str, Any]] | None:
        """The place of the list that a channel has in a checkpoint, and its node there."""
        record = self.record(entry_id)
        value = None if record is None else record["values"].get(channel)
        if isinstance(value, dict) and "same" in value:
            entry_id = str(value["same"])
            record = self.record(entry_id)
            value = None if record is None else record["values"].get(channel)
        if not isinstance(value, dict) or "list" not in value:
            return None
        try:
            return entry_id, _check_node(value["list"])
        except UnpackError:
            return None

    def listed(self, ns: str, channel: str) -> tuple[str, Listed] | None:
        """The list of a channel that was read or written last, and where it stands."""
        known = self._listed.get((ns, channel))
        return known and (known[0], known[1].written())

    def note_record(
        self, entry_id: str, record: dict[str, Any], versions: Mapping[str, Any]
    ) -> None:
        """Know the checkpoint that was just written, and its channels' versions."""
        self._keep_record(entry_id, record)
        self._versions = {entry_id: dict(versions)}

    def note_touched(self, ns: str, channel: str, value: Any) -> None:
        """Know that a task has written a value, which may be of objects that are listed."""
        known = self._listed.get((ns, channel))
        if known is not None:
            known[1].note_touched(value if type(value) is list else (value,))

    def note_listed(self, ns: str, channel: str, entry_id: str, listed: Listed) -> None:
        """Know the list of a channel, and the entry that holds it."""
        listed.keep()
        self._listed[ns, channel] = (entry_id, listed)

    def shown(self, entry_id: str | None) -> dict[str, str]:
        """The messages in sight at an entry: the entry of each by its digest."""
        known = self._shown.get(entry_id)
        if known is None:
            path = [] if entry_id is None else self._manager.get_branch(entry_id)
            known = _find_shown(path)
        return known

    def note_shown(self, entry_id: str, shown: dict[str, str]) -> None:
        """Know what is in sight at an entry."""
        self._shown[entry_id] = shown
        while len(self._shown) > _SHOWN_AT_MOST:
            self._shown.popitem(last=False)

    def drop_shown(self, entry_id: str | None) -> None:
        """Forget what is in sight at an entry: it is about to change."""
        self._shown.pop(entry_id, None)

    def said_between(self, above: str | None, entry_id: str | None) -> list[Entry]:
        """The messages from below one entry down to another, in their order."""
        found = []
        while entry_id is not None and entry_id != above:
            entry = self._manager.get_entry(entry_id)
            if entry is None:
                break
            if entry.type == "message" and _DIGEST.match(entry.id):
                found.append(entry)
            entry_id = entry.parent_id
        return found[::-1]

    def free_id(self, entry_id: str) -> str:
        """An id that no entry has: this one, or one with a number behind it."""
        number, free = 1, entry_id
        while self.has(free):
            number += 1
            free = f"{entry_id}:{number}"
        return free


_NOTHING = object()


def _find_shown(path: Sequence[Entry]) -> dict[str, str]:
    shown: dict[str, str] = {}
    by_entry: dict[str, str] = {}
    for entry in path:
        is_digest = _DIGEST.match(entry.id) is not None
        if entry.type == "message" and is_digest:
            shown[entry.id[:DIGEST]] = entry.id
            by_entry[entry.id] = entry.id[:DIGEST]
        elif entry.type == "context_edit":
            data = wire(entry)
            target = str(data.get("targetId"))
            shown.pop(by_entry.pop(target, ""), None)
            if data.get("replacement") is not None and is_digest:
                shown[entry.id[:DIGEST]] = target
                by_entry[target] = entry.id[:DIGEST]
    return shown


def _config(thread_id: Any, ns: str, checkpoint_id: str) -> Any:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": ns,
            "checkpoint_id": checkpoint_id,
        }
    }


def _loads(coder: Coder, typed: Typed) -> Any:
    """What the serializer makes of a value. Raises UnpackError, whatever it raises."""
    try:
        return coder.serde.loads_typed(typed)
    except Exception as error:
        raise UnpackError(f"{type(error).__name__}: {error}") from None


def _spelled_in(data: WireEntry) -> Any:
    """The value that an entry holds. Raises UnpackError."""
    native = data.get(NATIVE)
    if not isinstance(native, dict):
        return unpack(data.get("data"))
    said = data.get("replacement") if data.get("type") == "context_edit" else data.get("message")
    return unpack(native.get(HARNESS), said)


def _warn(entry_id: str, what: str, error: Exception) -> None:
    reason = str(error).partition("\n")[0]
    logger.warning("entry %s: %s is left out, it cannot be read (%s)", entry_id, what, reason)


def _check_record(record: Any) -> dict[str, Any]:
    match record:
        case {
            "ns": str(),
            "id": str(),
            "parent": str() | None,
            "checkpoint": dict(),
            "metadata": dict(),
            "values": dict(),
        }:
            return record  # type: ignore[no-any-return]
    raise UnpackError("it is not a checkpoint")


def _check_writes(record: Any) -> tuple[str, str, list[tuple[int, str, Any]]]:
    match record:
        case {"task": str(task_id), "path": str(path), "writes": list(writes)}:
            made = [
                (each[0], each[1], each[2])
                for each in writes
                if isinstance(each, list)
                and len(each) == 3
                and type(each[0]) is int
                and isinstance(each[1], str)
            ]
            if len(made) == len(writes):
                return task_id, path, made
    raise UnpackError("they are not pending writes")


def _check_node(node: Any) -> dict[str, Any]:
    match node:
        case {"items": list(), **rest}:
            of, keep = rest.get("of"), rest.get("keep", 0)
            if isinstance(of, str | None) and type(keep) is int and keep >= 0:
                return node  # type: ignore[no-any-return]
    raise UnpackError("it is not a list")
