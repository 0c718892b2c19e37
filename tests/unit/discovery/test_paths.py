"""Names of folders and files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import assistant, user

from sessiontree import SessionManager, resolve_session
from sessiontree.discovery import paths
from sessiontree.profiles import PROFILE_NAMES, get_profile, list_profiles
from sessiontree.storage.file import FileSessionStorage


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/code/pi", "--code-pi--"),
        ("/code/pi/", "--code-pi--"),
        ("/code/./pi/../pi", "--code-pi--"),
        ("//code/pi", "--code-pi--"),
        ("/a:b/c d", "--a-b-c d--"),
        ("/", "----"),
        ("C:\\Users\\ana", "--C--Users-ana--"),
        ("\\\\server\\share", "---server-share--"),
    ],
)
def test_a_project_folder_is_named_after_its_path(cwd: str, name: str) -> None:
    assert paths.encode_cwd(cwd) == name


def test_a_relative_cwd_is_taken_from_where_the_program_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert paths.encode_cwd("x") == paths.encode_cwd(tmp_path / "x")


@pytest.mark.parametrize(
    ("below_home", "name"),
    [("", "-"), ("projects/pi", "-projects-pi"), ("a:b", "-a-b")],
)
def test_omp_names_folders_below_home_relative_to_it(
    home: Path, below_home: str, name: str
) -> None:
    assert paths.encode_cwd_home_relative(home / below_home) == name


def test_omp_names_folders_below_the_temporary_folder_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert paths.encode_cwd_home_relative(tmp_path) == "-tmp"
    assert paths.encode_cwd_home_relative(tmp_path / "x/y") == "-tmp-x-y"


def test_omp_names_other_folders_by_their_whole_path() -> None:
    assert paths.encode_cwd_home_relative("/srv/pi") == "--srv-pi--"


def test_a_folder_that_only_begins_like_home_is_not_below_it(home: Path) -> None:
    neighbour = Path(f"{home}-other/x")
    assert paths.encode_cwd_home_relative(neighbour) != "-other-x"


@pytest.mark.parametrize("name", ["omp", "xcsh"])
def test_omp_and_xcsh_find_both_spellings(home: Path, name: str) -> None:
    profile = get_profile(name)
    folders = paths.session_folders(profile, home / "pi")
    root = Path(profile.sessions_dir)
    assert folders == [str(root / paths.encode_cwd(home / "pi")), str(root / "-pi")]


@pytest.mark.parametrize("name", ["sessiontree", "pi"])
def test_the_others_know_one_spelling(home: Path, name: str) -> None:
    assert len(paths.session_folders(get_profile(name), home / "pi")) == 1


def test_a_new_session_goes_to_the_spelling_that_is_there(home: Path) -> None:
    profile = get_profile("omp")
    seeds, home_relative = paths.session_folders(profile, home / "pi")
    storage = FileSessionStorage()
    os.makedirs(seeds)
    assert paths.default_session_dir(profile, home / "pi", storage) == seeds
    os.makedirs(home_relative)
    assert paths.default_session_dir(profile, home / "pi", storage) == home_relative


@pytest.mark.parametrize("name", ["omp", "xcsh"])
def test_a_new_project_gets_the_name_that_living_omp_gives_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    profile, storage = get_profile(name), FileSessionStorage()
    for cwd, folder in (
        (home, "-"),
        (home / "src/pi", "-src-pi"),
        (tmp_path / "temp", "-tmp"),
        (tmp_path / "temp/x", "-tmp-x"),
        (Path("/srv/pi"), "--srv-pi--"),
    ):
        found = paths.default_session_dir(profile, cwd, storage)
        assert found == os.path.join(profile.sessions_dir, folder)


@pytest.mark.parametrize("name", ["sessiontree", "pi"])
def test_the_others_keep_their_one_spelling(home: Path, name: str) -> None:
    profile = get_profile(name)
    found = paths.default_session_dir(profile, home / "pi", FileSessionStorage())
    assert os.path.basename(found) == paths.encode_cwd(home / "pi")


def test_a_path_through_a_link_leads_to_the_folder_of_the_real_place(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    profile = get_profile()
    through_link = paths.session_folders(profile, tmp_path / "link")
    assert paths.session_folders(profile, real)[0] == through_link[0]
    assert os.path.join(profile.sessions_dir, paths.encode_cwd(tmp_path / "link")) in through_link
    assert paths.same_cwd(tmp_path / "link", f"{real}/")


def test_folders_that_share_an_encoded_name_are_told_apart() -> None:
    assert paths.encode_cwd("/a-b/c") == paths.encode_cwd("/a/b-c")
    assert not paths.same_cwd("/a-b/c", "/a/b-c")


def test_a_header_without_a_cwd_goes_by_its_folder() -> None:
    assert paths.belongs_to("/code/pi")("")


def test_a_recorded_cwd_that_is_no_path_belongs_nowhere() -> None:
    assert not paths.belongs_to("/code/pi")("/code\x00/pi")


def test_a_session_file_is_named_after_time_and_id() -> None:
    name = paths.session_file_name("2026-02-16T10:20:30.000Z", "1f9d2a6b9c0d1234")
    assert name == "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl"
    assert paths.parse_session_file_name(name) == (
        "2026-02-16T10:20:30.000Z",
        "1f9d2a6b9c0d1234",
    )


@given(st.text(min_size=1))
def test_no_id_can_name_a_file_in_another_folder(session_id: str) -> None:
    name = paths.session_file_name("2026-02-16T10:20:30.000Z", session_id)
    assert os.path.basename(name) == name
    assert "\x00" not in name


@pytest.mark.parametrize(
    "name", ["notes.jsonl", "2026-02-16_x.jsonl", "2026-02-16T10-20-30-000Z_.jsonl", "x.json", ""]
)
def test_other_names_carry_no_id(name: str) -> None:
    assert paths.parse_session_file_name(name) is None


def test_what_lies_beside_a_session() -> None:
    assert paths.draft_path("/s/x.jsonl") == "/s/.x.jsonl.draft"
    assert paths.session_of_draft("/s/.x.jsonl.draft") == "/s/x.jsonl"
    assert paths.session_of_draft("/s/x.jsonl") is None
    assert paths.artifacts_dir("/s/x.jsonl") == "/s/x"
    assert paths.artifacts_dir("/s/x") != "/s/x"


# -- one folder for all projects --------------------------------------------------------------


def test_pi_and_omp_may_be_told_one_folder_for_all_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", str(tmp_path / "all"))
    monkeypatch.delenv("SESSIONTREE_PROFILE", raising=False)
    storage = FileSessionStorage()
    for name in ("pi", "omp"):
        profile = get_profile(name)
        assert paths.session_folders(profile, "/code/pi") == [str(tmp_path / "all")]
        assert paths.default_session_dir(profile, "/code/pi", storage) == str(tmp_path / "all")
    for name in ("sessiontree", "xcsh"):
        assert get_profile(name).session_dir is None
    # whose profile nobody chose keeps its own folders
    own = {"prime-agent": get_profile("prime-agent").agent_dir + "/sessions"}
    told = {profile.name: profile.session_dir for profile in list_profiles()}
    assert told == dict.fromkeys(PROFILE_NAMES) | own
    monkeypatch.setenv("SESSIONTREE_PROFILE", "pi")
    told = {profile.name: profile.session_dir for profile in list_profiles()}
    assert told == dict.fromkeys(PROFILE_NAMES) | own | {"pi": str(tmp_path / "all")}


def test_sessions_in_one_folder_for_all_projects_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", "~/all")
    monkeypatch.setenv("HOME", str(tmp_path))
    made = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with SessionManager.create(tmp_path / name, profile="pi") as manager:
            manager.append_message(user(name))
            manager.append_message(assistant())
            made[name] = str(manager.session_file)
    assert {os.path.dirname(file) for file in made.values()} == {str(tmp_path / "all")}
    assert [info.path for info in SessionManager.list(tmp_path / "one", profile="pi")] == [
        made["one"]
    ]
    assert {info.path for info in SessionManager.list_all(profile="pi")} == {*made.values()}
    with SessionManager.continue_recent(tmp_path / "one", profile="pi") as manager:
        assert manager.session_file == made["one"]
    other = paths.parse_session_file_name(made["two"])
    assert other is not None
    assert resolve_session(other[1], tmp_path / "one", profile="pi").path == made["two"]
