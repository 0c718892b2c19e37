"""``SessiontreeConversationStore``: conversations of pydantic-ai as sessions.

    store = SessiontreeConversationStore()
    conversation = await store.load("chat-42") or Conversation(conversation_id="chat-42")
    result = await agent.run("Hello", conversation=conversation)
    await store.save(result)

A conversation is a session, a ``ConversationEntry`` one object of it (``adapters.entries``) under
the same id, and each save ends with a ``pydantic-ai.record`` entry below the conversation's head.
So the record is also what tells other programs where the conversation stands. Entries and record
are one write, compared with the record before it: all of a save is there, or nothing.

A fork has the entries it shares under the same ids in a session of its own. It can be shown,
exported and deleted by itself, and outlives the conversation it came from.

Deleting first writes a record that says so, which everybody who saves at that moment conflicts
with; then the session goes to the trash.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from types import EllipsisType
from typing import Any, Self

try:
    from pydantic import ConfigDict, TypeAdapter, ValidationError
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        RetryFeedbackPart,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'pydantic-ai is not installed: pip install "sessiontree[pydantic-ai]"', name=error.name
    ) from error

from sessiontree.adapters.entries import entries_of, holds_object, newest_first, skip, wire
from sessiontree.adapters.learned import ListedSessions
from sessiontree.adapters.sessions import OpenSessions, Wanted, append
from sessiontree.adapters.verbatim import UnpackError, pack, plain, unpack
from sessiontree.agents.messages import from_model_messages
from sessiontree.agents.parts import to_milliseconds
from sessiontree.core.tree import SessionTree
from sessiontree.errors import SessionNotFoundError, SessionTreeError
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header
from sessiontree.model.messages import WireMessage
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.stores import Storage
from sessiontree.stores.base import SessionLog, StrPath

HARNESS = "pydantic-ai"
RECORD = "pydantic-ai.record"
_HOMES_AT_MOST = 10_000


class SessiontreeConversationStore(ConversationStore):
    """Keep conversations in a Sessiontree store.

    ``storage``, ``profile`` and ``scope`` say where, as for ``SessionManager``; the default is
    Sessiontree's own files, in the project ``cwd``. This ``scope`` is for all conversations of the
    store. The one that pydantic-ai passes to ``save`` and ``load`` is part of a conversation.

    ``delete`` moves a conversation to the trash, with ``delete_permanently`` it removes it; a fork
    of it keeps what it shares.
    """

    def __init__(
        self,
        *,
        storage: Storage | None = None,
        profile: str | Profile | None = None,
        scope: str | None = None,
        cwd: StrPath | None = None,
        delete_permanently: bool = False,
    ) -> None:
        self._sessions = OpenSessions(
            HARNESS, storage=storage, profile=profile, scope=scope, cwd=cwd
        )
        self._delete_permanently = delete_permanently
        self._homes: OrderedDict[str, str] = OrderedDict()
        self._listed = ListedSessions(self._sessions.store, partial(_read_listed, scope))

    # -- the five primitives ---------------------------------------------------------------

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record for a conversation, or None if there is none."""
        try:
            found = await self._sessions.run(conversation_id, _last_record, create=False)
        except SessionNotFoundError:
            return None
        if found is None or found.record is None:
            return None
        self._note_home(conversation_id, found.record.head_id, *found.record.branches)
        return found.record

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """The records of all conversations, or of a scope; the one saved last comes first."""
        records = await self._sessions.elsewhere(self._read_records)
        chosen = [record for record in records if scope is None or record.scope == scope]
        chosen.sort(key=lambda record: record.updated_at, reverse=True)
        return chosen[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and new entries in one write. Raises ConversationConflict."""
        write = _Write(record, [*new_entries], expected_revision)
        parent = new_entries[0].parent_id if new_entries else record.head_id
        await self._write(write, parent)
        ids = [entry.id for entry in new_entries]
        self._note_home(record.conversation_id, record.head_id, *ids)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation. Raises ConversationConflict."""

        def mark(manager: SessionManager) -> None:
            append(manager, lambda: _tombstone(manager, conversation_id, expected_revision))

        with _conflict_if_missing(conversation_id):
            await self._sessions.run(conversation_id, mark, create=False)
        await self._remove(conversation_id)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry of this id, of whatever conversation. Raises LookupError."""
        history = await self.read_history(entry_id, limit=1)
        if not history or history[-1].id != entry_id:
            raise LookupError(f"Entry {entry_id!r} cannot be read")
        return history[-1]

    # -- histories -------------------------------------------------------------------------

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """The entries up to ``head_id``, or the last ``limit`` of them. Raises LookupError."""
        if head_id is None:
            return []

        def read(manager: SessionManager) -> list[ConversationEntry]:
            if manager.get_entry(head_id) is None:
                raise LookupError(head_id)
            return _history(manager.get_branch(head_id), limit)

        home = self._homes.get(head_id)
        if home is not None:
            with suppress(LookupError, SessionNotFoundError):
                return await self._sessions.run(home, read, create=False)
        home = await self._sessions.elsewhere(lambda: self._find_home(head_id))
        if home is None:
            raise LookupError(f"No conversation has an entry {head_id!r}")
        self._note_home(home, head_id)
        try:
            return await self._sessions.run(home, read, create=False)
        except SessionNotFoundError as error:
            raise LookupError(f"No conversation has an entry {head_id!r}") from error

    async def aclose(self) -> None:
        """Close open sessions. The store can be used again."""
        await self._sessions.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # -- writing ---------------------------------------------------------------------------

    async def _write(self, write: _Write, parent: str | None) -> None:
        """Write to the conversation's session, with what it shares with another one."""
        conversation_id = write.record.conversation_id
        fields: dict[str, Any] = {}
        if write.record.forked_from is not None:
            origin = await self._sessions.elsewhere(
                lambda: self._sessions.locate(write.record.forked_from or "")
            )
            fields = {} if origin is None else {"parentSession": origin}
        while True:
            try:
                with _conflict_if_missing(conversation_id):
                    await self._sessions.run(
                        conversation_id,
                        lambda manager: append(manager, lambda: write.entries(manager)),
                        create=write.expected_revision is None,
                        header=fields,
                    )
                return
            except _DeletedError:
                await self._remove(conversation_id)
            except _ElsewhereError:
                shared = await self._sessions.elsewhere(lambda: self._copy_path(parent))
                if not shared:
                    raise ConversationConflict(conversation_id) from None
                write.shared = shared

    async def _remove(self, conversation_id: str) -> None:
        """Remove the session of a conversation that is marked as deleted, unless it lives again."""

        def remove(manager: SessionManager) -> None:
            found = _last_record(manager)
            if found is not None and found.is_deleted:
                manager.delete(permanently=self._delete_permanently)

        with suppress(SessionNotFoundError):
            await self._sessions.run(conversation_id, remove, create=False)

    def _copy_path(self, head_id: str | None) -> list[Wanted]:
        """The entries that lead to one in another conversation, as they are there."""
        if head_id is None:
            return []

        def read(manager: SessionManager) -> list[Wanted]:
            if manager.get_entry(head_id) is None:
                return []
            return _rechain(manager.get_branch(head_id))

        for find in (self._homes.get, self._find_home):
            home = find(head_id)
            with suppress(SessionNotFoundError):
                if home and (copied := self._sessions.use(home, read, create=False)):
                    return copied
        return []

    # -- where entries are -----------------------------------------------------------------

    def _note_home(self, conversation_id: str, *entry_ids: str | None) -> None:
        for entry_id in entry_ids:
            if entry_id is not None:
                self._homes[entry_id] = conversation_id
                self._homes.move_to_end(entry_id)
        while len(self._homes) > _HOMES_AT_MOST:
            self._homes.popitem(last=False)

    def _find_home(self, entry_id: str) -> str | None:
        """A conversation that has an entry; forks have it too."""
        store = self._sessions.store
        for place in store.find_entry(entry_id):
            with suppress(SessionTreeError):
                log = store.read(place.ref)
                try:
                    if self._is_here(log.header):
                        return _conversation_of(log.header)
                finally:
                    log.close()
        return None

    def _is_here(self, header: Header) -> bool:
        return header.get("scope") == self._sessions.scope

    # -- listing ---------------------------------------------------------------------------

    def _read_records(self) -> list[ConversationRecord]:
        """The records of all sessions."""
        return [_copy(record) for record in self._listed.of_scope(self._sessions.scope)]


def _read_listed(scope: str | None, log: SessionLog) -> ConversationRecord | None:
    """The record of a session's conversation, if it is one of this scope."""
    found = _last_record_of(log.tree) if log.header.get("scope") == scope else None
    return None if found is None else found.record


class _DeletedError(Exception):
    """The session is of a conversation that was deleted, and is about to go."""


class _ElsewhereError(Exception):
    """The entries continue one that another conversation has."""


class _conflict_if_missing:  # noqa: N801 - used like a function
    """A conversation that was expected and is missing: somebody deleted it."""

    def __init__(self, conversation_id: str) -> None:
        self._conversation_id = conversation_id

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, SessionNotFoundError):
            raise ConversationConflict(self._conversation_id) from None


# -- records -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """The last record of a session that can be read; None in it if that says "deleted"."""

    record: ConversationRecord | None
    fields: dict[str, Any]

    @property
    def is_deleted(self) -> bool:
        return self.record is None


def _last_record(manager: SessionManager) -> _Found | None:
    return _find_record(manager.get_entries())


def _last_record_of(tree: SessionTree) -> _Found | None:
    return _find_record(tree.entries)


def _find_record(entries: Sequence[Entry]) -> _Found | None:
    for entry in reversed(entries):
        if entry.type != "custom":
            continue
        data = wire(entry)
        if data.get("customType") != RECORD:
            continue
        try:
            fields = unpack(data.get("data"))
            if not isinstance(fields, dict):
                raise UnpackError("it is not an object")
            if fields.get("deleted") is True:
                return _Found(None, fields)
            (record,) = _records().validate_python([fields])
            return _Found(record, fields)
        except (UnpackError, ValidationError) as error:
            skip(entry, RECORD, error)
    return None


def _tombstone(
    manager: SessionManager, conversation_id: str, expected_revision: str
) -> list[Wanted]:
    found = _last_record(manager)
    if found is None or found.record is None or found.record.revision != expected_revision:
        raise ConversationConflict(conversation_id)
    return [{"type": "custom", "customType": RECORD, "data": {"deleted": True}}]


@dataclass
class _Write:
    """One save: what it compares, and the entries that it comes to."""

    record: ConversationRecord
    new_entries: list[ConversationEntry]
    expected_revision: str | None
    shared: Sequence[Wanted] = ()

    def entries(self, manager: SessionManager) -> list[Wanted]:
        """All entries of the save, as the session is now. Raises ConversationConflict."""
        found = _last_record(manager)
        if found is not None and found.is_deleted:
            if self.expected_revision is None:
                raise _DeletedError
            raise ConversationConflict(self.record.conversation_id)
        stored = None if found is None else found.record
        if (None if stored is None else stored.revision) != self.expected_revision:
            raise ConversationConflict(self.record.conversation_id)
        made = [each for each in self.shared if manager.get_entry(each["id"]) is None]
        known = {each["id"] for each in made}
        for entry in self.new_entries:
            parent = self._parent(manager, entry.parent_id, known)
            made += _entries_of(entry, parent)
            known.add(entry.id)
        head = self._parent(manager, self.record.head_id, known)
        made.append(self._record_entry(head, {} if found is None else found.fields))
        return made

    def _parent(self, manager: SessionManager, entry_id: str | None, known: set[str]) -> str | None:
        """Below what to append: the leaf, if it continues the entry, so that a tree is a line."""
        if entry_id is not None and entry_id in known:
            return entry_id
        if entry_id is not None and manager.get_entry(entry_id) is None:
            raise _ElsewhereError
        if not known and _object_above(manager) == entry_id:
            return manager.leaf_id
        return entry_id

    def _record_entry(self, parent_id: str | None, before: dict[str, Any]) -> Wanted:
        """The record; what a later version has put into the one before it stays."""
        (fields,) = _records().dump_python([self.record], mode="json")
        kept = {key: value for key, value in before.items() if key not in fields}
        return {
            "type": "custom",
            "customType": RECORD,
            "data": pack({**kept, **fields}),
            "parentId": parent_id,
        }


def _object_above(manager: SessionManager) -> str | None:
    """The last object that leads to the leaf; None if there is none."""
    entry = manager.leaf_entry
    while entry is not None:
        if holds_object(wire(entry), HARNESS):
            return entry.id
        entry = manager.get_entry(entry.parent_id) if entry.parent_id is not None else None
    return None


@cache
def _records() -> TypeAdapter[list[ConversationRecord]]:
    # as a list, like ModelMessagesTypeAdapter: only then does the configuration reach all fields
    config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    return TypeAdapter(list[ConversationRecord], config=config)


def _copy(record: ConversationRecord) -> ConversationRecord:
    (copied,) = _records().validate_python(_records().dump_python([record], mode="json"))
    return copied


def _conversation_of(header: Header) -> str:
    """The conversation's id, which not every session can have."""
    key = header.get("key")
    return key if isinstance(key, str) else str(header.get("id", ""))


# -- messages ----------------------------------------------------------------------------------


def _entries_of(entry: ConversationEntry, parent_id: str | EllipsisType | None) -> list[Wanted]:
    (exact,) = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
    messages = [plain(each) for each in _readable(entry.message)]
    return [*entries_of(HARNESS, exact, messages, entry_id=entry.id, parent_id=parent_id)]


def _readable(message: ModelMessage) -> Iterator[WireMessage]:
    """What users, models and tools said, as messages of a session."""
    if not isinstance(message, ModelRequest):
        yield from from_model_messages([message])
        return
    for part in message.parts:
        if isinstance(part, RetryFeedbackPart):
            yield _feedback(part)
        else:
            yield from from_model_messages([ModelRequest([part])])


def _feedback(part: RetryFeedbackPart) -> WireMessage:
    """Words to the model about an answer that was of no use."""
    content = part.content
    text = content if isinstance(content, str) else "\n".join(error["msg"] for error in content)
    return {"role": "user", "content": text, "timestamp": to_milliseconds(part.timestamp)}


def _history(path: Sequence[Entry], limit: int | None) -> list[ConversationEntry]:
    """The objects on a path; one that this version cannot read is left out with a warning."""
    found: list[tuple[Entry, Any]] = [*islice(newest_first(path, HARNESS), limit)]
    found.reverse()
    messages = _messages(found)
    # the entry before the first one is its parent, also if it was not asked for
    above = next((e.id for e in _above(path, found) if holds_object(wire(e), HARNESS)), None)
    made = []
    for (entry, _), message in zip(found, messages, strict=True):
        if message is not None:
            made.append(ConversationEntry(id=entry.id, parent_id=above, message=message))
        above = entry.id
    return made


def _above(path: Sequence[Entry], found: Sequence[tuple[Entry, Any]]) -> Iterator[Entry]:
    if found:
        at = next(at for at, entry in enumerate(path) if entry is found[0][0])
        yield from reversed(path[:at])


def _messages(found: Sequence[tuple[Entry, Any]]) -> list[ModelMessage | None]:
    """The messages, validated together, or one by one if that fails."""
    try:
        return [*ModelMessagesTypeAdapter.validate_python([value for _, value in found])]
    except ValidationError:
        return [_message(entry, value) for entry, value in found]


def _message(entry: Entry, value: Any) -> ModelMessage | None:
    try:
        (message,) = ModelMessagesTypeAdapter.validate_python([value])
    except ValidationError as error:
        skip(entry, HARNESS, error)
        return None
    return message


def _rechain(path: Sequence[Entry]) -> list[Wanted]:
    """The messages on a path as entries for another session, one below the other."""
    copied: list[Wanted] = []
    parent_id: str | None = None
    for entry in path:
        data = wire(entry)
        if entry.type == "message" or holds_object(data, HARNESS):
            copied.append({**data, "parentId": parent_id})
            parent_id = entry.id
    return copied
