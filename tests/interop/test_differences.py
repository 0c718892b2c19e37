"""Where a living peer is wrong about a sound file: what it makes of it, and what we do.

When a newer peer gets one of these right, its half of the test fails: then the statement goes.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from sessiontree import (
    AmbiguousSessionError,
    PersistenceError,
    SessionManager,
    resolve_session,
    search,
)

from .living import Peer
from .ours import play, read_session
from .talk import (
    ALL_SIX,
    assistant,
    entry_line,
    header_line,
    our_texts,
    talk,
    texts,
    their_texts,
    user,
    write_lines,
)

# -- branches, labels, forks ----------------------------------------------------------------------


def test_a_branch_chosen_before_closing_is_forgotten_by_the_peers_and_kept_by_us(
    peer: Peer, file: Path, twin: Path
) -> None:
    shutil.copy(file, twin)
    first_answer = peer.ask("read", file=file)["entries"][1]["id"]
    peer.ask("append", file=file, steps=[{"do": "branch", "to": first_answer}])
    assert their_texts(peer, file) == ALL_SIX
    with SessionManager.open(twin, profile=peer.name) as manager:
        manager.branch(first_answer)
    assert our_texts(twin, peer) == ALL_SIX[:2]
    # And so does the peer that opens what we closed.
    assert their_texts(peer, twin) == ALL_SIX[:2]


def test_a_label_in_mid_path_breaks_omps_branched_session_and_not_ours(
    peer: Peer, project: Path, session_dir: Path, tmp_path: Path
) -> None:
    steps = [*talk(2), {"do": "label", "target": 1, "label": "here"}, *talk(3)[4:]]
    made = peer.ask("write", cwd=project, dir=session_dir, steps=steps)
    theirs = peer.ask("branched", file=made["file"], dir=session_dir)
    whole = ["question 2", "answer 2"] if peer.name == "omp" else ALL_SIX
    assert their_texts(peer, Path(theirs)) == whole
    with SessionManager.open(made["file"], tmp_path, profile=peer.name) as manager:
        assert manager.leaf_id is not None
        ours = manager.create_branched_session(manager.leaf_id)
    assert ours is not None
    seen = read_session(Path(ours), peer.name)
    assert texts(seen["messages"]) == ALL_SIX
    assert seen["labels"] == {made["ids"][1]: "here"}
    assert their_texts(peer, Path(ours)) == ALL_SIX


def test_forking_a_version_1_file_costs_pi_its_history(
    peer: Peer, project: Path, tmp_path: Path
) -> None:
    def old(number: int, role: str, text: str) -> str:
        entry = json.loads(entry_line(number, None, role, text))
        return json.dumps({k: v for k, v in entry.items() if k not in ("id", "parentId")})

    header = json.loads(header_line(project))
    del header["version"]
    lines = [
        json.dumps(header),
        old(1, "user", "question 0"),
        old(2, "assistant", "answer 0"),
        old(3, "user", "question 1"),
    ]
    path = write_lines(tmp_path / "old.jsonl", *lines)
    theirs = peer.ask("fork", file=path, cwd=project, dir=tmp_path / "theirs")
    whole = ["question 0", "answer 0", "question 1"]
    assert texts(theirs["context"]["messages"]) == (whole[2:] if peer.name == "pi" else whole)
    with SessionManager.fork_from(path, project, tmp_path / "ours", profile=peer.name) as ours:
        assert texts(ours.build_session_context().messages) == whole
    assert path.read_text() == "".join(line + "\n" for line in lines)


def test_a_later_answer_overrides_the_chosen_model_in_pi_only(
    pi: Peer, project: Path, session_dir: Path
) -> None:
    steps = [*talk(1), {"do": "model", "provider": "openai", "model": "gpt-5.2"}, *talk(2)[2:]]
    made = pi.ask("write", cwd=project, dir=session_dir, steps=steps)
    theirs = pi.ask("read", file=made["file"])["context"]["model"]
    assert theirs == {"provider": "anthropic", "modelId": "claude-sonnet-4-5"}
    ours = read_session(Path(made["file"]), "pi")
    assert ours["models"] == {"default": "openai/gpt-5.2"}


# -- files that move, prompts that wait -----------------------------------------------------------


def test_a_file_deleted_under_an_open_session_swallows_omps_entries_and_we_notice(
    omp: Peer, project: Path, session_dir: Path, tmp_path: Path
) -> None:
    made = omp.ask("write", cwd=project, dir=session_dir, steps=talk(1))
    file = Path(made["file"])
    twin = tmp_path / file.name
    shutil.copy(file, twin)
    omp.ask("hold", key="deleted", file=file)
    omp.ask("play", key="deleted", steps=[user("kept", 11)])
    file.unlink()
    omp.ask("play", key="deleted", steps=[user("lost", 12)])
    omp.ask("release", key="deleted")
    assert not file.exists()

    manager = SessionManager.open(twin, profile="omp")
    play(manager, [user("kept", 11)])
    twin.unlink()
    try:
        play(manager, [user("kept too", 12)])
    except PersistenceError:
        noticed = True
    else:
        noticed = twin.exists()
    assert noticed
    manager.recover()
    manager.close()
    assert our_texts(twin, omp)[-2:] == ["kept", "kept too"]


def test_a_prompt_without_an_answer_leaves_nothing_in_omp_and_a_draft_with_us(
    peer: Peer, project: Path, session_dir: Path, tmp_path: Path
) -> None:
    made = peer.ask("write", cwd=project, dir=session_dir, steps=[user("a long thought")])
    assert Path(made["file"]).exists() == (peer.name == "pi")
    ours = tmp_path / "ours"
    manager = SessionManager.create(project, ours, profile=peer.name)
    play(manager, [user("a long thought")])
    with SessionManager.continue_recent(project, ours, profile=peer.name) as again:
        assert texts(again.build_session_context().messages) == ["a long thought"]


# -- finding --------------------------------------------------------------------------------------


def test_an_id_prefix_that_fits_several_gives_omp_the_first_and_us_an_error(
    omp: Peer, project: Path, session_dir: Path
) -> None:
    made = [
        Path(omp.ask("write", cwd=project, dir=session_dir, steps=talk(1))["file"]).stem
        for _ in range(3)
    ]
    ids = [name.split("_", 1)[1] for name in made]
    prefix = next(
        ids[0][:n] for n in range(36, 0, -1) if all(i.startswith(ids[0][:n]) for i in ids)
    )
    assert omp.ask("resolve", id=prefix, cwd=project, dir=session_dir) is not None
    with pytest.raises(AmbiguousSessionError) as told:
        resolve_session(prefix, project, session_dir=session_dir, profile="omp")
    assert {info.id for info in told.value.candidates} == set(ids)


def test_two_projects_that_share_a_folder_are_confused_by_the_peers_and_told_apart_by_us(
    peer: Peer, tmp_path: Path
) -> None:
    one, other = tmp_path / "a-b" / "c", tmp_path / "a" / "b-c"
    for folder in (one, other):
        folder.mkdir(parents=True)
    assert peer.ask("folder", cwd=one) == peer.ask("folder", cwd=other)
    mine = peer.ask("write", cwd=one, steps=talk(1))["file"]
    newer = peer.ask("write", cwd=other, steps=talk(2))["file"]
    os.utime(mine, (1_000_000_000, 1_000_000_000))
    assert peer.ask("continue", cwd=one)["file"] == newer
    with SessionManager.continue_recent(one, profile=peer.name) as ours:
        assert ours.session_file == mine


def test_a_rare_word_is_found_by_pi_and_us_and_not_by_omp(
    peer: Peer, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    folder = tmp_path / "agent" / "sessions" / "--project--"
    prose = "zone per hyphen room marks a rot and other words with all the letters in order " * 40
    for n in range(12):
        word = "zephyrmarmot" if n == 5 else "nothing"
        steps = [user(prose), assistant(f"{prose} {word} {prose}")]
        peer.ask("write", cwd=project, dir=folder, steps=steps)
    theirs = peer.ask("search", cwd=project, dir=folder, query="zephyrmarmot")
    assert len(theirs) == (1 if peer.name == "pi" else 0)
    assert len({hit.path for hit in search("zephyrmarmot", profile=peer.name)}) == 1


def test_omp_counts_the_messages_of_the_first_4_kb_and_we_count_all(
    omp: Peer, project: Path, session_dir: Path
) -> None:
    omp.ask("write", cwd=project, dir=session_dir, steps=talk(60))
    (theirs,) = omp.ask("list", cwd=project, dir=session_dir)
    (ours,) = SessionManager.list(project, session_dir, profile="omp")
    assert theirs["count"] < 40
    assert ours.message_count == 120


def test_pi_lists_sessions_without_a_message_and_we_count_them_apart(
    pi: Peer, project: Path, session_dir: Path
) -> None:
    write_lines(session_dir / "2026-02-16T10-20-30-000Z_empty.jsonl", header_line(project))
    assert [info["count"] for info in pi.ask("list", cwd=project, dir=session_dir)] == [0]
    assert list(SessionManager.list(project, session_dir, profile="pi")) == []
