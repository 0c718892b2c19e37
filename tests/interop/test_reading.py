"""What living pi and omp write, we read alike."""

from __future__ import annotations

from pathlib import Path

from .likeness import assert_alike
from .living import Peer
from .ours import read_session
from .scripts import make_script


def test_what_a_peer_wrote_we_read_alike(
    peer: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    made = peer.ask("write", cwd=project, dir=session_dir, steps=make_script(seed, peer.name))
    theirs = peer.ask("read", file=made["file"])
    assert_alike(theirs, read_session(Path(made["file"]), peer.name), peer.name)


def test_reading_a_peers_session_changes_no_byte(
    peer: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    made = peer.ask("write", cwd=project, dir=session_dir, steps=make_script(seed, peer.name))
    file = Path(made["file"])
    before = file.read_bytes()
    read_session(file, peer.name)
    assert file.read_bytes() == before
