"""Run commands for tools, and end them with all their processes.

Owns starting a command in a session of its own, streaming what it prints, and ending it with all
its descendants. Knows nothing of models, messages or confirmation.

Ending means SIGTERM, a grace period, SIGKILL, for everything that `ProcessTree` finds. It happens
on a timeout, when the task that awaits the command is cancelled, and for what a finished command
left running in the background of its session.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sessiontree.agents.process_tree import ProcessTree, new_mark
from sessiontree.text.escaping import strip_terminal

GRACE_S = 2.0
"""Seconds from SIGTERM to SIGKILL."""

_DRAIN_S = 0.5
"""Seconds to read output after the command itself has ended."""

_GIVE_UP_S = 5.0
"""Seconds to repeat SIGKILL, since a process stuck in the kernel doesn't end at once."""

_CHUNK = 1 << 16
_POLL_S = 0.02

OnOutput = Callable[[str], Awaitable[None]]
_T = TypeVar("_T")

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Completed:
    """A command's end. ``exit_code`` is negative for a signal, None after a timeout."""

    exit_code: int | None
    timed_out: bool = False
    left_behind: int = 0
    """The number of processes that it had left running, and that were ended."""


def plain_text(text: str) -> str:
    """The text without terminal escapes and control characters; newlines and tabs stay.

    A lone carriage return redraws a line: only what follows the last one would be seen. Stand-ins
    for bytes that are not UTF-8 become U+FFFD.
    """
    text = strip_terminal(text.replace("\r\n", "\n"))
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))


async def run_command(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_s: float | None = None,
    grace_s: float = GRACE_S,
    on_output: OnOutput,
) -> Completed:
    """Run a command to its end, handing its output (both streams, in order) to ``on_output``.

    Cancelling the awaiting task ends the whole tree of processes before CancelledError goes on.
    Raises OSError when the command cannot be started.
    """
    command = _Command(argv, cwd, os.environ if env is None else env, stdin)
    reader = asyncio.create_task(command.forward(on_output))
    finished = timed_out = False
    left_behind = 0
    try:
        try:
            async with asyncio.timeout(timeout_s):
                await command.until_ended(reader)
                finished = True
        except TimeoutError:
            timed_out = True
    finally:
        try:
            left_behind = await _uninterrupted(command.end(grace_s, thorough=not finished))
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            command.close()
    if timed_out:
        return Completed(None, timed_out=True)
    if (failure := _failure(reader)) is not None:
        raise failure
    return Completed(command.exit_code, left_behind=left_behind)


class _Command:
    """A started command.

    Not asyncio's own subprocess: that one tells the end of a command only when every process has
    close the pipes, which a background child may never do.
    """

    def __init__(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes | None
    ) -> None:
        self._mark = new_mark()
        # A file, not a pipe: no task has to feed it, and a command that does not read cannot block.
        with tempfile.TemporaryFile() as source:
            source.write(stdin or b"")
            source.seek(0)
            self._popen = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**env, **self._mark},
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._transport: asyncio.BaseTransport | None = None
        self._ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._wait, args=(loop,), daemon=True).start()

    @property
    def exit_code(self) -> int | None:
        return self._popen.returncode

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._popen.wait()
        # The loop may be closed by now; then nothing waits for the event either.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._ended.set)

    async def until_ended(self, reader: asyncio.Task[None]) -> None:
        """Wait for the command, and stop waiting if its output can no longer be delivered."""
        waiter = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({waiter, reader}, return_when=asyncio.FIRST_COMPLETED)
            if _failure(reader) is None:
                await waiter
                # A background child may hold the pipe; what was printed is read by then.
                await asyncio.wait({reader}, timeout=_DRAIN_S)
        finally:
            waiter.cancel()

    async def forward(self, on_output: OnOutput) -> None:
        """Hand on everything that is printed, as whole characters."""
        stream = asyncio.StreamReader(limit=_CHUNK)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), self._popen.stdout
        )
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while chunk := await stream.read(_CHUNK):
            if text := decoder.decode(chunk):
                await on_output(text)
        if rest := decoder.decode(b"", final=True):
            await on_output(rest)

    async def end(self, grace_s: float, *, thorough: bool) -> int:
        """End all processes that still run; return their number without the first.

        ``thorough`` also ends what left the session: after an abort nothing may go on, while a
        finished command may well have started a service.
        """
        tree = ProcessTree(self._popen.pid, self._mark if thorough else None)
        living = tree.living()
        if self._ended.is_set() and not living:
            return 0
        tree.send(signal.SIGTERM)
        now = asyncio.get_running_loop().time
        deadline = now() + grace_s
        while (tree.living() or not self._ended.is_set()) and now() < deadline + _GIVE_UP_S:
            if now() >= deadline:
                # Again and again: one of them may have forked between the look and the signal.
                tree.send(signal.SIGKILL)
            await asyncio.sleep(_POLL_S)
        return len(living - {self._popen.pid})

    def close(self) -> None:
        """Close the pipe."""
        if self._transport is not None:
            self._transport.close()
        elif self._popen.stdout is not None:
            self._popen.stdout.close()


async def _uninterrupted(work: Awaitable[_T]) -> _T:
    """Await ``work`` to its end even if cancelled meanwhile, then pass the cancellation on.

    Half an end would leave processes behind.
    """
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = not task.cancelled()
    if cancelled:
        raise asyncio.CancelledError
    return task.result()


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    if not task.done() or task.cancelled():
        return None
    return task.exception()
