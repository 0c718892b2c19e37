"""Real terminals: two windows on one project each continue their own session."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from sessiontree.profiles import get_profile

CONVERSE = """
import sys
from sessiontree import SessionManager
with SessionManager.continue_recent(sys.argv[1]) as session:
    session.append_message({"role": "user", "content": sys.argv[2], "timestamp": 1})
    session.append_message({"role": "assistant", "content": [], "provider": "p", "model": "m",
                            "usage": {}, "stopReason": "stop", "timestamp": 2})
    print(session.session_id, len(session.get_entries()))
"""


class Terminal:
    """A pseudo-terminal in which one program after the other is run."""

    def __init__(self) -> None:
        self._ours, self._theirs = pty.openpty()

    def run(self, code: str, *arguments: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            stdin=self._theirs,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    @property
    def name(self) -> str:
        return os.ttyname(self._theirs).removeprefix("/dev/").replace("/", "-")

    def close(self) -> None:
        os.close(self._ours)
        os.close(self._theirs)


def test_each_terminal_continues_its_own_session(home: Path, tmp_path: Path) -> None:
    project = str(tmp_path)
    left, right = Terminal(), Terminal()
    try:
        first, _ = left.run(CONVERSE, project, "left")
        # a new terminal knows no session of its own: it takes the project's newest
        assert right.run(CONVERSE, project, "right") == [first, "4"]
        new = right.run(
            CONVERSE.replace("continue_recent", "create"), project, "a session of its own"
        )
        assert new[0] != first
        assert left.run(CONVERSE, project, "left again") == [first, "6"]
        assert right.run(CONVERSE, project, "right again") == [new[0], "4"]
        crumbs = Path(get_profile().terminal_sessions_dir)
        shown = {crumb.name for crumb in crumbs.iterdir() if not crumb.name.startswith(".")}
        assert shown == {left.name, right.name}
        content = (crumbs / right.name).read_text().splitlines()
        assert content[0] == project
        assert new[0] in content[1]
    finally:
        left.close()
        right.close()


def test_without_a_terminal_the_newest_session_is_continued(home: Path, tmp_path: Path) -> None:
    terminal = Terminal()
    try:
        mine, _ = terminal.run(CONVERSE, str(tmp_path), "x")
        other, _ = terminal.run(
            CONVERSE.replace("continue_recent", "create"), str(tmp_path), "another"
        )
    finally:
        terminal.close()
    assert mine != other
    piped = subprocess.run(
        [sys.executable, "-c", CONVERSE, str(tmp_path), "piped"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert piped.stdout.split()[0] == other
