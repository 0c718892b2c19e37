"""Times that no calendar has: a clear error from a wrong clock, tolerated in files, in any zone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.samples import assistant, entry, header, message, user, write

from sessiontree import ClockError, SessionManager, SessionTreeError, search
from sessiontree.cli.main import run
from sessiontree.model.ids import format_timestamp, parse_timestamp
from sessiontree.text.words import format_time_ago, to_local, to_moment, to_utc

_FIRST, _LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001 - local
YEAR_10000_MS = 253_402_300_800_000
TIMES = [
    *("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59.9999999Z"),
    *("+010000-01-01T00:00:00.000Z", "10000-01-01T00:00:00Z", "-271821-04-20T00:00:00Z"),
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "0000-00-00", "", 5, None, 1e300),
]
NUMBERS = [0, -1, -(10**15), YEAR_10000_MS - 1, YEAR_10000_MS, 10**18, 1e300, "x", True]


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # spelled out: not every machine knows the zones by name
    offsets = {"UTC": "UTC0", "Asia/Tokyo": "JST-9", "America/Los_Angeles": "PST8"}
    monkeypatch.setenv("TZ", offsets[request.param])
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


# -- the clock ----------------------------------------


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (YEAR_10000_MS - 1, "9999-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_every_time_of_the_calendar_is_written_as_it_is_read(time_ms: int, text: str) -> None:
    assert format_timestamp(time_ms) == text
    assert parse_timestamp(text) == time_ms


@pytest.mark.parametrize("time_ms", [YEAR_10000_MS, -62_135_596_800_001, 10**18, 10**30, -(10**30)])
def test_another_time_is_a_clear_error(time_ms: int) -> None:
    with pytest.raises(ClockError, match="system clock") as caught:
        format_timestamp(time_ms)
    assert isinstance(caught.value, SessionTreeError)
    assert caught.value.time_ms == time_ms


def test_a_clock_that_is_far_off_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "x.jsonl", header(), message("a1", None))
    session = SessionManager.open(file)
    before = file.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("time.time_ns", lambda: YEAR_10000_MS * 1_000_000)
        with pytest.raises(ClockError):
            session.append_message(user("x"))
        with pytest.raises(ClockError):
            SessionManager.create(tmp_path, tmp_path)
        with pytest.raises(ClockError):
            session.fork()
    assert file.read_bytes() == before
    session.append_message(user("on"))
    session.close()
    assert SessionManager.open(file).get_entries()[0].id == "a1"
    assert sorted(os.listdir(tmp_path)) == ["x.jsonl"]


# -- files ----------------------------------------


def test_moments_at_the_ends_of_the_calendar_can_be_shown(zone: str) -> None:
    for moment in (_LAST, _FIRST):
        aware = moment.replace(tzinfo=UTC)
        assert to_local(aware).tzinfo is not None
        assert to_utc(moment).tzinfo is UTC
        assert format_time_ago(aware, datetime(2026, 1, 1, tzinfo=UTC))
    for time_ns in (10**30, -(10**30), YEAR_10000_MS * 1_000_000):
        assert to_moment(time_ns).tzinfo is UTC


@pytest.fixture
def folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sessions with each odd time, in their lines and as the times of their files."""
    project = tmp_path / "p"
    project.mkdir()
    monkeypatch.chdir(project)
    sessions = home / ".sessiontree/agent/sessions" / f"--{str(project)[1:].replace('/', '-')}--"
    for number, spelled in enumerate(TIMES):
        said = NUMBERS[number % len(NUMBERS)]
        talk = [
            message("a1", None, user("needle", timestamp=said)),
            message("a2", "a1", assistant("found", timestamp=said)),
            entry("label", "a3", "a2", targetId="a1", label="x"),
        ]
        for one in talk:
            one["timestamp"] = spelled
        head = header(id=f"abcdef01234567{number:02d}", cwd=str(project))
        head["timestamp"] = spelled
        file = write(
            sessions / f"2026-02-16T10-20-30-000Z_abcdef01234567{number:02d}.jsonl", head, *talk
        )
        seconds = (-62_135_596_800, 253_402_300_800, 9_000_000_000_000, 0)[number % 4]
        try:
            os.utime(file, (seconds, seconds))
        except (OSError, OverflowError):
            continue  # more than this file system can hold
    return sessions


def test_odd_times_in_files_are_tolerated_by_every_command(
    folder: Path,
    zone: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    commands = [
        *(["ls", "-n", "0"], ["ls", "--all", "--json"], ["usage", "--by", "day"], ["doctor"]),
        *(["search", "needle", "-n", "0"], ["search", "needle", "--json"]),
        *(["usage", "--since", day] for day in ("0001-01-01", "9999-12-31")),
        *(["search", "needle", "--since", day] for day in ("0001-01-01", "9999-12-31")),
    ]
    for file in sorted(folder.glob("*.jsonl")):
        commands += [
            *(["show", str(file)], ["tree", str(file)], ["rename", str(file), "name"]),
            ["export", str(file), "-o", str(tmp_path / f"{file.stem}.md")],
            ["export", str(file), "--bundle", "-o", str(tmp_path / f"{file.stem}.zip")],
            *(["rm", str(file)], ["restore"]),
        ]
    for command in commands:
        code = run(command)
        told = capsys.readouterr().err
        assert code in (0, 1), (command, told)
        assert "Internal error" not in told, (command, told)


def test_odd_times_are_tolerated_by_the_library(folder: Path, zone: str) -> None:
    project = Path.cwd()
    listed = SessionManager.list(project)
    assert len(listed) == len(TIMES)
    assert len(search("needle", limit=None)) == len(TIMES)
    for info in listed:
        info.modified.astimezone(UTC)
        with SessionManager.open(info.path) as session:
            session.append_message(user("on"))
            session.build_session_context()
            session.fork()


@pytest.mark.parametrize("since", [_FIRST, _LAST, _FIRST.replace(tzinfo=UTC)])
def test_a_search_since_any_moment_is_answered(
    folder: Path,
    zone: str,
    since: datetime,
) -> None:
    assert isinstance(search("needle", since=since), list)
