"""Find other processes that may write to a file, as far as the system tells.

One that has it open for writing can be seen on Linux. One that opens it by its name for each line
cannot: it is guessed by where it works, and by when the file was last written to.
"""

from __future__ import annotations

import contextlib
import os
import sys

import msgspec

from sessiontree.clock import now_s

if sys.platform == "linux":
    import fcntl

    _F_SETSIG = 10  # not named by every Python

    def has_writers(number: int) -> bool | None:
        """Whether any process can write to this open file; None if the system does not say.

        The kernel grants a read lease on a file only while no process has it open for writing, in
        whatever container. The lease is given back at once; should somebody open the file in that
        moment, the kernel sends a signal, which is one that is ignored.
        """
        import signal  # only here: few commands write, and all load this module

        try:
            fcntl.fcntl(number, _F_SETSIG, signal.SIGURG)
            fcntl.fcntl(number, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return True
        except (OSError, ValueError):
            return None
        with contextlib.suppress(OSError):
            fcntl.fcntl(number, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False

else:

    def has_writers(number: int) -> bool | None:  # noqa: ARG001
        """Whether any process can write to this open file; None if the system does not say."""
        return None


AGENT_PROGRAMS = {
    "pi": frozenset(("pi", "pi-coding-agent")),
    "omp": frozenset(("omp", "pi-coding-agent")),
    "xcsh": frozenset(("xcsh",)),
    "prime-agent": frozenset(("prime-agent", "pi")),
    "omo": frozenset(("omo",)),
    "stepcode": frozenset(("step", "stepcode")),
}
"""What the agents of each profile are called. pi does not keep a session open, and omp opens it at
its first line: before that one can only see that they work in the session's project."""
_INTERPRETERS = frozenset(("node", "bun", "deno"))
"""Interpreters that agents run on; an agent run by one appears under the interpreter's name."""
_RECENT_S = 86_400.0


class User(msgspec.Struct, frozen=True):
    """A process that has a file open, or that may."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"


def may_be_written(path: str, folder: str) -> bool:
    """Whether a program has a session open, or works in its project's folder and may have it."""
    names = frozenset().union(*AGENT_PROGRAMS.values(), _INTERPRETERS)
    return bool(find_users(path) or find_agents(names, folder))


def was_written_lately(path: str) -> bool:
    """Whether somebody wrote to a file within a day.

    A program that waits for its user since then may be in another container, or on a system that
    does not tell what it works on: if it finds the file by its name, its next line goes there.
    """
    try:
        return now_s() - os.stat(path).st_mtime < _RECENT_S
    except OSError:
        return False


def find_users(path: str) -> list[User]:
    """Find the other processes that can write to the file; those of other users are invisible.

    Processes that only read it, such as a viewer, lose nothing when it is moved. Empty where there
    is no ``/proc``.
    """
    try:
        wanted = os.stat(path)
    except OSError:
        return []
    target = os.path.realpath(path)
    return [
        User(pid, _name_of(pid))
        for pid in _other_processes()
        if any(
            _is_file(f"/proc/{pid}/fd/{number}", target, wanted) and _is_writable(pid, number)
            for number in _open_files(pid)
        )
    ]


def _is_file(link: str, target: str, wanted: os.stat_result) -> bool:
    try:
        # looking at the name first: most of what is open is something else
        named = os.readlink(link)
        return named == target or (
            os.path.basename(named) == os.path.basename(target)
            and os.path.samestat(os.stat(link), wanted)
        )
    except OSError:
        return False


def _is_writable(pid: int, number: str) -> bool:
    """Whether a process can write to what it has open under this number; if in doubt it can."""
    try:
        with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:
            words = file.read(256).split()
        return int(words[words.index(b"flags:") + 1], 8) & os.O_ACCMODE != os.O_RDONLY
    except (OSError, ValueError, IndexError):
        return True


def find_agents(names: frozenset[str], folder: str) -> list[User]:
    """Find the processes with these names that work in a folder."""
    home = os.path.realpath(folder)
    found: list[User] = []
    if not names:
        return found
    for pid in _other_processes():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") == home and names & _words_of(pid):
                found.append(User(pid, _name_of(pid)))
    return found


def _words_of(pid: int) -> frozenset[str]:
    """Return the names of a process and its program: an interpreter's differs from its script's."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        arguments = file.read(4096).split(b"\0")[:3]
    parts = {_name_of(pid)}
    for argument in arguments:
        parts.update(os.fsdecode(argument).split("/"))
    return frozenset(parts)


def _other_processes() -> list[int]:
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [number for number in numbers if number != os.getpid()]


def _open_files(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []


def _name_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return os.fsdecode(file.read(64).strip()) or "a process"
    except OSError:
        return "a process"
