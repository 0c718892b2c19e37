"""The system says no, at any call of anything: a clear error, nothing lost, and work goes on."""

from __future__ import annotations

import gc
import json
import logging
import os
import random
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.samples import user
from tests.torture.conftest import Budget
from tests.torture.faulty_os import FAULTS, SHORT, Fault, FaultySystem
from tests.torture.operations import ARRIVALS, FOREIGN, OPERATIONS, Arrival, Operation

from sessiontree import FileSessionStorage, PersistenceError, SessionManager
from sessiontree.model.entries import LEAF_MARKER, Entry
from sessiontree.stores.files.opening import make_blob_store, profile_for
from sessiontree.stores.files.reader import load_document

Figures = Callable[[str, float], None]
Messages = dict[str, Any]


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> FaultySystem:
    made = FaultySystem()
    made.install(monkeypatch)
    # pytest keeps what is logged, and with it the errors, and with them whole sessions
    monkeypatch.setattr(logging.getLogger("sessiontree"), "disabled", True)
    return made


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Path]]:
    """New agent folders, one after the other; the one before is removed."""
    root = Path(os.path.realpath(tmp_path)) / "room"

    def make() -> Path:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(root / "agent"))
        return root

    yield make
    shutil.rmtree(root, ignore_errors=True)


def state(session: SessionManager) -> Any:
    """All that a failed operation must leave as it was.

    What others wrote may have been read meanwhile, and where the leaf is may have been noted.
    """
    return (
        session.session_file,
        session.session_id,
        session.cwd,
        dict(session.header),
        session.session_name,
        [entry.id for entry in session.get_entries() if not is_bystander(entry)],
        [entry.id for entry in session.get_branch() if not is_bystander(entry)],
        session.build_session_context(),
    )


def is_bystander(entry: Entry) -> bool:
    if entry.type == "custom":
        return bool(entry.data.get("customType") == LEAF_MARKER)
    return entry.type == "message" and entry.data["message"] == FOREIGN


def messages_on_disk(folder: Path, session_id: str) -> Messages:
    """Every message of a session that its files hold, drafts included. Only looks."""
    found: Messages = {}
    storage = FileSessionStorage()
    for where, _, names in os.walk(folder):
        for name in names:
            if session_id not in name or not name.endswith((".jsonl", ".draft")):
                continue
            path = os.path.join(where, name)
            document = load_document(
                storage, path, make_blob_store(profile_for(path, None), path, storage)
            )
            if document is None:
                continue
            for entry in document.tree.entries:
                if entry.type == "message":
                    found[entry.id] = entry.data["message"]
            document.payloads.reader.close()
    return found


def messages_of(session: SessionManager) -> Messages:
    return {
        entry.id: entry.data["message"]
        for entry in session.get_entries()
        if entry.type == "message"
    }


def files_below(folder: Path) -> set[str]:
    return {
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, names in os.walk(folder)
        for name in names
        if "terminal-sessions" not in where and "blobs" not in where
    }


def faults_of(calls: list[str]) -> Iterator[Fault]:
    """A fault at each call, of each kind that the call knows, once and lasting."""
    for at, call in enumerate(calls):
        for code in FAULTS[call]:
            for lasts in (False, True):
                yield Fault(at, call, code, lasts)


def in_order(
    faults: list[Fault], calls: int, rng: random.Random
) -> tuple[list[Fault], list[Fault]]:
    """Those at the first, middle and last call, which are always tried; and the rest, mixed."""
    places = {0, calls // 2, calls - 1}
    always = [fault for fault in faults if fault.at in places and not fault.lasts]
    rest = [fault for fault in faults if fault not in always]
    rng.shuffle(rest)
    return always, rest


def attempt(work: Callable[[], object], folder: Path, fault: Fault) -> PersistenceError | None:
    """Do the work; the error it ended in, which must be ours and name a path of ours."""
    try:
        work()
    except PersistenceError as error:
        met = error
    else:
        return None
    assert met.path.startswith(str(folder)), f"names no path of ours: {met}"
    assert "\n" not in str(met)
    assert fault.code == SHORT or os.strerror(fault.code) in str(met), f"another reason: {met}"
    return met


def try_operation(operation: Operation, fault: Fault, system: FaultySystem, folder: Path) -> bool:
    """Whether the fault was told as an error; either way nothing is lost and work goes on."""
    session = operation.prepare(folder)
    was_on_disk = messages_on_disk(folder, session.session_id)
    names = files_below(folder)
    before = state(session)
    with system.on(fault):
        error = attempt(lambda: operation.act(session), folder, fault)
    if error is not None:
        assert state(session) == before
        found = messages_on_disk(folder, session.session_id)
        assert not was_on_disk.keys() - found.keys(), "lost on disk"
        if not operation.changes_messages:
            assert {key: found[key] for key in was_on_disk} == was_on_disk
        if not fault.lasts:
            made = files_below(folder) - names
            expected = (".draft", ".rejected", "other.jsonl", Path(str(session.session_file)).name)
            strays = {name for name in made if not name.endswith(expected)}
            assert not strays, f"left behind: {strays}"
        session.recover()
        assert_agreement(session, folder)
        operation.act(session)
    if operation.name != "a close":
        session.append_message(user("afterwards"))
        session.flush()
        session.close()
    assert_agreement(session, folder)
    assert not [name for name in files_below(folder) if name.endswith(".tmp")]
    return error is not None


def assert_agreement(session: SessionManager, folder: Path) -> None:
    """What is in memory is what somebody would find who opened the session now."""
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    file = Path(str(session.session_file))
    if not session.get_entries():
        return
    shutil.copytree(folder, copy)
    again = SessionManager.open(copy / file.relative_to(folder), profile=session.profile)
    assert (again.session_id, again.cwd) == (session.session_id, session.cwd)
    assert again.session_name == session.session_name
    assert messages_of(again) == messages_of(session)
    if again.leaf_id == session.leaf_id:
        assert context_of(again) == context_of(session)
    again.close()


def context_of(session: SessionManager) -> list[Any]:
    return session.build_session_context().messages


def count_calls(system: FaultySystem, operation: Operation, folder: Path) -> list[str]:
    session = operation.prepare(folder)
    with system.on():
        operation.act(session)
    return list(system.calls)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_any_call_of_an_operation_may_fail(
    operation: Operation,
    system: FaultySystem,
    rooms: Callable[[], Path],
    rng: random.Random,
    budget: Budget,
    figures: Figures,
) -> None:
    calls = count_calls(system, operation, rooms())
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    attack(
        calls,
        lambda fault: try_operation(operation, fault, system, rooms()),
        rng,
        budget,
        figures,
    )
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def attack(
    calls: list[str],
    attempt_with: Callable[[Fault], bool],
    rng: random.Random,
    budget: Budget,
    figures: Figures,
) -> None:
    """Try each fault as long as there is time; report all that went wrong, not only the first."""
    always, rest = in_order(list(faults_of(calls)), len(calls), rng)
    failures = []
    for number, fault in enumerate([*always, *rest]):
        if number >= len(always) and not budget.is_left():
            break
        try:
            is_refused = attempt_with(fault)
        except Exception as trouble:
            reason = (str(trouble).splitlines() or [""])[0]
            where = traceback.extract_tb(trouble.__traceback__)
            place = f"{Path(where[-1].filename).name}:{where[-1].lineno}"
            failures.append(f"{fault}: {type(trouble).__name__}: {reason} [{place}]")
            continue
        figures("faults", 1)
        figures("refused" if is_refused else "survived", 1)
    assert not failures, "\n".join([f"{len(failures)} of {number}; calls {calls}", *failures])


def try_arrival(arrival: Arrival, fault: Fault, system: FaultySystem, folder: Path) -> bool:
    path = arrival.prepare(folder)
    content = path.read_bytes() if path.exists() else None
    arrived: list[SessionManager] = []
    with system.on(fault):
        error = attempt(lambda: arrived.append(arrival.act(path)), folder, fault)
    if error is not None:
        kept = [path, *path.parent.glob(f"{path.name}.corrupt-*")]
        if content is not None and content not in [each.read_bytes() for each in kept]:
            # upgraded before the error: as good as if it had been opened
            assert upgraded(content) == upgraded(path.read_bytes())
        arrived.append(arrival.act(path))
    session = arrived[0]
    if [warning for warning in session.warnings if "blob store" in str(warning)]:
        # a picture that could not be read is told, and left where it is
        session = SessionManager.open(str(session.session_file))
    session.append_message(user("afterwards"))
    session.close()
    again = SessionManager.open(str(session.session_file))
    assert context_of(again) == context_of(session)
    assert not [name for name in files_below(folder) if name.endswith(".tmp")]
    again.close()
    return error is not None


def upgraded(content: bytes) -> list[Any]:
    return [json.loads(line).get("message") for line in content.splitlines()[1:]]


@pytest.mark.parametrize("arrival", ARRIVALS, ids=lambda arrival: arrival.name)
def test_any_call_of_opening_may_fail(
    arrival: Arrival,
    system: FaultySystem,
    rooms: Callable[[], Path],
    rng: random.Random,
    budget: Budget,
    figures: Figures,
) -> None:
    path = arrival.prepare(rooms())
    with system.on():
        arrival.act(path)
    attack(
        list(system.calls),
        lambda fault: try_arrival(arrival, fault, system, rooms()),
        rng,
        budget,
        figures,
    )
