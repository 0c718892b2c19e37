"""A session passes back and forth between us and a living peer; no entry is lost or changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .likeness import assert_alike
from .living import Peer
from .ours import append_to, playable_by_both, read_session, write_session
from .scripts import ScriptMaker

ROUNDS = 10


def test_ten_rounds_back_and_forth_lose_and_change_nothing(
    peer: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    maker = ScriptMaker(seed, peer.name)
    first = playable_by_both(maker.more(6))
    if seed % 2:
        ids, file = write_session(first, project, session_dir, peer.name)
    else:
        made = peer.ask("write", cwd=project, dir=session_dir, steps=first)
        ids, file = made["ids"], Path(made["file"])
    seen: dict[str, Any] = {}
    for turn in range(ROUNDS):
        steps = playable_by_both(maker.more(4))
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
    assert all(json.loads(line) for line in after.removesuffix(b"\n").split(b"\n"))
