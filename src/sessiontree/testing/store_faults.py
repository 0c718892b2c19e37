"""``StoreFaultContract``: what a store must keep when any call that it makes fails.

Each operation is tried again and again on a fresh session: its first call fails, then its second,
until it makes no more calls. Needs no import of pytest itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from sessiontree.errors import SessionTreeError
from sessiontree.session.manager import SessionManager
from sessiontree.stores.base import SessionStore
from sessiontree.testing.store_contract import CWD, assistant, user


class Faults(Protocol):
    """Makes one call of a store fail: a system call, a statement, a request."""

    @property
    def count(self) -> int:
        """The number of calls."""

    def fail_call(self, at: int) -> None:
        """Let the ``at``-th call from now fail, once, whatever it is."""

    def heal(self) -> None:
        """From now on nothing fails."""


class StoreFaultContract:
    """Subclass it beside ``StoreContract`` and give it two fixtures, which work together::

    class TestMyStoreWithFaults(StoreFaultContract):
        @pytest.fixture
        def faults(self): return MyFaults()

        @pytest.fixture
        def store(self, faults): return MyStore(..., connect=faults.connect)
    """

    calls_at_most = 400
    """How many calls of one operation are made to fail."""

    def test_an_entry_is_kept_or_refused(self, store: SessionStore, faults: Faults) -> None:
        for tried in self.each_call(store, faults):
            tried.run(lambda session: session.append_message(user("new")), adds=1)

    def test_a_batch_is_kept_or_refused_as_a_whole(
        self, store: SessionStore, faults: Faults
    ) -> None:
        batch = [{"type": "message", "message": user(text)} for text in "abc"]
        for tried in self.each_call(store, faults):
            tried.run(lambda session: session.append_many(batch), adds=3)

    def test_the_first_entry_is_kept_or_refused(self, store: SessionStore, faults: Faults) -> None:
        for tried in self.each_call(store, faults, said=0):
            tried.run(lambda session: session.append_message(user("new")), adds=1)

    def test_the_first_answer_is_kept_or_refused(self, store: SessionStore, faults: Faults) -> None:
        for tried in self.each_call(store, faults, said=1):
            tried.run(lambda session: session.append_message(assistant("new")), adds=1)

    def test_a_flush_loses_nothing(self, store: SessionStore, faults: Faults) -> None:
        for tried in self.each_call(store, faults, is_quiet=True):
            tried.run(lambda session: session.flush(), adds=0)

    def test_a_leaf_is_persisted_or_not(self, store: SessionStore, faults: Faults) -> None:
        for tried in self.each_call(store, faults):
            first = tried.session.get_entries()[0].id
            tried.session.branch(first)
            tried.run(lambda session: session.persist_leaf(), adds=1)

    def test_a_name_is_the_old_one_or_the_new(self, store: SessionStore, faults: Faults) -> None:
        for tried in self.each_call(store, faults):
            tried.session.set_session_name("Old")
            was_set = tried.run(lambda session: session.set_session_name("New"), adds=None)
            with tried.reopen() as again:
                assert again.session_name in (("New",) if was_set else ("Old", "New"))

    def test_changed_data_is_the_old_or_the_new(self, store: SessionStore, faults: Faults) -> None:
        for tried in self.each_call(store, faults):
            tried.session.get_entries()[0].data["message"]["content"] = "changed"
            was_written = tried.attempt(tried.session.rewrite_entries)
            with tried.reopen() as again:
                found = again.get_entries()[0].data["message"]["content"]
            assert found in (("changed",) if was_written else ("said 0", "changed"))
            if not was_written:
                tried.session.recover()
                tried.session.rewrite_entries()
            tried.check_kept()

    def test_a_move_is_done_or_not(self, store: SessionStore, faults: Faults) -> None:
        for tried in self.each_call(store, faults):
            was_moved = tried.run(lambda session: session.move_to("/work/moved"), adds=0)
            with tried.reopen() as again:
                assert again.cwd in (("/work/moved",) if was_moved else (CWD, "/work/moved"))
            listed = [info.id for cwd in (CWD, "/work/moved") for info in store.list(cwd)]
            assert listed.count(tried.session.session_id) == 1

    def test_a_deleted_session_is_where_it_was_or_in_the_trash(
        self, store: SessionStore, faults: Faults
    ) -> None:
        for tried in self.each_call(store, faults):
            tried.session.close()
            ref = tried.session.ref
            tried.attempt(partial(store.delete, ref))
            if not store.exists(ref):
                assert store.restore(tried.session.session_id) == ref
            tried.check_kept()

    def test_opening_changes_nothing(self, store: SessionStore, faults: Faults) -> None:
        for tried in self.each_call(store, faults):
            tried.session.close()
            tried.attempt(tried.look)
            tried.check_kept()

    def each_call(
        self, store: SessionStore, faults: Faults, said: int = 2, *, is_quiet: bool = False
    ) -> Iterator[Attempt]:
        """A fresh session for each call that is to fail, until there is no such call.

        An operation that ``is_quiet`` need not make any.
        """
        for at in itertools.count(1):
            assert at <= self.calls_at_most, "the operation makes more calls each time"
            attempt = Attempt(store, faults, at, said)
            yield attempt
            attempt.session.close()
            if not attempt.was_hit:
                break
        assert at > 1 or is_quiet, "nothing failed: the faults don't reach the store"


class Attempt:
    """One session, and an operation on it of which one call fails."""

    def __init__(self, store: SessionStore, faults: Faults, at: int, said: int) -> None:
        self._store = store
        self._faults = faults
        self._at = at
        self.was_hit = False
        """Whether the operation made the call that was to fail."""
        self.session = SessionManager.create(CWD, storage=store)
        for number in range(said):
            say = assistant if number % 2 else user
            self.session.append_message(say(f"said {number}"))
        self._promised = [entry.id for entry in self.session.get_entries()]

    def run(self, work: Callable[[SessionManager], object], adds: int | None) -> bool:
        """Do it, then check what is kept: all of what it adds, or nothing; whether it succeeded."""
        session = self.session
        before = [entry.id for entry in session.get_entries()]
        done = self.attempt(lambda: work(session))
        if not done:
            session.recover()
        new = len(session.get_entries()) - len(before)
        assert adds is None or new == adds or (not done and new == 0)
        session.append_message(user("afterwards"))
        self.check_kept()
        return done

    def attempt(self, work: Callable[[], object]) -> bool:
        """Do something, one call of which fails; whether that made no difference."""
        before = self._faults.count
        self._faults.fail_call(self._at)
        try:
            work()
        except SessionTreeError:
            return False
        else:
            return True
        finally:
            self._faults.heal()
            self.was_hit = self._faults.count - before >= self._at

    def reopen(self) -> SessionManager:
        """Another manager on the session."""
        return SessionManager.open(self.session.ref, storage=self._store)

    def look(self) -> None:
        """Open the session, read it and leave it."""
        with self.reopen() as again:
            again.build_session_context()

    def check_kept(self) -> None:
        """Check that the store has what this manager has, and all that was acknowledged."""
        with self.reopen() as again:
            kept = {entry.id: entry.data for entry in again.get_entries()}
        assert list(kept) == [entry.id for entry in self.session.get_entries()]
        assert kept == {entry.id: entry.data for entry in self.session.get_entries()}
        assert set(self._promised) <= kept.keys()
