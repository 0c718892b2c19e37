"""The prompt history when the system or SQLite says no: nothing is lost, and work goes on."""

from __future__ import annotations

import gc
import logging
import os
import random
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.torture import faulty_sqlite
from tests.torture.conftest import Budget
from tests.torture.faulty_os import Fault, FaultySystem
from tests.torture.history_operations import (
    HISTORY_OPERATIONS,
    HistoryOperation,
    State,
    half_damaged,
)
from tests.torture.scarcity import at_most

from sessiontree import HistoryStorage, PersistenceError, history
from sessiontree.history import file as history_file

Figures = Callable[[str, float], None]
Rooms = Callable[[], Path]

DAMAGE = {"file is not a database", "database disk image is malformed"}

by_name = pytest.mark.parametrize("operation", HISTORY_OPERATIONS, ids=lambda each: each.name)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is tried soon, and what is busy is not waited for."""
    monkeypatch.setattr(history, "_RETRY_S", 0.005)
    monkeypatch.setattr(history, "_LAST_PAUSE_S", 0.005)
    monkeypatch.setattr(history_file, "BUSY_TIMEOUT_S", 0.2)
    monkeypatch.setattr(logging.getLogger(history.__name__), "disabled", True)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> FaultySystem:
    made = FaultySystem()
    faulty_sqlite.install(made, monkeypatch)
    return made


@pytest.fixture
def rooms(yard: Path) -> Rooms:
    """Places for a history, one after the other; the one before is removed."""

    def make() -> Path:
        shutil.rmtree(yard / "home", ignore_errors=True)
        return yard / "home" / "agent" / "history.db"

    return make


# -- what must hold ----------------------------------------------------------------------------


def attempt(act: Callable[[], list[str]], path: Path) -> list[str] | PersistenceError:
    """What was added; or the error, which must be ours, name the path and be one line."""
    try:
        return act()
    except PersistenceError as error:
        met = error
    assert met.path == str(path)
    assert "\n" not in str(met)
    return met


def assert_nothing_is_lost(path: Path, state: State, added: list[str]) -> None:
    """Every prompt is there once, the damaged file too, and there is nothing else."""
    again = HistoryStorage(path)
    again.add("afterwards")
    assert again.flush(20), f"work does not go on: {again.error}"
    expected = Counter([*state.prompts, *added, "afterwards"])
    assert Counter(entry.prompt for entry in again.recent(1_000)) == expected
    assert [entry.prompt for entry in again.search("after", 5)] == ["afterwards"]
    again.close()
    names = {name for name in os.listdir(path.parent) if ".corrupt-" not in name}
    assert names == {path.name}, f"left behind: {names}"
    kept = [each.read_bytes() for each in path.parent.iterdir()]
    assert all(any(piece in each for each in kept) for piece in state.damaged), "thrown away"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert "prompt-history" not in {thread.name for thread in threading.enumerate()}


def try_operation(
    operation: HistoryOperation, fault: Fault, system: FaultySystem, path: Path
) -> bool:
    """Whether the fault was told; either way nothing is lost and the same works right after."""
    state = operation.prepare(path)
    with system.on(fault):
        outcome = attempt(lambda: operation.act(state), path)
    if isinstance(outcome, PersistenceError):
        reasons = {faulty_sqlite.reason_of(fault)} | (DAMAGE if state.damaged else set())
        assert any(reason in str(outcome) for reason in reasons), f"another reason: {outcome}"
        added = operation.act(state)
    else:
        added = outcome
    state.history.close()
    assert_nothing_is_lost(path, state, added)
    return isinstance(outcome, PersistenceError)


# -- one call fails ----------------------------------------------------------------------------


@pytest.mark.share(0.5)
@by_name
def test_any_call_of_the_prompt_history_may_fail(
    operation: HistoryOperation,
    system: FaultySystem,
    rooms: Rooms,
    rng: random.Random,
    budget: Budget,
    figures: Figures,
) -> None:
    calls = count_calls(operation, system, rooms())
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    # every fifth call, whatever the time; then all of them, for every reason they can have
    by_call = [faulty_sqlite.faults_at(at, call) for at, call in enumerate(calls)]
    always = [rng.choice(faults) for faults in by_call[rng.randrange(min(5, len(calls))) :: 5]]
    rest = [rng.choice(faults) for faults in by_call]
    others = [fault for faults in by_call for fault in faults]
    rng.shuffle(others)
    rest = [fault for fault in dict.fromkeys([*rest, *others]) if fault not in always]
    failures = []
    for number, fault in enumerate([*always, *rest]):
        if number >= len(always) and not budget.is_left():
            break
        try:
            is_told = try_operation(operation, fault, system, rooms())
        except Exception as trouble:
            failures.append(f"{fault}: {describe(trouble)}")
            continue
        figures("faults", 1)
        figures("told" if is_told else "survived", 1)
    assert not failures, "\n".join([f"{len(failures)} of {number}; calls {calls}", *failures])
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def count_calls(operation: HistoryOperation, system: FaultySystem, path: Path) -> list[str]:
    state = operation.prepare(path)
    with system.on():
        operation.act(state)
    calls = list(system.calls)
    state.history.close()
    return calls


def describe(trouble: Exception) -> str:
    reason = (str(trouble).splitlines() or [""])[0]
    place = traceback.extract_tb(trouble.__traceback__)[-1]
    return f"{type(trouble).__name__}: {reason} [{Path(place.filename).name}:{place.lineno}]"


# -- SQLite itself is refused ------------------------------------------------------------------


def open_files() -> int:
    return max(map(int, os.listdir("/proc/self/fd")))


SCARCITIES: list[tuple[str, int, list[int]]] = [
    ("bytes in a file", resource.RLIMIT_FSIZE, [0, 1, 4_096, 12_288, 32_768, 45_056, 65_536]),
    ("open files", resource.RLIMIT_NOFILE, [0, 1, 2, 3, 4, 5]),
]


@pytest.mark.share(0.2)
@pytest.mark.parametrize(("_", "kind", "amounts"), SCARCITIES, ids=[each[0] for each in SCARCITIES])
def test_prompts_wait_while_sqlite_itself_is_refused_what_it_needs(
    _: str,
    kind: int,
    amounts: list[int],
    rooms: Rooms,
    rng: random.Random,
    budget: Budget,
    figures: Figures,
) -> None:
    cases = [(operation, amount) for operation in HISTORY_OPERATIONS for amount in amounts]
    rng.shuffle(cases)
    failures = []
    for number, (operation, amount) in enumerate(cases):
        if number >= 15 and not budget.is_left():
            break
        try:
            run_short(operation, kind, amount, rooms())
        except Exception as trouble:
            failures.append(f"{operation.name}, {amount}: {describe(trouble)}")
        figures("scarcities", 1)
    assert not failures, "\n".join(failures)


def run_short(operation: HistoryOperation, kind: int, amount: int, path: Path) -> None:
    state = operation.prepare(path)
    gc.collect()
    limit = amount + (open_files() + 1 if kind == resource.RLIMIT_NOFILE else 0)
    is_adding = operation.act.__name__.startswith("add")
    with at_most(kind, limit):
        if is_adding:
            state.history.add("new one")
            state.history.flush(0.03)
            outcome: list[str] | PersistenceError = ["new one"]
        else:
            outcome = attempt(lambda: operation.act(state), path)
    if is_adding:
        assert state.history.flush(20), f"not written: {state.history.error}"
    added = operation.act(state) if isinstance(outcome, PersistenceError) else outcome
    state.history.close()
    assert_nothing_is_lost(path, state, added)


# -- several processes -------------------------------------------------------------------------

_CHILD = """
import sys
from sessiontree import HistoryStorage
sys.stdin.readline()
with HistoryStorage(sys.argv[1]) as history:
    for number in range(5):
        history.add(f"{sys.argv[2]} {number}")
    history.flush(20)
"""


@pytest.mark.share(0.2)
def test_processes_that_meet_the_same_damage_lose_no_prompt_of_each_other(
    rooms: Rooms, budget: Budget, figures: Figures
) -> None:
    rounds = 0
    while budget.is_left() or rounds == 0:
        rounds += 1
        path = rooms()
        state = half_damaged(path)
        children = [
            subprocess.Popen(
                [sys.executable, "-c", _CHILD, str(path), name], stdin=subprocess.PIPE, text=True
            )
            for name in "abcd"
        ]
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.close()
        assert [child.wait(60) for child in children] == [0, 0, 0, 0]
        added = [f"{name} {number}" for name in "abcd" for number in range(5)]
        with HistoryStorage(path) as storage:
            found = {entry.prompt for entry in storage.recent(1_000)}
        # one that was written just when the file was set aside is written once more
        assert found == {*state.prompts, *added}
        assert len(list(path.parent.glob("history.db.corrupt-*[0-9Z]"))) == 1
        figures("rounds", 1)
