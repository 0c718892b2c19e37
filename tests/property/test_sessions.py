"""Managers and strangers on one file, in any order, with faults: nothing promised is lost."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.samples import assistant, dump, header, lines, message, user

from sessiontree import (
    MemorySessionStorage,
    PersistenceError,
    SessionManager,
    SessionTreeError,
)
from sessiontree.testing import FaultyStorage

PATH = "/s/session.jsonl"
WHO = st.integers(0, 1)
PICK = st.integers(0, 1_000)
CODES = st.sampled_from([errno.ENOSPC, errno.EIO])
OPERATIONS = st.sampled_from(
    [
        *["write_line", "fsync", "flush", "lock", "truncate", "close", "open_writer"],
        *["open_reader", "read_at", "rename", "write_atomic", "sync_dir", "ensure_dir"],
        *["exists", "stat", "unlink"],
    ]
)


class SharedSession(RuleBasedStateMachine):
    """Two managers of one file, and another program that appends without asking."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = MemorySessionStorage()
        self.storage = FaultyStorage(self.inside)
        self.promised: dict[str, tuple[str | None, str]] = {}
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.inside.ensure_dir("/s")
        self.inside.write_atomic(PATH, lines(header(), message("root", None, assistant("root"))))
        self.managers = [self.open(), self.open()]

    def open(self) -> SessionManager:
        return SessionManager.open(PATH, storage=self.storage)

    def next_text(self) -> str:
        self.count += 1
        return f"text {self.count}"

    @rule(who=WHO)
    def append(self, who: int) -> None:
        manager, text = self.managers[who], self.next_text()
        parent = manager.leaf_id
        self.promised[manager.append_message(user(text))] = (parent, text)

    @rule(
        who=WHO,
        code=st.sampled_from([errno.ENOSPC, errno.EIO]),
        keep=st.none() | st.integers(1, 80),
    )
    def append_on_a_full_disk(self, who: int, code: int, keep: int | None) -> None:
        manager = self.managers[who]
        before = manager.leaf_id
        self.storage.fail("write_line", code, keep=keep)
        try:
            self.append(who)
        except PersistenceError:
            assert manager.leaf_id == before
            self.storage.heal()
            manager.recover()
        self.storage.heal()

    @rule(who=WHO, pick=PICK)
    def branch(self, who: int, pick: int) -> None:
        manager = self.managers[who]
        entries = manager.get_entries()
        manager.branch(entries[pick % len(entries)].id)

    @rule(who=WHO)
    def name(self, who: int) -> None:
        self.managers[who].set_session_name(self.next_text())

    @rule(who=WHO)
    def rewrite(self, who: int) -> None:
        self.managers[who].rewrite_entries()

    @rule(who=WHO)
    def rewrite_on_a_full_disk(self, who: int) -> None:
        manager = self.managers[who]
        self.storage.fail("write_atomic", errno.ENOSPC)
        try:
            manager.rewrite_entries()
        except PersistenceError:
            self.storage.heal()
            manager.recover()
        self.storage.heal()

    @rule(who=WHO)
    def read_context(self, who: int) -> None:
        manager = self.managers[who]
        manager.build_session_context()
        manager.get_tree()

    @rule(who=WHO)
    def reopen(self, who: int) -> None:
        self.managers[who].close()
        self.managers[who] = self.open()

    @rule(pick=PICK)
    def a_stranger_appends(self, pick: int) -> None:
        text = self.next_text()
        known = ["root", *self.promised]
        parent = known[pick % len(known)]
        entry_id = f"s{self.count:07}"
        writer = self.inside.open_writer(PATH)
        newline = b"" if self.inside.read(PATH).endswith(b"\n") else b"\n"
        writer.write_line(newline + dump(message(entry_id, parent, user(text))) + b"\n")
        self.promised[entry_id] = (parent, text)

    @rule(pick=PICK)
    def a_stranger_replaces_the_file(self, pick: int) -> None:
        self.inside.write_atomic(PATH, self.inside.read(PATH))
        self.a_stranger_appends(pick)

    @rule()
    def a_stranger_goes_back_to_an_older_copy(self) -> None:
        """A synchronised folder brings yesterday's file; both managers know more."""
        for manager in self.managers:
            manager.refresh()
        data = self.inside.read(PATH).splitlines(keepends=True)
        self.inside.write_atomic(PATH, b"".join(data[: max(2, len(data) - 3)]))
        for manager in self.managers:
            manager.refresh()

    @precondition(lambda self: self.promised)
    @rule(who=WHO)
    def a_stranger_deletes_the_file(self, who: int) -> None:
        for manager in self.managers:
            manager.refresh()
        self.inside.unlink(PATH)
        self.append(who)

    def teardown(self) -> None:
        for manager in self.managers:
            manager.refresh()
        for manager in self.managers:
            manager.close()
        fresh = self.open()
        found = {entry.id: (entry.parent_id, _text(entry.data)) for entry in fresh.get_entries()}
        assert {entry_id: found.get(entry_id) for entry_id in self.promised} == self.promised
        last = self.managers[1]
        last.refresh()
        assert {entry.id for entry in last.get_entries()} == set(found)
        for line in self.inside.read(PATH).splitlines():
            if line.endswith(b"}") and line.startswith(b"{"):
                json.loads(line)


def _text(data: dict[str, Any]) -> str:
    content = data.get("message", {}).get("content")
    return content if isinstance(content, str) else ""


class FailingSession(RuleBasedStateMachine):
    """Two windows on one session, from its draft on, while any step of the storage may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = MemorySessionStorage()
        self.storage = FaultyStorage(self.inside)
        self.promised: dict[str, tuple[str | None, str]] = {}
        self.count = 0

    @initialize(durability=st.sampled_from(["flush", "entry"]), is_answered=st.booleans())
    def begin(self, durability: Any, is_answered: bool) -> None:
        self.durability = durability
        first = SessionManager.create("/work", "/s", storage=self.storage, durability=durability)
        self.managers = [first]
        self.promise(first, user("first"))
        if is_answered:
            self.promise(first, {"role": "assistant", "content": "answer"})
        self.path = str(first.session_file)
        self.managers.append(self.open())

    def open(self) -> SessionManager:
        return SessionManager.open(self.path, storage=self.storage, durability=self.durability)

    def promise(self, manager: SessionManager, said: dict[str, Any]) -> None:
        parent = manager.leaf_id
        self.promised[manager.append_message(said)] = (parent, said["content"])

    def attempt(self, who: int, data: st.DataObject, work: Callable[[SessionManager], Any]) -> None:
        """Do it while something may fail; whatever failed is recovered from."""
        if data.draw(st.integers(0, 2), label="sound") == 0:
            self.storage.fail(
                data.draw(OPERATIONS, label="operation"),
                data.draw(CODES, label="code"),
                at=data.draw(st.integers(1, 3), label="at"),
                times=data.draw(st.sampled_from([1, 2, None]), label="times"),
            )
        manager = self.managers[who]
        try:
            work(manager)
        except SessionTreeError:
            self.storage.heal()
            manager.recover()
        self.storage.heal()

    @rule(who=WHO, data=st.data(), role=st.sampled_from(["user", "assistant"]))
    def append(self, who: int, data: st.DataObject, role: str) -> None:
        self.count += 1
        said = {"role": role, "content": f"text {self.count}"}
        self.attempt(who, data, lambda manager: self.promise(manager, said))

    @rule(who=WHO, pick=PICK)
    def branch(self, who: int, pick: int) -> None:
        manager = self.managers[who]
        entries = manager.get_entries()
        manager.branch(entries[pick % len(entries)].id)

    @rule(who=WHO, data=st.data())
    def name(self, who: int, data: st.DataObject) -> None:
        self.attempt(who, data, lambda manager: manager.set_session_name("name"))

    @rule(who=WHO, data=st.data())
    def rewrite(self, who: int, data: st.DataObject) -> None:
        self.attempt(who, data, SessionManager.rewrite_entries)

    @rule(who=WHO, data=st.data())
    def flush(self, who: int, data: st.DataObject) -> None:
        self.attempt(who, data, SessionManager.flush)

    @rule(who=WHO, data=st.data())
    def refresh(self, who: int, data: st.DataObject) -> None:
        self.attempt(who, data, SessionManager.refresh)

    @rule(who=WHO, data=st.data())
    def close(self, who: int, data: st.DataObject) -> None:
        self.attempt(who, data, SessionManager.close)

    @rule(who=WHO)
    def reopen(self, who: int) -> None:
        self.managers[who].close()
        self.managers[who] = self.open()

    def teardown(self) -> None:
        for manager in self.managers:
            manager.refresh()
        for manager in self.managers:
            manager.close()
        fresh = self.open()
        found = {entry.id: (entry.parent_id, _text(entry.data)) for entry in fresh.get_entries()}
        assert {entry_id: found.get(entry_id) for entry_id in self.promised} == self.promised
        last = self.managers[-1]
        last.refresh()
        assert {entry.id for entry in last.get_entries()} == set(found)
        assert len(self.inside.list_names("/s")) == 1


SharedSession.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestSharedSession = SharedSession.TestCase
FailingSession.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestFailingSession = FailingSession.TestCase
