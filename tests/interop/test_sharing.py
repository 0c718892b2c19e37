"""What lies beside the session files and is shared: blobs, breadcrumbs, history, and the file
itself while several programs write to it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessiontree import HistoryStorage, SessionManager, get_profile

from .likeness import assert_alike
from .living import Peer
from .ours import play, read_session, write_session
from .scripts import Step
from .talk import assistant, talk, texts, user

NOTICE = "\n\n[Session persistence truncated large content]"
LIMIT = 500_000
PANE = {"TMUX_PANE": "%7"}


@pytest.fixture
def omp_in_a_pane(omp: Peer, peer_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    """omp in a terminal that both know by the same name."""
    monkeypatch.setenv(*next(iter(PANE.items())))
    with Peer("omp", peer_root, omp.home, env=PANE) as peer:
        yield peer


def image_message(size: int) -> tuple[Step, bytes]:
    raw = bytes(range(256)) * (size // 256)
    image = {
        "type": "image",
        "data": base64.b64encode(raw).decode(),
        "mimeType": "image/png",
    }
    text = {"type": "text", "text": "look"}
    message = {"role": "user", "content": [text, image], "timestamp": 5}
    return {"do": "message", "message": message}, raw


# -- blobs and cuts -------------------------------------------------------------------------------


@pytest.mark.parametrize("writer", ["omp", "ours"])
def test_an_image_goes_to_the_same_blob_and_comes_back_on_both_sides(
    omp: Peer, project: Path, session_dir: Path, writer: str
) -> None:
    step, raw = image_message(4_096)
    steps = [step, assistant("seen")]
    if writer == "omp":
        file = Path(omp.ask("write", cwd=project, dir=session_dir, steps=steps)["file"])
    else:
        _, file = write_session(steps, project, session_dir, "omp")
    digest = hashlib.sha256(raw).hexdigest()
    assert f'"data":"blob:sha256:{digest}"' in file.read_text()
    assert (omp.agent_dir / "blobs" / digest).read_bytes() == raw
    theirs = omp.ask("read", file=file)
    assert theirs["context"]["messages"][0] == step["message"]
    assert_alike(theirs, read_session(file, "omp"), "omp")


def test_pi_gets_its_images_inline(pi: Peer, project: Path, session_dir: Path) -> None:
    step, _ = image_message(4_096)
    _, file = write_session([step, assistant("seen")], project, session_dir, "pi")
    assert "blob:" not in file.read_text()
    assert pi.ask("read", file=file)["context"]["messages"][0] == step["message"]


@pytest.mark.parametrize("text", ["x" * 600_000, "🚀" * 300_000, "a" + "🚀" * 300_000])
def test_a_huge_text_is_cut_for_omp_as_omp_cuts_it_and_whole_for_us(
    omp: Peer, project: Path, session_dir: Path, text: str
) -> None:
    steps = [user(text), assistant("long")]
    _, ours = write_session(steps, project, session_dir, "omp")
    theirs = omp.ask("write", cwd=project, dir=session_dir, steps=steps)["file"]
    cut = texts(omp.ask("read", file=theirs)["context"]["messages"])[0]
    assert len(cut.encode("utf-16-le")) // 2 in (LIMIT - 1, LIMIT)
    assert cut.endswith(NOTICE)
    assert texts(omp.ask("read", file=ours)["context"]["messages"])[0] == cut
    assert texts(read_session(ours, "omp")["messages"])[0] == text


def test_a_text_that_was_cut_comes_back_whole_even_after_omp_rewrote_the_file(
    omp: Peer, project: Path, session_dir: Path
) -> None:
    text = "y" * 600_000
    _, file = write_session([user(text), assistant("long")], project, session_dir, "omp")
    before = file.stat().st_ino
    omp.ask("append", file=file, steps=[{"do": "name", "name": "renamed"}])
    assert file.stat().st_ino != before
    seen = read_session(file, "omp")
    assert seen["name"] == "renamed"
    assert texts(seen["messages"])[0] == text


# -- copies ---------------------------------------------------------------------------------------


def test_our_fork_and_our_branched_session_are_read_alike(
    peer: Peer, file: Path, project: Path, tmp_path: Path
) -> None:
    with SessionManager.fork_from(file, project, tmp_path, profile=peer.name) as fork:
        forked = Path(str(fork.session_file))
        branched = fork.create_branched_session(fork.get_entries()[3].id)
    for made in (forked, Path(str(branched))):
        assert_alike(peer.ask("read", file=made), read_session(made, peer.name), peer.name)
    assert len(read_session(Path(str(branched)), peer.name)["messages"]) == 4


def test_a_peers_fork_and_branched_session_are_read_alike(
    peer: Peer, file: Path, project: Path, tmp_path: Path
) -> None:
    forked = Path(peer.ask("fork", file=file, cwd=project, dir=tmp_path / "forks")["file"])
    branched = Path(peer.ask("branched", file=file, dir=tmp_path / "branches"))
    for made in (forked, branched):
        assert_alike(peer.ask("read", file=made), read_session(made, peer.name), peer.name)


def test_a_version_1_file_means_the_same_to_all(peer: Peer, project: Path, tmp_path: Path) -> None:
    messages = [step["message"] for step in talk(3)]
    stamp = "2026-02-16T10:20:00.000Z"
    lines: list[dict[str, object]] = [
        {"type": "session", "id": "old", "timestamp": stamp, "cwd": str(project)},
        *({"type": "message", "timestamp": stamp, "message": m} for m in messages[:4]),
        {
            "type": "compaction",
            "timestamp": stamp,
            "summary": "so far",
            "firstKeptEntryIndex": 3,
            "tokensBefore": 7,
        },
        {"type": "message", "timestamp": stamp, "message": {**messages[4], "role": "hookMessage"}},
        {"type": "message", "timestamp": stamp, "message": messages[5]},
    ]
    files = [tmp_path / name for name in ("theirs.jsonl", "ours.jsonl")]
    for file in files:
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    theirs = peer.ask("read", file=files[0])
    ours = read_session(files[1], peer.name)
    assert ours["messages"] == theirs["context"]["messages"]
    assert [m["role"] for m in ours["messages"]] == [
        "compactionSummary",
        "user",
        "assistant",
        "custom",
        "assistant",
    ]
    # The file that we migrated is a version 3 file to the peer.
    assert_alike(peer.ask("read", file=files[1]), ours, peer.name)


# -- breadcrumbs and history ----------------------------------------------------------------------


def two_sessions(peer: Peer, project: Path) -> tuple[Path, Path]:
    """An older and a newer session in the project's own folder."""
    older, newer = (Path(peer.ask("write", cwd=project, steps=talk(n))["file"]) for n in (1, 2))
    return older, newer


def test_we_continue_where_omp_left_this_terminal(omp_in_a_pane: Peer, project: Path) -> None:
    older, newer = two_sessions(omp_in_a_pane, project)
    omp_in_a_pane.ask("hold", key="crumb", file=older)
    with SessionManager.continue_recent(project, profile="omp") as manager:
        assert manager.session_file == str(older)
    omp_in_a_pane.ask("release", key="crumb")
    assert newer != older


def test_a_session_that_omp_had_just_begun_is_not_passed_over_for_an_older_one(
    omp_in_a_pane: Peer, project: Path
) -> None:
    older, newer = two_sessions(omp_in_a_pane, project)
    omp_in_a_pane.ask("write", cwd=project, steps=[])
    theirs = omp_in_a_pane.ask("continue", cwd=project)["file"]
    assert theirs not in (str(older), str(newer))
    with SessionManager.continue_recent(project, profile="omp") as manager:
        assert manager.session_file not in (str(older), str(newer))
        assert manager.get_entries() == []


def test_omp_continues_where_we_left_this_terminal(omp_in_a_pane: Peer, project: Path) -> None:
    older, newer = two_sessions(omp_in_a_pane, project)
    assert omp_in_a_pane.ask("continue", cwd=project)["file"] == str(newer)
    SessionManager.open(older, profile="omp").close()
    assert omp_in_a_pane.ask("continue", cwd=project)["file"] == str(older)


def test_prompts_are_recalled_on_both_sides(omp: Peer, project: Path) -> None:
    omp.ask("remember", prompts=["fix the parser", 'say "c++" aloud', "日本語で"], cwd=project)
    # Times are kept in whole seconds: a clock that moves on tells the prompts apart.
    seconds = itertools.count(int(time.time()) + 10)
    path = get_profile("omp").history_path
    with HistoryStorage(path, clock=lambda: next(seconds)) as history:
        assert [entry.prompt for entry in history.recent(3)] == [
            "日本語で",
            'say "c++" aloud',
            "fix the parser",
        ]
        assert [entry.prompt for entry in history.search("pars", 5)] == ["fix the parser"]
        history.add("go back to that commit", project)
        history.add("written by us", project)
        history.add("fix the parser", project)
        assert history.flush(10)
        for query in ("go mit", "ars fix", "ritten b", "say c++", "nothing"):
            ours = [entry.prompt for entry in history.search(query, 5)]
            assert sorted(omp.ask("recall", query=query, limit=5)) == sorted(ours)
    assert omp.ask("recall", query="written", limit=5) == ["written by us"]
    assert omp.ask("recall", query="pars", limit=5) == ["fix the parser"]
    assert omp.ask("recall", limit=1) == ["fix the parser"]


# -- several writers ------------------------------------------------------------------------------


def test_writers_of_all_kinds_at_once_lose_no_line(peer: Peer, peer_root: Path, file: Path) -> None:
    """A living peer and three of us append to one file: every line is there, ours hang together."""
    rounds = 25

    def theirs() -> None:
        with Peer(peer.name, peer_root, peer.home) as second:
            for n in range(rounds):
                second.ask("append", file=file, steps=[user(f"theirs {n}", n)])

    def ours(name: int) -> list[str]:
        with SessionManager.open(file, profile=peer.name) as manager:
            return [str(i) for n in range(rounds) for i in play(manager, [user(f"{name}/{n}", n)])]

    with ThreadPoolExecutor(4) as pool:
        running = pool.submit(theirs)
        made = [i for ids in pool.map(ours, range(3)) for i in ids]
        running.result()
    seen = read_session(file, peer.name)
    found = [entry["message"]["content"] for entry in seen["entries"] if entry["type"] == "message"]
    assert sorted(t for t in found if str(t).startswith("theirs")) == sorted(
        f"theirs {n}" for n in range(rounds)
    )
    assert {entry["id"] for entry in seen["entries"]} >= set(made)
    assert len(peer.ask("read", file=file)["entries"]) == len(seen["entries"])
