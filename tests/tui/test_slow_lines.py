"""Over a slow line: what a key and a streamed answer cost, in bytes that reach the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

from .streaming_program import WORDS, WORDS_A_SECOND
from .support import PATIENCE_S, Shop

PROGRAM = str(Path(sys.executable).with_name("sessiontree"))
DOWN = b"\x1b[B"


class Line:
    """A program at the other end of a line: everything it sends is counted."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def press(self, keys: bytes) -> int:
        """Press keys; how many bytes come back until it is quiet."""
        os.write(self._descriptor, keys)
        return len(self.read())

    def read(self, until: bytes = b"", quiet_s: float = 0.8) -> bytes:
        """Everything until it is quiet, and until this text has come."""
        data = b""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._descriptor], [], [], quiet_s)
            if ready:
                data += os.read(self._descriptor, 1 << 16)
            elif until in data:
                return data
        raise AssertionError(f"{until!r} never came")


@contextmanager
def program(
    words: list[str], root: Path, columns: int, rows: int, **variables: str
) -> Iterator[Line]:
    child, descriptor = pty.fork()
    if child == 0:
        os.chdir(root / "app")
        environment = {
            "HOME": str(root / "home"),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "SESSIONTREE_AGENT_DIR": str(root / "agent"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            **variables,
        }
        os.execve(words[0], words, environment)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        yield Line(descriptor)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(descriptor)


def test_a_key_in_the_picker_costs_a_few_kilobytes(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    for number in range(60):
        shop.session(
            f"prompt {number} about the parser", f"- point {number}\n- **more**\n" * 9,
            title=f"Session {number}", age_s=60 * number,
        )  # fmt: skip
    with program([PROGRAM, "-r"], tmp_path, 120, 40) as line:
        line.read(until=b"Session 0")
        costs = [line.press(DOWN) for _ in range(6)]
        assert max(costs) < 1_500, costs
        assert line.press(b"\x1b[6~") < 4_000, "a page down shows other rows"
        assert line.press(b"\x0c") < 4_000, "a column more in each row"


SUBJECTS = [
    "token",
    "cache",
    "parser",
    "session",
    "invoice",
    "router",
    "scheduler",
    "uploader",
    "webhook",
    "ledger",
]
TASKS = (
    "Why does the {} test fail on CI but not on my machine, and since when?",
    "Add a column for the {} to the table and write the migration for it",
    "Refactor the {} so that it can be tested without a network",
    "The page of the {} is slow; profile it and fix what is worst",
    "Upgrade what the {} needs, and fix what breaks",
)
F1, TAB, CTRL_L, PAGE_DOWN = b"\x1bOP", b"\t", b"\x0c", b"\x1b[6~"


@pytest.mark.parametrize(("columns", "rows"), [(200, 60), (120, 40), (80, 24)])
def test_over_ssh_no_key_costs_more_than_a_few_kilobytes(
    tmp_path: Path, columns: int, rows: int
) -> None:
    shop = Shop(tmp_path)
    for number in range(90):
        shop.session(
            f"({number}) " + TASKS[number % 5].format(SUBJECTS[number * 7 % 10]),
            f"The {SUBJECTS[number % 10]} reads the file twice: see line {number}.\n\n" * 30,
            age_s=3600 * number,
        )  # fmt: skip
    with program([PROGRAM, "-r"], tmp_path, columns, rows, SSH_CONNECTION="a b c d") as line:
        line.read(until=b"(0)")
        keys = [
            *(DOWN, DOWN, PAGE_DOWN, b"f", b"i", b"x", b"\x7f", b"\x7f", b"\x7f", b"\x13"),
            *(F1, b"\x1b", CTRL_L, CTRL_L, b"\x14", b"\x14", TAB, TAB),
        ]
        costs = [line.press(key) for key in keys]
    assert max(costs) < 6_000, costs
    assert median(costs) < 4_000, costs


def test_an_overlay_costs_what_it_shows(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    path = shop.session("Explain the parser", "It reads one line after the other. " * 600)
    with program([PROGRAM, "-r", path], tmp_path, 200, 60) as line:
        line.read(until=b"Resuming")
        assert line.press(F1) < 5_000, "what is below stays as it is"
        assert line.press(b"\x1b") < 6_000


def test_typing_costs_little(tmp_path: Path) -> None:
    Shop(tmp_path)
    with program([PROGRAM], tmp_path, 120, 40) as line:
        line.read(until=b"F1")
        assert max(line.press(letter) for letter in (b"h", b"e", b"l")) < 600


def test_a_streamed_answer_costs_a_few_kilobytes_a_second(tmp_path: Path) -> None:
    Shop(tmp_path)
    script = Path(__file__).with_name("streaming_program.py")
    words = [sys.executable, "-m", f"tests.tui.{script.stem}", str(tmp_path / "app")]
    with program(words, tmp_path, 120, 40) as line:
        data = line.read(until=b"END")
    seconds = WORDS / WORDS_A_SECOND
    assert len(data) / seconds < 12_000, f"{len(data):,} bytes in {seconds} s"
