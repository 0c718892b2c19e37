"""Processes in which hostile input is read: bounded, and watched for what they touch.

A cage has one folder of its own. Whatever is opened for writing, made, moved or removed elsewhere
ends it, and so does a look at the folder ``outside``, a started program or a connection.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.torture import workers

MEMORY_BYTES = 1 << 30
FILE_BYTES = 256 << 20
CASE_SECONDS = 10.0
"""Of computing; waiting may take longer where the machine has other things to do."""
WAITING_SECONDS = 60.0
_MOST_FAILURES = 8
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = {
    "os.mkdir": 1,
    "os.rename": 2,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.link": 2,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.chmod": 1,
    "os.utime": 1,
    "shutil.rmtree": 1,
    "shutil.move": 2,
    "shutil.copyfile": 2,
}
_FORBIDDEN = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "os.fork")
)

Case = Callable[[random.Random], str]
"""Tries one input; its kind, for the count. Raises what must not happen."""


class Escape(BaseException):
    """Something outside the cage was touched. Nothing may catch it."""


class Hang(BaseException):
    """One input took too long."""


def run(case: Case, folder: Path, seed: int, seconds: float) -> workers.Child:
    """Try inputs in a cage until the time is over. It acknowledges counts and distinct failures.

    TORTURE_CASES ends it earlier: a seed and a number of cases are the same attack everywhere.
    """
    most = int(os.environ.get("TORTURE_CASES", "0")) or sys.maxsize

    def work(rng: random.Random, acknowledge: workers.Acknowledge) -> None:
        _lock(folder)
        began_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        counts: dict[str, int] = {}
        known: set[str] = set()
        end = time.monotonic() + seconds
        for _ in range(most):
            if time.monotonic() >= end:
                break
            case_seed = rng.getrandbits(48)
            began = time.monotonic()
            try:
                _limit(CASE_SECONDS, WAITING_SECONDS)
                kind = case(random.Random(case_seed))
                _limit(0, 0)
            except BaseException as error:
                _limit(0, 0)
                kind = "failed"
                if (place := _place_of(error)) not in known:
                    known.add(place)
                    acknowledge("failure", _describe(error, case_seed))
                if len(known) >= _MOST_FAILURES:
                    break
            counts[kind] = counts.get(kind, 0) + 1
            slowest = time.monotonic() - began
            counts["slowest ms"] = max(counts.get("slowest ms", 0), round(slowest * 1000))
        # what the tests before this one left in memory is not the inputs' doing
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began_kb
        acknowledge("counts", {**counts, "peak MB": grown >> 10})

    return workers.start(work, seed)


def _place_of(error: BaseException) -> str:
    """What tells one fault from another: its kind and the line it came from."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} {last.filename}:{last.lineno}"


def _describe(error: BaseException, case_seed: int) -> dict[str, Any]:
    return {"seed": case_seed, "error": "".join(traceback.format_exception(error))[-6_000:]}


def _lock(folder: Path) -> None:
    limit_memory()
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    signal.signal(signal.SIGALRM, _hang)
    signal.signal(signal.SIGPROF, _hang)
    os.chdir(folder)
    sys.addaudithook(_Guard(str(folder)))


def _limit(computing_s: float, waiting_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, computing_s)
    signal.setitimer(signal.ITIMER_REAL, waiting_s)


def limit_memory() -> None:
    """From now on this process gets a little more memory than it has, and then MemoryError."""
    with open("/proc/self/statm", "rb") as file:
        has = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MEMORY_BYTES,) * 2)


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hang(f"an input took {CASE_SECONDS} s of computing, or {WAITING_SECONDS} s in all")


class _Guard:
    """Sees every file that Python code opens, makes, moves or removes."""

    def __init__(self, folder: str) -> None:
        self._inside = os.path.realpath(folder)
        self._outside = os.path.join(os.path.dirname(self._inside), "outside")
        self._is_busy = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_busy or not (event == "open" or event[0] in "os"):
            return
        self._is_busy = True
        try:
            self._look(event, arguments)
        finally:
            self._is_busy = False

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FORBIDDEN:
            raise Escape(f"{event} {arguments!r:.200}")
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int):
                return
            where = os.path.realpath(os.fsdecode(path))
            is_writing = isinstance(flags, int) and bool(flags & _WRITING)
            if where.startswith(self._outside) or (is_writing and not self._is_ours(where)):
                raise Escape(f"open {path!r:.300}")
        elif event == "sqlite3.connect":
            name = os.fsdecode(arguments[0]).removeprefix("file:").partition("?")[0]
            if name != ":memory:" and not self._is_ours(os.path.realpath(name)):
                raise Escape(f"sqlite3.connect {name:.300}")
        elif event in _CHANGING:
            for path in arguments[: _CHANGING[event]]:
                if isinstance(path, int):
                    continue
                parent = os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(path))))
                if not self._is_ours(os.path.join(parent, os.path.basename(os.fsdecode(path)))):
                    raise Escape(f"{event} {path!r:.300}")

    def _is_ours(self, path: str) -> bool:
        return path == "/dev/null" or path.startswith(self._inside + os.sep)
