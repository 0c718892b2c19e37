"""Make the entries for a checkpoint or its pending writes.

``adapters.langgraph_thread`` describes them. Each of these is made again when another process was
faster, and changes what is known of the thread only in ``commit``, when its entries are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, ChannelVersions, Checkpoint

from sessiontree.adapters import readable
from sessiontree.adapters.entries import entries_of, fresh_id, wire
from sessiontree.adapters.langgraph_lists import (
    DIGEST,
    Coder,
    Dumped,
    Item,
    Listed,
    count_same,
    is_message,
    list_items,
)
from sessiontree.adapters.langgraph_messages import message_of
from sessiontree.adapters.langgraph_thread import (
    CHECKPOINT,
    DELETED,
    HARNESS,
    MESSAGES,
    VALUE,
    WRITES,
    Thread,
    key_of,
)
from sessiontree.adapters.sessions import Wanted
from sessiontree.adapters.verbatim import NATIVE, UnpackError, pack
from sessiontree.model.entries import LEAF_MARKER
from sessiontree.model.messages import WireMessage

_HOPS_AT_LEAST = 32
_EDITABLE = ("user", "assistant", "toolResult")


class Line:
    """Entries to append, each below the one before it."""

    def __init__(self, thread: Thread, coder: Coder, parent: str | None) -> None:
        self.thread = thread
        self.coder = coder
        self.parent = parent
        self.made: list[Wanted] = []
        self._ids: set[str] = set()
        self._at_ms = thread.manager.store.clock()

    def add(self, entry: Mapping[str, Any]) -> str:
        """Add an entry; its id."""
        entry_id = entry.get("id") or fresh_id(self.thread.manager)
        self.made.append({**entry, "id": entry_id, "parentId": self.parent})
        self._ids.add(entry_id)
        self.parent = entry_id
        return entry_id

    def stay(self) -> None:
        """Leave the conversation where it stands."""
        leaf = {"type": "custom", "customType": LEAF_MARKER}
        self.made.append({**leaf, "parentId": self.thread.manager.leaf_id})

    def has(self, digest: str) -> bool:
        """Whether there is an entry for this value, or will be."""
        return digest in self._ids or self.thread.has(digest)

    def keep(self, dumped: Dumped, *, is_here: bool = False) -> dict[str, Any]:
        """A value other than a list; ``is_here`` if it is to stand where it is used."""
        if dumped.is_short or is_here:
            return {"v": dumped.spelled()}
        self.keep_entry(dumped)
        return {"ref": dumped.digest}

    def keep_entry(self, dumped: Dumped) -> None:
        """Give a value its entry, if it has none."""
        if not self.has(dumped.digest):
            spelled = pack(dumped.spelled())
            self.add({"type": "custom", "customType": VALUE, "data": spelled, "id": dumped.digest})

    # -- the conversation ------------------------------------------------------------------

    def readable(self, message: Any) -> WireMessage | None:
        """A message as the session's agents spell it."""
        made = message_of(message, self._at_ms)
        if made is not None:
            readable.complete([made], self.thread.manager.store.dialect)
        return made

    def say(self, digest: str, dumped: Dumped, said: WireMessage) -> str:
        """Say a message here; its entry. What was said elsewhere counts there."""
        if not self.has(digest):
            (entry,) = entries_of(HARNESS, dumped.spelled(), [said])
            return self.add({**entry, "id": digest})
        said = {key: value for key, value in said.items() if key != "usage"}
        readable.complete([said], self.thread.manager.store.dialect)
        number = 2
        while self.has(f"{digest}:{number}"):
            number += 1
        return self.add({"type": "message", "message": said, "id": f"{digest}:{number}"})

    def replace(self, target: str, digest: str, dumped: Dumped, said: WireMessage) -> bool:
        """Say something else in place of a message, if that can be."""
        entry = self.thread.manager.get_entry(target)
        message = None if entry is None else wire(entry).get("message")
        role = message.get("role") if isinstance(message, dict) else None
        if self.has(digest) or role not in _EDITABLE or role != said["role"]:
            return False
        shown = {"content": said["content"]}
        packed = pack(dumped.spelled(), shown)
        edit = {"type": "context_edit", "targetId": target, "replacement": shown, "id": digest}
        self.add({**edit, NATIVE: {HARNESS: packed}})
        return True

    def hide(self, target: str) -> None:
        """Take a message out of sight."""
        self.add({"type": "context_edit", "targetId": target, "replacement": None})


@dataclass
class Put:
    """A checkpoint to write."""

    thread: Thread
    coder: Coder
    ns: str
    parent_id: str | None
    checkpoint: Checkpoint
    metadata: Mapping[str, Any]
    new_versions: ChannelVersions
    _listed: dict[str, Listed] = field(default_factory=dict)
    _known: dict[str, tuple[str, Listed]] = field(default_factory=dict)
    """The lists that were read or written last, and where they stand."""
    _values: dict[str, Any] = field(default_factory=dict)
    _origins: dict[str, str | None] = field(default_factory=dict)
    """The place of a list that has not changed."""
    _shown: dict[str, str] | None = None
    _above: str | None = None
    """The parent's entry."""
    _before: dict[str, Any] | None = None
    """The parent's content."""
    _conversation: str | None = None
    _start: str | None = None
    _gone: list[str] = field(default_factory=list)
    _seen: dict[str, str] = field(default_factory=dict)

    def entries(self) -> list[Wanted]:
        """The entries to append, the checkpoint last."""
        thread = self.thread
        key = key_of(self.ns, self.checkpoint["id"])
        parent_key = None if self.parent_id is None else key_of(self.ns, self.parent_id)
        self._above = None if parent_key is None else thread.entry_of(parent_key)
        self._before = None if self._above is None else thread.record(self._above)
        values = self.checkpoint["channel_values"]
        stored = {channel: value for channel, value in values.items() if not self._reuse(channel)}
        for channel, value in stored.items():
            if type(value) is list:
                known = thread.listed(self.ns, channel)
                if known is not None:
                    self._known[channel] = known
                self._listed[channel] = list_items(self.coder, value, known and known[1])
        self._conversation = self._find_conversation()
        self._start = self._find_start(parent_key)
        self._line = Line(thread, self.coder, self._start)
        for channel, value in stored.items():
            if channel in self._listed:
                self._values[channel] = self._store_list(channel, self._listed[channel])
            else:
                self._values[channel] = self._line.keep(self.coder.dump(value))
        self._record = self._make_record()
        entry = {"type": "custom", "customType": CHECKPOINT, "data": pack(self._record)}
        self._entry_id = self._line.add({**entry, "id": thread.free_id(f"cp:{key}")})
        return self._line.made

    def commit(self) -> None:
        """The entries are written."""
        thread = self.thread
        versions = self.checkpoint.get("channel_versions") or {}
        thread.note_record(self._entry_id, self._record, versions)
        for channel, listed in self._listed.items():
            at = self._origins.get(channel) or self._entry_id
            thread.note_listed(self.ns, channel, at, listed)
        shown = self._shown
        if shown is None:
            shown = thread.shown(self._start)
        if self._above is None:
            shown = {**shown}  # of another namespace, which continues there
        else:
            thread.drop_shown(self._start)
        for digest in self._gone:
            shown.pop(digest, None)
        shown.update(self._seen)
        thread.note_shown(self._entry_id, shown)

    def _find_start(self, parent_key: str | None) -> str | None:
        """Find the entry below which the checkpoint goes."""
        tip = None if parent_key is None else self.thread.tip(parent_key)
        if tip is not None:
            listed = self._listed.get(self._conversation or "")
            said = [] if listed is None else self.thread.said_between(self._above, tip)
            for entry in said:
                if listed is not None and not _has(listed.items, entry.id[:DIGEST]):
                    return entry.parent_id  # a fork, which does without what was written
            return tip
        parents = self.metadata.get("parents")
        above = parents if isinstance(parents, dict) else {}
        for ns in sorted(map(str, above), key=len, reverse=True):
            tip = self.thread.tip(key_of(ns, str(above[ns])))
            if ns != self.ns and tip is not None:
                return tip
        return None

    def _make_record(self) -> dict[str, Any]:
        rest = {k: v for k, v in self.checkpoint.items() if k != "channel_values"}
        record = {
            "ns": self.ns,
            "id": self.checkpoint["id"],
            "parent": self.parent_id,
            "checkpoint": self.coder.dump(rest).spelled(),
            "metadata": self.coder.dump(dict(self.metadata)).spelled(),
            "values": {
                channel: self._values[channel] for channel in self.checkpoint["channel_values"]
            },
        }
        channel = self._conversation
        return record if channel is None else {**record, "conversation": channel}

    # -- values ----------------------------------------------------------------------------

    def _reuse(self, channel: str) -> bool:
        """Refer to the parent's value, if the channel has still the same version."""
        versions = self.checkpoint.get("channel_versions") or {}
        if self._before is None or self._above is None or channel in self.new_versions:
            return False
        value = self._before["values"].get(channel)
        before = self.thread.versions(self._above, self.coder)
        if value is None or channel not in versions or before.get(channel) != versions[channel]:
            return False
        self._values[channel] = {"same": self._above} if "list" in value else value
        return True

    def _store_list(self, channel: str, listed: Listed) -> dict[str, Any]:
        at, known = self._known.get(channel, ("", None))
        above = self._above
        origin = None if above is None else self.thread.origin(above, channel)
        keep, old = 0, list[Item]()
        if origin is not None and at == origin[0] and known is listed:
            keep = listed.kept
        elif origin is not None:
            is_known = at == origin[0] and known is not None
            before = known.items if known and is_known else self._read_items(origin, channel)
            keep = count_same(before, listed.items)
            old = before[keep:]
        if channel == self._conversation:
            self._converse(listed, keep, old)
        for dumped in listed.new.values():
            self._line.keep_entry(dumped)
        node = _node(origin, keep, old, listed.items)
        self._origins[channel] = node.get("same")
        return node

    def _read_items(self, origin: tuple[str, Any], channel: str) -> list[Item]:
        try:
            return self.thread.items(origin[0], channel, {"list": origin[1]}) or []
        except UnpackError:
            return []  # damaged; the checkpoint then has all items of its own

    # -- the conversation ------------------------------------------------------------------

    def _find_conversation(self) -> str | None:
        """The channel that is the thread's conversation."""
        if not self.coder.is_plain:
            return None
        said = {name for name, each in self._listed.items() if each.is_said}
        before = None if self._before is None else self._before.get("conversation")
        if isinstance(before, str) and (before in said or before in self._values):
            return before if before in said or before not in self._listed else None
        found = [name for name in (MESSAGES, *self._listed) if name in said]
        return next((name for name in found if self._listed[name].items), None)

    def _converse(self, listed: Listed, keep: int, old: Sequence[Item]) -> None:
        """Say what is new in the list, and take out of sight what is no longer in it.

        ``old`` is what stood behind the items that it keeps.
        """
        shown = self._shown = self.thread.shown(self._start)
        items = listed.items
        left = [item for item in old if isinstance(item, str) and item in shown]
        gone = {item: None for item in left if not _has(items, item)}
        for at in range(keep, len(items)):
            digest = items[at]
            if isinstance(digest, str) and digest not in shown and digest not in self._seen:
                self._say(listed, at, digest, old[at - keep : at - keep + 1], gone)
        for digest in gone:
            self._line.hide(shown[digest])
            self._gone.append(digest)

    def _say(
        self,
        listed: Listed,
        at: int,
        digest: str,
        before: Sequence[Item],
        gone: dict[str, None],
    ) -> None:
        said = self._line.readable(listed.objects[at])
        if said is None or self._shown is None:
            return
        dumped = listed.new.get(digest) or self.coder.dump(listed.objects[at])
        old = before[0] if before else None
        if isinstance(old, str) and old in gone:
            target = self._shown[old]
            if self._line.replace(target, digest, dumped, said):
                del gone[old]
                self._gone.append(old)
                self._seen[digest] = target
                return
        self._seen[digest] = self._line.say(digest, dumped, said)


def _has(items: Sequence[Item], digest: str) -> bool:
    """Whether a list has an item; most that are asked for are among its last."""
    return digest in items[-_HOPS_AT_LEAST:] or digest in items


def _node(
    origin: tuple[str, dict[str, Any]] | None, keep: int, old: Sequence[Item], items: list[Item]
) -> dict[str, Any]:
    """A list as what it adds to an earlier one; whole now and then, so that none is far away."""
    if origin is not None:
        if keep == len(items) and not old:
            return {"same": origin[0]}
        said = origin[1].get("hops", 0)
        hops = (said if type(said) is int else 0) + 1
        if keep and hops <= max(_HOPS_AT_LEAST, len(items) // 4):
            return {"list": {"of": origin[0], "keep": keep, "items": items[keep:], "hops": hops}}
    return {"list": {"items": [*items]}}


@dataclass
class PutWrites:
    """Pending writes of a task."""

    thread: Thread
    coder: Coder
    ns: str
    checkpoint_id: str
    writes: Sequence[tuple[str, Any]]
    task_id: str
    task_path: str
    _seen: dict[str, str] = field(default_factory=dict)
    _start: str | None = None
    _is_there: bool = False
    _line: Line | None = None

    def entries(self) -> list[Wanted]:
        """The entries to append; none if all of the writes are there."""
        thread = self.thread
        key = key_of(self.ns, self.checkpoint_id)
        known = thread.written(key)
        wanted = []
        for at, (channel, value) in enumerate(self.writes):
            thread.note_touched(self.ns, channel, value)
            index = WRITES_IDX_MAP.get(channel, at)
            if index < 0 or (self.task_id, index) not in known:
                wanted.append((index, channel, value))
        if not wanted:
            return []
        self._is_there = thread.entry_of(key) is not None
        self._start = thread.tip(key) or thread.manager.leaf_id
        self._line = line = Line(thread, self.coder, self._start)
        conversation = self._conversation(key)
        writes = []
        for index, channel, value in wanted:
            said = None if channel != conversation else self._say(line, value)
            is_here = channel == conversation  # else its message could not be said later
            kept = said or line.keep(self.coder.dump(value), is_here=is_here)
            writes.append([index, channel, kept])
        data = {"task": self.task_id, "path": self.task_path, "writes": writes}
        entry_id = thread.free_id(f"wr:{key}:{thread.count_writes(key) + 1}")
        line.add({"type": "custom", "customType": WRITES, "data": pack(data), "id": entry_id})
        if self._is_there and next(thread.find(self.ns, None), None) != thread.entry_of(key):
            # the graph has gone on meanwhile, since it writes in the background
            line.stay()
        return line.made

    def commit(self) -> None:
        """The entries are written."""
        if self._line is not None and self._line.parent is not None:
            shown = self.thread.shown(self._start)
            self.thread.drop_shown(self._start)
            shown.update(self._seen)
            self.thread.note_shown(self._line.parent, shown)

    def _conversation(self, key: str) -> str | None:
        if not self.coder.is_plain:
            return None
        entry_id = self.thread.entry_of(key)
        record = None if entry_id is None else self.thread.record(entry_id)
        said = None if record is None else record.get("conversation")
        return said if isinstance(said, str) else MESSAGES

    def _say(self, line: Line, value: Any) -> dict[str, Any] | None:
        """Say messages at once: the next checkpoint has them, unless it takes them back.

        Those without an id will get one, which makes other messages of them. And a checkpoint that
        is not there yet, since graphs write in the background, will have a place of its own.
        """
        messages = value if type(value) is list else [value]
        if not self._is_there or not messages:
            return None
        if not all(is_message(each) and each.id for each in messages):
            return None
        digests: list[Item] = []
        for message in messages:
            said = line.readable(message)
            if said is None:
                return None
            dumped = self.coder.dump(message)
            digests.append(dumped.digest)
            if not line.has(dumped.digest):  # else the next checkpoint says it, or has
                self._seen[dumped.digest] = line.say(dumped.digest, dumped, said)
        if type(value) is list:
            return {"list": {"items": digests}}
        return {"ref": digests[0]}


def delete_entries(thread: Thread, keys: Sequence[str]) -> list[Wanted]:
    """The entry that marks checkpoints as removed."""
    if not keys:
        return []
    data = {"keys": [*keys]}
    entry_id = thread.free_id("rm:1")
    return [{"type": "custom", "customType": DELETED, "data": data, "id": entry_id}]
