"""Forks: a whole session again, in a file of its own, and the source untouched."""

from __future__ import annotations

import base64
import errno
import os
import uuid
from pathlib import Path

import pytest
from tests.samples import (
    SESSION_ID,
    TALK,
    assistant,
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

from sessiontree import (
    FileSessionStorage,
    NotASessionError,
    PersistenceError,
    SessionManager,
    SessionNotFoundError,
)
from sessiontree.profiles import Dialect, Profile
from sessiontree.testing import FaultyStorage

PICTURE = base64.b64encode(b"picture" * 500).decode()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "source" / "session.jsonl", header(title="Title"), *TALK)


# -- fork_from ----------------------------------------


def test_a_fork_is_the_whole_session_in_another_project(tmp_path: Path, source: Path) -> None:
    before = source.read_bytes()
    forked = SessionManager.fork_from(source, "/other/project", tmp_path / "target")
    assert forked.cwd == "/other/project"
    assert forked.session_dir == str(tmp_path / "target")
    assert forked.session_id != SESSION_ID
    assert said(forked) == ["1", "2", "3", "4"]
    head, *entries = read(str(forked.session_file))
    assert head["id"] == forked.session_id
    assert head["cwd"] == "/other/project"
    assert head["parentSession"] == SESSION_ID
    assert head["version"] == 3
    assert head["title"] == "Title"
    assert entries == TALK
    assert source.read_bytes() == before


def test_a_fork_lies_in_the_projects_folder_by_default(source: Path, home: Path) -> None:
    forked = SessionManager.fork_from(source, "/other/project")
    expected = home / ".sessiontree/agent/sessions/--other-project--"
    assert Path(str(forked.session_file)).parent == expected


def test_pi_names_the_parent_by_its_path(tmp_path: Path, source: Path) -> None:
    forked = SessionManager.fork_from(source, "/other", tmp_path / "target", profile="pi")
    assert forked.header["parentSession"] == str(source)
    assert uuid.UUID(forked.session_id).version == 7


def test_a_titled_session_forked_to_pi_stays_pis(source: Path, home: Path) -> None:
    """pi reads no title in a header: the name goes where pi looks, and the file stays pi's."""
    forked = SessionManager.fork_from(source, "/other", profile="pi")
    assert forked.session_name == "Title"
    assert "title" not in read(str(forked.session_file))[0]
    again = SessionManager.open(str(forked.session_file))
    assert again.profile.name == "pi"
    again.append_message(user("y" * 600_000))
    assert "spilled" not in read(str(again.session_file))[-1]
    again.append_model_change("a/b")
    assert read(str(again.session_file))[-1]["modelId"] == "b"


def test_entries_are_copied_byte_for_byte(tmp_path: Path) -> None:
    odd = b'{ "type":"future","id":"x","parentId":"a4" ,"timestamp":"t","n":1.0e2,"e":"\\u00e9"}\n'
    source = write(tmp_path / "x.jsonl", header(), *TALK, odd)
    forked = SessionManager.fork_from(source, "/other", tmp_path / "target")
    data = Path(str(forked.session_file)).read_bytes()
    assert data.partition(b"\n")[2] == lines(*TALK, odd)


def test_a_fork_goes_on_by_itself(tmp_path: Path, source: Path) -> None:
    before = source.read_bytes()
    with SessionManager.fork_from(source, "/other", tmp_path / "target") as forked:
        forked.append_message(user("5"))
    assert source.read_bytes() == before
    assert said(SessionManager.open(str(forked.session_file))) == ["1", "2", "3", "4", "5"]


def test_the_artifacts_go_along(tmp_path: Path, source: Path) -> None:
    artifacts = source.with_suffix("")
    (artifacts / "sub").mkdir(parents=True)
    (artifacts / "a.txt").write_bytes(b"\x00\xff")
    (artifacts / "sub" / "b.txt").write_text("b")
    forked = SessionManager.fork_from(source, "/other", tmp_path / "target")
    copied = Path(str(forked.artifacts_dir))
    assert (copied / "a.txt").read_bytes() == b"\x00\xff"
    assert (copied / "sub" / "b.txt").read_text() == "b"
    assert (artifacts / "a.txt").exists()


def test_blobs_go_along_to_another_agents_folder(tmp_path: Path, home: Path) -> None:
    image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    long = "y" * 600_000
    with SessionManager.create("/work") as session:
        session.append_message(user([image, {"type": "text", "text": long}]))
        session.append_message(assistant("2"))
    forked = SessionManager.fork_from(str(session.session_file), "/work", profile="omp")
    for blob in (home / ".sessiontree/agent/blobs").iterdir():
        blob.unlink()
    content = SessionManager.open(str(forked.session_file)).build_session_context().messages[0]
    assert content["content"][0]["data"] == PICTURE
    assert content["content"][1]["text"] == long


def test_a_fork_to_pi_has_everything_in_pis_words(tmp_path: Path, home: Path) -> None:
    image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    text = {"type": "text", "text": "z" * 600_000}
    source = SessionManager.create(tmp_path, tmp_path / "flat", profile="omp")
    source.append_message(user([image, text]))
    source.append_message(assistant("fine"))
    source.append_model_change("anthropic/claude")
    source.append_mode_change("plan")
    source.close()
    forked = SessionManager.fork_from(str(source.session_file), tmp_path, profile="pi")
    _, asked, answered, model, mode = read(str(forked.session_file))
    assert asked["message"]["content"] == [image, text]
    assert "spilled" not in asked
    assert answered["message"] == assistant("fine")
    assert (model["provider"], model["modelId"]) == ("anthropic", "claude")
    assert "model" not in model
    assert mode["type"] == "custom"
    assert said(forked)[1:] == ["fine"]


def test_a_session_of_pi_forked_to_omp_keeps_its_name_and_model(tmp_path: Path) -> None:
    with SessionManager.create(tmp_path, profile="pi") as source:
        source.append_message(user("1"))
        source.append_message(assistant("2"))
        source.append_model_change("anthropic/claude")
        source.set_session_name("Named")
    forked = SessionManager.fork_from(str(source.session_file), tmp_path, profile="omp")
    head, _, _, model, *_ = read(str(forked.session_file))
    assert head["title"] == "Named"
    assert model["model"] == "anthropic/claude"
    assert forked.session_name == "Named"


def test_a_session_of_pi_in_a_folder_of_its_own_is_known_by_what_it_says(tmp_path: Path) -> None:
    """Its folder tells nothing, and ours is no guess."""
    source = write(
        tmp_path / "elsewhere.jsonl",
        header(),
        entry("model_change", "m1", None, provider="anthropic", modelId="claude"),
        entry("session_info", "i1", "m1", name="Named"),
        message("a1", "i1", user("1")),
        message("a2", "a1", assistant("2")),
    )
    forked = SessionManager.fork_from(source, tmp_path, profile="omp")
    head, model, *_ = read(str(forked.session_file))
    assert (head["title"], model["model"]) == ("Named", "anthropic/claude")
    assert "modelId" not in model
    same = SessionManager.fork_from(source, tmp_path, profile="pi")
    assert read(str(same.session_file))[1:] == read(source)[1:]


@pytest.mark.parametrize(("dialect", "kind"), [("pi", "custom"), ("omp", "mode_change")])
def test_an_agent_of_another_name_is_spoken_to_in_its_dialect(
    tmp_path: Path, dialect: Dialect, kind: str
) -> None:
    source = write(
        tmp_path / "elsewhere.jsonl",
        header(),
        entry("mode_change", "m1", None, mode="plan"),
        entry("session_info", "i1", "m1", name="Named"),
        message("a1", "i1", user("1")),
        message("a2", "a1", assistant("2")),
    )
    theirs = Profile("theirs", str(tmp_path / "agent"), dialect)
    forked = SessionManager.fork_from(source, tmp_path, profile=theirs)
    assert read(str(forked.session_file))[1]["type"] == kind


def test_a_model_without_a_provider_comes_back_from_pi_as_it_was(tmp_path: Path) -> None:
    change = entry("model_change", "m1", None, model="local")
    talk = (message("a1", "m1", user("1")), message("a2", "a1", assistant("2")))
    source = write(tmp_path / "elsewhere.jsonl", header(), change, *talk)
    theirs = SessionManager.fork_from(source, tmp_path, profile="pi")
    assert read(str(theirs.session_file))[1]["type"] == "custom"
    back = SessionManager.fork_from(str(theirs.session_file), tmp_path, profile="omp")
    assert read(str(back.session_file))[1] == change


def test_a_fork_to_pi_holds_one_of_many_pictures_at_a_time(tmp_path: Path) -> None:
    image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    with SessionManager.create(tmp_path, profile="omp") as source:
        for _ in range(3):
            source.append_message(user([image]))
        source.append_message(assistant("fine"))
    forked = SessionManager.fork_from(str(source.session_file), tmp_path, profile="pi")
    assert [found["message"]["content"] for found in read(str(forked.session_file))[1:4]] == [
        [image],
        [image],
        [image],
    ]
    assert not any(found.is_loaded for found in forked.get_entries()[:3])


@pytest.mark.parametrize("profile", ["omp", "pi"])
def test_blobs_of_a_session_in_a_folder_of_its_own_go_along(
    tmp_path: Path, home: Path, profile: str
) -> None:
    image = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    with SessionManager.create(tmp_path, tmp_path / "flat") as source:
        source.append_message(user([image]))
        source.append_message(assistant("fine"))
    forked = SessionManager.fork_from(str(source.session_file), tmp_path, profile=profile)
    again = SessionManager.open(str(forked.session_file))
    assert again.build_session_context().messages[0]["content"] == [image]
    assert again.warnings == []


def test_the_source_may_be_damaged(tmp_path: Path) -> None:
    source = write(tmp_path / "x.jsonl", header(), TALK[0], b"garbage\n", *TALK[2:], b'{"torn')
    before = source.read_bytes()
    forked = SessionManager.fork_from(source, "/other", tmp_path / "target")
    assert said(forked) == ["1", "3", "4"]
    again = SessionManager.open(str(forked.session_file))
    assert said(again) == ["1", "3", "4"]
    assert again.warnings == []
    assert source.read_bytes() == before
    assert os.listdir(source.parent) == ["target", "x.jsonl"] or not list(
        source.parent.glob("x.jsonl.*")
    )


def test_a_title_in_a_slot_is_the_forks_title(tmp_path: Path) -> None:
    source = write(tmp_path / "x.jsonl", slot("From the slot"), header(title="old"), *TALK)
    forked = SessionManager.fork_from(source, "/other", tmp_path / "target")
    assert forked.session_name == "From the slot"
    cleared = write(tmp_path / "y.jsonl", slot(""), header(title="old"), *TALK)
    assert SessionManager.fork_from(cleared, "/other", tmp_path / "target").session_name is None


def test_what_is_true_of_one_file_only_is_not_copied(tmp_path: Path) -> None:
    source = write(
        tmp_path / "x.jsonl",
        header(parentSession="grandparent", previousSessionFiles=["x"], custom={"kept": 1}),
        *TALK,
    )
    forked = SessionManager.fork_from(source, "/other", tmp_path / "target")
    assert forked.header["parentSession"] == SESSION_ID
    assert "previousSessionFiles" not in forked.header
    assert dict(forked.header)["custom"] == {"kept": 1}


@pytest.mark.parametrize("content", [None, b""])
def test_a_source_that_is_not_there_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    source = tmp_path / "nowhere.jsonl"
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(SessionNotFoundError, match="nowhere"):
        SessionManager.fork_from(source, "/other", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_source_without_a_header_is_refused_and_left_alone(tmp_path: Path) -> None:
    source = write(tmp_path / "x.jsonl", b"junk\n", *TALK)
    with pytest.raises(NotASessionError):
        SessionManager.fork_from(source, "/other", tmp_path / "target")
    assert source.read_bytes() == lines(b"junk\n", *TALK)
    assert os.listdir(tmp_path) == ["x.jsonl"]


# -- fork ----------------------------------------


def test_an_open_session_is_forked_and_gone_over_to(source: Path) -> None:
    session = SessionManager.open(source)
    session.append_message(user("5"))
    forked = session.fork()
    assert forked is not None
    old, new = forked
    assert old == str(source)
    assert new == session.session_file
    assert session.session_id != SESSION_ID
    assert session.header["parentSession"] == SESSION_ID
    assert session.session_name == "Title"
    session.append_message(user("6"))
    assert said(SessionManager.open(old)) == ["1", "2", "3", "4", "5"]
    assert said(SessionManager.open(new)) == ["1", "2", "3", "4", "5", "6"]


def test_a_fork_stands_where_the_session_stood(source: Path) -> None:
    session = SessionManager.open(source)
    session.branch("a2")
    session.fork()
    assert said(session) == ["1", "2"]
    session.append_message(user("on"))
    assert said(SessionManager.open(str(session.session_file))) == ["1", "2", "on"]
    assert said(SessionManager.open(source)) == ["1", "2"]


def test_a_fork_has_what_others_appended(source: Path) -> None:
    session = SessionManager.open(source)
    with source.open("ab") as out:
        out.write(dump(message("f", "a4", user("foreign"))) + b"\n")
    session.fork()
    assert session.get_entry("f") is not None


@pytest.mark.parametrize(("operation", "at"), [("write_line", 1), ("write_atomic", 2)])
def test_a_fork_that_fails_half_way_leaves_nothing_behind(
    tmp_path: Path, source: Path, operation: str, at: int
) -> None:
    (source.with_suffix("")).mkdir()
    (source.with_suffix("") / "artifact").write_text("x")
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(source, storage=storage)
    session.branch("a2")
    before = sorted(source.parent.rglob("*"))
    storage.fail(operation, errno.ENOSPC, at=at)
    with pytest.raises(PersistenceError):
        session.fork()
    assert sorted(source.parent.rglob("*")) == before
    assert session.session_file == str(source)
    assert session.leaf_id == "a2"


def test_a_session_without_a_file_has_nothing_to_fork(tmp_path: Path) -> None:
    assert SessionManager.create("/work", tmp_path).fork() is None
    assert SessionManager.in_memory().fork() is None
    assert os.listdir(tmp_path) == []


def test_a_draft_is_forked_as_a_draft(tmp_path: Path) -> None:
    session = SessionManager.create("/work", tmp_path)
    session.append_message(user("1"))
    forked = session.fork()
    assert forked is not None
    assert len(os.listdir(tmp_path)) == 2
    session.append_message(assistant("2"))
    assert os.path.exists(forked[1])
    assert said(SessionManager.open(forked[1])) == ["1", "2"]


def test_entries_changed_in_memory_only_by_repair_are_forked_sound(tmp_path: Path) -> None:
    twice = [message("x", None, user("1")), message("x", "x", user("2")), message("y", "x")]
    session = SessionManager.open(write(tmp_path / "x.jsonl", header(), *twice))
    known = [(found.id, found.parent_id) for found in session.get_entries()]
    session.fork()
    assert [(found.id, found.parent_id) for found in session.get_entries()] == known
    assert session.warnings == []


def test_all_io_of_a_fork_goes_through_the_storage(tmp_path: Path) -> None:
    from sessiontree import MemorySessionStorage

    inside = MemorySessionStorage()
    inside.ensure_dir("/s")
    inside.write_atomic("/s/x.jsonl", lines(header(), *TALK, entry("custom", "c", "a4")))
    storage = FaultyStorage(inside)
    forked = SessionManager.fork_from("/s/x.jsonl", "/other", "/t", storage=storage)
    assert said(forked) == ["1", "2", "3", "4"]
    assert inside.list_names("/t") == [str(forked.session_file).removeprefix("/t/")]
    assert not os.path.exists("/t")
    assert isinstance(FileSessionStorage(), FileSessionStorage)
