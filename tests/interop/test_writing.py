"""What we write in a peer's dialect, living pi and omp read alike."""

from __future__ import annotations

from pathlib import Path

from .likeness import assert_alike
from .living import Peer
from .ours import playable_by_both, read_session, write_session
from .scripts import make_script


def test_what_we_wrote_a_peer_reads_alike(
    peer: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    _, file = write_session(
        playable_by_both(make_script(seed, peer.name)), project, session_dir, peer.name
    )
    ours = read_session(file, peer.name)
    assert_alike(peer.ask("read", file=file), ours, peer.name)


def is_cut_to_the_slot(ours: str, theirs: str) -> bool:
    """omp's first line has 256 bytes for the title and no more; our header holds it whole."""
    return len(theirs) > 120 and ours.startswith(theirs)


def test_a_peer_given_the_same_script_builds_the_same_session(
    peer: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    steps = playable_by_both(make_script(seed, peer.name))
    ids, file = write_session(steps, project, session_dir, peer.name)
    made = peer.ask("write", cwd=project, dir=session_dir, steps=steps)
    renamed = {b: a for a, b in zip(ids, made["ids"], strict=True) if a and b}
    theirs = peer.ask("read", file=made["file"])
    ours = peer.ask("read", file=file)
    # Names are an entry in one dialect and a header field in the other, and a leaf that is not the
    # last line is ours alone: the conversation itself must agree.
    their_messages = {
        renamed[e["id"]]: e["message"] for e in theirs["entries"] if e["type"] == "message"
    }
    our_messages = {e["id"]: e["message"] for e in ours["entries"] if e["type"] == "message"}
    assert our_messages == their_messages
    assert ours["name"] == theirs["name"] or is_cut_to_the_slot(ours["name"], theirs["name"])
    assert ours["labels"] == {renamed[k]: v for k, v in theirs["labels"].items()}
