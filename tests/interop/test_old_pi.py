"""pi before it moved to its new name: its files are still there, and mean what they meant."""

from __future__ import annotations

from pathlib import Path

from .likeness import assert_alike
from .living import Peer
from .ours import append_to, read_session, write_session
from .scripts import ScriptMaker, make_script


def test_what_it_wrote_we_and_the_new_one_read_alike(
    old_pi: Peer, pi: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    made = old_pi.ask("write", cwd=project, dir=session_dir, steps=make_script(seed, "old-pi"))
    file = Path(made["file"])
    before = file.read_bytes()
    ours = read_session(file, "old-pi")
    assert_alike(old_pi.ask("read", file=file), ours, "old-pi")
    assert_alike(pi.ask("read", file=file), ours, "pi")
    assert file.read_bytes() == before


def test_what_we_wrote_it_reads_alike(
    old_pi: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    _, file = write_session(make_script(seed, "old-pi"), project, session_dir, "old-pi")
    assert_alike(old_pi.ask("read", file=file), read_session(file, "old-pi"), "old-pi")


def test_a_session_of_the_new_one_stays_whole_in_the_old_one(
    old_pi: Peer, pi: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    """The old one does not know all entries; it keeps them, and we go on from its answer."""
    maker = ScriptMaker(seed, "pi")
    made = pi.ask("write", cwd=project, dir=session_dir, steps=maker.more(20))
    file = Path(made["file"])
    before = pi.ask("read", file=file)["entries"]
    steps = ScriptMaker(seed + 1, "old-pi").more(4)
    old_pi.ask("append", file=file, steps=steps)
    append_to(
        file, [{"do": "usage", "kind": "k", "provider": "p", "model": "m", "usage": {}}], "pi", []
    )
    ours = read_session(file, "pi")
    assert ours["entries"][: len(before)] == before
    assert [entry["id"] for entry in ours["entries"]] == [
        entry["id"] for entry in old_pi.ask("read", file=file)["entries"]
    ]
