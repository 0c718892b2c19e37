"""``StoreContract``: what every store must do, as tests that pytest can run against one.

The rules of ``sessiontree.stores.base``, through ``SessionManager`` as everybody uses them. Needs
no import of pytest itself.
"""

from __future__ import annotations

import random
import threading
import time
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from sessiontree.clock import now
from sessiontree.errors import (
    ConflictError,
    EntryExistsError,
    EntryNotFoundError,
    InvalidIdError,
    PersistenceError,
    SessionExistsError,
    SessionTreeError,
)
from sessiontree.session.manager import SessionManager
from sessiontree.stores.base import SessionStore
from sessiontree.stores.memory import MemoryStore

CWD = "/work/contract"


def user(text: str) -> dict[str, Any]:
    """A message of a user."""
    return {"role": "user", "content": text, "timestamp": 1}


def assistant(text: str) -> dict[str, Any]:
    """A message of a model: from the first one on a session is listed."""
    content = [{"type": "text", "text": text}]
    return {"role": "assistant", "content": content, "provider": "p", "model": "m", "timestamp": 2}


def raises(kind: type[BaseException], work: Callable[[], object]) -> BaseException:
    """The error of this kind that the work ends with; AssertionError if it does not."""
    try:
        work()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def peak_of(work: Callable[[], object]) -> int:
    """The peak of memory, in bytes, that some work needs."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class StoreContract:
    """Subclass it in a test module and give it one fixture, ``store``: a fresh store::

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self): return MyStore(...)
    """

    listing_bytes = 200_000
    """The memory that listing a session of 3.6 MB may need at most."""

    # -- life cycle ------------------------------------------------------------------------

    def test_what_is_appended_is_there_when_it_is_opened_again(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            made = [entry.id for entry in session.get_entries()]
            session.branch(made[0])
        with self.reopen(store, session) as again:
            assert [entry.id for entry in again.get_entries()][: len(made)] == made
            assert again.get_branch()[-2].id == made[0]  # the last one says where it stands
            assert again.session_id == session.session_id
            assert again.cwd == CWD

    def test_a_session_is_listed_from_its_first_answer_on(self, store: SessionStore) -> None:
        with SessionManager.create(CWD, storage=store) as session:
            session.append_message(user("not answered yet"))
            assert [info.id for info in store.list(CWD)] == []
            draft = store.get_info(session.ref)
            assert draft is not None
            assert (draft.id, draft.message_count) == (session.session_id, 1)
            session.append_message(assistant("answer"))
            (info,) = store.list(CWD)
            assert (info.id, info.path) == (session.session_id, session.ref)
            assert info.first_message == "not answered yet"
            assert store.get_info(session.ref) == info
        assert list(store.list("/work/other")) == []
        assert [info.id for info in store.list()] == [session.session_id]

    def test_any_text_is_kept(self, store: SessionStore) -> None:
        texts = (
            "a\0b",
            "half \ud83d surrogate",
            "🌳 数据库",
            "\x7f\u2028\x85",
            '"\\',
            "",
            "x" * 600_000,
        )
        with SessionManager.create(CWD, storage=store) as session:
            for text in texts:
                session.append_message(user(text))
            session.append_message(assistant("\udfff first"))
            session.append_label_change(session.get_entries()[0].id, texts[1])
            session.set_record(texts[1], list(texts))
            session.set_session_name("a \ud83d name")
        with self.reopen(store, session) as again:
            said = [entry.data["message"]["content"] for entry in again.get_entries()[:-1][:7]]
            assert said == list(texts)
            assert again.get_label(again.get_entries()[0].id) == texts[1]
            assert again.get_record(texts[1]) == list(texts)
        (info,) = store.list(CWD)
        assert (info.title, info.first_message) == (again.session_name, "a\0b")
        trashed = store.delete(session.ref)
        assert trashed is not None
        assert store.restore(trashed.id) == session.ref

    def test_a_name_is_kept(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            session.set_session_name("A name")
        with self.reopen(store, session) as again:
            assert again.session_name == "A name"
        assert [info.title for info in store.list(CWD)] == ["A name"]

    def test_a_draft_with_nothing_in_it_is_gone_when_it_is_left(self, store: SessionStore) -> None:
        with SessionManager.create(CWD, id="empty", storage=store):
            assert store.locate("empty") is not None
        assert store.locate("empty") is None
        assert store.get_info("nothing") is None

    def test_changed_data_is_kept_by_a_rewrite(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            session.get_entries()[0].data["message"]["content"] = "changed"
            session.rewrite_entries()
        with self.reopen(store, session) as again:
            assert again.get_entries()[0].data["message"]["content"] == "changed"

    def test_changes_of_two_windows_to_different_entries_are_both_kept(
        self, store: SessionStore
    ) -> None:
        with self.talk(store) as session, self.reopen(store, session) as other:
            session.get_entries()[0].data["message"]["content"] = "changed here"
            other.get_entries()[1].data["message"]["content"] = "changed there"
            other.rewrite_entries()
            session.rewrite_entries()
            said = [entry.data["message"]["content"] for entry in session.get_entries()]
            assert said == ["changed here", "changed there"]
            assert not any("changed by another" in str(each) for each in session.warnings)
        with self.reopen(store, session) as again:
            assert [e.data["message"]["content"] for e in again.get_entries()] == said

    def test_a_fork_has_all_and_a_branch_has_one_path(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            first = session.get_entries()[0].id
            source = session.ref
            session.fork()
            assert session.ref != source
            assert len(session.get_entries()) == 2
            session.create_branched_session(first)
            assert [entry.id for entry in session.get_entries()] == [first]
        with SessionManager.fork_from(source, "/work/other", storage=store) as fork:
            assert len(fork.get_entries()) == 2
            assert fork.cwd == "/work/other"

    def test_a_session_moves_to_another_project(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            session.move_to("/work/moved")
            session.append_message(user("there"))
        assert list(store.list(CWD)) == []
        assert [info.id for info in store.list("/work/moved")] == [session.session_id]
        with self.reopen(store, session) as again:
            assert len(again.get_entries()) == 3

    def test_a_deleted_session_comes_back_from_the_trash(self, store: SessionStore) -> None:
        session = self.talk(store)
        session.delete()
        raises(PersistenceError, lambda: session.append_message(user("late")))
        session.close()
        assert list(store.list(CWD)) == []
        ref = store.restore(session.session_id)
        with SessionManager.open(ref, storage=store) as again:
            assert len(again.get_entries()) == 2

    def test_what_is_deleted_for_good_is_gone(self, store: SessionStore) -> None:
        session = self.talk(store)
        session.delete(permanently=True)
        assert list(store.list(CWD)) == []
        raises(SessionTreeError, lambda: store.restore(session.session_id))
        raises(PersistenceError, session.recover)
        raises(PersistenceError, lambda: session.append_message(user("still here")))
        assert not store.exists(session.ref)

    def test_leaving_a_session_does_not_take_it_out_of_the_trash(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            first = session.get_entries()[0].id
        windows = [self.reopen(store, session) for _ in range(3)]
        windows[0].append_message(user("before"))
        windows[1].branch(first)
        store.delete(session.ref)
        for window in windows:
            window.close()
        assert not store.exists(session.ref)
        assert list(store.list()) == []
        store.restore(session.session_id)
        with self.reopen(store, session) as again:
            assert len(again.get_entries()) == 3

    def test_what_is_removed_from_the_trash_does_not_come_back(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            other = self.reopen(store, session)
            store.delete(session.ref)
            assert store.purge(now() + timedelta(days=1)) == 1
            raises(PersistenceError, lambda: other.append_message(user("late")))
            raises(PersistenceError, other.recover)
            assert not store.exists(session.ref)

    def test_of_a_deleted_session_there_is_nothing_to_read(self, store: SessionStore) -> None:
        for permanently in (False, True):
            with self.talk(store) as session:
                window, late = self.reopen(store, session), self.reopen(store, session)
            store.delete(session.ref, permanently=permanently)
            for _ in range(2):
                assert window.refresh() == 0
                assert window.catch_up() == 0
            assert list(window.follow(timeout_s=0.01)) == []
            assert window.news().take() == []
            assert len(window.build_session_context().messages) == 2
            assert not store.exists(session.ref)
            if permanently:
                raises(PersistenceError, partial(window.append_message, user("late")))
                raises(PersistenceError, window.refresh)
            else:
                window.append_message(user("It comes back"))
                assert late.refresh() == 1
            for each in (window, late):
                each.close() if not permanently else each.abandon()
            assert store.exists(session.ref) != permanently

    def test_the_trash_calls_a_session_without_a_name_by_its_prompt(
        self, store: SessionStore
    ) -> None:
        with SessionManager.create(CWD, storage=store) as session:
            session.append_message(user("Why is\n the sky blue?"))
            session.append_message(assistant("answer"))
        removed = store.delete(session.ref)
        assert removed is not None
        assert removed.title == "Why is the sky blue?"
        assert [item.title for item in store.list_trash()] == ["Why is the sky blue?"]

    def test_the_trash_tells_what_is_in_it_and_is_emptied_by_time(
        self, store: SessionStore
    ) -> None:
        before = now() - timedelta(days=1)
        first, second = self.talk(store), self.talk(store)
        for session in (first, second):
            session.set_session_name("Thrown away")
            session.close()
        one = store.delete(first.ref)
        assert one is not None
        two = store.delete(second.ref, batch=one.batch)
        assert two is not None
        assert (one.session_id, one.path, one.cwd) == (first.session_id, first.ref, CWD)
        assert (one.title, two.batch) == ("Thrown away", one.batch)
        assert one.id != two.id
        assert {item.id for item in store.list_trash()} == {one.id, two.id}
        assert store.restore(one.id) == first.ref
        assert store.purge(before) == 0
        assert [item.id for item in store.list_trash()] == [two.id]
        assert store.purge(now() + timedelta(days=1)) == 1
        assert not store.list_trash()
        raises(SessionTreeError, lambda: store.restore(two.id))
        assert [info.id for info in store.list()] == [first.session_id]

    # -- ids, scopes, finding --------------------------------------------------------------

    def test_an_id_of_the_callers_own_is_taken_once(self, store: SessionStore) -> None:
        with SessionManager.create(CWD, id="chat-7.a", storage=store) as session:
            assert session.session_id == "chat-7.a"
            session.append_message(user("hello"))
            error = raises(
                SessionExistsError,
                lambda: SessionManager.create("/elsewhere", id="chat-7.a", storage=store),
            )
            assert isinstance(error, SessionExistsError)
            assert error.ref == session.ref
        for wrong in ("", ".", "..", "a/b", "a b", "x" * 129, "é"):
            raises(
                InvalidIdError,
                partial(self.create, store, wrong),
            )

    def test_open_or_create_gives_everybody_the_same_session(self, store: SessionStore) -> None:
        with SessionManager.open_or_create("chat", CWD, storage=store) as first:
            first.append_message(user("one"))
        with SessionManager.open_or_create("chat", CWD, storage=store) as second:
            assert second.ref == first.ref
            assert len(second.get_entries()) == 1

    def test_of_several_who_want_an_id_one_gets_it(self, store: SessionStore) -> None:
        refs: list[str] = []

        def want() -> None:
            session = SessionManager.open_or_create("wanted", CWD, storage=store)
            session.append_message(user("mine"))
            refs.append(session.ref)

        self.at_once([want] * 8)
        assert len(refs) == 8
        assert len(set(refs)) == 1
        with SessionManager.open_or_create("wanted", CWD, storage=store) as session:
            assert len(session.get_entries()) == 8

    def test_scopes_are_apart(self, store: SessionStore) -> None:
        for scope in ("tenant/anna", "tenant/bob"):
            with SessionManager.create(CWD, id="chat", scope=scope, storage=store) as session:
                session.append_message(user(f"{scope} asks"))
                session.append_message(assistant("answer"))
                assert session.scope == scope
        found = SessionManager.list(None, scope="tenant/anna", storage=store)
        assert [info.first_message for info in found] == ["tenant/anna asks"]
        assert list(store.list(CWD)) == []
        assert store.locate("chat") is None
        again = SessionManager.continue_recent("/anywhere", scope="tenant/bob", storage=store)
        with again:
            assert again.get_entries()[0].data["message"]["content"] == "tenant/bob asks"
        assert len(store.search("asks", scope="tenant/bob")) == 1

    def test_what_is_no_scope_is_refused(self, store: SessionStore) -> None:
        for kind, wrong in ((ValueError, ""), (ValueError, "a\0b"), (TypeError, 5)):
            raises(
                kind,
                partial(SessionManager.create, CWD, scope=wrong, storage=store),  # type: ignore[arg-type]
            )
        assert len(store.list()) == 0

    def test_sessions_and_entries_are_found(self, store: SessionStore) -> None:
        with SessionManager.create(CWD, id="first-one", storage=store) as session:
            session.append_many([{"type": "message", "message": user("needle"), "id": "entry-1"}])
            session.append_message(assistant("hay"))
        assert [info.id for info in store.find("first")] == ["first-one"]
        assert store.locate("first-one") == session.ref
        assert store.locate("first") is None
        assert [place.ref for place in store.find_entry("entry-1")] == [session.ref]
        assert not store.find_entry("entry-2")
        assert [hit.session.id for hit in store.search("needle")] == ["first-one"]
        assert store.latest(CWD) is not None

    def test_no_listing_reads_the_entries(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            session.append_many(
                [{"type": "message", "message": assistant("x" * 300_000)} for _ in range(12)]
            )
            session.append_message(user("That was long"))
        time.sleep(0.05)  # files that changed a moment ago are read again
        looks: list[Callable[[], object]] = [
            partial(store.list, CWD),
            store.list,
            partial(store.list, limit=1),
            partial(store.latest, CWD),
            partial(store.locate, session.session_id),
            partial(store.find, session.session_id[:4]),
            partial(store.get_info, session.ref),
        ]
        for look in looks:
            look()  # a store of files may read once what has changed
            assert peak_of(look) < self.listing_bytes, look

    def test_a_long_listing_comes_in_pages(self, store: SessionStore) -> None:
        made = []
        for _ in range(5):
            with self.talk(store) as session:
                made.append(session.session_id)
        whole = list(store.list(CWD))
        assert sorted(info.id for info in whole) == sorted(made)
        pages, mark = [], None
        while page := store.list(CWD, limit=2, before=mark):
            assert page.total in (None, 5)
            pages.append([info.id for info in page])
            mark = (page[-1].modified, page[-1].path)
        assert [len(page) for page in pages] == [2, 2, 1]
        assert [each for page in pages for each in page] == [info.id for info in whole]
        assert [info.id for info in store.list(limit=3)] == [info.id for info in whole[:3]]

    # -- batches and conflicts -------------------------------------------------------------

    def test_a_batch_is_one_chain_and_an_own_parent_leaves_the_leaf(
        self, store: SessionStore
    ) -> None:
        with self.talk(store) as session:
            root, leaf = (entry.id for entry in session.get_entries())
            made = session.append_many(
                [
                    {"type": "message", "message": user("a"), "id": "mine"},
                    {"type": "custom", "customType": "x", "parentId": root},
                    {"type": "message", "message": user("b")},
                ]
            )
            assert made[0] == "mine"
            assert session.leaf_id == made[2]
            parents = [session.get_branch(entry_id)[-2].id for entry_id in made]
            assert parents == [leaf, root, "mine"]
        with self.reopen(store, session) as again:
            assert [entry.id for entry in again.get_entries()][2:5] == made

    def test_an_own_parent_moves_nobodys_leaf(self, store: SessionStore) -> None:
        with self.talk(store) as mine, self.reopen(store, mine) as theirs:
            root, leaf = (entry.id for entry in mine.get_entries())
            aside = {"type": "custom", "customType": "x", "parentId": root}
            (made,) = mine.append_many([aside])
            assert mine.leaf_id == leaf
            with self.reopen(store, mine) as late:  # it was killed, say, and opened again
                assert leaf in [entry.id for entry in late.get_branch()]
                assert made not in [entry.id for entry in late.get_branch()]
            assert theirs.catch_up() >= 1
            assert theirs.leaf_id == leaf
            mine.append_many([aside])
            message = {"type": "message", "message": user("on")}
            (on,) = theirs.append_many([message], expected_leaf=leaf)
            assert [entry.id for entry in theirs.get_branch()] == [root, leaf, on]
            mine.append_many([aside], to_last=True)
            theirs.catch_up()
            assert theirs.leaf_id == mine.leaf_id
            assert theirs.get_branch()[0].id == root
            assert len(theirs.get_branch()) == 2

    def test_a_batch_is_all_or_nothing(self, store: SessionStore) -> None:
        good = {"type": "message", "message": user("good")}
        with self.talk(store) as session:
            before = [entry.id for entry in session.get_entries()]
            for kind, wrong in (
                (EntryExistsError, {**good, "id": before[0]}),
                (EntryNotFoundError, {**good, "parentId": "nobody"}),
                (TypeError, {"type": "message", "message": "text"}),
                (ValueError, {"type": ""}),
                (TypeError, {"type": "custom", "data": object()}),
            ):
                raises(kind, partial(session.append_many, [good, wrong]))
                assert [entry.id for entry in session.get_entries()] == before
                assert session.leaf_id == before[-1]
            session.append_message(user("and on"))
        with self.reopen(store, session) as again:
            assert len(again.get_entries()) == len(before) + 1

    def test_who_expects_what_is_not_there_any_more_is_told(self, store: SessionStore) -> None:
        with self.talk(store) as mine, self.reopen(store, mine) as theirs:
            leaf, revision = mine.leaf_id, mine.revision
            entry = {"type": "message", "message": user("mine")}
            assert theirs.revision == revision
            new = theirs.append_message(user("theirs"))
            assert theirs.revision != revision
            wrong: list[dict[str, Any]] = [{"expected_leaf": leaf}, {"expected_revision": revision}]
            for expected in wrong:
                error = raises(ConflictError, partial(mine.append_many, [entry], **expected))
                assert isinstance(error, ConflictError)
                assert (error.leaf_id, error.revision) == (new, theirs.revision)
            (made,) = mine.append_many([entry], expected_leaf=new, expected_revision=mine.revision)
            continued = mine.get_entry(made)
            assert continued is not None
            assert continued.parent_id == new
            assert mine.leaf_id == made
            assert theirs.refresh() == 1

    def test_who_makes_entries_meanwhile_sees_what_others_wrote(self, store: SessionStore) -> None:
        with self.talk(store) as mine, self.reopen(store, mine) as theirs:
            new = theirs.append_message(user("theirs"))
            seen: list[str | None] = []

            def make() -> list[dict[str, Any]]:
                seen.append(mine.leaf_id)
                assert mine.get_entry(new) is not None
                return [{"type": "message", "message": user("mine")}]

            (made,) = mine.append_many(make)
            continued = mine.get_entry(made)
            assert set(seen) == {new}
            assert continued is not None
            assert continued.parent_id == new
            error = raises(KeyError, partial(mine.append_many, _raise_key_error))
            assert isinstance(error, KeyError)
            assert mine.append_many(list) == []
            assert mine.leaf_id == made
            assert theirs.catch_up() == 1
            assert theirs.leaf_id == made

    def test_a_leaf_that_is_persisted_survives_a_crash(self, store: SessionStore) -> None:
        session = self.talk(store)
        session.branch(session.get_entries()[0].id)
        session.persist_leaf()  # and no close
        with self.reopen(store, session) as again:
            assert again.get_branch()[-2].id == session.get_entries()[0].id

    def test_records_are_kept_and_the_last_one_counts(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            assert session.get_record("k") is None
            session.set_record("k", {"n": 1})
            session.set_record("other", "x")
            session.set_record("k", {"n": 2})
        with self.reopen(store, session) as again:
            assert (again.get_record("k"), again.get_record("other")) == ({"n": 2}, "x")

    def test_a_record_that_json_cannot_hold_is_refused(self, store: SessionStore) -> None:
        endless: list[object] = []
        endless.append(endless)
        with self.talk(store) as session:
            session.set_record("k", 1)
            revision, count = session.revision, len(session.get_entries())
            for kind, wrong in (
                (ValueError, float("nan")),
                (ValueError, {"a": [float("inf")]}),
                (ValueError, 1 << 20_000),
                (ValueError, endless),
                (TypeError, {1: "number"}),
                (TypeError, {"a": object()}),
                (TypeError, b"bytes"),
            ):
                error = raises(kind, partial(session.set_record, "k", wrong))
                assert str(error).startswith('The record "k" ')
                assert "\n" not in str(error)
            assert (session.revision, len(session.get_entries())) == (revision, count)
            assert session.get_record("k") == 1

    # -- several at once -------------------------------------------------------------------

    def test_entries_of_others_come_in_and_the_leaf_stays(self, store: SessionStore) -> None:
        with self.talk(store) as mine, self.reopen(store, mine) as theirs:
            leaf = mine.leaf_id
            new = theirs.append_message(user("theirs"))
            assert (mine.refresh(), mine.refresh()) == (1, 0)
            assert mine.leaf_id == leaf
            assert mine.get_entry(new) is not None

    def test_a_follower_hears_of_others_and_not_of_itself(self, store: SessionStore) -> None:
        with self.talk(store) as mine, self.reopen(store, mine) as theirs:
            news = mine.news()
            mine.append_message(user("mine"))
            new = [theirs.append_message(user(text)) for text in "ab"]
            assert [entry.id for entry in news.take()] == new
            assert news.take() == []
            follower = mine.follow(timeout_s=5.0)
            timer = threading.Timer(0.05, lambda: theirs.append_message(user("later")))
            timer.start()
            assert next(follower).data["message"]["content"] == "later"
            timer.join()
            follower.close()

    def test_nothing_of_many_writers_is_lost(self, store: SessionStore) -> None:
        with self.talk(store) as session:
            promised: list[str] = []

            def write() -> None:
                with self.reopen(store, session) as own:
                    promised.extend(own.append_message(user(str(n))) for n in range(20))

            self.at_once([write] * 4)
        with self.reopen(store, session) as again:
            found = [entry.id for entry in again.get_entries()]
        assert set(promised) <= set(found)
        assert len(found) == len(set(found))

    def test_random_lives_are_the_same_as_in_memory(self, store: SessionStore) -> None:
        for seed in range(12):
            twin = MemoryStore(profile=store.profile)
            lives = [_Life(random.Random(seed), kept) for kept in (store, twin)]
            for _ in range(40):
                assert lives[0].step() == lives[1].step()

    # -- helpers ---------------------------------------------------------------------------

    def create(self, store: SessionStore, session_id: str) -> SessionManager:
        """A new session with an id of the caller's."""
        return SessionManager.create(CWD, id=session_id, storage=store)

    def talk(self, store: SessionStore) -> SessionManager:
        """A session with a question and an answer."""
        session = SessionManager.create(CWD, storage=store)
        session.append_message(user("question"))
        session.append_message(assistant("answer"))
        return session

    def reopen(self, store: SessionStore, session: SessionManager) -> SessionManager:
        """Another manager on the same session."""
        return SessionManager.open(session.ref, storage=store)

    def at_once(self, work: list[Callable[[], None]]) -> None:
        """Run these in threads, all of them to their end; the first error is raised."""
        errors: list[BaseException] = []

        def run(each: Callable[[], None]) -> None:
            try:
                each()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(each,)) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]


class _Life:
    """Two managers on one session, and what they see; the same steps for the same dice."""

    def __init__(self, dice: random.Random, store: SessionStore) -> None:
        self._dice = dice
        self._store = store
        first = SessionManager.create(CWD, storage=store)
        first.append_message(user("question"))
        first.append_message(assistant("answer"))
        self._managers = [first, SessionManager.open(first.ref, storage=store)]
        self._count = 0

    def step(self) -> list[object]:
        """Do something with one of them; what both see then, without what is random in it."""
        who = self._dice.randrange(2)
        session = self._managers[who]
        self._count += 1
        text = f"text {self._count}"
        match self._dice.randrange(9):
            case 0 | 1 | 2:
                session.append_message(user(text))
            case 3:
                session.append_many([{"type": "message", "message": user(text)}] * 3)
            case 4:
                session.branch(self._dice.choice(session.get_entries()).id)
            case 5:
                session.set_session_name(text)
            case 6:
                session.append_label_change(self._dice.choice(session.get_entries()).id, text)
            case 7:
                first = self._dice.choice(session.get_branch() or session.get_entries()).id
                session.append_compaction(text, first, 10)
            case 8:
                session.close()
                self._managers[who] = SessionManager.open(session.ref, storage=self._store)
        for manager in self._managers:
            manager.refresh()
        return [self._picture(manager) for manager in self._managers]

    def _picture(self, session: SessionManager) -> object:
        entries = session.get_entries()
        places = {entry.id: at for at, entry in enumerate(entries)}
        context = session.build_session_context()
        return (
            [(entry.type, places.get(entry.parent_id or "")) for entry in entries],
            places.get(session.leaf_id or ""),
            session.session_name,
            [(message.get("role"), message.get("content")) for message in context.messages],
        )


def _raise_key_error() -> list[dict[str, Any]]:
    raise KeyError("nothing to append")
