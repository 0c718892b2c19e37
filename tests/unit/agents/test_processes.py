"""Commands stream what they print and leave nothing running."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from sessiontree.agents import process_table, process_tree
from sessiontree.agents.processes import GRACE_S, Completed, plain_text, run_command


class Printed:
    """Collects output, and lets a test wait until something was printed."""

    def __init__(self) -> None:
        self.text = ""
        self._changed = asyncio.Condition()

    async def __call__(self, text: str) -> None:
        async with self._changed:
            self.text += text
            self._changed.notify_all()

    async def until(self, pattern: str) -> re.Match[str]:
        async with asyncio.timeout(20):
            async with self._changed:
                while (found := re.search(pattern, self.text)) is None:
                    await self._changed.wait()
        return found


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def run(
    command: str,
    cwd: Path,
    printed: Printed,
    timeout_s: float | None = None,
    grace_s: float = GRACE_S,
) -> Completed:
    return await run_command(
        ["/bin/bash", "-c", command],
        cwd=str(cwd),
        on_output=printed,
        timeout_s=timeout_s,
        grace_s=grace_s,
    )


async def test_both_streams_and_the_exit_code_are_told(tmp_path: Path) -> None:
    printed = Printed()
    ended = await run("pwd; echo err >&2; exit 3", tmp_path, printed)
    assert printed.text == f"{tmp_path}\nerr\n"
    assert ended == Completed(3)


async def test_output_comes_while_the_command_still_runs(tmp_path: Path) -> None:
    printed = Printed()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    task = asyncio.create_task(run("echo first; read x < gate; echo $x", tmp_path, printed))
    await printed.until("first")
    assert not task.done()
    await asyncio.to_thread(gate.write_text, "second\n")
    assert (await task).exit_code == 0
    assert printed.text == "first\nsecond\n"


async def test_a_character_split_between_two_writes_stays_whole(tmp_path: Path) -> None:
    printed = Printed()
    script = (
        "import os, time\n"
        "for b in 'é🎈'.encode():\n    os.write(1, bytes([b])); time.sleep(0.01)\n"
        "os.write(1, b'\\xff\\xe2\\x82')\n"
    )
    await run_command([sys.executable, "-c", script], cwd=str(tmp_path), on_output=printed)
    assert printed.text == "é🎈\ufffd\ufffd"


async def test_standard_input_is_given_and_closed(tmp_path: Path) -> None:
    printed = Printed()
    data = b"x" * 300_000
    await run_command(["/usr/bin/wc", "-c"], cwd="/", stdin=data, on_output=printed)
    assert printed.text.strip() == "300000"


async def test_a_command_that_never_reads_its_input_does_not_hang(tmp_path: Path) -> None:
    ended = await run_command(
        ["/bin/true"], cwd="/", stdin=b"x" * 3_000_000, on_output=Printed(), timeout_s=20
    )
    assert ended == Completed(0)


async def test_without_input_the_command_reads_an_empty_one(tmp_path: Path) -> None:
    assert await run("cat", tmp_path, Printed(), timeout_s=20) == Completed(0)


async def test_a_command_that_cannot_start_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_command([str(tmp_path / "none")], cwd="/", on_output=Printed())


@pytest.mark.usefixtures("system")
async def test_a_timeout_ends_the_command(tmp_path: Path) -> None:
    printed = Printed()
    began = time.monotonic()
    ended = await run("echo pid=$$; sleep 60", tmp_path, printed, timeout_s=0.3)
    assert ended.timed_out
    assert ended.exit_code is None
    assert time.monotonic() - began < 20
    assert not alive(int((await printed.until(r"pid=(\d+)")).group(1)))


GRANDCHILDREN = """
echo parent=$$
(sleep 300 & echo child=$!; wait) &
bash -c 'sleep 300 & echo grandchild=$!; wait' &
set -m
sleep 300 & echo owngroup=$!
setsid sh -c 'echo ownsession=$$; exec sleep 300' &
echo ready
wait
"""


async def started_tree(printed: Printed) -> list[int]:
    names = ("parent", "child", "grandchild", "owngroup", "ownsession")
    pids = [int((await printed.until(rf"\b{name}=(\d+)\n")).group(1)) for name in names]
    await printed.until("ready")
    assert all(alive(pid) for pid in pids)
    return pids


@pytest.fixture(params=["Linux", "macOS"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """This system, and one without ``/proc`` and process descriptors, where psutil must do."""
    if request.param == "macOS":
        monkeypatch.setattr(process_tree, "find_process_table", process_table.PsutilTable)
        monkeypatch.delattr(os, "pidfd_open")
    return str(request.param)


@pytest.mark.usefixtures("system")
async def test_cancelling_ends_children_grandchildren_and_those_that_left_the_group(
    tmp_path: Path,
) -> None:
    printed = Printed()
    task = asyncio.create_task(run(GRANDCHILDREN, tmp_path, printed))
    pids = await started_tree(printed)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [pid for pid in pids if alive(pid)] == []


ORPHAN = """
import os, time
if os.fork():
    time.sleep(300)
os.setsid()
parent = os.getpid()
if os.fork():
    os._exit(0)
os.setsid()
while os.getppid() == parent:
    time.sleep(0.01)
print(f"orphan={os.getpid()}", flush=True)
time.sleep(300)
"""


@pytest.mark.usefixtures("system")
async def test_cancelling_ends_one_that_left_the_session_and_lost_its_parents(
    tmp_path: Path,
) -> None:
    printed = Printed()
    task = asyncio.create_task(
        run_command([sys.executable, "-c", ORPHAN], cwd=str(tmp_path), on_output=printed)
    )
    orphan = int((await printed.until(r"orphan=(\d+)\n")).group(1))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(orphan)


async def test_without_a_process_table_the_group_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tree, "find_process_table", lambda: None)
    printed = Printed()
    task = asyncio.create_task(run("sleep 300 & echo child=$!; wait", tmp_path, printed))
    child = int((await printed.until(r"child=(\d+)\n")).group(1))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(child)


def test_psutil_says_what_linux_says() -> None:
    ours, theirs = process_table.ProcFolder(), process_table.PsutilTable()
    for pid in (os.getpid(), os.getppid()):
        here, there = ours.look(pid), theirs.look(pid)
        assert here is not None
        assert there is not None
        assert here[:4] == there[:4]
        assert theirs.read()[pid] == there
    assert theirs.look(2**22 + 1) is ours.look(2**22 + 1) is None
    assert not theirs.has_variable(os.getpid(), "NO_SUCH_VARIABLE", "x")


def test_without_proc_and_psutil_there_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    exists = os.path.exists
    monkeypatch.setattr("os.path.exists", lambda path: path != "/proc/self/stat" and exists(path))
    assert isinstance(process_table.find_process_table(), process_table.PsutilTable)
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert process_table.find_process_table() is None


@pytest.mark.usefixtures("system")
async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    printed = Printed()
    inner = "trap '' TERM; echo sub=$$; while :; do sleep 60; done"
    command = f"trap '' TERM; echo pid=$$; bash -c {shlex.quote(inner)}; echo never"
    task = asyncio.create_task(run(command, tmp_path, printed, grace_s=0.3))
    pids = [int((await printed.until(rf"{name}=(\d+)\n")).group(1)) for name in ("pid", "sub")]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [pid for pid in pids if alive(pid)] == []


async def test_sigterm_comes_first_so_that_a_command_can_clean_up(tmp_path: Path) -> None:
    printed = Printed()
    command = "trap 'echo bye > note; exit' TERM; echo ready; while :; do sleep 0.05; done"
    task = asyncio.create_task(run(command, tmp_path, printed))
    await printed.until("ready")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "note").read_text() == "bye\n"


@pytest.mark.usefixtures("system")
async def test_cancelling_again_while_it_ends_does_not_leave_it_running(tmp_path: Path) -> None:
    printed = Printed()
    task = asyncio.create_task(
        run("trap '' TERM; echo pid=$$; while :; do sleep 60; done", tmp_path, printed, grace_s=0.4)
    )
    pid = int((await printed.until(r"pid=(\d+)\n")).group(1))
    task.cancel()
    for _ in range(3):
        await asyncio.sleep(0.01)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(pid)


async def test_cancelling_before_the_command_has_started_leaves_nothing(tmp_path: Path) -> None:
    for steps in range(6):
        marker = f"st-{os.getpid()}-{steps}"
        task = asyncio.create_task(run(f"exec -a {marker} sleep 300", tmp_path, Printed()))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not _running_with(marker)


def _running_with(marker: str) -> list[str]:
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if marker.encode() in file.read() and alive(int(pid)):
                    found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.usefixtures("system")
async def test_what_a_finished_command_left_in_the_background_is_ended_and_counted(
    tmp_path: Path,
) -> None:
    printed = Printed()
    began = time.monotonic()
    ended = await run("sleep 300 & echo pid=$!", tmp_path, printed)
    assert time.monotonic() - began < 20
    assert ended == Completed(0, left_behind=1)
    assert not alive(int((await printed.until(r"pid=(\d+)")).group(1)))


async def test_a_signal_is_told_as_a_negative_code(tmp_path: Path) -> None:
    assert await run("kill -9 $$", tmp_path, Printed()) == Completed(-signal.SIGKILL)


async def test_a_failing_listener_ends_the_command(tmp_path: Path) -> None:
    pids: list[int] = []

    async def fail(text: str) -> None:
        pids.append(int(text.strip()))
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        await run_command(
            ["/bin/bash", "-c", "echo $$; exec sleep 300"], cwd=str(tmp_path), on_output=fail
        )
    assert not alive(pids[0])


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10%\r20%\r100%\ndone\r\n", "100%\ndone\n"),
        ("tab\tstays\nbell\x07 goes\x00", "tab\tstays\nbell goes"),
        ("\x9b31mc1", "c1"),
        ("\x1b", ""),
    ],
)
def test_terminal_control_does_not_reach_the_model(raw: str, shown: str) -> None:
    assert plain_text(raw) == shown
