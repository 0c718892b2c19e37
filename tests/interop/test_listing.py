"""Listings: a folder that a living peer filled, seen by it and by us."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sessiontree import SessionInfo, SessionManager

from .conftest import session_count
from .living import Peer
from .ours import play, playable_by_both, read_session, write_session
from .scripts import make_script

OMP_PREFIX_BYTES = 4_096
OMP_SUFFIX_BYTES = 32_768
IN_OUR_WORDS = {"pending": "interrupted"}


@pytest.fixture
def filled(peer: Peer, project: Path, session_dir: Path) -> Path:
    """A folder in which the peer and we have written in turns."""
    for seed in range(min(session_count(), 60)):
        steps = playable_by_both(make_script(seed, peer.name))
        if seed % 3:
            peer.ask("write", cwd=project, dir=session_dir, steps=steps)
        else:
            write_session(steps, project, session_dir, peer.name)
    return session_dir


def ms(when: datetime) -> int:
    return round(when.timestamp() * 1_000)


def ends_where_it_stands(file: Path) -> bool:
    """Whether the last message of the file is also that of the path.

    Else omp tells how another branch ended; we tell how the one ended that resuming goes on with.
    """
    seen = read_session(file, "omp")
    last = [entry for entry in seen["entries"] if entry["type"] == "message"][-1]
    return last["id"] in seen["branch"] and last["message"]["role"] != "bashExecution"


def pairs(peer: Peer, project: Path, folder: Path) -> list[tuple[dict[str, Any], SessionInfo]]:
    theirs = {info["path"]: info for info in peer.ask("list", cwd=project, dir=folder)}
    ours = {info.path: info for info in SessionManager.list(project, folder, profile=peer.name)}
    assert ours.keys() == theirs.keys()
    return [(theirs[path], ours[path]) for path in ours]


def test_a_listing_names_the_same_sessions_with_the_same_facts(
    peer: Peer, filled: Path, project: Path
) -> None:
    for theirs, ours in pairs(peer, project, filled):
        assert ours.id == theirs["id"]
        assert ours.cwd == theirs["cwd"]
        assert ours.parent_session == theirs["parent"]
        assert ms(ours.created) == theirs["created"]


def test_pi_and_we_count_and_quote_the_same(pi: Peer, project: Path, session_dir: Path) -> None:
    for seed in range(min(session_count(), 60)):
        pi.ask("write", cwd=project, dir=session_dir, steps=make_script(seed, "pi"))
    for theirs, ours in pairs(pi, project, session_dir):
        assert ms(ours.modified) == theirs["modified"]
        assert ours.message_count == theirs["count"]
        assert ours.title == theirs["title"]
        assert ours.first_message == theirs["first"]
        assert ours.all_messages_text == theirs["text"]


def test_omp_and_we_agree_wherever_omp_read_the_whole_file(
    omp: Peer, project: Path, session_dir: Path
) -> None:
    """omp reads the beginning and the end of a file; what lies between it does not know."""
    for seed in range(min(session_count(), 60)):
        omp.ask("write", cwd=project, dir=session_dir, steps=make_script(seed, "omp"))
    for theirs, ours in pairs(omp, project, session_dir):
        assert ours.message_count >= theirs["count"]
        assert ours.title == theirs["title"] or theirs["title"] is None
        if ours.size <= OMP_PREFIX_BYTES:
            assert ours.message_count == theirs["count"]
            assert ours.first_message == theirs["first"]
            assert ours.all_messages_text == theirs["text"]
        if ours.size <= OMP_SUFFIX_BYTES and ends_where_it_stands(Path(ours.path)):
            assert ours.status == IN_OUR_WORDS.get(theirs["status"], theirs["status"])


def test_the_same_session_is_continued(peer: Peer, filled: Path, project: Path) -> None:
    # The peers go by the files' times, to the millisecond; we by what was said in them.
    found = SessionManager.list(project, filled, profile=peer.name)
    for second, info in enumerate(reversed([*found, *found.empty])):
        os.utime(info.path, (1_760_000_000 + second, 1_760_000_000 + second))
    theirs = peer.ask("continue", cwd=project, dir=filled)
    with SessionManager.continue_recent(project, filled, profile=peer.name) as ours:
        assert ours.session_file == theirs["file"]
        assert ours.session_id == theirs["id"]


def test_sessions_lie_in_the_folder_where_the_peer_looks(peer: Peer, project: Path) -> None:
    steps = playable_by_both(make_script(1, peer.name))
    with SessionManager.create(project, profile=peer.name) as manager:
        play(manager, steps)
        file = manager.session_file
    found = [info["path"] for info in peer.ask("list_all")]
    # omp moves folders of the older spelling when it first meets them, hence only the name.
    assert Path(str(file)).name in {Path(path).name for path in found}
