"""Do the same work for many session files, in several processes at once.

The first index of a machine's sessions decodes hundreds of megabytes, and Python runs on one core.
So where much is to be read, a few processes read, and this one writes down what they answer. A
worker is a fresh interpreter that takes one job after the other on its standard input: it shares
nothing, so neither threads nor a program's main module matter. It ends when its input ends.

A worker knows the adapters that come with Sessiontree. Jobs of other adapters, small amounts, a
machine with one core, and any failure give None: then the caller does the work itself.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from typing import IO, TYPE_CHECKING, NamedTuple

import msgspec

from sessiontree.discovery.adapters import BUILT_IN, OWN_AGENTS
from sessiontree.storage.base import UNKNOWN_SIZE, FileStat

if TYPE_CHECKING:  # processes and threads load only when there is much to read
    from queue import SimpleQueue

    from sessiontree.discovery.adapters.base import AgentAdapter

    Answer = SimpleQueue[bytes | None]

LEAST_BYTES = 16_000_000
"""The least bytes to share: to read them takes several times as long as starting processes."""
MOST_WORKERS = 4
_AHEAD = 2
_AHEAD_BYTES = 32_000_000
"""The most bytes that may wait to be taken; usually it is a tenth of that."""
_LENGTH_BYTES = 8
_PIPE_BYTES = 1 << 18
"""Most answers are smaller: a worker goes on while its last answer waits to be taken."""
# -I keeps the current folder and PYTHONPATH out of the import path: a file of a project must not
# become a module of ours. Our own package, and what it needs, are added behind the rest.
_START = (
    "import sys; sys.path += sys.argv[1:]; from sessiontree.discovery.workers import serve; serve()"
)
_SOURCE_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_HOMES = list(
    dict.fromkeys((_SOURCE_HOME, os.path.dirname(os.path.dirname(msgspec.__file__ or ""))))
)


class Job(NamedTuple):
    """A session file to be read."""

    adapter: AgentAdapter | None
    """None for pi's family, where the agent doesn't matter."""
    stat: FileStat


def work_at_once(work: str, jobs: Sequence[Job]) -> Generator[bytes | None, None, None]:
    """Yield what ``work``, a ``module:function`` of agent and path, returns for each job, in order.

    None for a job that no worker did. Closing the generator ends the workers.
    """
    count = _count_workers(jobs)
    if count < 2:
        yield from (None for _ in jobs)
        return
    yield from _ask_workers(work, jobs, count)


def are_shared(jobs: Sequence[Job]) -> bool:
    """Whether there is so much to read that several processes share it."""
    return _count_workers(jobs) >= 2


def _ask_workers(work: str, jobs: Sequence[Job], count: int) -> Generator[bytes | None, None, None]:
    from queue import SimpleQueue

    with contextlib.ExitStack() as stack:
        workers: list[_Worker] = []
        for _ in range(count):
            workers.append(_Worker(work))
            stack.callback(workers[-1].close)
        waiting: deque[tuple[int, Answer]] = deque()
        size = 0
        coming = iter(jobs)
        for _ in jobs:
            # Far ahead of a large file: no process is to be idle while another reads it.
            while len(waiting) < count * _AHEAD or size < _AHEAD_BYTES:
                job = next(coming, None)
                if job is None:
                    break
                answer: Answer = SimpleQueue()
                min(workers, key=lambda each: (each.has_ended, each.load)).ask(job, answer)
                waiting.append((job.stat.size, answer))
                size += job.stat.size
            read, answer = waiting.popleft()
            yield answer.get()
            size -= read


def _count_workers(jobs: Sequence[Job]) -> int:
    if getattr(sys, "frozen", False) or not sys.executable:
        return 0
    size = sum(job.stat.size for job in jobs if _is_ours(job))
    return min(MOST_WORKERS, _count_cores()) if size >= LEAST_BYTES else 0


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_ours(job: Job) -> bool:
    """Whether a worker would read the file as this process does."""
    adapter = job.adapter
    if job.stat.size == UNKNOWN_SIZE:  # a row of a database
        return False
    return adapter is None or adapter.is_own or type(adapter) is _builtin_type(adapter.name)


def _builtin_type(name: str) -> type | None:
    module, member, *_ = BUILT_IN.get(name, ("", ""))
    loaded = sys.modules.get(f"sessiontree.discovery.adapters.{module}")
    return getattr(loaded, member, None)


class _Worker:
    """One process. It has its next jobs before it answers, so that it never waits for one."""

    def __init__(self, work: str) -> None:
        import subprocess
        from threading import Lock, Thread

        self.load = 0
        """How many bytes it is still to read."""
        self._asked: deque[tuple[int, Answer]] = deque()
        self._lock = Lock()
        self.has_ended = True
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, *_HOMES],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pipesize=_PIPE_BYTES,
            )
        except OSError:  # no process, or no descriptor, is left: nothing is done here
            self._process = None
            return
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._questions, self._answers = process, process.stdin, process.stdout
        self.has_ended = False
        with contextlib.suppress(OSError):
            _send(self._questions, work.encode())
        self._reader = Thread(target=self._hand_out, name="sessiontree-worker", daemon=True)
        self._reader.start()

    def ask(self, job: Job, answer: Answer) -> None:
        """Have a job done, and its answer put there in time: None without success."""
        with self._lock:
            if self.has_ended or not _is_ours(job):
                answer.put(None)
                return
            self.load += job.stat.size
            self._asked.append((job.stat.size, answer))
        agent = OWN_AGENTS[0] if job.adapter is None or job.adapter.is_own else job.adapter.name
        with contextlib.suppress(OSError):  # it has ended: then nothing that it was asked is done
            _send(self._questions, agent.encode(), os.fsencode(job.stat.path))

    def _hand_out(self) -> None:
        """Hand out the answers as they come, in a thread of its own."""
        with contextlib.suppress(OSError, ValueError):
            while (told := _receive(self._answers)) is not None:
                with self._lock:
                    size, answer = self._asked.popleft()
                    self.load -= size
                answer.put(told[1:] if told else None)
        with self._lock:
            self.has_ended = True
            for _, answer in self._asked:
                answer.put(None)

    def close(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self._reader.join()
            self._answers.close()
            with contextlib.suppress(OSError):  # what it never read is still to be written
                self._questions.close()


def _send(pipe: IO[bytes], *messages: bytes) -> None:
    for message in messages:
        pipe.write(len(message).to_bytes(_LENGTH_BYTES) + message)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    """The next message; None at the end."""
    head = pipe.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    length = int.from_bytes(head)
    data = pipe.read(length)
    return data if len(data) == length else None


# -- in a worker -----------------------------------------------------------------------------------


def serve() -> None:
    """Do jobs until the input ends. An answer begins with a mark: an empty one is a failure."""
    import signal

    from sessiontree.core.gc import collect_rarely

    collect_rarely()  # what it makes of a file is gone with the file
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the process that asks
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    module, _, member = (_receive(questions) or b"").decode().partition(":")
    work: Callable[[str, str], bytes] = getattr(import_module(module), member)
    while True:
        agent, path = _receive(questions), _receive(questions)
        if agent is None or path is None:
            return
        try:
            answer = b"+" + work(agent.decode(), os.fsdecode(path))
        except (OSError, ValueError):  # its caller meets that too, and reports it
            answer = b""
        _send(answers, answer)
