"""Which session is meant: resume targets, continuing, drafts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.samples import dump, entry, header, message, user, write
from tests.unit.discovery.places import put, session_name, talk

from sessiontree import (
    AmbiguousSessionError,
    MemorySessionStorage,
    NotASessionError,
    SessionManager,
    SessionNotFoundError,
    resolve_session,
)
from sessiontree.discovery import paths
from sessiontree.discovery.breadcrumbs import write_breadcrumb
from sessiontree.discovery.drafts import find_drafts
from sessiontree.discovery.resume import choose_recent
from sessiontree.profiles import get_profile
from sessiontree.storage.base import FileStat, SessionStorageReader, StrPath
from sessiontree.storage.file import FileSessionStorage

HERE = "/code/here"
THERE = "/code/there"


@pytest.fixture
def here(home: Path) -> Path:
    return Path(paths.session_folders(get_profile(), HERE)[0])


@pytest.fixture
def there(home: Path) -> Path:
    return Path(paths.session_folders(get_profile(), THERE)[0])


# -- paths ---------------------------------------------------------------------------------------


def test_a_value_with_a_slash_or_the_ending_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path, session_id="abc", name="x.jsonl", cwd=THERE, title="T")
    monkeypatch.chdir(tmp_path)
    for value in (str(file), "./x.jsonl", "x.jsonl", file):
        found = resolve_session(value, tmp_path)
        assert os.path.samefile(found.path, file)
        assert (found.id, found.cwd, found.title, found.is_local) == ("abc", THERE, "T", False)
    assert resolve_session(file, THERE).is_local


def test_a_path_that_leads_nowhere_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError, match=r"none\.jsonl"):
        resolve_session(tmp_path / "none.jsonl", HERE)
    assert os.listdir(tmp_path) == []


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Readme\n")
    with pytest.raises(NotASessionError):
        resolve_session(tmp_path / "README.md", HERE)


def test_a_damaged_session_can_be_resumed_by_path(tmp_path: Path) -> None:
    file = write(tmp_path / session_name("abc"), b"{torn\n", *talk("x"))
    assert resolve_session(file, HERE).id == "abc"


# -- ids -----------------------------------------------------------------------------------------


def test_an_id_is_found_by_its_beginning_here_first(here: Path, there: Path) -> None:
    mine = put(here, session_id="abc1", cwd=HERE)
    put(there, session_id="abc2", cwd=THERE)
    far = put(there, session_id="def1", cwd=THERE)
    found = resolve_session("abc", HERE)
    assert (found.path, found.id, found.is_local) == (str(mine), "abc1", True)
    found = resolve_session("de", HERE)
    assert (found.path, found.cwd, found.is_local) == (str(far), THERE, False)


def test_several_matches_are_an_error_with_the_candidates(here: Path) -> None:
    put(here, *talk("old"), session_id="abc1", cwd=HERE, mtime=1_790_000_000)
    put(here, *talk("new"), session_id="abc2", cwd=HERE, mtime=1_790_000_001, title="T")
    put(here, session_id="abc3", cwd=HERE, mtime=1_789_999_999)
    with pytest.raises(AmbiguousSessionError) as error:
        resolve_session("abc", HERE)
    candidates = error.value.candidates
    assert [(info.id, info.title) for info in candidates] == [
        ("abc2", "T"),
        ("abc1", None),
        ("abc3", None),
    ]


def test_ambiguity_elsewhere_is_an_error_too(there: Path, home: Path) -> None:
    put(there, session_id="abc1", cwd=THERE)
    put(there.parent / "--third--", session_id="abc2", cwd="/third")
    with pytest.raises(AmbiguousSessionError):
        resolve_session("abc", HERE)


def test_a_whole_id_is_not_ambiguous_with_a_longer_one(here: Path) -> None:
    put(here, session_id="abc", cwd=HERE)
    put(here, session_id="abcd", cwd=HERE)
    assert resolve_session("abc", HERE).id == "abc"


def test_a_neighbour_in_the_same_folder_is_not_of_this_project(home: Path) -> None:
    folder = Path(paths.session_folders(get_profile(), "/a-b/c")[0])
    put(folder, session_id="abc1", cwd="/a-b/c")
    put(folder, session_id="abc2", cwd="/a/b-c")
    assert resolve_session("abc", "/a-b/c").id == "abc1"
    assert resolve_session("abc", "/a/b-c").id == "abc2"
    assert not resolve_session("abc1", "/a/b-c").is_local


def test_an_explicit_folder_is_the_only_one_looked_in(here: Path, tmp_path: Path) -> None:
    put(here, session_id="abc", cwd=HERE)
    own = put(tmp_path, session_id="def", cwd=HERE)
    assert resolve_session("def", HERE, session_dir=tmp_path).path == str(own)
    with pytest.raises(SessionNotFoundError):
        resolve_session("abc", HERE, session_dir=tmp_path)


def test_no_other_file_is_opened(here: Path, there: Path) -> None:
    class Storage(FileSessionStorage):
        def open_reader(self, path: StrPath) -> SessionStorageReader:
            opened.append(os.path.basename(path))
            return super().open_reader(path)

        def list_files(self, folder: StrPath, suffix: str = "") -> list[FileStat]:
            raise AssertionError("every file was looked at")

    opened: list[str] = []
    for number in range(50):
        put(here, session_id=f"a{number}", cwd=HERE)
        put(there, session_id=f"b{number}", cwd=THERE)
    assert resolve_session("b17", HERE, storage=Storage()).id == "b17"
    assert opened == [session_name("b17")]


def test_a_session_without_messages_can_be_resumed(here: Path) -> None:
    put(here, session_id="abc", cwd=HERE)
    assert resolve_session("abc", HERE).id == "abc"


@pytest.mark.parametrize("name", [None, "odd.jsonl"])
def test_without_a_header_the_folder_says_whose_a_session_is(
    here: Path, there: Path, name: str | None
) -> None:
    for folder, is_local in ((there, False), (here, True)):
        file = put(folder, *talk("a"), session_id="odd", name=name)
        file.write_bytes(file.read_bytes().split(b"\n", 1)[1])
        found = resolve_session("odd", HERE)
        assert (found.path, found.cwd, found.is_local) == (str(file), "", is_local)


def test_a_session_under_a_name_of_its_own_is_found_by_its_header(here: Path) -> None:
    put(here, session_id="abc", name="renamed.jsonl", cwd=HERE)
    assert resolve_session("ab", HERE).path.endswith("renamed.jsonl")


@pytest.mark.parametrize("texts", [("x", "y"), ()])
def test_an_id_that_only_a_header_has_is_found_here_first(
    here: Path, there: Path, texts: tuple[str, ...]
) -> None:
    mine = put(here, *talk(*texts), session_id="abc1", name=session_name("one"), cwd=HERE)
    far = put(there, *talk(*texts), session_id="abc2", name=session_name("two"), cwd=THERE)
    found = resolve_session("abc", HERE)
    assert (found.path, found.id, found.is_local) == (str(mine), "abc1", True)
    found = resolve_session("abc2", HERE)
    assert (found.path, found.id, found.is_local) == (str(far), "abc2", False)
    found = resolve_session("abc1", HERE, session_dir=here)
    assert (found.path, found.id) == (str(mine), "abc1")
    with pytest.raises(SessionNotFoundError):
        resolve_session("abc2", HERE, session_dir=here)


def test_an_id_in_a_file_name_counts_before_one_that_only_a_header_has(
    here: Path, there: Path
) -> None:
    put(here, session_id="abc1", name=session_name("one"), cwd=HERE)
    named = put(there, session_id="abc2", cwd=THERE)
    assert resolve_session("abc", HERE).path == str(named)


def test_several_ids_that_only_headers_have_are_ambiguous(here: Path) -> None:
    put(here, session_id="abc1", name=session_name("one"), cwd=HERE)
    put(here, *talk("x"), session_id="abc12", name=session_name("two"), cwd=HERE)
    with pytest.raises(AmbiguousSessionError) as error:
        resolve_session("abc", HERE)
    assert {info.id for info in error.value.candidates} == {"abc1", "abc12"}
    assert resolve_session("abc1", HERE).id == "abc1"


# -- names ---------------------------------------------------------------------------------------


def test_a_session_is_found_by_its_exact_name(here: Path, there: Path) -> None:
    put(here, *talk("x"), session_id="abc", cwd=HERE, title="Fix the login")
    put(there, *talk("x"), session_id="def", cwd=THERE, title="Fix the logout")
    assert resolve_session("Fix the login", HERE).id == "abc"
    found = resolve_session("Fix the logout", HERE)
    assert (found.id, found.is_local) == ("def", False)
    with pytest.raises(SessionNotFoundError):
        resolve_session("Fix the log", HERE)


def test_a_name_given_twice_is_ambiguous(here: Path) -> None:
    for session_id in ("abc", "def"):
        put(here, *talk("x"), session_id=session_id, cwd=HERE, title="Same")
    with pytest.raises(AmbiguousSessionError) as error:
        resolve_session("Same", HERE)
    assert {info.id for info in error.value.candidates} == {"abc", "def"}


def test_an_id_counts_before_a_name(here: Path) -> None:
    put(here, *talk("x"), session_id="add1", cwd=HERE)
    put(here, *talk("x"), session_id="xyz", cwd=HERE, title="add")
    assert resolve_session("add", HERE).id == "add1"
    put(here, *talk("x"), session_id="sub1", name=session_name("one"), cwd=HERE)
    put(here, *talk("x"), session_id="uvw", cwd=HERE, title="sub")
    assert resolve_session("sub", HERE).id == "sub1"


@pytest.mark.parametrize("value", ["", "   "])
def test_an_empty_value_is_an_error(here: Path, value: str) -> None:
    put(here, session_id="abc", cwd=HERE)
    with pytest.raises(SessionNotFoundError):
        resolve_session(value, HERE)


def test_nothing_found_says_so(home: Path) -> None:
    with pytest.raises(SessionNotFoundError, match=r'^Session "nope" not found\.$'):
        resolve_session("nope", HERE)


def test_the_beginning_of_a_file_name_stands_for_its_session(here: Path) -> None:
    one = put(here, session_id="aa", cwd=HERE, name=session_name("aa", "2026-02-16T10-20-30-000Z"))
    two = put(here, session_id="bb", cwd=HERE, name=session_name("bb", "2026-02-17T10-20-30-000Z"))
    assert resolve_session("2026-02-17", HERE).path == str(two)
    assert resolve_session("2026-02-16T10-20", HERE).path == str(one)
    assert resolve_session(one.stem, HERE).path == str(one)
    put(here, session_id="cc", cwd=HERE, name=session_name("cc", "2026-02-17T11-20-30-000Z"))
    with pytest.raises(AmbiguousSessionError):
        resolve_session("2026-02-17", HERE)
    # all begin with it, so it says nothing
    with pytest.raises(SessionNotFoundError):
        resolve_session("2026", HERE)
    digits = put(here, session_id="2026-02-17-id", cwd=HERE)
    assert resolve_session("2026-02-17", HERE).path == str(digits)


# -- continuing ----------------------------------------------------------------------------------


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TMUX_PANE", "%1")
    monkeypatch.setattr("sessiontree.discovery.breadcrumbs._tty_id", lambda fd: None)
    return "tmux-%1"


def test_the_newest_session_of_this_project_is_continued(here: Path, terminal: str) -> None:
    put(here, session_id="old", cwd=HERE, mtime=1_790_000_000)
    new = put(here, session_id="new", cwd=f"{HERE}/", mtime=1_790_000_001)
    put(here, session_id="foreign", cwd="/code-here", mtime=1_790_000_002)
    assert choose_recent(HERE) == str(new)


def test_an_explicit_folder_gives_only_this_projects(tmp_path: Path, terminal: str) -> None:
    mine = put(tmp_path, cwd=HERE, mtime=1_790_000_000)
    put(tmp_path, cwd=THERE, mtime=1_790_000_001)
    assert choose_recent(HERE, tmp_path) == str(mine)
    assert choose_recent("/elsewhere", tmp_path) is None


def test_this_terminals_session_comes_before_a_newer_one(here: Path, terminal: str) -> None:
    mine = put(here, session_id="mine", cwd=HERE, mtime=1_790_000_000)
    newer = put(here, session_id="newer", cwd=HERE, mtime=1_790_000_001)
    write_breadcrumb(get_profile(), HERE, mine)
    assert choose_recent(HERE) == str(mine)
    assert choose_recent(THERE) is None
    mine.unlink()
    assert choose_recent(HERE) == str(newer)


def test_a_breadcrumb_into_another_folder_does_not_leave_an_explicit_one(
    here: Path, tmp_path: Path, terminal: str
) -> None:
    write_breadcrumb(get_profile(), HERE, put(here, cwd=HERE))
    own = put(tmp_path, cwd=HERE)
    assert choose_recent(HERE, tmp_path) == str(own)


def test_a_breadcrumb_to_what_is_no_session_is_passed_over(
    here: Path, tmp_path: Path, terminal: str
) -> None:
    good = put(here, *talk("x"), cwd=HERE)
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    for path in (tmp_path, notes, Path("/dev/null")):
        write_breadcrumb(get_profile(), HERE, path)
        with SessionManager.continue_recent(HERE) as session:
            assert session.session_file == str(good)
    assert notes.read_text() == "mine"


def test_with_nothing_to_continue_there_is_nothing(home: Path, terminal: str) -> None:
    assert choose_recent(HERE) is None
    session = SessionManager.continue_recent(HERE)
    assert session.get_entries() == []


def test_damaged_and_unreadable_files_are_passed_over(here: Path, terminal: str) -> None:
    good = put(here, cwd=HERE, mtime=1_790_000_000)
    bad = write(here / session_name("bad"), b"{torn\n")
    os.utime(bad, (1_790_000_001, 1_790_000_001))
    (here / "loop.jsonl").symlink_to(here / "loop.jsonl")
    assert choose_recent(HERE) == str(good)


def test_a_prompt_that_was_never_answered_is_offered_back(here: Path, terminal: str) -> None:
    put(here, *talk("x", "y"), cwd=HERE, mtime=1_700_000_000)
    lost = SessionManager.create(HERE)
    lost.append_message(user("unanswered"))
    assert lost.session_file is not None
    (draft,) = find_drafts(HERE)
    assert draft.session_file == lost.session_file
    assert (draft.first_message, draft.cwd, draft.id) == ("unanswered", HERE, lost.session_id)
    again = SessionManager.continue_recent(HERE)
    assert again.session_id == lost.session_id
    assert [item.data["message"]["content"] for item in again.get_entries()] == ["unanswered"]


def test_a_draft_in_which_nobody_has_said_anything_is_passed_over(here: Path) -> None:
    said = put(here, *talk("x", "y"), cwd=HERE, mtime=1_700_000_000)
    killed = SessionManager.create(HERE)
    killed.append_model_change("offline/offline")
    killed.append_thinking_level_change("off")
    (draft,) = find_drafts(HERE)
    assert choose_recent(HERE) == str(said)
    killed.append_custom_entry("note", {"a": 1})
    assert choose_recent(HERE) == draft.path


def test_a_draft_whose_session_exists_is_no_draft(here: Path, home: Path) -> None:
    file = put(here, cwd=HERE)
    draft = Path(paths.draft_path(file))
    draft.write_bytes(file.read_bytes())
    assert find_drafts(HERE) == []
    file.unlink()
    assert [found.path for found in find_drafts(HERE)] == [str(draft)]
    assert [found.path for found in find_drafts()] == [str(draft)]
    assert find_drafts(THERE) == []


def test_a_draft_can_be_resumed_by_id_and_path(here: Path, home: Path) -> None:
    file = here / session_name("abc")
    draft = Path(paths.draft_path(file))
    write(draft, header(id="abc", cwd=HERE), message("a0000001", None, user("x")))
    assert resolve_session("abc", HERE).path == str(draft)
    assert resolve_session(file, HERE).path == str(draft)


def test_a_memory_storage_is_resumed_from() -> None:
    storage = MemorySessionStorage()
    storage.ensure_dir("/s")
    lines = [header(id="abc", cwd=HERE), entry("custom", "a0000001", None, customType="x")]
    storage.write_atomic(
        f"/s/{session_name('abc')}", b"".join(dump(line) + b"\n" for line in lines)
    )
    assert resolve_session("a", HERE, session_dir="/s", storage=storage).id == "abc"
    assert choose_recent(HERE, "/s", storage=storage) == f"/s/{session_name('abc')}"
