"""``push`` and ``pull``: sessions go over whole, once, and on from where a killed one stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, make_machine
from tests.postgres.proxy import Proxy
from tests.postgres_server import Server
from tests.samples import assistant, user

from sessiontree import FileStore, SessionManager
from sessiontree.stores import open_store
from sessiontree.stores.base import SessionStore
from sessiontree.stores.postgres.store import PostgresStore
from sessiontree.stores.transfer import find_wanted, transfer

CWD = "/work/transfer"
SESSIONS, MESSAGES = 12, 900  # two statements each
LARGE = "x" * 600_000
SCRIPT = """
import sys
from sessiontree.stores import open_store
from sessiontree.stores.transfer import find_wanted, transfer
source, target = map(open_store, sys.argv[1:])
print("begun", flush=True)
wanted, total = find_wanted(source, (), None)
transfer(source, target, wanted, total=total)
"""


def fill(store: SessionStore, sessions: int = SESSIONS, messages: int = MESSAGES) -> None:
    for number in range(sessions):
        with SessionManager.create(CWD, id=f"s{number}", storage=store) as session:
            entries = [
                {"type": "message", "message": user(f"{number} {at}")} for at in range(messages)
            ]
            session.append_many(entries)
            session.append_message(assistant("done"))
            session.append_message(user(LARGE))  # the text goes to a blob
            session.set_session_name(f"name {number}")


def lines_of(store: SessionStore, ref: str) -> list[bytes]:
    return [entry.line() for entry in store.read(ref).tree.entries]


def assert_same(source: SessionStore, target: SessionStore) -> None:
    listed = {info.id: info for info in source.list()}
    there = {info.id: info for info in target.list()}
    assert there.keys() == listed.keys()
    for session_id, info in listed.items():
        copy = there[session_id]
        assert lines_of(target, copy.path) == lines_of(source, info.path)
        assert (copy.title, copy.message_count) == (info.title, info.message_count)
        headers = [
            {**store.read(each.path).header, "previousSessionFiles": None}
            for store, each in ((source, info), (target, copy))
        ]
        assert headers[0] == headers[1]
        texts = [entry.data for entry in target.read(copy.path).tree.entries]
        assert any(LARGE in str(data) for data in texts)


def open_by(kind: str, tmp_path: Path, url: str) -> tuple[SessionStore, str]:
    address = url if kind == "rows" else f"file:{tmp_path / kind}"
    return open_store(address), address


@pytest.mark.parametrize("ends", [("files", "rows"), ("rows", "files"), ("files", "files2")])
def test_one_that_is_killed_again_and_again_gets_everything_over_once(
    ends: tuple[str, str], tmp_path: Path, url: str
) -> None:
    source, source_url = open_by(ends[0], tmp_path, url)
    target, target_url = open_by(ends[1], tmp_path, url)
    fill(source)
    kills = 0
    for pause_s in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, source_url, target_url],
            stdout=subprocess.PIPE,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pause_s)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills >= 3
    wanted, total = find_wanted(source, (), None)
    done = transfer(source, target, wanted, total=total)
    assert done.failed == []
    assert_same(source, target)
    wanted, total = find_wanted(source, (), None)
    again = transfer(source, target, wanted, total=total)
    assert (again.new, again.grown, again.same, again.entries) == (0, 0, SESSIONS, 0)
    assert total == SESSIONS


def test_the_first_session_that_finds_the_store_out_of_reach_is_the_last(
    url: str, tmp_path: Path, server: Server
) -> None:
    source = FileStore(session_dir=tmp_path / "here")
    fill(source, sessions=3, messages=2)
    proxy = Proxy(server.port)
    target = PostgresStore(url.replace(f":{server.port}/", f":{proxy.port}/"))
    target.database.patience_s = 0.2
    target.list()
    proxy.close()
    done = transfer(source, target, source.list())
    assert len(done.failed) == 1
    assert done.is_stopped
    target.close()


def test_only_what_is_new_goes_over_and_what_is_only_there_stays(
    store: PostgresStore, tmp_path: Path
) -> None:
    files = FileStore(session_dir=tmp_path)
    fill(files, 2, 3)
    assert transfer(files, store, files.list()).new == 2
    with SessionManager.open(files.list()[0].path, storage=files) as mine:
        mine.append_message(user("new here"))
    with SessionManager.open("s0", storage=store) as theirs:
        theirs.append_message(user("only there"))
    with SessionManager.create(CWD, id="other", storage=store) as session:
        session.append_message(user("not of the files"))
        session.append_message(assistant("no"))
    before = {info.id: info.message_count for info in store.list()}
    done = transfer(files, store, files.list())
    assert (done.new, done.grown, done.failed) == (0, 1, [])
    after = {info.id: info.message_count for info in store.list()}
    grown = {key for key in after if after[key] != before[key]}
    assert len(grown) == 1
    assert "other" in after
    assert "only there" in str([each.data for each in store.read("s0").tree.entries])


def test_one_that_was_killed_before_it_could_name_the_file_is_finished(
    store: PostgresStore, tmp_path: Path
) -> None:
    files = FileStore(session_dir=tmp_path)
    fill(store, 1, 2)
    transfer(store, files, store.list())
    path = Path(files.list()[0].path)
    path.rename(path.with_name(f".{path.name}.draft"))
    assert list(files.list()) == []
    done = transfer(store, files, store.list())
    assert (done.grown, done.entries, done.failed) == (1, 0, [])
    assert_same(store, files)


def test_two_sessions_of_one_id_are_not_mixed(store: PostgresStore, tmp_path: Path) -> None:
    files = FileStore(session_dir=tmp_path)
    for each, text in ((files, "mine"), (store, "theirs")):
        with SessionManager.create(CWD, id="same", storage=each) as session:
            session.append_message(user(text))
            session.append_message(assistant(text))
    done = transfer(files, store, files.list())
    assert (done.new, done.grown) == (0, 0)
    assert [name for name, _ in done.failed] == ["same"]
    assert "mine" not in str([each.data for each in store.read("same").tree.entries])


def test_two_that_grew_by_as_much_each_are_not_taken_for_the_same(
    store: PostgresStore, tmp_path: Path
) -> None:
    files = FileStore(session_dir=tmp_path)
    fill(files, 1, 2)
    transfer(files, store, files.list())
    for each in (files, store):
        with SessionManager.open(each.list()[0].path, storage=each) as session:
            session.append_message(user("yes"))
    assert transfer(files, store, files.list()).grown == 1
    assert transfer(store, files, store.list()).grown == 1
    counts = {each.list()[0].message_count for each in (files, store)}
    assert counts == {6}  # two, a large one, an answer, and a "yes" of each


def test_a_whole_database_is_listed_a_page_at_a_time(
    store: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessiontree.stores import transfer as module

    fill(store, 7, 1)
    monkeypatch.setattr(module, "_SESSIONS_AT_ONCE", 2)
    wanted, total = find_wanted(store, (), CWD)
    assert total == 7
    assert not isinstance(wanted, list)
    assert {info.id for info in wanted} == {f"s{number}" for number in range(7)}


def test_the_commands_tell_what_went_over_and_show_how_far_they_are(
    url: str, tmp_path: Path
) -> None:
    machine: Machine = make_machine(tmp_path)
    agent = f"file:{machine.agent_dir}"
    fill(open_store(agent), 30, 40)
    shown = machine.on_terminal("push", url, "--all").out
    assert "30 new sessions, 0 grown, 0 the same" in shown
    again = machine.run("push", url, "--all")
    assert again.out.startswith("0 new sessions, 0 grown, 30 the same, 0 entries")
    back = machine.run("pull", url, "s3", "--json")
    assert back.json["same"] == 1
    lost = machine.run("push", url, "nothing-like-it")
    assert (lost.code, lost.out) == (1, "")
    assert "nothing-like-it" in lost.err
