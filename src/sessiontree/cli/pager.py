"""Show long output in a pager, as git does: ``SESSIONTREE_PAGER``, ``PAGER`` or less.

A pager starts only once there is more than one screen. What is written to standard error meanwhile
waits until it has ended, so that no message lands in the middle of a page. While it runs, Ctrl-C
belongs to the pager; quitting it ends the command.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import Any, TextIO


def pager_command(environ: Mapping[str, str]) -> list[str] | None:
    """Return the pager's program and arguments; None if the user wants none, or has none."""
    for name in ("SESSIONTREE_PAGER", "PAGER"):
        if name in environ:
            return _installed(environ[name])
    return _installed("less") or _installed("more")


def _installed(spelled: str) -> list[str] | None:
    try:
        command = shlex.split(spelled)
    except ValueError:
        return None
    if not command or command == ["cat"]:
        return None
    found = shutil.which(command[0])
    return [found, *command[1:]] if found else None


class Pager:
    """Holds back one screen of text, and gives what is longer to the pager."""

    def __init__(self, command: list[str], rows: int, stdout: TextIO, stderr: TextIO) -> None:
        self._command = command
        self._rows = rows
        self._streams = {id(stdout): stdout, id(stderr): stderr}
        self._stdout = stdout
        self._held: dict[int, list[str]] = {stream: [] for stream in self._streams}
        self._lines = 0
        self._process: subprocess.Popen[str] | None = None
        self._old_handler: Any = None

    def takes(self, stream: TextIO) -> bool:
        """Whether text for this stream is the pager's to write."""
        return id(stream) in self._held

    def write(self, stream: TextIO, text: str) -> None:
        """Write, or hold back. Raises BrokenPipeError once the user has quit the pager."""
        if stream is self._stdout and self._process is not None:
            self._feed(text)
            return
        self._held[id(stream)].append(text)
        if stream is self._stdout:
            self._lines += text.count("\n")
            if self._lines >= self._rows:
                self._start()

    def _start(self) -> None:
        environ = {"LESS": "FRX", "LV": "-c", **os.environ}
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            env=environ,
            text=True,
            encoding=self._stdout.encoding,
            errors="backslashreplace",
        )
        if threading.current_thread() is threading.main_thread():
            # After the start: the pager must not inherit that Ctrl-C is ignored.
            self._old_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        held, self._held[id(self._stdout)] = self._held[id(self._stdout)], []
        self._feed("".join(held))

    def _feed(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(text)

    def close(self) -> None:
        """Wait until the user has read it all; then write what was held back."""
        try:
            if self._process is not None:
                assert self._process.stdin is not None
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()
                self._process.wait()
        finally:
            if self._old_handler is not None:
                signal.signal(signal.SIGINT, self._old_handler)
        for key, texts in self._held.items():
            if texts:
                self._streams[key].write("".join(texts))
