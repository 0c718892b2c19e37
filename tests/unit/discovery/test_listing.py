"""Full listings: right figures for every file, nothing hidden without being counted."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.samples import (
    TIME,
    Wire,
    assistant,
    calling,
    dump,
    entry,
    header,
    message,
    result,
    slot,
    user,
    write,
)
from tests.unit.discovery.places import put, session_name, talk

from sessiontree import MemorySessionStorage, SessionInfo, SessionManager, get_recent_sessions
from sessiontree.discovery import paths
from sessiontree.discovery.listing import SessionList, list_all_sessions, list_sessions
from sessiontree.profiles import get_profile


def listed(folder: Path, **keywords: object) -> SessionList:
    return list_sessions("/anywhere", folder, **keywords)  # type: ignore[arg-type]


def only(folder: Path, **keywords: object) -> SessionInfo:
    (info,) = listed(folder, **keywords)
    return info


def test_a_session_is_described_in_full(tmp_path: Path) -> None:
    file = put(
        tmp_path,
        *talk("first question", "an answer", "second question", "another answer"),
        session_id="abc",
        cwd="/code/pi",
        title="Title",
        parentSession="/old/parent.jsonl",
        mtime=1_790_000_000,
    )
    info = only(tmp_path)
    assert info.path == str(file)
    assert info.id == "abc"
    assert info.cwd == "/code/pi"
    assert info.title == "Title"
    assert info.parent_session == "/old/parent.jsonl"
    assert info.created == datetime(2026, 2, 16, 10, 20, 30, tzinfo=UTC)
    assert info.modified == datetime(2026, 2, 16, 10, 20, 30, tzinfo=UTC)
    assert info.message_count == 4
    assert info.first_message == "first question"
    assert info.all_messages_text == "first question an answer second question another answer"
    assert info.size == file.stat().st_size
    assert info.status == "complete"


def test_every_message_counts_on_every_branch(tmp_path: Path) -> None:
    put(
        tmp_path,
        *talk("q", "a"),
        message("b0000001", "a0000000", calling("t1")),
        message("b0000002", "b0000001", result("t1", "x" * 9000)),
        message("b0000003", "b0000002", {"role": "bashExecution", "command": "ls", "output": ""}),
        entry("model_change", "b0000004", "b0000003", model="a/b"),
        entry("custom_message", "b0000005", "b0000004", customType="x", content="y", display=True),
    )
    assert only(tmp_path).message_count == 5


def test_tool_output_is_no_part_of_the_text(tmp_path: Path) -> None:
    put(
        tmp_path,
        message("a0000001", None, user("question")),
        message("a0000002", "a0000001", calling("t1")),
        message("a0000003", "a0000002", result("t1", "output")),
        message("a0000004", "a0000003", assistant("answer")),
    )
    assert only(tmp_path).all_messages_text == "question answer"


def test_sessions_are_listed_newest_first(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "middle", "old"]):
        put(tmp_path, *talk("x"), session_id=name, mtime=1_790_000_000 - age)
    assert [info.id for info in listed(tmp_path)] == ["new", "middle", "old"]


def test_sessions_without_a_message_are_counted_instead(tmp_path: Path) -> None:
    put(tmp_path, *talk("x"), session_id="full")
    put(tmp_path, entry("model_change", "a0000001", None, model="a/b"))
    put(tmp_path)
    (tmp_path / session_name("zero")).touch()
    found = listed(tmp_path)
    assert [info.id for info in found] == ["full"]
    assert found.empty_count == len(found.empty) == 3
    assert {info.status for info in found.empty} == {"empty"}
    assert found.unreadable == []


def test_without_a_prompt_there_are_no_messages_to_show(tmp_path: Path) -> None:
    put(tmp_path, message("a0000001", None, assistant("unasked")))
    assert only(tmp_path).first_message == "(no messages)"


@pytest.mark.parametrize(
    ("profile", "title"), [("sessiontree", "Header"), ("omp", "Header"), ("pi", "Name")]
)
def test_each_dialect_reads_its_own_name_first(tmp_path: Path, profile: str, title: str) -> None:
    info = entry("session_info", "b0000001", "a0000001", name="Name")
    put(tmp_path, *talk("x", "y"), info, title="Header")
    assert only(tmp_path, profile=profile).title == title


def test_the_last_session_name_counts_and_an_empty_one_clears_it(tmp_path: Path) -> None:
    named = [
        entry("session_info", "b0000001", "a0000001", name="first"),
        entry("session_info", "b0000002", "b0000001", name="second"),
    ]
    put(tmp_path / "1", *talk("x", "y"), *named)
    put(tmp_path / "2", *talk("x", "y"), *named, entry("session_info", "b0000003", "b0000002"))
    assert only(tmp_path / "1", profile="pi").title == "second"
    assert only(tmp_path / "2", profile="pi").title is None


def test_the_title_slot_counts_instead_of_the_header(tmp_path: Path) -> None:
    write(tmp_path / "1" / "x.jsonl", slot("Slot"), header(title="Header"), *talk("x"))
    write(tmp_path / "2" / "x.jsonl", slot(""), header(title="Header"), *talk("x"))
    assert only(tmp_path / "1").title == "Slot"
    assert only(tmp_path / "2").title is None


def test_without_a_name_the_latest_short_summary_is_the_title(tmp_path: Path) -> None:
    def compaction(entry_id: str, parent: str, **fields: object) -> dict[str, object]:
        return entry(
            "compaction",
            entry_id,
            parent,
            summary="long",
            firstKeptEntryId="a0000000",
            tokensBefore=1,
            **fields,
        )

    put(
        tmp_path,
        *talk("x", "y"),
        compaction("b0000001", "a0000001", shortSummary="first"),
        compaction("b0000002", "b0000001", shortSummary="latest"),
        compaction("b0000003", "b0000002"),
    )
    assert only(tmp_path).title == "latest"


# -- status --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (assistant("done"), "complete"),
        (assistant("cut", stopReason="length"), "interrupted"),
        (assistant("", stopReason="error"), "error"),
        (assistant("", stopReason="aborted"), "aborted"),
        (calling("t1"), "interrupted"),
        (result("t1"), "interrupted"),
        (user("unanswered"), "interrupted"),
        (calling("t1") | {"stopReason": None}, "interrupted"),
        (assistant("done") | {"stopReason": None}, "complete"),
    ],
)
def test_the_last_message_says_how_a_session_stands(
    tmp_path: Path, last: dict[str, object], status: str
) -> None:
    put(tmp_path, *talk("x", "y"), message("b0000001", "a0000001", last))
    assert only(tmp_path).status == status


def test_what_asks_for_no_answer_is_looked_through(tmp_path: Path) -> None:
    bash = {"role": "bashExecution", "command": "ls", "output": "", "timestamp": 1}
    put(
        tmp_path,
        *talk("x"),
        message("b0000001", "a0000000", assistant("", stopReason="error")),
        message("b0000002", "b0000001", bash),
        entry("custom", "b0000003", "b0000002", customType="session_exit"),
        entry("label", "b0000004", "b0000003", targetId="a0000000", label="x"),
    )
    assert only(tmp_path).status == "error"


def test_the_leaf_decides_not_the_last_message_in_the_file(tmp_path: Path) -> None:
    put(
        tmp_path,
        *talk("x", "y"),
        message("b0000001", "a0000001", user("left unanswered")),
        entry("custom", "b0000002", "a0000001", customType="sessiontree.leaf"),
    )
    assert only(tmp_path).status == "complete"


def test_a_leaf_at_the_root_leaves_nothing_open(tmp_path: Path) -> None:
    put(tmp_path, *talk("x"), entry("custom", "b0000002", None, customType="sessiontree.leaf"))
    assert only(tmp_path).status == "complete"


def test_a_leaf_far_up_a_long_file_is_found(tmp_path: Path) -> None:
    far = message("b0000001", "a0000001", assistant("", stopReason="aborted"))
    filler = talk("x" * 4000, *(["y" * 4000] * 200), start="c")
    leaf = entry("custom", "d0000001", "b0000001", customType="sessiontree.leaf")
    put(tmp_path, *talk("x", "y"), far, *filler, leaf)
    assert only(tmp_path).status == "aborted"


@pytest.mark.parametrize("fields", [{}, {"parentId": None}])
def test_version_one_files_are_a_chain(tmp_path: Path, fields: dict[str, None]) -> None:
    old: list[Wire] = [
        {"type": "message", "timestamp": TIME, "message": user("old prompt")},
        {"type": "message", "timestamp": TIME, "message": assistant("", stopReason="error")},
        {"type": "thinking_level_change", "timestamp": TIME, "thinkingLevel": "high"},
    ]
    for number, wire in enumerate(old):
        wire |= {"id": f"a{number}", **fields} if fields else {}
    put(tmp_path, *old, version=None)
    info = only(tmp_path)
    assert (info.message_count, info.first_message, info.status) == (2, "old prompt", "error")


# -- damage --------------------------------------------------------------------------------------

DAMAGE = {
    "torn last line": lambda lines: [*lines[:-1], lines[-1][:40]],
    "torn line, then another glued to it": lambda lines: [
        *lines[:-2],
        lines[-2][:-30] + lines[-1],
        dump(message("c0000001", "a0000003", assistant("goes on"))) + b"\n",
    ],
    "junk in the middle": lambda lines: [*lines[:3], b"<<<<<<< HEAD\n", *lines[3:]],
    "a line that is no object": lambda lines: [*lines[:3], b"null\n", *lines[3:]],
    "a hole of zeros": lambda lines: [
        *lines[:2],
        lines[2][:100] + b"\x00" * 300 + lines[3][100:],
        lines[4],
    ],
    "a second header": lambda lines: [*lines, dump(header()) + b"\n"],
    "a broken message between whole braces": lambda lines: [
        *lines,
        b'{"type":"message","id":"c0000001",GARBAGE}\n',
    ],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_session_is_listed_and_says_so(tmp_path: Path, damage: str) -> None:
    file = put(tmp_path, *talk("q", "a", "b", "c"))
    file.write_bytes(b"".join(DAMAGE[damage](file.read_bytes().splitlines(keepends=True))))
    info = only(tmp_path)
    assert info.status == "damaged"
    assert info.first_message == "q"
    loaded = SessionManager.open(file).get_entries()
    assert info.message_count == sum(1 for entry in loaded if entry.type == "message")
    assert listed(tmp_path).damaged == [info]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\n\n \n"),
        lambda data: data[:-1],
        lambda data: data + b"\x00" * 64,
        lambda data: data.replace(b'":', b'": '),
        lambda data: data.replace(b'"q"', b'"q\xff"'),
    ],
    ids=["CRLF", "BOM", "blank lines", "no last newline", "zeros at the end", "spaces", "UTF-8"],
)
def test_what_is_only_unusual_is_no_damage(tmp_path: Path, change: object) -> None:
    file = put(tmp_path, *talk("q", "a", "b", "c"))
    file.write_bytes(change(file.read_bytes()))  # type: ignore[operator]
    info = only(tmp_path)
    assert (info.message_count, info.status) == (4, "complete")


def test_a_session_with_a_damaged_header_is_listed_by_its_file_name(tmp_path: Path) -> None:
    write(tmp_path / session_name("abc"), b'{"type":"sess\n', *talk("hello", "hi"))
    info = only(tmp_path)
    assert (info.id, info.status, info.message_count, info.cwd) == ("abc", "damaged", 2, "")
    assert info.created == datetime(2026, 2, 16, 10, 20, 30, tzinfo=UTC)


def test_a_file_that_is_no_session_is_told_of(tmp_path: Path) -> None:
    write(tmp_path / "data.jsonl", {"some": "dataset"}, {"more": "of it"})
    found = listed(tmp_path)
    assert found == []
    assert [(item.path, item.reason) for item in found.unreadable] == [
        (str(tmp_path / "data.jsonl"), "no session header")
    ]


@pytest.mark.parametrize("value", ["\ud83d", "1e999", "9" * 50, "[" * 900 + "]" * 900])
def test_odd_values_are_no_damage(tmp_path: Path, value: str) -> None:
    raw = value if value[0] in "19[" else '"\\ud83d"'
    odd = f'{{"type":"message","id":"b0000001","parentId":"a0000001","odd":{raw}}}\n'.encode()
    put(tmp_path, *talk("q", "a"), odd)
    info = only(tmp_path)
    assert (info.message_count, info.status) == (3, "complete")


# -- which files ---------------------------------------------------------------------------------


def test_a_project_lists_only_its_own_of_a_shared_folder(home: Path) -> None:
    profile = get_profile()
    folder = Path(paths.session_folders(profile, "/a-b/c")[0])
    put(folder, *talk("x"), session_id="mine", cwd="/a-b/c/")
    put(folder, *talk("x"), session_id="other", cwd="/a/b-c")
    put(folder, *talk("x"), session_id="old", cwd=None)
    assert {info.id for info in list_sessions("/a-b/c")} == {"mine", "old"}
    assert {info.id for info in list_sessions("/a/b-c")} == {"other", "old"}


def test_an_explicit_folder_gives_all_it_holds(tmp_path: Path) -> None:
    put(tmp_path, *talk("x"), cwd="/one")
    put(tmp_path, *talk("x"), cwd="/two")
    put(tmp_path, cwd="/one")
    put(tmp_path, cwd="/two")
    found = SessionManager.list("/one", tmp_path)
    assert {info.cwd: info.is_local for info in found} == {"/one": True, "/two": False}
    assert {info.cwd: info.is_local for info in found.empty} == {"/one": True, "/two": False}


@pytest.mark.parametrize("profile", ["omp", "xcsh"])
def test_both_spellings_of_omp_are_listed(home: Path, profile: str) -> None:
    project = home / "pi"
    for folder in paths.session_folders(get_profile(profile), project):
        put(Path(folder), *talk("x"), cwd=str(project))
    assert len(list_sessions(project, profile=profile)) == 2


def test_a_link_to_a_project_lists_its_sessions(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folder = Path(paths.session_folders(get_profile(), tmp_path / "real")[0])
    put(folder, *talk("x"), session_id="a", cwd=str(tmp_path / "real"))
    put(folder, *talk("x"), session_id="b", cwd=str(tmp_path / "link"))
    for cwd in (tmp_path / "real", tmp_path / "link", f"{tmp_path}/link/"):
        assert {info.id for info in list_sessions(cwd)} == {"a", "b"}


def test_all_projects_of_one_profile_are_listed_together(home: Path) -> None:
    for name in ("one", "two"):
        put(Path(get_profile("pi").sessions_dir) / f"--{name}--", *talk("x"), cwd=f"/{name}")
    put(Path(get_profile("omp").sessions_dir) / "-three", *talk("x"))
    assert {info.cwd for info in list_all_sessions(profile="pi")} == {"/one", "/two"}
    assert len(SessionManager.list_all(profile="omp")) == 1
    assert SessionManager.list_all() == []


def test_what_lies_beside_sessions_is_not_listed(tmp_path: Path) -> None:
    put(tmp_path, *talk("x"))
    data = next(tmp_path.iterdir()).read_bytes()
    for name in (
        ".x.jsonl.draft",
        "._x.jsonl",
        "x.jsonl.rejected",
        "x.jsonl.corrupt-1",
        ".x.jsonl.1-a.tmp",
    ):
        (tmp_path / name).write_bytes(data)
    assert len(listed(tmp_path)) == 1


def test_progress_is_told_for_every_file(tmp_path: Path) -> None:
    for _ in range(5):
        put(tmp_path, *talk("x"))
    told: list[tuple[int, int]] = []
    SessionManager.list("/x", tmp_path, lambda done, total: told.append((done, total)))
    assert told == [(n, 5) for n in range(1, 6)]


@pytest.mark.parametrize("time_ns", [2**70, -(2**70)])
def test_a_time_that_no_calendar_has_hides_nothing(time_ns: int) -> None:
    storage = MemorySessionStorage(clock_ns=lambda: time_ns)
    storage.ensure_dir("/s")
    storage.write_atomic(
        "/s/x.jsonl", b"".join(dump(line) + b"\n" for line in [header(), *talk("x")])
    )
    assert len(list_sessions("/x", "/s", storage=storage)) == 1
    (recent,) = get_recent_sessions("/s", storage=storage)
    assert recent.time_ago


def test_a_memory_storage_is_listed_as_it_is_now() -> None:
    storage = MemorySessionStorage(clock_ns=lambda: 1)
    storage.ensure_dir("/s")
    for text in ("one", "two"):
        lines = [header(), *talk(text)]
        storage.write_atomic("/s/x.jsonl", b"".join(dump(line) + b"\n" for line in lines))
        (info,) = list_sessions("/x", "/s", storage=storage)
        assert (info.first_message, info.all_messages_text) == (text, text)


def test_text_is_read_when_asked_for_and_empty_if_the_file_is_gone(tmp_path: Path) -> None:
    file = put(tmp_path, *talk("x"))
    info = only(tmp_path)
    again = only(tmp_path)
    assert info.all_messages_text == "x"
    file.unlink()
    assert info.all_messages_text == "x"
    assert again.all_messages_text == ""


def test_infos_are_equal_when_they_say_the_same(tmp_path: Path) -> None:
    put(tmp_path, *talk("x"))
    one, other = only(tmp_path), only(tmp_path)
    assert one == other
    assert hash(one) == hash(other)
    assert "message_count=1" in repr(one)
    other.title = "changed"
    assert one != other


def test_listing_changes_no_file(tmp_path: Path) -> None:
    file = put(tmp_path, *talk("x"), version=1)
    before = file.read_bytes(), file.stat().st_mtime_ns, os.listdir(tmp_path)
    assert listed(tmp_path)[0].all_messages_text == "x"
    assert (file.read_bytes(), file.stat().st_mtime_ns, os.listdir(tmp_path)) == before
