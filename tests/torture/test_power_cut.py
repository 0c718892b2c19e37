"""A power cut at any moment, in any state a disk may be left in: what was flushed is there."""

from __future__ import annotations

import base64
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples import user
from tests.torture.conftest import Budget
from tests.torture.disks import Disk, Recorder, RecordingOs, write_state
from tests.torture.stand_ins import replace_os

from sessiontree import SessionManager


def answer(text: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "provider": "p",
        "model": "m",
        "timestamp": 2,
    }


def picture(rng: random.Random) -> dict[str, Any]:
    data = base64.b64encode(rng.randbytes(1_500)).decode()
    block = {"type": "image", "data": data, "mimeType": "image/png"}
    return {"role": "user", "content": [block], "timestamp": 3}


class Story:
    """Random work on one session, with a note of what was promised after each event."""

    def __init__(self, root: Path, rng: random.Random, recorder: Recorder) -> None:
        self._rng = rng
        self._recorder = recorder
        self._root = root
        self._written: dict[str, Any] = {}
        self.promises: list[tuple[int, dict[str, Any]]] = []
        self.session = SessionManager.create(root / "project")

    def work(self, steps: int) -> None:
        for _ in range(steps):
            self._step()
        self.session.close()
        self._promise()

    def _step(self) -> None:
        session, rng = self.session, self._rng
        choice = rng.random()
        if choice < 0.55:
            made = rng.choice([user(f"u{rng.random()}"), answer(f"a{rng.random()}"), picture(rng)])
            self._written[session.append_message(made)] = made
        elif choice < 0.8:
            session.flush()
            self._promise()
        elif choice < 0.85:
            session.set_session_name(f"name {rng.random()}")
        elif choice < 0.9:
            session.rewrite_entries()
        elif choice < 0.95 and session.get_entries():
            session.branch(rng.choice(session.get_entries()).id)
        else:
            session.move_to(self._root / rng.choice(["project", "elsewhere", "third"]))

    def _promise(self) -> None:
        self.promises.append((len(self._recorder.events), dict(self._written)))


def found_messages(agent_dir: Path, session_id: str) -> dict[str, Any]:
    """Every message of the session that can be had from what is left on the disk."""
    found: dict[str, Any] = {}
    for folder, _, names in os.walk(agent_dir / "sessions"):
        for name in names:
            if session_id in name and name.endswith((".jsonl", ".draft")):
                session = SessionManager.open(os.path.join(folder, name))
                for entry in session.get_entries():
                    if entry.type == "message":
                        found[entry.id] = entry.data["message"]
    return found


def _tell(lost: set[str], recorder: Recorder, done: int) -> str:
    lines = [
        f"{event.kind} {event.inode} {event.path} {event.target} {event.offset}+{len(event.data)}"
        for event in recorder.events[:done]
    ]
    return "\n".join([f"lost {lost} after", *lines])


@pytest.mark.share(6)
def test_what_was_flushed_survives_a_power_cut_at_any_moment(
    yard: Path,
    monkeypatch: pytest.MonkeyPatch,
    rng: random.Random,
    budget: Budget,
    figures: Callable[[str, float], None],
) -> None:
    """Each state is opened in a folder in memory, and counted only if no earlier state of its
    story, with the same promises, was the same.
    """
    while budget.is_left():
        recorder = Recorder()
        home = yard / "before"
        monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(home / "agent"))
        home.mkdir()
        with monkeypatch.context() as patched:
            replace_os(patched, RecordingOs(recorder))
            story = Story(home, rng, recorder)
            story.work(rng.randint(3, 25))
        disk = Disk()
        seen: set[tuple[int, frozenset[tuple[str, bytes]]]] = set()
        figures("stories", 1)
        figures("events", len(recorder.events))
        for done, event in enumerate(recorder.events, 1):
            disk.apply(event)
            promised = [made for at, made in story.promises if at <= done]
            for _ in range(4):
                state = disk.make_state(str(home), rng)
                case = (len(promised), frozenset(state.items()))
                if case in seen:
                    continue
                seen.add(case)
                after = yard / "after"
                write_state(state, after)
                monkeypatch.setenv("SESSIONTREE_AGENT_DIR", str(after / "agent"))
                found = found_messages(after / "agent", story.session.session_id)
                if promised:
                    lost = {key for key, value in promised[-1].items() if found.get(key) != value}
                    assert not lost, _tell(lost, recorder, done)
                figures("states", 1)
                shutil.rmtree(after, ignore_errors=True)
            if not budget.is_left():
                break
        shutil.rmtree(home)
