"""Deleting for good and restoring: only sessions, and only the one that was meant."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests import processes
from tests.samples import assistant, user

from sessiontree import FileStore, NotASessionError, SessionManager
from sessiontree.discovery.breadcrumbs import read_breadcrumb, write_breadcrumb
from sessiontree.errors import AmbiguousSessionError


@pytest.mark.parametrize("permanently", [False, True])
def test_another_programs_file_and_the_folder_beside_it_stay(
    tmp_path: Path, permanently: bool
) -> None:
    file, thesis = tmp_path / "data.jsonl", tmp_path / "data" / "thesis.txt"
    file.write_text('{"a":1}\n')
    thesis.parent.mkdir()
    thesis.write_text("all of it")
    with pytest.raises(NotASessionError):
        FileStore().delete(str(file), permanently=permanently)
    assert file.read_text() == '{"a":1}\n'
    assert thesis.read_text() == "all of it"


def deleted(store: FileStore, session_id: str, scope: str, text: str) -> str:
    with SessionManager.create("/p", id=session_id, scope=scope, storage=store) as session:
        session.append_message(user(text))
        session.append_message(assistant())
        ref = session.ref
        session.delete()
    return ref


def test_an_id_that_two_scopes_removed_is_not_restored_by_chance() -> None:
    store = FileStore()
    anna = deleted(store, "c1", "acme/anna", "Anna asks")
    deleted(store, "c1", "acme/bob", "Bob asks")
    with pytest.raises(AmbiguousSessionError):
        store.restore("c1")
    assert store.restore(anna) == anna
    with SessionManager.open(anna, storage=store) as session:
        assert session.scope == "acme/anna"


def test_the_whole_id_counts_before_the_beginning_of_another() -> None:
    store = FileStore()
    short = deleted(store, "c", "acme", "short")
    deleted(store, "c2", "acme", "long")
    assert store.restore("c") == short


LATE = """
import sys
from sessiontree import PersistenceError, SessionManager
session = SessionManager.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
try:
    session.append_message({"role": "user", "content": "late", "timestamp": 1})
except PersistenceError as error:
    print(error.reason, len(session.get_entries()))
"""


def begun(tmp_path: Path) -> Path:
    with SessionManager.create(tmp_path, tmp_path / "sessions") as session:
        session.append_message(user("1"))
        session.append_message(assistant("2"))
        return Path(session.ref)


def test_another_process_does_not_bring_a_deleted_session_back(tmp_path: Path) -> None:
    file = begun(tmp_path)
    window = processes.start(LATE, file)
    processes.wait_for(window, "open")
    FileStore().delete(str(file), permanently=True)
    told, _ = window.communicate("")
    assert told == "was deleted for good by another window 2\n"
    assert not file.exists()


def test_a_backup_that_shares_the_file_stays_as_it_is(tmp_path: Path) -> None:
    file, backup = begun(tmp_path), tmp_path / "backup.jsonl"
    os.link(file, backup)
    content = backup.read_bytes()
    FileStore().delete(str(file), permanently=True)
    assert backup.read_bytes() == content


def test_what_a_link_leads_to_stays_as_it_is(tmp_path: Path) -> None:
    file = begun(tmp_path)
    kept = file.rename(tmp_path / "kept.jsonl")
    file.symlink_to(kept)
    content = kept.read_bytes()
    FileStore().delete(str(file), permanently=True)
    assert kept.read_bytes() == content


def test_no_terminal_remembers_a_session_that_is_deleted_for_good() -> None:
    store = FileStore()
    profile = store.profile
    with SessionManager.create("/p") as session, SessionManager.create("/p") as other:
        for each in (session, other):
            each.append_message(user("hello"))
            each.append_message(assistant())
        write_breadcrumb(profile, "/p", session.ref, terminal="tmux-%1")
        write_breadcrumb(profile, "/p", session.ref, terminal="tmux-%2")
        write_breadcrumb(profile, "/p", other.ref, terminal="tmux-%3")
    store.delete(session.ref, permanently=True)
    assert read_breadcrumb(profile, "/p", terminal="tmux-%3") == other.ref
    left = [path.read_text() for path in Path(profile.terminal_sessions_dir).iterdir()]
    assert not any(session.session_id in text for text in left)
    assert not list(Path(profile.terminal_sessions_dir).glob("*tmux-%[12]*"))


def talk(store: FileStore, scope: str, session_id: str | None = None) -> SessionManager:
    session = SessionManager.create("/p", id=session_id, scope=scope, storage=store)
    session.append_message(user("1"))
    session.append_message(assistant("2"))
    return session


def scope_folders(store: FileStore) -> list[str]:
    return [folder for folder in store.storage.list_dirs(store.root) if "@" in folder]


@pytest.mark.parametrize("session_id", [None, "chosen"])
def test_the_last_session_of_a_scope_takes_its_folder_along(session_id: str | None) -> None:
    store = FileStore()
    with talk(store, "acme/anna", session_id) as first, talk(store, "acme/anna", "b") as second:
        pass
    store.delete(first.ref, permanently=True)
    assert len(scope_folders(store)) == 1
    assert [info.id for info in store.list(scope="acme/anna")] == ["b"]
    store.delete(second.ref)
    assert store.restore("b") == second.ref
    store.delete(second.ref)
    assert store.purge(datetime.now(UTC) + timedelta(days=1)) == 1
    assert scope_folders(store) == []
    with talk(store, "acme/anna", "b") as again:
        assert again.session_id == "b"


def test_scopes_come_and_go_while_others_use_them(tmp_path: Path) -> None:
    """Whoever creates, forks, moves or restores a session there never finds its folder missing."""
    failures: list[BaseException] = []

    def live(number: int) -> None:
        store = FileStore()
        try:
            for turn in range(25):
                session = talk(store, "busy", f"{number}-{turn}" if turn % 2 else None)
                with session:
                    forked = session.fork()
                    session.move_to(tmp_path / str(turn))
                assert forked is not None
                store.delete(forked[0], permanently=True)
                store.delete(session.ref)
                assert store.restore(session.ref) == session.ref
                store.delete(session.ref, permanently=True)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []


def test_of_many_who_claim_an_id_while_its_scope_goes_one_has_it() -> None:
    store = FileStore()
    winners: list[str] = []
    for _ in range(30):
        with talk(store, "busy", "last") as last:
            pass
        begin = threading.Barrier(4)
        made: list[str] = []

        def claim(begin: threading.Barrier = begin, made: list[str] = made) -> None:
            begin.wait()
            with SessionManager.open_or_create("new", "/p", scope="busy") as session:
                session.append_message(user("1"))
                session.append_message(assistant("2"))
                made.append(session.ref)

        threads = [threading.Thread(target=claim) for _ in range(3)]
        for thread in threads:
            thread.start()
        begin.wait()
        store.delete(last.ref, permanently=True)
        for thread in threads:
            thread.join(60)
        assert len(made) == 3
        assert len(set(made)) == 1
        winners += set(made)
        store.delete(made[0], permanently=True)
    assert scope_folders(store) == []
    assert len(winners) == 30
