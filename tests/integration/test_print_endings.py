"""How ``-p`` ends: by a signal, by Ctrl-C, by its limit of turns. A real agent, a real process."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import PROGRAM, Machine, make_machine, take_terminal
from tests.integration.chat_server import ChatServer, Connection, calls, says
from tests.integration.rig import alive

from sessiontree import agents
from sessiontree.agents import AgentChoice, create_session_agent
from sessiontree.cli import main as cli

_PATIENCE_S = 30


@pytest.fixture
def machine(tmp_path: Path, server: ChatServer) -> Machine:
    made = make_machine(tmp_path)
    made.env |= {"LOOPBACK_BASE_URL": server.url, "LOOPBACK_API_KEY": "k-0123456789"}
    return made


@dataclass
class Run:
    """``-p`` on a terminal of its own."""

    process: subprocess.Popen[bytes]
    master: int
    shown: bytes = b""

    def until(self, is_so: Callable[[], bool]) -> None:
        """Read what is shown until something is so."""
        deadline = time.monotonic() + _PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, self.shown.decode("utf-8", "replace")
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.shown += os.read(self.master, 65536)
                except OSError:
                    return

    def answer(self, cue: bytes, typed: bytes) -> None:
        self.until(lambda: cue in self.shown)
        os.write(self.master, typed)


@pytest.fixture
def run(machine: Machine) -> Iterator[Run]:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "-p", "go", "--model", "loopback/test-model"],
        cwd=machine.project,
        env={**machine.env, "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509
    )
    os.close(slave)
    made = Run(process, master)
    yield made
    if process.poll() is None:
        process.kill()
    process.wait()
    os.close(made.master)


def _bash(command: str) -> str:
    return json.dumps({"command": command})


def _messages(machine: Machine) -> list[dict[str, object]]:
    (file,) = machine.agent_dir.rglob("*.jsonl")
    lines = map(json.loads, file.read_text().splitlines())
    return [line["message"] for line in lines if line["type"] == "message"]


def _start_a_command(machine: Machine, run: Run) -> list[int]:
    """Let the agent start a command that has a child of its own; the ids of both."""
    run.answer(b"[y/N]", b"y\n")
    pids = machine.project / "pids"
    run.until(lambda: pids.exists() and pids.read_text().count("\n") == 2)
    found = [int(pid) for pid in pids.read_text().split()]
    assert all(map(alive, found))
    return found


_LONG = (
    "trap '' HUP; (trap '' HUP; sh -c 'echo $$ >> pids; exec sleep 300') & echo $$ >> pids; wait"
)


def _end_by(number: int) -> Callable[[Run], None]:
    return lambda run: run.process.send_signal(number)


def _close_terminal(run: Run) -> None:
    os.close(run.master)
    run.master = os.open(os.devnull, os.O_RDONLY)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (_end_by(signal.SIGTERM), 128 + signal.SIGTERM),
        (_end_by(signal.SIGHUP), 128 + signal.SIGHUP),
        (_close_terminal, 128 + signal.SIGHUP),
        (_end_by(signal.SIGINT), 130),
    ],
    ids=["SIGTERM", "SIGHUP", "closed terminal", "SIGINT"],
)
async def test_the_commands_that_the_agent_started_end_with_it(
    machine: Machine, run: Run, server: ChatServer, end: Callable[[Run], None], code: int
) -> None:
    server.script = [calls(("1", "bash", _bash(_LONG)))]
    pids = await asyncio.to_thread(_start_a_command, machine, run)
    end(run)
    assert await asyncio.to_thread(run.process.wait, _PATIENCE_S) == code
    assert not any(map(alive, pids))
    messages = _messages(machine)
    assert [message["role"] for message in messages][:3] == ["user", "assistant", "toolResult"]
    assert messages[-1]["role"] == "assistant"
    assert messages[-1]["stopReason"] == "aborted"


async def test_an_ignored_hangup_ends_nothing(machine: Machine, server: ChatServer) -> None:
    answered = asyncio.Event()

    async def answer(connection: Connection) -> None:
        process.send_signal(signal.SIGHUP)
        await asyncio.sleep(0.3)
        await says("still here")(connection)
        answered.set()

    server.script = [answer]
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", 'trap "" HUP; exec "$0" "$@"'),
        *(PROGRAM, "-p", "go", "--model", "loopback/test-model"),
        cwd=machine.project,
        env=machine.env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), _PATIENCE_S)
    assert (process.returncode, out) == (0, b"still here\n")
    assert answered.is_set()


async def test_a_model_that_goes_round_in_circles_is_stopped_and_can_go_on(
    machine: Machine, server: ChatServer
) -> None:
    look = json.dumps({"path": "."})
    server.script = [calls((str(turn), "ls", look)) for turn in range(9)]
    result = await asyncio.to_thread(_print, machine, "go", "--max-turns", "3")
    assert len(server.requests) == 3
    assert (result.returncode, result.stdout) == (3, b"")
    assert b"--max-turns" in result.stderr
    assert result.stderr.count(b"\n") == 1
    roles = [message["role"] for message in _messages(machine)]
    assert roles == ["user", *["assistant", "toolResult"] * 3]
    server.script = [says("done")]
    result = await asyncio.to_thread(_print, machine, "continue", "-c")
    assert (result.returncode, result.stdout) == (0, b"done\n")


async def test_an_answer_that_ends_just_at_the_limit_is_whole(
    machine: Machine, server: ChatServer
) -> None:
    server.script = [calls(("1", "ls", json.dumps({"path": "."}))), says("done")]
    result = await asyncio.to_thread(_print, machine, "go", "--max-turns", "2")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"done\n", b"")


def test_without_a_number_there_is_a_limit_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[AgentChoice] = []

    def create(*arguments: Any, **options: Any) -> AgentChoice:
        made.append(create_session_agent(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(agents, "create_session_agent", create)
    monkeypatch.chdir(machine.project)
    assert cli.run(["--no-session", "-p", "hello", "--model", "offline"]) == 0
    assert made[0].agent.turns_left == 99


def _print(machine: Machine, prompt: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [PROGRAM, *options, "-p", prompt, "--model", "loopback/test-model"],
        cwd=machine.project,
        env=machine.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


async def test_ctrl_c_ends_a_line_without_end_at_once(machine: Machine, server: ChatServer) -> None:
    started = asyncio.Event()

    async def endless(connection: Connection) -> None:
        await connection.open_stream()
        await connection.raw(b"data: ")
        while True:
            await connection.raw(b"x" * 4096)
            started.set()
            await asyncio.sleep(0.001)

    server.script = [endless]
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, "-p", "go", "--model", "loopback/test-model"),
        cwd=machine.project,
        env=machine.env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    await asyncio.wait_for(started.wait(), _PATIENCE_S)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    await asyncio.wait_for(process.communicate(), _PATIENCE_S)
    assert process.returncode == 130
    assert time.monotonic() - began < 5


def test_a_limit_of_turns_goes_with_p_only(tmp_path: Path) -> None:
    machine = make_machine(tmp_path)
    for arguments in (["--max-turns", "3"], ["-p", "x", "--max-turns", "0"]):
        result = machine.run(*arguments)
        assert (result.code, result.out) == (2, "")
        assert "--max-turns" in result.err
