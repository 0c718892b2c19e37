"""Names of sessions: written as each dialect reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import (
    ONE_TURN,
    assistant,
    chain,
    dump,
    entry,
    header,
    lines,
    message,
    read,
    said,
    slot,
    user,
    write,
)

from sessiontree import SessionManager
from sessiontree.export.view import open_view, view_of
from sessiontree.profiles import get_profile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def test_a_session_without_a_name_has_none(file: Path) -> None:
    assert SessionManager.open(write(file, header(), *ONE_TURN)).session_name is None
    assert SessionManager.open(write(file, header(title=""), *ONE_TURN)).session_name is None
    assert (
        SessionManager.open(write(file, {**header(), "title": 5}, *ONE_TURN)).session_name is None
    )


# -- omp ----------------------------------------


def test_a_name_goes_into_the_header(file: Path) -> None:
    write(file, header(extra=1), *ONE_TURN)
    session = SessionManager.open(file)
    session.set_session_name("My session")
    assert session.session_name == "My session"
    assert session.header["title"] == "My session"
    head, *entries = read(file)
    assert head == {**header(extra=1), "title": "My session", "titleSource": "user"}
    assert entries == ONE_TURN
    assert session.leaf_id == "a2"
    assert SessionManager.open(file).session_name == "My session"


def test_a_named_session_goes_on(file: Path) -> None:
    write(file, header(), *ONE_TURN)
    session = SessionManager.open(file)
    session.set_session_name("one")
    session.append_message(user("3"))
    session.set_session_name("two")
    session.append_message(user("4"))
    again = SessionManager.open(file)
    assert (again.session_name, said(again)) == ("two", ["1", "2", "3", "4"])


def test_an_empty_name_clears_it(file: Path) -> None:
    session = SessionManager.open(write(file, header(title="old", titleSource="user"), *ONE_TURN))
    session.set_session_name("  \n ")
    assert session.session_name is None
    assert read(file)[0] == header()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("  two   words ", "two words"),
        ("line\nbreak\r\n", "line break"),
        ("\x1b[31mred\x07", "[31mred"),
        ("tab\there\x00", "tab here"),
        ("c1\x9bcontrol\x7f", "c1 control"),
        ("é \U0001f600 漢", "é \U0001f600 漢"),
    ],
)
def test_control_characters_do_not_get_into_a_name(file: Path, given: str, kept: str) -> None:
    session = SessionManager.open(write(file, header(), *ONE_TURN))
    session.set_session_name(given)
    assert session.session_name == kept
    assert SessionManager.open(file).session_name == kept


def test_a_title_slot_is_renamed_in_place(file: Path) -> None:
    write(file, slot("old", "auto"), header(title="older"), *ONE_TURN)
    inode, size = file.stat().st_ino, file.stat().st_size
    rest = file.read_bytes()[256:]
    session = SessionManager.open(file)
    session.set_session_name("new")
    assert (file.stat().st_ino, file.stat().st_size) == (inode, size)
    assert file.read_bytes()[256:] == rest
    first = read(file)[0]
    assert (first["type"], first["v"], first["title"], first["source"]) == (
        "title",
        1,
        "new",
        "user",
    )
    assert len(file.read_bytes().split(b"\n")[0]) == 255
    assert session.session_name == "new"
    assert SessionManager.open(file).session_name == "new"
    session.append_message(user("3"))
    assert said(SessionManager.open(file)) == ["1", "2", "3"]


def test_a_slot_is_cleared_in_place(file: Path) -> None:
    write(file, slot("old"), header(title="older"), *ONE_TURN)
    session = SessionManager.open(file)
    session.set_session_name("")
    assert read(file)[0]["title"] == ""
    assert session.session_name is None
    assert SessionManager.open(file).session_name is None


@pytest.mark.parametrize("name", ["x" * 1_000, "\U0001f600" * 200, '"\\' * 200])
def test_a_name_too_long_for_its_slot_breaks_nothing(file: Path, name: str) -> None:
    write(file, slot("old"), header(), *ONE_TURN)
    rest = file.read_bytes()[256:]
    session = SessionManager.open(file)
    session.set_session_name(name)
    assert file.read_bytes()[256:] == rest
    shown = SessionManager.open(file).session_name
    assert shown is not None
    assert name.startswith(shown)
    assert session.session_name == shown
    assert any("was cut" in str(warning) for warning in session.warnings)
    session.rewrite_entries()
    assert said(SessionManager.open(file)) == ["1", "2"]


@pytest.mark.parametrize(
    "head",
    [
        slot("old").rstrip(b"\n") + dump(header()) + b"\n",
        dump({"type": "title", "v": 1, "title": "old"}) + b"\n" + lines(header()),
        slot("old", size=300) + lines(header()),
        slot("old", size=128) + lines(header()),
        slot("old").replace(b"\n", b"\r\n") + lines(header()),
        b"\xef\xbb\xbf" + slot("old") + lines(header()),
        b"\n" + slot("old") + lines(header()),
        b"garbage\n" + slot("old") + lines(header()),
    ],
    ids=["glued", "bare", "long", "short", "crlf", "bom", "behind-a-blank", "behind-garbage"],
)
def test_a_slot_that_is_not_as_omp_makes_it_costs_nothing(file: Path, head: bytes) -> None:
    file.write_bytes(head + lines(*ONE_TURN))
    session = SessionManager.open(file)
    assert session.session_name == "old"
    session.set_session_name("a new name that is longer")
    session.append_message(user("3"))
    session.close()
    again = SessionManager.open(file)
    assert again.session_id == header()["id"]
    assert again.session_name == "a new name that is longer"
    assert said(again) == ["1", "2", "3"]
    again.rewrite_entries()
    assert SessionManager.open(file).session_name == "a new name that is longer"


def test_a_name_set_by_another_process_is_seen(file: Path) -> None:
    write(file, slot("old"), header(), *ONE_TURN)
    one, two = SessionManager.open(file), SessionManager.open(file)
    one.set_session_name("new")
    one.append_message(user("3"))
    two.append_message(user("4"))
    two.rewrite_entries()
    assert SessionManager.open(file).session_name == "new"


def test_a_slot_renamed_by_another_process_shows_after_a_look(file: Path) -> None:
    write(file, slot("old"), header(), *ONE_TURN)
    one, two = SessionManager.open(file), SessionManager.open(file)
    one.set_session_name("new")
    two.refresh()
    assert two.session_name == "new"


@pytest.mark.parametrize("head", [slot("old"), b""], ids=["slot", "header"])
def test_the_latest_of_two_renaming_processes_wins_for_both(file: Path, head: bytes) -> None:
    write(file, head, header(), *ONE_TURN)
    one, two = SessionManager.open(file), SessionManager.open(file)
    one.set_session_name("first")
    two.set_session_name("second")
    two.rewrite_entries()
    one.append_message(user("3"))
    assert one.session_name == "second"
    one.rewrite_entries()
    assert SessionManager.open(file).session_name == "second"


def test_in_memory_a_name_is_kept_in_memory() -> None:
    session = SessionManager.in_memory()
    session.set_session_name("name")
    assert session.session_name == "name"


# -- pi ----------------------------------------


def test_pi_keeps_names_in_entries(file: Path) -> None:
    write(file, header(), *ONE_TURN)
    session = SessionManager.open(file, profile="pi")
    session.set_session_name(" My  session ")
    last = read(file)[-1]
    assert (last["type"], last["name"], last["parentId"]) == ("session_info", "My session", "a2")
    assert "title" not in read(file)[0]
    assert session.session_name == "My session"
    assert SessionManager.open(file, profile="pi").session_name == "My session"
    session.set_session_name("")
    assert SessionManager.open(file, profile="pi").session_name is None


def test_the_last_name_in_the_file_wins_on_whatever_branch(file: Path) -> None:
    write(
        file,
        header(),
        *ONE_TURN,
        entry("session_info", "i1", "a2", name="first"),
        entry("session_info", "i2", "a1", name=" second "),
        message("b", "i1", user("3")),
    )
    assert SessionManager.open(file).session_name == "second"


@pytest.mark.parametrize("cleared", [{}, {"name": ""}, {"name": "  "}, {"name": None}, {"name": 5}])
def test_a_name_is_cleared_by_an_empty_one(file: Path, cleared: dict[str, object]) -> None:
    write(
        file,
        header(),
        *ONE_TURN,
        entry("session_info", "i1", "a2", name="first"),
        entry("session_info", "i2", "i1", **cleared),
    )
    assert SessionManager.open(file, profile="pi").session_name is None


def test_append_session_info_names_a_pi_session(file: Path) -> None:
    session = SessionManager.open(write(file, header(), *ONE_TURN), profile="pi")
    session.append_session_info("by hand")
    assert session.session_name == "by hand"


def test_the_profile_that_is_asked_for_decides_the_dialect(file: Path) -> None:
    write(file, header(), *ONE_TURN, entry("model_change", "m", "a2", provider="a", modelId="b"))
    session = SessionManager.open(file, profile="omp")
    session.append_model_change("c/d")
    assert read(file)[-1]["model"] == "c/d"


def test_a_file_that_shows_its_dialect_is_continued_in_it(file: Path) -> None:
    write(file, header(), *ONE_TURN, entry("model_change", "m", "a2", provider="a", modelId="b"))
    session = SessionManager.open(file)
    session.set_session_name("name")
    assert read(file)[-1]["type"] == "session_info"
    session.append_model_change("c/d")
    assert read(file)[-1]["modelId"] == "d"


def test_a_header_that_gets_a_name_keeps_the_spelling_of_its_other_fields(file: Path) -> None:
    line = (
        b'{"type":"session","version":3,"id":"1f9d2a6b9c0d1234",'
        b'"timestamp":"2026-02-16T10:20:30.000Z","cwd":"/work","far":1e400,"price":1.10,'
        b'"titleSource":"auto","later":{"a": 1}}'
    )
    write(file, header(), *ONE_TURN)
    rest = file.read_bytes().partition(b"\n")[2]
    file.write_bytes(line + b"\n" + rest)
    session = SessionManager.open(file)
    session.set_session_name("named")
    named = line.replace(b'"auto"', b'"user"')[:-1] + b',"title":"named"}'
    assert file.read_bytes() == named + b"\n" + rest
    session.set_session_name("")
    assert file.read_bytes() == line.replace(b'"titleSource":"auto",', b"") + b"\n" + rest


@pytest.mark.parametrize(
    ("profile", "expected"), [("omp", "Title"), ("sessiontree", "Title"), ("pi", "Name")]
)
def test_everything_calls_a_session_the_same(home: Path, profile: str, expected: str) -> None:
    folder = Path(get_profile(profile).sessions_dir) / "--work-pi--"
    named = entry("session_info", "b0000001", "a2", name=" Name ")
    file = write(folder / "x.jsonl", header(title="Title"), *chain(user(), assistant()), named)
    (listed,) = SessionManager.list("/work/pi", profile=profile)
    with SessionManager.open(file) as opened, open_view(file) as seen:
        assert listed.title == opened.session_name == seen.name == expected
        assert view_of(opened).name == expected
    with open_view(file, profile=profile) as seen:
        assert seen.name == expected
