"""A session passes back and forth between us and a living peer without losing or changing an entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .likeness import assert_alike
from .living import Peer
from .ours import PEER_ONLY_STEPS, append_to, read_session, write_session
from .scripts import ScriptMaker, Step

ROUNDS = 10


def playable(steps: list[Step]) -> list[Step]:
    """Steps that both sides can play; numbering is kept."""
    return [
        {"do": "custom", "kind": "stand-in"} if s["do"] in PEER_ONLY_STEPS else s for s in steps
    ]


def test_ten_rounds_back_and_forth_lose_and_change_nothing(
    peer: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    maker = ScriptMaker(seed, peer.name)
    first = playable(maker.more(6))
    if seed % 2:
        ids, file = write_session(first, project, session_dir, peer.name)
    else:
        made = peer.ask("write", cwd=project, dir=session_dir, steps=first)
        ids, file = made["ids"], Path(made["file"])
    seen: dict[str, Any] = {}
    for turn in range(ROUNDS):
        steps = playable(maker.more(4))
        if (turn + seed) % 2:
            ids = peer.ask("append", file=file, steps=steps, ids=ids)["ids"]
        else:
            ids = append_to(file, steps, peer.name, ids)
        theirs = peer.ask("read", file=file)
        assert_alike(theirs, read_session(file, peer.name), peer.name)
        now = {entry["id"]: entry for entry in theirs["entries"]}
        assert len(now) == len(theirs["entries"])
        assert {key: now[key] for key in seen} == seen
        assert {i for i in ids if i} <= now.keys()
        seen = now


def test_what_pi_wrote_stays_byte_for_byte_while_we_carry_on(
    pi: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    maker = ScriptMaker(seed, "pi")
    made = pi.ask("write", cwd=project, dir=session_dir, steps=maker.more(10))
    file = Path(made["file"])
    before = file.read_bytes()
    append_to(file, maker.more(10), "pi", made["ids"])
    after = file.read_bytes()
    assert after.startswith(before)
    assert all(json.loads(line) for line in after.decode().splitlines() if line)
