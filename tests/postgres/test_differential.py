"""Random lives of sessions go the same way in a database and in files, closes and reopens too."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, user

from sessiontree import SessionManager, open_store
from sessiontree.errors import ConflictError, SessionTreeError
from sessiontree.model import codec
from sessiontree.stores.base import SessionStore
from sessiontree.stores.postgres.store import PostgresStore

CWD = "/work/twins"
TEXTS = ("word", "数据库", "a\x00b", "half \ud83d surrogate", "y" * 700, '"quotes" \\ and 🌳', " ")
STEPS = 60
LIVES = 12


class Life:
    """A few managers on sessions of one store; the same dice make the same steps everywhere."""

    def __init__(self, seed: int, store: SessionStore) -> None:
        self.dice = random.Random(seed)
        self.store = store
        self.count = self.trashed = 0
        first = SessionManager.create(CWD, storage=store)
        self.managers = [first]
        first.append_message(user("question"))
        first.append_message(assistant("answer"))
        self.managers.append(SessionManager.open(first.ref, storage=store))

    def step(self) -> object:
        """Do something with one of them; what all see then, without what is random in it."""
        who = self.dice.randrange(len(self.managers))
        session = self.managers[who]
        name = self.dice.choice(STEP_NAMES)
        try:
            getattr(self, f"_{name}")(session, who)
            outcome = name
        except (SessionTreeError, ValueError) as error:
            outcome = f"{name}: {type(error).__name__}"
        for manager in self.managers:
            manager.refresh()
        return outcome, [self._picture(manager) for manager in self.managers], self._listing()

    def _text(self) -> str:
        return f"{self.dice.choice(TEXTS)} {self.dice.randrange(1000)}"

    def _any(self, session: SessionManager) -> str:
        return self.dice.choice(session.get_entries()).id

    # -- steps -----------------------------------------------------------------------------

    def _ask(self, session: SessionManager, who: int) -> None:
        session.append_message(user(self._text()))

    def _answer(self, session: SessionManager, who: int) -> None:
        session.append_message(assistant(self._text()))

    def _many(self, session: SessionManager, who: int) -> None:
        session.append_many([{"type": "message", "message": user(self._text())}] * 3)

    def _branch(self, session: SessionManager, who: int) -> None:
        session.branch(self._any(session))

    def _to_the_root(self, session: SessionManager, who: int) -> None:
        session.reset_leaf()

    def _leave_a_summary(self, session: SessionManager, who: int) -> None:
        session.branch_with_summary(self._any(session), self._text())

    def _name(self, session: SessionManager, who: int) -> None:
        session.set_session_name(self._text())

    def _label(self, session: SessionManager, who: int) -> None:
        session.append_label_change(self._any(session), self.dice.choice((None, "mark")))

    def _compact(self, session: SessionManager, who: int) -> None:
        path = session.get_branch() or session.get_entries()
        session.append_compaction(self._text(), self.dice.choice(path).id, 10)

    def _record(self, session: SessionManager, who: int) -> None:
        session.set_record("key", {"n": self.dice.randrange(9), "text": self._text()})

    def _edit(self, session: SessionManager, who: int) -> None:
        entry = self.dice.choice(session.get_entries())
        if entry.type == "message":
            entry.data["message"]["content"] = self._text()
            session.rewrite_entries()

    def _model(self, session: SessionManager, who: int) -> None:
        session.append_model_change("p/other")

    def _reopen(self, session: SessionManager, who: int) -> None:
        session.close()
        self.managers[who] = SessionManager.open(session.ref, storage=self.store)

    def _crash(self, session: SessionManager, who: int) -> None:
        self.managers[who] = SessionManager.open(session.ref, storage=self.store)

    def _fork(self, session: SessionManager, who: int) -> None:
        # of a draft there is no file to fork, but there is a row
        is_listed = session.ref in [info.path for info in self.store.list(CWD)]
        if len(self.managers) < 4 and is_listed:
            with SessionManager.fork_from(session.ref, CWD, storage=self.store) as copy:
                ref = copy.ref
            self.managers.append(SessionManager.open(ref, storage=self.store))

    def _branched(self, session: SessionManager, who: int) -> None:
        if len(self.managers) < 4:
            own = SessionManager.open(session.ref, storage=self.store)
            own.create_branched_session(self._any(own))
            self.managers.append(own)

    def _own_ids(self, session: SessionManager, who: int) -> None:
        self.count += 1
        entry: dict[str, Any] = {"type": "message", "message": user(self._text())}
        entry["id"] = f"own-{self.count}"
        aside = {"type": "custom", "customType": "aside", "parentId": self._any(session)}
        wanted = [entry, aside, {"type": "custom", "customType": "x", "parent_id": entry["id"]}]
        self.dice.shuffle(wanted)
        session.append_many(wanted, to_last=self.dice.random() < 0.3)

    def _a_taken_id(self, session: SessionManager, who: int) -> None:
        entry = {"type": "custom", "customType": "x"}
        session.append_many([entry, {**entry, "id": self._any(session)}])

    def _compare_leaf(self, session: SessionManager, who: int) -> None:
        leaf = self.dice.choice((session.leaf_id, self._any(session), None))
        session.append_many([{"type": "custom", "customType": "c"}], expected_leaf=leaf)

    def _compare_revision(self, session: SessionManager, who: int) -> None:
        same = [each for each in self.managers if each.session_id == session.session_id]
        revision = self.dice.choice((session.revision, self.dice.choice(same).revision, "0"))
        entry = {"type": "message", "message": user(self._text())}
        session.append_many([entry], expected_revision=revision)

    def _conflict(self, session: SessionManager, who: int) -> None:
        revision = session.revision
        with SessionManager.open(session.ref, storage=self.store) as other:
            other.append_message(user(self._text()))
        entry = {"type": "message", "message": user(self._text())}
        try:
            session.append_many([entry], expected_revision=revision)
        except ConflictError as error:
            session.append_many(
                [entry], expected_leaf=error.leaf_id, expected_revision=error.revision
            )

    def _persist_leaf(self, session: SessionManager, who: int) -> None:
        session.branch(self._any(session))
        session.persist_leaf()
        self.managers[who] = SessionManager.open(session.ref, storage=self.store)

    def _catch_up(self, session: SessionManager, who: int) -> None:
        session.catch_up()

    def _edit_the_context(self, session: SessionManager, who: int) -> None:
        session.append_context_edit(self._any(session), {"content": self._text()})

    def _call_a_tool(self, session: SessionManager, who: int) -> None:
        call = {"type": "toolCall", "id": "call", "name": "bash", "arguments": {"n": 1}}
        session.append_message({**assistant(""), "content": [call]})

    def _change_the_call(self, session: SessionManager, who: int) -> None:
        session.rewrite_tool_call_args("call", {"n": self.dice.randrange(100)})

    def _pay(self, session: SessionManager, who: int) -> None:
        session.append_usage("warm", "p", "m", {"input": 5, "cost": {"total": 0.25}})

    def _move(self, session: SessionManager, who: int) -> None:
        session.move_to(self.dice.choice((CWD, "/work/elsewhere")))

    def _flush(self, session: SessionManager, who: int) -> None:
        session.flush()
        session.recover()

    def _new_one(self, session: SessionManager, who: int) -> None:
        if self.dice.random() < 0.3:
            session.new_session()
            session.append_message(user(self._text()))

    def _go_over(self, session: SessionManager, who: int) -> None:
        session.set_session_file(self.dice.choice(self.managers).ref)

    def _delete(self, session: SessionManager, who: int) -> None:
        own = SessionManager.create(CWD, storage=self.store)
        own.append_message(user(self._text()))
        if self.dice.random() < 0.7:
            own.append_message(assistant(self._text()))
        other = SessionManager.open(own.ref, storage=self.store)
        is_for_good = self.dice.random() < 0.6
        own.delete(permanently=is_for_good)
        late: list[Callable[[], object]] = [other.close]
        if is_for_good:  # what is only in the trash comes back by a late word
            write = partial(other.append_message, user("late"))
            late = [write, other.persist_leaf, other.recover, other.flush, other.close]
        for call in late:
            with suppress(SessionTreeError):
                call()
        self.trashed = len(self.store.list_trash())

    def _away_and_back(self, session: SessionManager, who: int) -> None:
        session.persist_leaf()
        trashed = self.store.delete(session.ref)
        assert trashed is not None
        self.store.restore(trashed.id)
        self.managers[who] = SessionManager.open(session.ref, storage=self.store)

    # -- what is seen ----------------------------------------------------------------------

    def _picture(self, session: SessionManager) -> object:
        entries = session.get_entries()
        places = {entry.id: at for at, entry in enumerate(entries)}
        context = session.build_session_context()
        return (
            [
                (entry.type, places.get(entry.parent_id or ""), self._said(entry.data))
                for entry in entries
            ],
            places.get(session.leaf_id or ""),
            session.session_name,
            context.models,
            [(message.get("role"), message.get("content")) for message in context.messages],
            [(places[node.entry.id], node.label) for node in session.get_tree()],
            session.get_record("key"),
        )

    def _said(self, data: Any) -> object:
        message = data.get("message")
        return message.get("content") if isinstance(message, dict) else data.get("summary")

    def _listing(self) -> object:
        return self.trashed, sorted(
            (
                *(info.title or "", info.message_count, info.first_message, info.status),
                self._size_of_entries(info),
            )
            for info in self.store.list()
        )

    def _size_of_entries(self, info: Any) -> int:
        """How large a listing says that the entries are; headers name files, or they do not."""
        log = self.store.read(info.path)
        entries = sum(len(entry.line()) + 1 for entry in log.tree.entries)
        if isinstance(self.store, PostgresStore):
            assert info.size - entries == len(codec.encode(log.header)) + 1
        return entries


STEP_NAMES = (
    *("ask", "ask", "answer", "many", "branch", "to_the_root", "leave_a_summary", "name", "label"),
    *("compact", "record", "edit", "model", "reopen", "crash", "fork", "branched"),
    *("own_ids", "a_taken_id", "compare_leaf", "compare_revision", "conflict", "persist_leaf"),
    *("catch_up", "edit_the_context", "call_a_tool", "change_the_call", "pay", "move", "flush"),
    *("new_one", "go_over", "delete", "away_and_back"),
)


@pytest.mark.parametrize("seed", range(LIVES))
def test_a_life_in_rows_is_a_life_in_files(seed: int, store: PostgresStore, tmp_path: Path) -> None:
    in_rows, in_files = Life(seed, store), Life(seed, open_store(f"file:{tmp_path}"))
    for number in range(STEPS):
        rows, files = in_rows.step(), in_files.step()
        assert rows == files, f"seed {seed}, step {number}"
