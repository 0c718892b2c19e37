"""Importing foreign sessions, and importing them again."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from sessiontree.errors import NotASessionError
from sessiontree.importers.imports import import_all, import_session
from sessiontree.model.ids import format_timestamp
from sessiontree.model.messages import text_of
from sessiontree.session.manager import SessionManager
from sessiontree.storage.memory import MemorySessionStorage
from sessiontree.testing.faults import FaultyStorage


def lines_of(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def last_texts(path: str, count: int = 2) -> list[str]:
    with SessionManager.open(path) as session:
        messages = session.build_session_context().messages
    return [text_of(message.get("content")) for message in messages[-count:]]


def add_turn(path: Path, question: str, reply: str, parent: int = 32, number: int = 40) -> None:
    """Carry the Claude Code fixture on, as Claude Code would."""

    def uuid(n: int) -> str:
        return f"{n:08x}-0000-4000-8000-{n:012x}"

    base = {"isSidechain": False, "cwd": "/home/ana/projects/parser", "sessionId": path.stem}
    asked = {
        **base,
        "type": "user",
        "uuid": uuid(number),
        "parentUuid": uuid(parent),
        "timestamp": "2026-07-15T08:00:00.000Z",
        "message": {"role": "user", "content": question},
    }
    said = {
        **base,
        "type": "assistant",
        "uuid": uuid(number + 1),
        "parentUuid": uuid(number),
        "timestamp": "2026-07-15T08:00:05.000Z",
        "message": {
            "role": "assistant",
            "id": f"msg_{number}",
            "model": "claude-sonnet-4-5-20250929",
            "content": [{"type": "text", "text": reply}],
            "stop_reason": "end_turn",
        },
    }
    with path.open("a") as file:
        file.write(json.dumps(asked) + "\n" + json.dumps(said) + "\n")


def test_an_imported_session_opens_where_the_foreign_one_stood(claude_file: Path) -> None:
    report = import_session(claude_file)
    assert report.is_new
    with SessionManager.open(report.path) as session:
        assert session.session_name == "Last line bug"
        assert session.cwd == "/home/ana/projects/parser"
        assert session.warnings == []
        context = session.build_session_context()
        assert len(session.get_entries()) == report.entries
    assert text_of(context.messages[-1]["content"]) == "Only the benchmark."
    assert context.models["default"] == "anthropic/claude-sonnet-4-5-20250929"


def test_the_file_lies_where_its_project_s_sessions_lie(home: Path, claude_file: Path) -> None:
    report = import_session(claude_file)
    folder = home / ".sessiontree/agent/sessions/--home-ana-projects-parser--"
    assert os.path.dirname(report.path) == str(folder)
    assert re.fullmatch(
        r"2026-07-14T09-00-00-\d{3}Z_[0-9a-f]{16}\.jsonl|2026-07-14T09-00-01-037Z_[0-9a-f]{16}\.jsonl",
        os.path.basename(report.path),
    )
    assert stat.S_IMODE(os.stat(report.path).st_mode) == 0o600


def test_provenance_stands_in_the_header_and_in_one_entry(claude_file: Path) -> None:
    report = import_session(claude_file, now_ms=1_790_000_000_000)
    header, *entries = lines_of(report.path)
    origin = header["importedFrom"]
    assert origin["agent"] == "claude-code"
    assert origin["sessionId"] == "3f2a9c10-7b1e-4c55-9d0a-5e6f7a8b9c01"
    assert origin["path"] == str(claude_file)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", origin["hash"])
    assert origin["when"] == "2026-09-21T14:13:20.000Z"
    notes = [e for e in entries if e.get("customType") == "sessiontree.import"]
    (note,) = notes
    assert {key: note["data"][key] for key in origin} == origin
    assert note["data"]["title"] == "Last line bug"
    assert note["data"]["file"]["size"] == claude_file.stat().st_size
    assert entries[-1] is notes[0]


def test_importing_again_changes_not_a_byte(claude_file: Path, codex_file: Path) -> None:
    for file in (claude_file, codex_file):
        first = import_session(file)
        before = Path(first.path).read_bytes()
        again = import_session(file)
        assert again.is_unchanged
        assert again.path == first.path
        assert Path(first.path).read_bytes() == before


def test_importing_a_longer_session_adds_what_is_new(claude_file: Path) -> None:
    first = import_session(claude_file)
    before = Path(first.path).read_bytes()
    add_turn(claude_file, "One more thing", "Of course.")
    again = import_session(claude_file)
    assert (again.is_new, again.path) == (False, first.path)
    assert Path(first.path).read_bytes().startswith(before)
    assert again.added == 3  # prompt, answer, and the note of this import
    assert not again.keeps_local_leaf
    assert last_texts(first.path) == ["One more thing", "Of course."]


def test_what_was_said_here_since_is_kept_and_stays_the_leaf(claude_file: Path) -> None:
    first = import_session(claude_file)
    with SessionManager.open(first.path) as session:
        session.append_message({"role": "user", "content": "said here", "timestamp": 1})
        here = session.append_message(
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "answered here"}],
                "provider": "x",
                "model": "y",
                "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                "stopReason": "stop",
                "timestamp": 2,
            }
        )
    add_turn(claude_file, "said there", "answered there")
    again = import_session(claude_file)
    assert again.keeps_local_leaf
    assert last_texts(first.path) == ["said here", "answered here"]
    with SessionManager.open(first.path) as session:
        assert session.get_entry(here) is not None
        there = next(
            e
            for e in session.get_entries()
            if e.type == "message" and text_of(e.data["message"].get("content")) == "answered there"
        )
        path = [
            text_of(e.data["message"].get("content"))
            for e in session.get_branch(there.id)
            if e.type == "message"
        ]
    assert path[-3:] == ["Only the benchmark.", "said there", "answered there"]
    assert "said here" not in path


def _time_of(path: str) -> str:
    return format_timestamp(os.stat(path).st_mtime_ns // 1_000_000)


def test_an_imported_session_is_as_old_as_what_was_said_in_it_last(
    claude_file: Path, codex_file: Path
) -> None:
    for file in (claude_file, codex_file):
        report = import_session(file)
        said = [line["timestamp"] for line in lines_of(report.path) if line["type"] == "message"]
        assert _time_of(report.path) == max(said)


def test_bringing_a_session_up_to_date_does_not_make_it_newer_than_it_is(
    claude_file: Path,
) -> None:
    path = import_session(claude_file).path
    add_turn(claude_file, "One more thing", "Of course.")
    import_session(claude_file)
    assert _time_of(path) == "2026-07-15T08:00:05.000Z"
    # What was said here since is newer than what is brought in now.
    os.utime(path, (1_790_000_000, 1_790_000_000))
    add_turn(claude_file, "And another", "Done.", parent=41, number=50)
    assert import_session(claude_file).added
    assert os.stat(path).st_mtime == 1_790_000_000


def test_what_claims_to_be_of_the_future_was_said_now(claude_file: Path) -> None:
    report = import_session(claude_file, now_ms=1_700_000_000_000)
    assert os.stat(report.path).st_mtime_ns == 1_700_000_000_000_000_000


def test_a_time_that_can_not_be_set_does_not_stop_an_import(claude_file: Path) -> None:
    storage = FaultyStorage(MemorySessionStorage())
    storage.fail("touch", errno.EPERM, times=None)
    report = import_session(claude_file, storage=storage)
    assert report.is_new
    assert storage.exists(report.path)


def test_a_label_set_here_does_not_hold_the_leaf_back(claude_file: Path) -> None:
    first = import_session(claude_file)
    with SessionManager.open(first.path) as session:
        target = session.get_entries()[0].id
        session.append_label_change(target, "start")
    add_turn(claude_file, "One more thing", "Of course.")
    assert not import_session(claude_file).keeps_local_leaf
    assert last_texts(first.path) == ["One more thing", "Of course."]
    with SessionManager.open(first.path) as session:
        assert session.get_label(target) == "start"


def test_an_import_that_was_cut_short_is_completed(claude_file: Path) -> None:
    first = import_session(claude_file)
    whole = Path(first.path).read_bytes()
    Path(first.path).write_bytes(whole[: len(whole) * 2 // 3])
    again = import_session(claude_file)
    assert again.added > 1
    assert not again.keeps_local_leaf
    with SessionManager.open(first.path) as session:
        ids = {e.id for e in session.get_entries()}
    expected = {json.loads(line)["id"] for line in whole.splitlines()[1:-1]}
    assert expected <= ids
    assert last_texts(first.path) == ["What is left to do?", "Only the benchmark."]


def test_notes_that_the_other_agent_tidied_away_bring_nothing_back(
    claude_file: Path, codex_file: Path
) -> None:
    for file in (claude_file, codex_file):
        first = import_session(file)
        said = [
            line
            for line in file.read_text().splitlines(keepends=True)
            if '"uuid"' in line
            or '"response_item"' in line
            or '"session_meta"' in line
            or '"turn_context"' in line
            or '"compacted"' in line
            or '"thread_rolled_back"' in line
        ]
        assert len(said) < len(file.read_text().splitlines())
        file.write_text("".join(said))
        assert import_session(file).is_unchanged, first.source


def test_a_moved_session_is_found_again(claude_file: Path, tmp_path: Path) -> None:
    first = import_session(claude_file)
    with SessionManager.open(first.path) as session:
        session.move_to(str(tmp_path / "elsewhere"))
        moved = session.session_file
    add_turn(claude_file, "One more thing", "Of course.")
    again = import_session(claude_file)
    assert again.path == moved
    assert not os.path.exists(first.path)


def test_an_import_is_known_by_its_entry_if_an_agent_dropped_the_header_field(
    claude_file: Path,
) -> None:
    first = import_session(claude_file)
    header, *entries = Path(first.path).read_text().splitlines(keepends=True)
    wire = json.loads(header)
    del wire["importedFrom"]
    Path(first.path).write_text(json.dumps(wire) + "\n" + "".join(entries))
    assert import_session(claude_file).is_unchanged


def test_another_session_of_the_derived_id_is_left_alone(claude_file: Path) -> None:
    first = import_session(claude_file)
    header, *entries = Path(first.path).read_text().splitlines(keepends=True)
    mine = json.loads(header)
    del mine["importedFrom"]
    Path(first.path).write_text(json.dumps(mine) + "\n" + "".join(entries[:-1]))
    before = Path(first.path).read_bytes()
    second = import_session(claude_file)
    assert second.is_new
    assert second.path != first.path
    assert Path(first.path).read_bytes() == before


def test_a_name_given_later_is_taken_if_there_was_none(codex_file: Path) -> None:
    index = codex_file.parents[4] / "session_index.jsonl"
    names = index.read_text()
    index.unlink()
    first = import_session(codex_file)
    with SessionManager.open(first.path) as session:
        assert session.session_name is None
    index.write_text(names)
    with codex_file.open("a") as file:
        file.write(
            '{"type":"response_item","payload":{"type":"message","role":"user","content":"x"}}\n'
        )
    import_session(codex_file)
    # The new prompt has no time of its own, so it is as old as the record before it.
    assert _time_of(first.path) == "2026-07-14T10:02:00.000Z"
    with SessionManager.open(first.path) as session:
        assert session.session_name == "Login test"


def test_large_images_go_to_the_blob_store(home: Path, claude_file: Path) -> None:
    image = "iVBORw0KGgo" + "A" * 2001
    text = claude_file.read_text()
    small = re.search(r'"data":"(iVBORw0KGgo[^"]+)"', text)
    assert small is not None
    claude_file.write_text(text.replace(small.group(1), image))
    report = import_session(claude_file)
    assert image not in Path(report.path).read_text()
    assert len(list((home / ".sessiontree/agent/blobs").iterdir())) == 1
    with SessionManager.open(report.path) as session:
        first = next(e for e in session.get_entries() if e.type == "message")
        assert first.data["message"]["content"][1]["data"] == image


def test_pi_gets_its_own_words(home: Path, claude_file: Path) -> None:
    report = import_session(claude_file, profile="pi")
    header, *entries = lines_of(report.path)
    assert report.path.startswith(str(home / ".pi/agent/sessions/"))
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", header["id"]
    )
    assert "title" not in header
    change = next(e for e in entries if e["type"] == "model_change")
    assert (change["provider"], change["modelId"]) == ("anthropic", "claude-sonnet-4-5-20250929")
    assert "model" not in change
    assert [e["name"] for e in entries if e["type"] == "session_info"] == ["Last line bug"]
    again = import_session(claude_file, profile="pi")
    assert again.is_unchanged


def test_a_session_can_go_to_another_project_folder_and_storage(
    claude_file: Path, tmp_path: Path
) -> None:
    storage = MemorySessionStorage()
    report = import_session(
        claude_file, cwd=tmp_path / "here", session_dir=tmp_path / "flat", storage=storage
    )
    assert os.path.dirname(report.path) == str(tmp_path / "flat")
    assert not (tmp_path / "flat").exists()
    assert json.loads(storage.read(report.path).splitlines()[0])["cwd"] == str(tmp_path / "here")
    again = import_session(
        claude_file, cwd=tmp_path / "here", session_dir=tmp_path / "flat", storage=storage
    )
    assert again.is_unchanged


def test_a_hostile_title_cannot_reach_a_terminal(claude_file: Path) -> None:
    with claude_file.open("a") as file:
        file.write(json.dumps({"type": "custom-title", "customTitle": "a\x1b[31mb\nc"}) + "\n")
    header = lines_of(import_session(claude_file).path)[0]
    assert header["title"] == "a [31mb c"


def test_importing_all_brings_every_session_and_tells_how_far_it_is(home: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = import_all(on_progress=lambda done, total, _: seen.append((done, total)))
    assert len(report.imported) == 6
    assert report.failed == []
    assert seen == [(n, 6) for n in range(1, 7)]
    assert all(each.is_unchanged for each in import_all().imported)


def test_one_session_that_fails_does_not_stop_the_others(home: Path, codex_file: Path) -> None:
    bad = codex_file.with_name(
        "rollout-2026-07-14T10-00-00-0197f0aa-1111-7000-8000-00000000000e.jsonl"
    )
    bad.write_text(
        '{"type":"response_item","payload":{"type":"message","role":"user","content":[]}}\n'
    )
    report = import_all("codex")
    assert len(report.imported) == 4
    assert report.empty == 1
    broken = bad.with_name(bad.name.replace("0e.jsonl", "0f.jsonl"))
    broken.symlink_to(bad.with_name("nothing"))
    (failed,) = import_all("codex").failed
    assert str(failed).count(str(broken)) == 1


def test_a_session_without_a_message_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"type":"file-history-snapshot","uuid":"u","sessionId":"x"}\n')
    with pytest.raises(NotASessionError, match="holds no message"):
        import_session(path)
