"""Finding foreign sessions and looking at them where they lie."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from sessiontree.errors import (
    AmbiguousSessionError,
    NotASessionError,
    PersistenceError,
    SessionNotFoundError,
)
from sessiontree.importers.foreign import load_foreign
from sessiontree.importers.foreign_listing import find_foreign_sessions, resolve_foreign


def test_every_session_of_both_agents_is_found_newest_first(home: Path) -> None:
    found = find_foreign_sessions()
    assert sorted(session.id[:8] for session in found) == [
        "0197f0aa",
        "0198aaaa",
        "0198bbbb",
        "0c1d2e3f",
        "3f2a9c10",
        "5973b6c0",
    ]
    times = [session.modified for session in found]
    assert times == sorted(times, reverse=True)
    assert {session.agent for session in find_foreign_sessions("codex")} == {"codex"}


def test_a_listing_says_what_a_session_is_about(home: Path) -> None:
    found = {session.id[:8]: session for session in find_foreign_sessions()}
    claude = found["3f2a9c10"]
    assert claude.title == "Last line bug"
    assert claude.cwd == "/home/ana/projects/parser"
    assert claude.first_message == "Why does the parser drop the last line? Screenshot attached."
    assert claude.created is not None
    assert claude.created.isoformat().startswith("2026-07-14T09:00:01")
    codex = found["0197f0aa"]
    assert codex.title == codex.name == "Login test"
    assert codex.first_message == "The login test fails, see the picture"
    assert found["5973b6c0"].cwd == "/srv/app"
    assert found["0c1d2e3f"].title == "Price column"


def test_each_answer_counts_once(home: Path) -> None:
    count = {session.id[:8]: session.message_count for session in find_foreign_sessions()}
    # 7 prompts, an interruption, a shell command, 3 results, 8 answers
    assert count["3f2a9c10"] == 7 + 1 + 1 + 3 + 8
    assert count["5973b6c0"] == 1 + 2 + 1


def test_subagents_are_no_sessions_of_their_own(home: Path) -> None:
    main = next(home.rglob("3f2a9c10*.jsonl"))
    beside = main.parent / "agent-deadbeef.jsonl"
    record = {"type": "user", "isSidechain": True, "uuid": "x", "sessionId": main.stem}
    beside.write_text(json.dumps(record) + "\n")
    assert not any("agent-" in session.path for session in find_foreign_sessions())


def test_sessions_without_a_message_are_left_out(home: Path) -> None:
    (home / ".claude/projects/-home-ana-projects-parser/empty.jsonl").write_text(
        '{"type":"summary","summary":"x","leafUuid":"y"}\n'
    )
    assert "empty" not in {session.id for session in find_foreign_sessions()}


@pytest.mark.parametrize("odd", [[], {}, [["x"]], 5, None])
def test_records_of_any_type_can_be_listed(home: Path, odd: object) -> None:
    before = {session.id: session.message_count for session in find_foreign_sessions()}
    records = [
        {"type": odd, "message": {"id": odd, "role": odd}},
        {"type": "assistant", "message": {"id": odd}, "isMeta": True},
        {"type": "response_item", "payload": {"type": odd, "role": odd}},
        {"type": "event_msg", "payload": {"type": odd}},
        {"\ud83d": odd, "message": {"\ud83d": odd}, "payload": {"\ud83d": odd}},
    ]
    for file in home.rglob("*.jsonl"):
        with file.open("a") as stream:
            stream.writelines(json.dumps(record) + "\n" for record in records)
    assert {s.id: s.message_count for s in find_foreign_sessions()} == before


def test_without_the_agents_there_is_nothing(tmp_path: Path) -> None:
    assert find_foreign_sessions(home=tmp_path / "nowhere") == []


def test_the_agents_own_variables_say_where_to_look(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "moved"
    (home / ".codex").rename(moved)
    assert find_foreign_sessions("codex") == []
    monkeypatch.setenv("CODEX_HOME", str(moved))
    assert len(find_foreign_sessions("codex")) == 4
    assert find_foreign_sessions("codex", home=home) == []


def test_progress_is_told(home: Path) -> None:
    seen: list[tuple[int, int]] = []
    find_foreign_sessions(on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 7) for n in range(1, 8)]  # files: a subagent has one, too


def test_a_session_is_named_by_its_path_or_the_beginning_of_its_id(
    home: Path, claude_file: Path
) -> None:
    assert resolve_foreign("3f2a").path == str(claude_file)
    assert resolve_foreign(str(claude_file)).id == "3f2a9c10-7b1e-4c55-9d0a-5e6f7a8b9c01"
    with pytest.raises(AmbiguousSessionError) as caught:
        resolve_foreign("0198")
    assert len(caught.value.candidates) == 2
    with pytest.raises(SessionNotFoundError):
        resolve_foreign("ffff")
    with pytest.raises(SessionNotFoundError):
        resolve_foreign("gone/away.jsonl")


def test_looking_writes_nothing(home: Path) -> None:
    def snapshot() -> dict[str, tuple[str, int]]:
        return {
            str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            for folder in (".claude", ".codex")
            for path in (home / folder).rglob("*")
            if path.is_file()
        }

    before = snapshot()
    for session in find_foreign_sessions():
        document = load_foreign(session.path)
        document.build_session_context()
        document.get_tree()
    assert snapshot() == before


def test_a_document_can_be_read_like_a_session(claude_file: Path) -> None:
    document = load_foreign(claude_file)
    entries = document.get_entries()
    assert document.get_entry(entries[0].id) is entries[0]
    assert document.get_entry("nothere") is None
    assert document.get_children(None)[0] is entries[0]
    assert document.get_branch(entries[0].id) == [entries[0]]
    assert document.get_label(entries[0].id) is None
    assert document.session_file == str(claude_file)
    assert document.session_name == document.title
    assert document.header["cwd"] == document.cwd == "/home/ana/projects/parser"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"type":"session","version":3,"id":"x"}\n', "a session already"),
        ('{"hello":"world"}\n', "not a session of an agent that can be imported"),
        ("plain text\n", "not a session of an agent that can be imported"),
        ("", "not a session of an agent that can be imported"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text(text)
    with pytest.raises(NotASessionError, match=reason):
        load_foreign(path)


def test_a_compressed_rollout_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(NotASessionError, match="unpack it with zstd"):
        load_foreign(tmp_path / "rollout-x.jsonl.zst")


def test_a_file_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(PersistenceError):
        load_foreign(tmp_path / "gone.jsonl")


def test_a_subagents_file_that_cannot_be_read_is_reported(claude_file: Path) -> None:
    chain = next(claude_file.parent.rglob("agent-a748733.jsonl"))
    chain.unlink()
    os.symlink(chain.parent / "nothing", chain)
    document = load_foreign(claude_file)
    assert any("agent-a748733.jsonl" in line for line in document.warnings)
    assert len(document.get_tree()) == 1


def test_a_subagents_file_beside_the_session_belongs_to_it(claude_file: Path) -> None:
    chain = next(claude_file.parent.rglob("agent-a748733.jsonl"))
    chain.rename(claude_file.parent / chain.name)
    other = claude_file.parent / "agent-0ther.jsonl"
    other.write_text('{"type":"user","uuid":"z","isSidechain":true,"sessionId":"another"}\n')
    document = load_foreign(claude_file)
    assert len(document.get_tree()) == 2
