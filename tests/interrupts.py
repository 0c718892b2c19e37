"""Ctrl-C at any step of Python's own machine, and what must hold whenever it was pressed.

Python looks for signals at some of its byte codes, and at which ones depends on its version. Here
every one of them can be hit: of the package and of what it calls.
"""

from __future__ import annotations

import contextlib
import dis
import fcntl
import functools
import gc
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tests.samples import assistant, user

from sessiontree import PersistenceError, SessionManager
from sessiontree.profiles import Profile
from sessiontree.stores.base import Durability

# Python looks for no signals at these. From 3.13 on, the NOP of a ``try`` is in no handler's range.
_BOOKKEEPING = {dis.opmap[name] for name in ("PUSH_EXC_INFO", "POP_EXCEPT", "NOP")}
# What works under a lock of threading's: such a lock's own exit can not be interrupted, but the
# steps before it can from here, and whoever wants the lock next would wait for ever.
_LOCKED = {"make_session_id"}
OLD, NEW = "/project/old", "/project/new"
Act = Callable[[SessionManager], object]


class Keyboard:
    """Counts the steps of a piece of work, and presses Ctrl-C at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.steps = 0
        self.where = ""
        self._at = at

    def watch(self, work: Callable[[], object]) -> None:
        """Do the work; KeyboardInterrupt if it has as many steps."""
        before = sys.gettrace()
        # from 3.12 on, steps are told only of what begins after somebody has asked for them
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._enter)
        try:
            work()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename == __file__ or frame.f_code.co_name in _LOCKED:
            return None
        frame.f_trace = self._step
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode" and not _is_bookkeeping(frame):
            self.steps += 1
            if self.steps == self._at:
                self.where = _describe(frame)
                raise KeyboardInterrupt
        return self._step


def _is_bookkeeping(frame: FrameType) -> bool:
    """Whether Python minds its own account of exceptions, where it looks for no signals.

    That account breaks if an exception is raised there. Some of it belongs to no line.
    """
    return frame.f_lineno is None or frame.f_code.co_code[frame.f_lasti] in _BOOKKEEPING


def _describe(frame: FrameType | None) -> str:
    found = []
    while frame is not None and frame.f_code.co_filename != __file__:
        code = frame.f_code
        place = f"{Path(code.co_filename).name}:{frame.f_lineno}"
        found.append(f"{place} {code.co_name}@{frame.f_lasti}")
        frame = frame.f_back
    return " < ".join(found)


# -- what is interrupted -----------------------------------------------------------------------


def talking(profile: Profile, durability: Durability) -> SessionManager:
    """A session of some entries, one of them aside, with a file among its artifacts."""
    session = SessionManager.create(OLD, profile=profile, durability=durability)
    first = session.append_message(user("first"))
    session.append_message(assistant("second"))
    session.append_message(user("aside"))
    session.branch(first)
    session.append_message(user("third"))
    artifacts = Path(str(session.artifacts_dir))
    artifacts.mkdir()
    (artifacts / "todo.json").write_text("{}")
    return session


def fresh(profile: Profile, durability: Durability) -> SessionManager:
    """A session of which nothing is on disk yet."""
    return SessionManager.create(OLD, profile=profile, durability=durability)


def drafted(profile: Profile, durability: Durability) -> SessionManager:
    """A session without an answer, which is only a draft."""
    session = SessionManager.create(OLD, profile=profile, durability=durability)
    session.append_message(user("first"))
    return session


def lagging(profile: Profile, durability: Durability) -> SessionManager:
    """A session whose file another process has rewritten, with one entry more."""
    session = talking(profile, durability)
    session.flush()
    other = SessionManager.open(str(session.session_file), profile=profile)
    other.append_message(user("foreign"))
    other.rewrite_entries()
    other.close()
    return session


def stopped(profile: Profile, durability: Durability) -> SessionManager:
    """A session whose file another program has overwritten, and that has said so."""
    session = talking(profile, durability)
    session.build_session_context()
    Path(str(session.session_file)).write_bytes(b"no session\n" * 3)
    with contextlib.suppress(PersistenceError):
        session.append_message(user("refused"))
    return session


def edited(profile: Profile, durability: Durability) -> SessionManager:
    """A session with an entry that was changed in memory."""
    session = talking(profile, durability)
    session.get_entries()[0].data["note"] = "changed"
    return session


def perhaps(session: SessionManager) -> None:
    session.append_message(user("perhaps"))


def answer(session: SessionManager) -> None:
    session.append_message(assistant("perhaps"))


def branch_off(session: SessionManager) -> None:
    session.create_branched_session(str(session.leaf_id))


@dataclass(frozen=True, slots=True)
class Operation:
    """``prepare`` makes a session in an agent's folder; ``act`` is what is interrupted."""

    name: str
    prepare: Callable[[Profile, Durability], SessionManager]
    act: Act


APPEND = Operation("append", talking, perhaps)
OPERATIONS = (
    APPEND,
    Operation("append to nothing", fresh, perhaps),
    Operation("first answer", drafted, answer),
    Operation("append to a changed file", lagging, perhaps),
    Operation("flush", talking, SessionManager.flush),
    Operation("rename", talking, lambda session: session.set_session_name("Named")),
    Operation("move", talking, lambda session: session.move_to(NEW)),
    Operation("move a draft", drafted, lambda session: session.move_to(NEW)),
    Operation("rewrite", edited, SessionManager.rewrite_entries),
    Operation("fork", talking, SessionManager.fork),
    Operation("branch off", talking, branch_off),
    Operation("recover", stopped, SessionManager.recover),
    Operation("close", talking, SessionManager.close),
)


# -- what must hold ----------------------------------------------------------------------------


def open_files() -> list[str]:
    """What this process has open, but for the look itself."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(found)


def session_files(profile: Profile) -> list[Path]:
    """Sessions and drafts, wherever they lie."""
    folder = Path(profile.sessions_dir)
    return sorted([*folder.rglob("*.jsonl"), *folder.rglob("*.draft")])


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def text_of(entry: dict[str, Any]) -> str:
    return json.dumps(entry.get("message", {}).get("content"))


def require_free(file: Path) -> None:
    """Another open file description gets the lock at once."""
    with file.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def try_at(operation: Operation, at: int | None, home: Path, durability: Durability) -> Keyboard:
    """Press Ctrl-C at one step of an operation; AssertionError if something did not stand it.

    None: it is only counted how many steps there are.
    """
    profile = Profile("sessiontree", str(home), "omp")
    before = open_files()
    session = operation.prepare(profile, durability)
    acknowledged = [entry.id for entry in session.get_entries()]
    original = (session.session_id, session.session_file)
    keyboard = Keyboard(at)
    try:
        keyboard.watch(functools.partial(operation.act, session))
    except KeyboardInterrupt:
        is_interrupted = True
    else:
        is_interrupted = False
    try:
        assert gc.isenabled(), "the collector stays off"
        for file in session_files(profile):
            require_free(file)
        if is_interrupted and operation.name == "recover":
            session.recover()
        if is_interrupted or operation.name != "close":
            _go_on(session, profile, acknowledged, original)
        session.close()
        del session
        assert open_files() == before, "left open"
        assert is_interrupted or not keyboard.where, "nobody heard of it"
    finally:
        gc.enable()
    return keyboard


def _go_on(
    session: SessionManager,
    profile: Profile,
    acknowledged: list[str],
    original: tuple[str, str | None],
) -> None:
    """The session takes an entry, a rename and a flush, and all copies hold what they must."""
    told = len(session.warnings)
    added = session.append_message(user("surely"))
    session.append_message(assistant("answered"))
    session.set_session_name("Given later")
    session.flush()
    file = Path(str(session.session_file))
    _require_kept(file, session, added)
    found = {path: read(path) for path in session_files(profile)}
    own = [path for path, lines in found.items() if lines[0]["id"] == session.session_id]
    assert own == [file], "copies of one session"
    assert found[file][0]["cwd"] == session.cwd
    assert str(file.parent) == session.session_dir
    if session.session_id == original[0]:
        assert set(acknowledged) <= {entry["id"] for entry in found[file]}, "lost"
        assert list(found) == [file], "a copy that nobody asked for any more"
    else:
        source = Path(str(original[1]))
        kept = [entry["id"] for entry in found[source]]
        assert set(acknowledged) <= set(kept)
        assert len(kept) == len(set(kept))
        assert len(found) == 2
    _require_artifacts(session, profile)
    assert not list(Path(profile.agent_dir).rglob("*.tmp")), "temporary files"
    news = [warning.reason for warning in session.warnings[told:]]
    assert not [reason for reason in news if "deleted by another" in reason], news


def _require_kept(file: Path, session: SessionManager, added: str) -> None:
    """What is in the file is what is in memory, once."""
    on_disk = [entry["id"] for entry in read(file)[1:]]
    assert len(on_disk) == len(set(on_disk)), "doubled"
    assert sorted(on_disk) == sorted(entry.id for entry in session.get_entries())
    said = [text_of(entry) for entry in read(file)[1:] if entry["type"] == "message"]
    assert len(said) == len(set(said)), "said twice"
    assert added in on_disk
    again = SessionManager.open(file, profile=session.profile)
    assert [entry.id for entry in again.get_entries()] == on_disk
    assert not again.warnings, again.warnings
    again.close()


def _require_artifacts(session: SessionManager, profile: Profile) -> None:
    """If there were artifacts, they lie beside the session."""
    found = list(Path(profile.sessions_dir).rglob("todo.json"))
    if found:
        assert Path(str(session.artifacts_dir)) / "todo.json" in found or len(found) == 1
