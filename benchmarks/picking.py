"""Open the session picker in a terminal of its own, type a word, and print what that took.

``python -m benchmarks.picking MEASURE WORD SESSIONS COMMAND…``: ``paint`` counts until the first
rows are on the screen, ``search`` from the first letter until the rows of the word are. Prints
``{ms, hwm_kb, info}``, as every command of a benchmark does.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from contextlib import suppress

_TIMEOUT_S = 30.0
_IDLE_S = 0.5
_ROWS, _COLUMNS = 40, 120
_CONTROL = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)", re.DOTALL)
_FIRST_ROWS = re.compile(rb"\b(?:claude|codex|pi) ")


class _Terminal:
    """A program on a terminal, and what it has written since it was asked last."""

    def __init__(self, command: list[str]) -> None:
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm-256color"})
        size = struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0)
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, size)
        self._written = b""

    def type(self, text: str) -> None:
        self._written = b""
        os.write(self._file, text.encode())

    def wait_for(self, wanted: re.Pattern[bytes]) -> str:
        """Read until something is written; return it. Raises TimeoutError."""
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            self._read(deadline - time.monotonic())
            found = wanted.search(_CONTROL.sub(b" ", self._written))
            if found is not None:
                return found[0].decode("utf-8", "replace")
        raise TimeoutError(f"not shown: {wanted.pattern.decode()}")

    def settle(self) -> None:
        """Read until nothing is written for a while."""
        while self._read(_IDLE_S):
            pass

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._file], [], [], seconds)
        if ready:
            with suppress(OSError):  # it has ended
                self._written += os.read(self._file, 1 << 16)
        return bool(ready)

    def end(self) -> int:
        """End the program; return the most memory it took, in kilobytes."""
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        _, _, usage = os.wait4(self.pid, 0)
        os.close(self._file)
        return usage.ru_maxrss >> (10 if sys.platform == "darwin" else 0)


def main() -> None:
    """Measure once."""
    measure, word, sessions, *command = sys.argv[1:]
    started = time.perf_counter()
    terminal = _Terminal(command)
    try:
        terminal.wait_for(_FIRST_ROWS)
        took = time.perf_counter() - started
        shown = terminal.wait_for(re.compile(f"{int(sessions):,} sessions".encode()))
        if measure == "search":
            terminal.settle()
            started = time.perf_counter()
            terminal.type(word)
            shown = terminal.wait_for(re.compile(rb"[\d,]+ of %s" % f"{int(sessions):,}".encode()))
            took = time.perf_counter() - started
            terminal.settle()
    finally:
        peak_kb = terminal.end()
    print(json.dumps({"ms": took * 1000, "hwm_kb": peak_kb, "info": {"shown": shown}}))


if __name__ == "__main__":
    main()
