"""Waiting for others to write to a session file: told by the system, or by looking."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pytest
from tests import processes
from tests.samples import assistant, user

from sessiontree import FileStore, SessionManager
from sessiontree.stores import watching
from sessiontree.stores.base import Watch


@pytest.fixture(params=["told by the system", "by looking"])
def is_told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Only the way in question would answer within the time that a test has."""
    is_told = bool(request.param == "told by the system")
    if is_told:
        monkeypatch.setattr(watching, "POLL_S", 3600.0)
        monkeypatch.setattr(watching, "UNASKED_S", 3600.0)
    else:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    return is_told


@pytest.fixture
def talk(tmp_path: Path) -> SessionManager:
    session = SessionManager.create("/work/app", storage=FileStore(session_dir=tmp_path))
    session.append_message(user("question"))
    session.append_message(assistant("answer"))
    return session


def watch(session: SessionManager) -> Watch:
    return session.store.watch(session.ref)


def later(work: threading.Timer) -> threading.Timer:
    work.start()
    return work


@pytest.mark.usefixtures("is_told")
def test_a_change_by_others_ends_the_wait(talk: SessionManager) -> None:
    waiting = watch(talk)
    for text in "abc":
        timer = later(threading.Timer(0.1, talk.append_message, (user(text),)))
        assert waiting.wait(30)
        timer.join()
    assert not waiting.wait(0.05)
    waiting.close()


@pytest.mark.usefixtures("is_told")
def test_what_happened_before_the_wait_counts(talk: SessionManager) -> None:
    waiting = watch(talk)
    talk.append_message(user("meanwhile"))
    assert waiting.wait(30)


WRITER = """
import sys, time
for number, _ in enumerate(sys.stdin):
    time.sleep(number % 12 / 2000)
    with open(sys.argv[1], "ab") as file:
        file.write(b"\\n")
"""


def test_what_happens_between_two_waits_is_told(
    talk: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the moment in which the waiter turns to the system."""
    monkeypatch.setattr(watching, "UNASKED_S", 20.0)
    waiting = watch(talk)
    with processes.start(WRITER, talk.ref) as writer:
        assert writer.stdin is not None
        for _ in range(100):
            writer.stdin.write("now\n")
            writer.stdin.flush()
            began = time.monotonic()
            assert waiting.wait(30)
            assert time.monotonic() - began < 10


@pytest.mark.parametrize("is_folder_gone", [True, False])
def test_a_system_that_cannot_tell_is_not_asked(
    talk: SessionManager, monkeypatch: pytest.MonkeyPatch, *, is_folder_gone: bool
) -> None:
    def refuse(*_: object) -> None:
        if is_folder_gone:
            raise FileNotFoundError
        raise OSError(errno.EMFILE, "OS file watch limit reached")

    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", refuse)
    waiting = watch(talk)
    timer = later(threading.Timer(0.1, talk.append_message, (user("a"),)))
    assert waiting.wait(30)
    timer.join()


@pytest.mark.usefixtures("is_told")
def test_closing_ends_the_wait_of_another_thread(talk: SessionManager) -> None:
    waiting = watch(talk)
    timer = later(threading.Timer(0.1, waiting.close))
    assert not waiting.wait()
    timer.join()
    assert not waiting.wait()


@pytest.mark.usefixtures("is_told")
def test_other_files_of_the_folder_do_not_end_the_wait(talk: SessionManager) -> None:
    waiting = watch(talk)
    other = Path(talk.ref).with_name("other.jsonl")
    timer = later(threading.Timer(0.1, other.write_text, ("{}",)))
    assert not waiting.wait(0.4)
    timer.join()


def test_a_folder_that_does_not_exist_yet_is_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "later" / "x.jsonl"
    waiting = FileStore().watch(str(path))

    def make() -> None:
        path.parent.mkdir()
        path.write_text("{}")

    timer = later(threading.Timer(0.1, make))
    assert waiting.wait(30)
    timer.join()
