"""Session ids in a fleet: many machines make some in one millisecond, and none is made twice."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.samples import assistant, user

from sessiontree import SessionManager
from sessiontree.stores import open_store
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.transfer import transfer

CWD = "/work/ids"
MACHINES = 4
EACH = 700

MACHINE = """
import sys
from sessiontree import SessionManager
from sessiontree.stores import identity
from sessiontree.stores.postgres.store import PostgresStore
store = PostgresStore(sys.argv[1], sys.argv[3], clock=lambda: 1_767_225_600_000)
for _ in range(int(sys.argv[2])):
    identity._last_id_ms = 0  # as on another machine, which knows nothing of this one's
    session = SessionManager.create("/work/ids", storage=store)
    session.append_message({"role": "user", "content": "question", "timestamp": 1})
    print(session.session_id)
"""


@pytest.mark.parametrize("profile", ["omp", "pi"])
def test_thousands_of_sessions_in_one_millisecond_have_ids_of_their_own(
    url: str, profile: str
) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MACHINE, url, str(EACH), profile],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(MACHINES)
    ]
    told = [process.communicate(timeout=120) for process in processes]
    assert [errors for _, errors in told] == [""] * MACHINES
    ids = [line for out, _ in told for line in out.split()]
    assert len(ids) == len(set(ids)) == MACHINES * EACH
    store = PostgresStore(url)
    ((count,),) = store.database.run(
        "SELECT count(*) FROM st_session WHERE tenant = (SELECT st_tenant())"
    )
    assert count == MACHINES * EACH
    store.close()


def test_copies_have_such_ids_too(store: PostgresStore) -> None:
    with SessionManager.create(CWD, storage=store) as session:
        session.append_message(user("question"))
        leaf = session.append_message(assistant("answer"))
        forked = store.fork(session.ref, "/work/other")
        made = [session.session_id, str(forked.header["id"])]
        session.create_branched_session(leaf)
        made.append(session.session_id)
    assert len(set(made)) == 3
    assert {uuid.UUID(each).version for each in made} == {7}
    assert made == sorted(made)


def test_an_id_of_the_callers_own_stays_as_it_is(store: PostgresStore) -> None:
    with SessionManager.create(CWD, id="mine", storage=store) as session:
        session.append_message(user("question"))
        assert session.session_id == "mine"


def test_such_a_session_is_pulled_to_files_and_continued_there(
    store: PostgresStore, tmp_path: Path
) -> None:
    with SessionManager.create(str(tmp_path), storage=store) as session:
        session.append_message(user("question"))
        session.append_message(assistant("answer"))
        session_id = session.session_id
    files = open_store(f"file:{tmp_path}/files")
    assert not transfer(store, files, list(store.list())).failed
    path = files.locate(session_id)
    assert path is not None
    assert os.path.basename(path).endswith(f"_{session_id}.jsonl")
    with SessionManager.open(path, storage=files) as again:
        again.append_message(user("and on"))
        assert again.session_id == session_id
    assert [info.id for info in files.find(session_id[:18])] == [session_id]
