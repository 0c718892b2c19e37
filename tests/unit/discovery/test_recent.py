"""Recent sessions: a glance at the newest files of a folder."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import assistant, dump, header, message, slot, user, write
from tests.unit.discovery.places import put, session_name, talk

from sessiontree import find_most_recent_session, get_recent_sessions
from sessiontree.storage.base import FileStat, SessionStorageReader, StrPath
from sessiontree.storage.file import FileSessionStorage
from sessiontree.text.words import format_short_age, format_time_ago, make_name


class CountingStorage(FileSessionStorage):
    """Remembers what was read of which file."""

    def __init__(self) -> None:
        self.reads: list[tuple[str, int]] = []

    def read_prefix(self, path: StrPath, length: int) -> bytes:
        data = super().read_prefix(path, length)
        self.reads.append((os.fspath(path), len(data)))
        return data

    def open_reader(self, path: StrPath) -> SessionStorageReader:
        raise AssertionError(f"{path} was opened")

    def read(self, path: StrPath) -> bytes:
        raise AssertionError(f"{path} was read")


def test_the_newest_come_first(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "middle", "old", "oldest"]):
        put(tmp_path, *talk(name), session_id=name, mtime=1_790_000_000 - age)
    assert [found.name for found in get_recent_sessions(tmp_path)] == ["new", "middle", "old"]
    assert [found.id for found in get_recent_sessions(tmp_path, 1)] == ["new"]
    assert len(get_recent_sessions(tmp_path, limit=99)) == 4


def test_of_the_same_time_the_later_name_comes_first(tmp_path: Path) -> None:
    for name in ("b", "d", "a", "c"):
        put(tmp_path, *talk(name), session_id=name, mtime=1_790_000_000)
    put(tmp_path, *talk("older"), session_id="z", mtime=1_789_999_999)
    assert [found.id for found in get_recent_sessions(tmp_path, 9)] == ["d", "c", "b", "a", "z"]


def test_no_more_than_four_kilobytes_of_the_named_files_are_read(tmp_path: Path) -> None:
    for age in range(9):
        put(tmp_path, *talk("question", "x" * 50_000), mtime=1_790_000_000 - age)
    storage = CountingStorage()
    assert len(get_recent_sessions(tmp_path, 3, storage=storage)) == 3
    assert len(storage.reads) == 3
    assert all(size <= 4096 for _, size in storage.reads)


def test_a_name_is_the_title_before_the_prompt_before_the_id_before_the_file(
    tmp_path: Path,
) -> None:
    titled = put(tmp_path / "1", *talk("prompt"), title="Title")
    prompted = put(tmp_path / "2", *talk("prompt"))
    silent = put(tmp_path / "3", session_id="abc")
    nameless = write(tmp_path / "4" / "notes.jsonl", header(id=""))
    names = [
        get_recent_sessions(file.parent)[0].name for file in (titled, prompted, silent, nameless)
    ]
    assert names == ["Title", "prompt", "abc", "notes.jsonl"]


def test_a_title_slot_overrides_the_header_and_an_empty_one_clears_it(tmp_path: Path) -> None:
    write(tmp_path / "1" / "x.jsonl", slot("Slot"), header(title="Header"))
    write(tmp_path / "2" / "x.jsonl", slot(""), header(title="Header"), *talk("prompt"))
    assert get_recent_sessions(tmp_path / "1")[0].name == "Slot"
    assert get_recent_sessions(tmp_path / "2")[0].name == "prompt"


def test_the_earliest_user_text_counts(tmp_path: Path) -> None:
    put(
        tmp_path,
        message("a1", None, assistant("not this")),
        message("a2", "a1", user([{"type": "image", "data": "", "mimeType": "image/png"}])),
        message("a3", "a2", user([{"type": "text", "text": "this"}])),
        message("a4", "a3", user("nor this")),
    )
    assert get_recent_sessions(tmp_path)[0].name == "this"


@pytest.mark.parametrize("content", ["x" * 9000, [{"type": "text", "text": "x" * 9000}]])
def test_a_prompt_longer_than_the_prefix_is_named_by_its_beginning(
    tmp_path: Path, content: object
) -> None:
    put(tmp_path, message("a1", None, user(content)))
    assert get_recent_sessions(tmp_path)[0].name == "x" * 39 + "…"


@pytest.mark.parametrize("filler", ["é", "😀", '"', "\\", "\n", "\u2028", "\x1b"])
def test_a_prompt_may_be_cut_anywhere(tmp_path: Path, filler: str) -> None:
    for shift in range(12):
        put(tmp_path / str(shift), message("a1", None, user("go " + "-" * shift + filler * 5000)))
        name = get_recent_sessions(tmp_path / str(shift))[0].name
        assert name.startswith("go")


def test_a_header_longer_than_the_prefix_still_works(tmp_path: Path) -> None:
    put(tmp_path, session_id="abc", title="T" * 9000)
    put(tmp_path / "deep", session_id="def", cwd="/x" * 4000)
    assert get_recent_sessions(tmp_path)[0].name == "T" * 39 + "…"
    assert get_recent_sessions(tmp_path / "deep")[0].name == "def"
    assert find_most_recent_session(tmp_path / "deep") is not None


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("two\nlines", "two"),
        ("\n\n  first line \r\nsecond", "first line"),
        ("a\x1b[31mb\x07\x9bc\x7f", "a[31mbc"),
        ("\u202eevil\u2066", "evil"),
        ("x" * 40, "x" * 40),
        ("x" * 41, "x" * 39 + "…"),
        ("\ud83d half", "� half"),
        ("a\ufeffb\u200b\u2060c", "abc"),
        ("\u061cx\U000e0041\U000e0001y\ufff9", "xy"),
        ("👩\u200d💻 at work", "👩\u200d💻 at work"),
    ],
)
def test_names_are_one_clean_line_of_forty_characters(title: str, name: str) -> None:
    assert make_name(title) == name


def test_a_title_of_nothing_to_show_is_passed_over() -> None:
    assert make_name("\x1b\x00", None, "  ", "id") == "id"


@given(st.text())
def test_a_name_is_always_printable_and_short(text: str) -> None:
    name = make_name(text, "fallback")
    assert 0 < len(name) <= 40
    assert all(ord(char) >= 32 and char != "\x7f" for char in name)
    name.encode()


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=5, seconds=59), "5m ago"),
        (timedelta(minutes=59), "59m ago"),
        (timedelta(hours=2, minutes=59), "2h ago"),
        (timedelta(hours=23), "23h ago"),
        (timedelta(days=3, hours=5), "3d ago"),
        (timedelta(days=6, hours=23), "6d ago"),
    ],
)
def test_ages_are_short(ago: timedelta, said: str) -> None:
    now = datetime(2026, 2, 16, 12, tzinfo=UTC)
    assert format_time_ago(now - ago, now) == said


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=5), "now"),
        (timedelta(minutes=5), "5m"),
        (timedelta(days=3), "3d"),
        (timedelta(days=14), "Feb 2"),
        (timedelta(days=90), "2025-11"),
    ],
)
def test_ages_in_a_column_are_shorter(ago: timedelta, said: str) -> None:
    now = datetime(2026, 2, 16, 12, tzinfo=UTC)
    assert format_short_age(now - ago, now) == said


def test_what_is_older_than_a_week_has_its_date() -> None:
    now = datetime(2026, 2, 16, 12, tzinfo=UTC)
    assert format_time_ago(now - timedelta(days=14), now) == "2026-02-02"


def test_the_age_of_a_session_is_that_of_its_last_message(tmp_path: Path) -> None:
    then = datetime.now(UTC) - timedelta(hours=2, minutes=1)
    said = user("hello", timestamp=round(then.timestamp() * 1000))
    put(tmp_path, message("a0000001", None, said))
    assert get_recent_sessions(tmp_path)[0].time_ago == "2h ago"


def test_what_is_no_session_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"some":"dataset"}\n')
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "._copy.jsonl").write_bytes(dump(header()) + b"\n")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    assert get_recent_sessions(tmp_path) == []
    assert find_most_recent_session(tmp_path) is None


def test_a_session_with_a_damaged_header_goes_by_its_file_name(tmp_path: Path) -> None:
    write(tmp_path / session_name("abc"), b'{"type":"sess\n', *talk("hello"))
    assert [found.id for found in get_recent_sessions(tmp_path)] == ["abc"]
    assert find_most_recent_session(tmp_path) is None


def test_a_missing_folder_has_no_sessions(tmp_path: Path) -> None:
    assert get_recent_sessions(tmp_path / "none") == []
    assert find_most_recent_session(tmp_path / "none") is None


def test_the_most_recent_session_is_the_newest_valid_file(tmp_path: Path) -> None:
    old = put(tmp_path, mtime=1_790_000_000)
    new = put(tmp_path, mtime=1_790_000_001)
    os.utime(write(tmp_path / "x.jsonl", b"junk\n"), (1_790_000_002, 1_790_000_002))
    assert find_most_recent_session(tmp_path) == str(new)
    new.unlink()
    assert find_most_recent_session(tmp_path) == str(old)


def test_a_storage_may_spell_its_folders_another_way(tmp_path: Path) -> None:
    class Elsewhere(FileSessionStorage):
        def list_files(self, folder: StrPath, suffix: str = "") -> list[FileStat]:
            return super().list_files(os.path.realpath(folder), suffix)

    put(tmp_path / "s", *talk("question"), session_id="one")
    (tmp_path / "s" / ".hidden.jsonl").write_bytes(b"x")
    link = tmp_path / ("a link with a long name " * 5)
    link.symlink_to(tmp_path / "s")
    assert [found.id for found in get_recent_sessions(link, storage=Elsewhere())] == ["one"]
