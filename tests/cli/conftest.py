"""The real command in processes of its own: piped, or on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests import samples

PROGRAM = str(Path(sys.executable).with_name("sessiontree"))


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass
class Machine:
    """A user's machine: a home, a project, an environment without anything of ours."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def agent_dir(self) -> Path:
        return self.root / "agent"

    def run(
        self,
        *args: str,
        cwd: Path | None = None,
        stdin: str | None = None,
        timeout_s: float = 60,
        **env: str,
    ) -> Result:
        """Run the command with its output in pipes."""
        done = subprocess.run(
            [PROGRAM, *args],
            cwd=cwd or self.project,
            env={**self.env, **env},
            input=(stdin or "").encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    def on_terminal(
        self,
        *args: str,
        replies: Sequence[tuple[str, str]] = (),
        cwd: Path | None = None,
        columns: int = 80,
        **env: str,
    ) -> Result:
        """Run the command on a terminal; each reply is typed once its cue has been shown."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [PROGRAM, *args],
            cwd=cwd or self.project,
            env={**self.env, "TERM": "xterm-256color", **env},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509
        )
        os.close(slave)
        try:
            shown = _converse(master, process, list(replies))
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
            os.close(master)
        return Result(process.returncode, shown.replace("\r\n", "\n"), "")

    def session(
        self,
        session_id: str,
        *texts: str,
        cwd: Path | None = None,
        title: str | None = None,
        age_s: float = 0,
        said: datetime | None = None,
        folder: Path | None = None,
        header: dict[str, Any] | None = None,
        entries: Sequence[dict[str, Any]] | None = None,
    ) -> Path:
        """Write a session file: texts are said by user and assistant in turn.

        All of them ``age_s`` ago, or one a minute after ``said``.
        """
        project = str(cwd or self.project)
        where = folder or self.agent_dir / "sessions" / f"--{project[1:].replace('/', '-')}--"
        where.mkdir(parents=True, exist_ok=True)
        path = where / f"2026-02-16T10-20-30-000Z_{session_id}.jsonl"
        head: dict[str, Any] = {
            "type": "session",
            "version": 3,
            "id": session_id,
            "timestamp": "2026-02-16T10:20:30.000Z",
            "cwd": project,
        }
        if title is not None:
            head["title"] = title
        lines: list[dict[str, Any]] = [{**head, **(header or {})}]
        before = None
        moment = time.time() - age_s
        for number, fields in enumerate(entries if entries is not None else _talk(texts), 1):
            when = datetime.fromtimestamp(moment, UTC)
            if said is not None:
                when = said + timedelta(minutes=number)
            base = {
                "type": "message",
                "id": f"{number:08x}",
                "parentId": before,
                "timestamp": f"{when:%Y-%m-%dT%H:%M:%S}.000Z",
            }
            lines.append({**base, **fields})
            before = lines[-1]["id"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        path.chmod(0o600)
        os.utime(path, (moment, moment))
        return path


def behead(path: Path) -> None:
    """Take the header from a session file; all that was said stays."""
    path.write_text(path.read_text().split("\n", 1)[1])


def user(text: str) -> dict[str, Any]:
    return {"message": samples.user([{"type": "text", "text": text}], timestamp=1)}


def assistant(*blocks: dict[str, Any] | str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    usage = {"input": 100, "output": 20, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0.5}}
    own = {"provider": "acme", "model": "m1", "usage": usage, "timestamp": 1}
    return {"message": samples.assistant(content=content, **{**own, **fields})}


def _talk(texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(texts):
        yield user(text) if number % 2 == 0 else assistant(text)


def take_terminal() -> None:
    """In the child: Ctrl+C reaches it, even if whoever runs the tests (nohup) is deaf to it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _converse(master: int, process: subprocess.Popen[bytes], replies: list[tuple[str, str]]) -> str:
    """Answer what is asked, in turn; half a second of silence asks "", if it comes at all."""
    shown = b""
    seen = 0
    deadline = time.monotonic() + 60
    spoke_at = time.monotonic()
    while time.monotonic() < deadline:
        is_over = process.poll() is not None  # asked first: what it wrote last is read after this
        ready, _, _ = select.select([master], [], [], 0.05)
        if ready:
            spoke_at = time.monotonic()
            try:
                chunk = os.read(master, 65536)
            except OSError:  # Linux tells the end of the other side so
                break
            if not chunk:
                break
            shown += chunk
        elif is_over:
            break
        if replies:
            at = shown.find(replies[0][0].encode(), seen)
            is_silent = time.monotonic() - spoke_at > 0.5
            if is_silent if not replies[0][0] else at >= 0:
                seen = at + 1
                spoke_at = time.monotonic()
                os.write(master, replies.pop(0)[1].encode())
    unasked = [question for question, _ in replies if question]
    assert not unasked, f"never asked {unasked[0]!r}: {shown.decode('utf-8', 'replace')}"
    return shown.decode("utf-8", "replace")


def make_machine(root: Path) -> Machine:
    """A machine with a home and a project, and nothing of ours in its environment but folders."""
    made = Machine(root)
    for folder in (made.home, made.project):
        folder.mkdir(parents=True)
    made.env = {
        "PATH": f"{os.path.dirname(PROGRAM)}:{os.environ.get('PATH', '')}",
        "HOME": str(made.home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PAGER": "cat",
        "SESSIONTREE_AGENT_DIR": str(made.agent_dir),
        "SESSIONTREE_CACHE_DIR": str(root / "cache"),
        # what `make coverage` counts by, also in the programs that tests start
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
    }
    return made


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path)


@pytest.fixture
def talk() -> tuple[Callable[..., dict[str, Any]], Callable[..., dict[str, Any]]]:
    """The makers of a user's and of an assistant's entry."""
    return user, assistant
