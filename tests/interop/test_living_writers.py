"""A living peer that keeps talking while we rename, rewrite and move its session.

Each case runs for ``INTEROP_SECONDS`` (default 4). The peer says what it took for written; all of
that has to be in the file afterwards, with its parents, and on the path that the peer continues.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples import TIME, assistant, header, lines, message, user
from tests.torture import record

from sessiontree import SessionManager
from sessiontree.maintenance.annotations import rename_session
from sessiontree.stores.files.store import FileStore

from .living import CHECKOUT, Peer, find_node, peer_environment

WRITER = Path(__file__).with_name("writer.mjs")
PAUSE_MS = 10
SESSION_ID = "0199a3f2aaaabbbb"
SECONDS = float(os.environ.get("INTEROP_SECONDS", "4"))


class Talker:
    """The peer's process: it says something every few milliseconds until it is stopped."""

    def __init__(self, peer: Peer, root: Path, file: Path, pause_ms: int = PAUSE_MS) -> None:
        runner = str(find_node(root)) if peer.name == "pi" else str(root / ".bin" / "bun")
        self._process = subprocess.Popen(
            [runner, str(WRITER), peer.name, str(root), str(file), str(pause_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=peer_environment(peer.home),
            cwd=peer.home,
            text=True,
        )
        self.said: list[dict[str, Any]] = []
        self.end: dict[str, Any] = {}
        self.answers: list[dict[str, Any]] = []
        self._answered = threading.Condition()
        assert self._process.stdout is not None
        assert json.loads(self._process.stdout.readline()) == {"ready": True}
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            with self._answered:
                if "id" in found:
                    self.said.append(found)
                elif "end" in found:
                    self.end = found["end"]
                else:
                    self.answers.append(found)
                self._answered.notify_all()

    def hear(self, more: int) -> None:
        """Wait until it has said so many things more."""
        with self._answered:
            wanted = len(self.said) + more
            assert self._answered.wait_for(lambda: len(self.said) >= wanted, 30)

    def rename(self, name: str) -> dict[str, Any]:
        """Let it name the session; its answer."""
        assert self._process.stdin is not None
        with self._answered:
            before = len(self.answers)
            self._process.stdin.write(json.dumps({"rename": name}) + "\n")
            self._process.stdin.flush()
            assert self._answered.wait_for(lambda: len(self.answers) > before, 30)
            return self.answers[-1]

    def stop(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait(30)
        self._listener.join(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def folder(peer: Peer) -> Path:
    made = peer.agent_dir / "sessions" / f"--living-{os.urandom(4).hex()}--"
    made.mkdir(parents=True)
    return made


def make_session(folder: Path, project: Path, size: int = 2_000_000) -> Path:
    """A session without a title slot, of some size: a rewrite of it takes a while."""
    file = folder / f"2026-02-16T10-20-30-000Z_{SESSION_ID}.jsonl"
    talk: list[dict[str, Any]] = []
    for number in range(size // 2_200 // 2):
        for made in (user("x" * 2_000), assistant("y" * 2_000)):
            parent = talk[-1]["id"] if talk else None
            talk.append(message(f"{number:07}{made['role'][0]}", parent, made))
    file.write_bytes(lines(header(id=SESSION_ID, cwd=str(project), timestamp=TIME), *talk))
    return file


def check_nothing_lost(file: Path, talker: Talker, peer: Peer) -> None:
    record.note(
        os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0], {"peer lines": len(talker.said)}
    )
    records = [json.loads(line) for line in file.read_bytes().splitlines() if line]
    found = {record["id"]: record for record in records}
    lost = [said["id"] for said in talker.said if said["id"] not in found]
    assert not lost, f"{len(lost)} of {len(talker.said)} lines of {peer.name} are lost"
    assert max(Counter(record["id"] for record in records if "id" in record).values()) == 1
    moved = [said for said in talker.said if found[said["id"]]["parentId"] != said["parent"]]
    assert not moved, "parents were changed"
    last = talker.said[-1]["id"]
    state = peer.ask("read", file=file)
    assert last in state["branch"], "the peer continues somewhere else"
    assert {said["id"] for said in talker.said} <= set(state["branch"])
    with SessionManager.open(file) as session:
        assert {said["id"] for said in talker.said} <= {e.id for e in session.get_branch(last)}
        assert not [str(warning) for warning in session.warnings if "root" in str(warning)]


def rename_by_command(file: Path) -> Callable[[int], object]:
    return lambda number: rename_session(FileStore(), str(file), f"name {number}")


def rename_open(file: Path) -> Callable[[int], object]:
    session = SessionManager.open(file)
    return lambda number: session.set_session_name(f"name {number}")


def rewrite_open(file: Path) -> Callable[[int], object]:
    session = SessionManager.open(file)
    return lambda _: session.rewrite_entries()


@pytest.mark.parametrize("begin", [rename_by_command, rename_open, rewrite_open])
def test_nothing_that_a_peer_says_is_lost_when_we_write_its_session_anew(
    peer: Peer,
    peer_root: Path,
    folder: Path,
    project: Path,
    begin: Callable[[Path], Callable[[int], object]],
) -> None:
    file = make_session(folder, project)
    talker = Talker(peer, peer_root, file)
    try:
        talker.hear(3)
        change = begin(file)
        deadline = time.monotonic() + SECONDS
        number = 0
        while time.monotonic() < deadline or number < 3:
            change(number)
            number += 1
            talker.hear(3)
    finally:
        talker.stop()
    assert talker.end["failure"] is None
    check_nothing_lost(file, talker, peer)


REWRITE = """
import sys
from sessiontree import SessionManager
session = SessionManager.open(sys.argv[1])
print("open", flush=True)
while True:
    session.rewrite_entries()
"""


def test_nothing_that_omp_says_is_lost_when_we_are_killed_while_we_rewrite(
    omp: Peer, peer_root: Path, project: Path
) -> None:
    folder = omp.agent_dir / "sessions" / "--living-killed--"
    folder.mkdir(parents=True, exist_ok=True)
    file = make_session(folder, project, 300_000)
    talker = Talker(omp, peer_root, file)
    try:
        talker.hear(3)
        deadline = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < deadline or kills < 3:
            ours = subprocess.Popen(
                [sys.executable, "-c", REWRITE, str(file)],
                stdout=subprocess.PIPE,
                cwd=CHECKOUT,
                text=True,
            )
            assert ours.stdout is not None
            assert ours.stdout.readline() == "open\n"
            talker.hear(1 + kills % 7)
            ours.send_signal(signal.SIGKILL)
            ours.wait()
            ours.stdout.close()
            kills += 1
    finally:
        talker.stop()
    assert talker.end["failure"] is None, "omp waited in vain for a lock that we had left"
    check_nothing_lost(file, talker, omp)


MV = [sys.executable, "-m", "sessiontree"]


def move(peer: Peer, file: Path, target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MV, "--profile", peer.name, "mv", str(file), str(target), *options],
        cwd=CHECKOUT,
        env={**os.environ, "HOME": str(peer.home), "PI_CODING_AGENT_DIR": str(peer.agent_dir)},
        capture_output=True,
        text=True,
        check=False,
    )


def find_moved(peer: Peer, file: Path, target: Path) -> Path:
    (found,) = (peer.agent_dir / "sessions").glob(f"*{target.name}*/{file.name}")
    return found


def test_nothing_that_a_peer_says_is_lost_when_its_session_is_moved(
    peer: Peer, peer_root: Path, folder: Path, project: Path, tmp_path: Path
) -> None:
    """pi finds the file by its name at each line; omp has it open, so that takes force."""
    file = make_session(folder, project)
    target = tmp_path / f"target{os.urandom(4).hex()}"
    target.mkdir()
    talker = Talker(peer, peer_root, file)
    try:
        talker.hear(5)
        if peer.name == "omp":
            refused = move(peer, file, target)
            assert refused.returncode == 1
            assert "has session" in refused.stderr
            done = move(peer, file, target, "--force")
        else:
            done = move(peer, file, target)
        assert done.returncode == 0, done.stderr
        talker.hear(round(SECONDS * 20))
    finally:
        talker.stop()
    moved = find_moved(peer, file, target)
    check_nothing_lost(moved, talker, peer)


def test_what_pi_says_at_the_old_place_is_brought_to_the_moved_session(
    pi: Peer, peer_root: Path, project: Path, tmp_path: Path
) -> None:
    """Without a link pi makes a file of its own there; who opens that one gets the session."""
    folder = pi.agent_dir / "sessions" / f"--living-{os.urandom(4).hex()}--"
    folder.mkdir(parents=True)
    file = make_session(folder, project, 300_000)
    target = tmp_path / f"target{os.urandom(4).hex()}"
    target.mkdir()
    talker = Talker(pi, peer_root, file)
    try:
        talker.hear(5)
        assert move(pi, file, target).returncode == 0
        moved = find_moved(pi, file, target)
        deadline = time.monotonic() + SECONDS
        rounds = 0
        while time.monotonic() < deadline or rounds < 3:
            file.unlink()  # the link
            talker.hear(3)
            assert not file.is_symlink()
            with SessionManager.open(file, profile="pi") as session:
                assert session.session_file == str(moved)
            assert file.is_symlink()
            talker.hear(3)
            rounds += 1
    finally:
        talker.stop()
    check_nothing_lost(moved, talker, pi)


def test_nothing_that_a_peer_says_is_lost_when_its_session_goes_there_and_back(
    peer: Peer, peer_root: Path, folder: Path, project: Path, tmp_path: Path
) -> None:
    """Each move back takes the place of the link that the one before has left."""
    file = now = make_session(folder, project)
    places = [tmp_path / f"target{os.urandom(4).hex()}" for _ in range(2)]
    for place in places:
        place.mkdir()
    talker = Talker(peer, peer_root, file)
    try:
        talker.hear(5)
        deadline = time.monotonic() + SECONDS
        moves = 0
        while time.monotonic() < deadline or moves < 4:
            done = move(peer, now, places[0], "--force")
            assert done.returncode == 0, done.stderr
            now = find_moved(peer, file, places[0])
            assert not now.is_symlink()
            places.reverse()
            moves += 1
            talker.hear(3)
    finally:
        talker.stop()
    check_nothing_lost(now, talker, peer)
