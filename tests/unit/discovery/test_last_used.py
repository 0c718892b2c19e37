"""When a session was last used: by its messages, not by its file."""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.samples import TIME_MS, Wire, assistant, calling, entry, message, result, user, write
from tests.unit.discovery.places import put, session_name

from sessiontree import MemorySessionStorage, SessionManager, get_recent_sessions
from sessiontree.discovery import catalogue
from sessiontree.discovery.last_used import by_last_use
from sessiontree.discovery.listing import SessionList, list_sessions
from sessiontree.discovery.recent import newest_first
from sessiontree.discovery.resume import choose_recent
from sessiontree.storage.base import StrPath
from sessiontree.storage.file import FileSessionStorage

HOUR_MS = 3_600_000
PROJECT = "/work/pi"


def said_at(*times_ms: int, start: str = "a") -> list[Wire]:
    """A user and the model in turn, each message at its time."""
    made: list[Wire] = []
    parent: str | None = None
    for number, time_ms in enumerate(times_ms):
        entry_id = f"{start}{number:07x}"
        content = user(timestamp=time_ms) if number % 2 == 0 else assistant(timestamp=time_ms)
        made.append(message(entry_id, parent, content))
        parent = entry_id
    return made


def used(folder: Path, name: str, hour: int, *more: Wire, mtime: float | None = None) -> Path:
    """A session whose last message was said ``hour`` hours after TIME."""
    talk = said_at(TIME_MS, TIME_MS + hour * HOUR_MS)
    return put(folder, *talk, *more, session_id=name, cwd=PROJECT, mtime=mtime)


def listed(folder: Path) -> SessionList:
    return list_sessions(PROJECT, folder)


def ids(folder: Path) -> list[str]:
    return [info.id for info in listed(folder)]


def moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


class LookingStorage(FileSessionStorage):
    """Notes whose end was read."""

    def __init__(self) -> None:
        self.looked_at: list[str] = []

    def read_suffix(self, path: StrPath, length: int) -> bytes:
        self.looked_at.append(os.path.basename(path))
        return super().read_suffix(path, length)


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TMUX_PANE", "KITTY_WINDOW_ID", "TERM_SESSION_ID", "WT_SESSION"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("sessiontree.discovery.breadcrumbs._tty_id", lambda fd: None)


# -- the rule ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "expected_ms"),
    [
        (said_at(TIME_MS, TIME_MS + 5_000), TIME_MS + 5_000),
        # as pi has it: the latest of them, wherever it stands, and only what the two sides said
        (said_at(TIME_MS + 9_000, TIME_MS + 5_000), TIME_MS + 9_000),
        (
            [
                *said_at(TIME_MS, TIME_MS + 5_000),
                message("b0000001", "a0000001", result("t1", timestamp=TIME_MS + 8_000)),
                entry("label", "b0000002", "b0000001", targetId="a0000001", label="x"),
            ],
            TIME_MS + 5_000,
        ),
        # a message without a time of its own goes by its entry's
        ([message("a1", None, {"role": "user", "content": "x"})], TIME_MS),
        ([message("a1", None, {"role": "user", "content": "x", "timestamp": "?"})], TIME_MS),
        ([message("a1", None, user(timestamp=TIME_MS + 0.75))], TIME_MS),
    ],
)
def test_a_session_was_last_used_at_its_last_message(
    tmp_path: Path, entries: list[Wire], expected_ms: int
) -> None:
    put(tmp_path, *entries, mtime=1_790_000_000)
    (info,) = listed(tmp_path)
    assert info.modified == moment(expected_ms)
    assert get_recent_sessions(tmp_path)[0].modified == moment(expected_ms)


def test_the_future_is_now(tmp_path: Path) -> None:
    put(tmp_path, *said_at(TIME_MS, 4_102_444_800_000))
    before = datetime.now(UTC)
    (info,) = listed(tmp_path)
    assert before.timestamp() - 1 <= info.modified.timestamp() <= time.time()
    assert get_recent_sessions(tmp_path)[0].time_ago == "just now"


@pytest.mark.parametrize("odd", [-1, 0, True, 1e300, 10**40, None, [], "2026"])
def test_an_odd_time_hides_nothing(tmp_path: Path, odd: object) -> None:
    put(tmp_path, message("a0000001", None, user(timestamp=odd)), mtime=1_790_000_000)
    (info,) = listed(tmp_path)
    assert info.modified <= datetime.now(UTC)
    assert get_recent_sessions(tmp_path)[0].modified <= datetime.now(UTC)


def test_without_messages_the_header_tells_and_without_it_the_file(tmp_path: Path) -> None:
    put(tmp_path, timestamp="2026-02-17T00:00:00.000Z", session_id="begun", mtime=1_790_000_000)
    put(tmp_path, timestamp=None, session_id="silent", mtime=1_780_000_000)
    found = {info.id: info.modified for info in listed(tmp_path).empty}
    assert found["begun"] == datetime(2026, 2, 17, tzinfo=UTC)
    assert found["silent"] == datetime.fromtimestamp(1_780_000_000, UTC)
    glanced = {recent.id: recent.modified for recent in get_recent_sessions(tmp_path)}
    assert glanced == found


def test_a_session_was_created_when_its_header_says(tmp_path: Path) -> None:
    file = used(tmp_path, "one", 1)
    copy = shutil.copy(file, tmp_path / session_name("two", "2026-09-09T00-00-00-000Z"))
    os.utime(copy)
    assert {info.created for info in listed(tmp_path)} == {moment(TIME_MS)}


# -- the order -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mtimes", [{"c": 1_790_000_000}, {"a": 1_790_000_000, "b": 1_790_000_001}, {}]
)
def test_after_a_copy_the_order_stays(tmp_path: Path, mtimes: dict[str, float]) -> None:
    source = tmp_path / "source"
    for hour, name in enumerate("abc"):
        used(source, name, hour, mtime=(TIME_MS + hour * HOUR_MS) / 1000)
    copied = tmp_path / "copied"
    shutil.copytree(source, copied, copy_function=shutil.copyfile)
    for name, mtime in mtimes.items():
        os.utime(copied / session_name(name), (mtime, mtime))
    for folder in (source, copied):
        assert ids(folder) == ["c", "b", "a"]
        assert [recent.id for recent in get_recent_sessions(folder, 2)] == ["c", "b"]
        assert choose_recent(PROJECT, folder) == str(folder / session_name("c"))


def test_times_of_files_that_lie_are_not_believed(tmp_path: Path) -> None:
    for hour, name in enumerate("abc"):
        used(tmp_path, name, hour, mtime=1_000_000_000 - hour)
    assert ids(tmp_path) == ["c", "b", "a"]
    assert [recent.id for recent in get_recent_sessions(tmp_path)] == ["c", "b", "a"]
    assert choose_recent(PROJECT, tmp_path) == str(tmp_path / session_name("c"))


def test_a_name_given_today_is_no_work_on_the_session(tmp_path: Path) -> None:
    old = used(tmp_path, "old", 1)
    used(tmp_path, "new", 2)
    with SessionManager.open(old) as session:
        session.set_session_name("Named")
    assert ids(tmp_path) == ["new", "old"]
    assert choose_recent(PROJECT, tmp_path) == str(tmp_path / session_name("new"))


def test_of_a_fork_and_its_source_the_fork_comes_first(tmp_path: Path) -> None:
    source = used(tmp_path, "source", 1, mtime=1_790_000_000)
    with SessionManager.fork_from(source, PROJECT, tmp_path) as fork:
        forked = fork.session_id
    os.utime(source)
    assert ids(tmp_path) == [forked, "source"]
    assert [recent.id for recent in get_recent_sessions(tmp_path)] == [forked, "source"]


def test_a_prompt_that_waits_for_an_answer_counts_as_used(tmp_path: Path) -> None:
    used(tmp_path, "answered", 1)
    waiting = SessionManager.create(PROJECT, tmp_path)
    waiting.append_message(user("still there", timestamp=TIME_MS + 2 * HOUR_MS))
    assert waiting.session_file is not None
    with SessionManager.continue_recent(PROJECT, tmp_path) as session:
        assert session.session_id == waiting.session_id


# -- what it costs -------------------------------------------------------------------------------


def test_as_a_rule_only_the_ends_of_the_newest_are_read(tmp_path: Path) -> None:
    for hour in range(50):
        mtime = (TIME_MS + hour * HOUR_MS) / 1000
        used(tmp_path, f"s{hour:02}", hour, mtime=mtime)
    storage = LookingStorage()
    found = get_recent_sessions(tmp_path, 3, storage=storage)
    assert [recent.id for recent in found] == ["s49", "s48", "s47"]
    assert len(storage.looked_at) <= 4


def test_a_file_that_was_only_touched_costs_one_look_more(tmp_path: Path) -> None:
    for hour in range(50):
        mtime = (TIME_MS + hour * HOUR_MS) / 1000
        used(tmp_path, f"s{hour:02}", hour, mtime=mtime)
    os.utime(tmp_path / session_name("s00"))
    storage = LookingStorage()
    files = list(newest_first(storage, str(tmp_path)))
    first, _ = next(by_last_use(storage, files))
    assert first.path == str(tmp_path / session_name("s49"))
    assert len(storage.looked_at) <= 3


def test_after_a_copy_the_catalogue_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessiontree.discovery.catalogue.freshness._TICK_NS", -(10**18))
    monkeypatch.setattr("sessiontree.discovery.catalogue.freshness._COARSE_TICK_NS", -(10**18))
    for hour in range(50):
        used(tmp_path, f"s{hour:02}", hour, mtime=1_790_000_000)
    assert len(listed(tmp_path)) == 50
    for is_new_process in (False, True):
        if is_new_process:
            catalogue.forget_process_memory()
        storage = LookingStorage()
        files = list(newest_first(storage, str(tmp_path)))
        first, _ = next(by_last_use(storage, files))
        assert first.path == str(tmp_path / session_name("s49"))
        assert len(storage.looked_at) <= 8


def test_a_long_tool_result_at_the_end_is_looked_past(tmp_path: Path) -> None:
    put(
        tmp_path,
        *said_at(TIME_MS),
        message("b0000001", "a0000000", calling("t1", timestamp=TIME_MS + HOUR_MS)),
        message("b0000002", "b0000001", result("t1", "x" * 300_000, timestamp=TIME_MS + 2)),
        mtime=1_790_000_000,
    )
    assert get_recent_sessions(tmp_path)[0].modified == moment(TIME_MS + HOUR_MS)
    assert listed(tmp_path)[0].modified == moment(TIME_MS + HOUR_MS)


def test_the_end_of_a_damaged_file_still_tells(tmp_path: Path) -> None:
    torn = b'{"type":"message","id":"c0000001","parentId":"a0000001","timest'
    glued = said_at(TIME_MS, TIME_MS + HOUR_MS, start="d")
    write(tmp_path / session_name("x"), b"{torn\n", *said_at(TIME_MS), torn, *glued)
    (info,) = listed(tmp_path)
    assert info.modified == moment(TIME_MS + HOUR_MS)
    assert get_recent_sessions(tmp_path)[0].modified == moment(TIME_MS + HOUR_MS)


def test_any_storage_will_do() -> None:
    storage = MemorySessionStorage(clock_ns=lambda: 1_790_000_000 * 10**9)
    for name, hour in (("a", 2), ("b", 1)):
        with SessionManager.create(PROJECT, "/s", storage=storage) as session:
            session.append_message(user(name, timestamp=TIME_MS))
            session.append_message(assistant(timestamp=TIME_MS + hour * HOUR_MS))
    found = get_recent_sessions("/s", storage=storage)
    assert [recent.name for recent in found] == ["a", "b"]
    assert [info.first_message for info in list_sessions(PROJECT, "/s", storage=storage)] == [
        "a",
        "b",
    ]
