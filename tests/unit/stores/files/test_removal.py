"""Deleting for good and restoring: only sessions, and only the one that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import assistant, user

from sessiontree import FileStore, NotASessionError, SessionManager
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
