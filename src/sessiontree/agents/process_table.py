"""The system's table of processes: whose child each is, since when it runs, its environment.

Linux shows it under ``/proc``, which is read here: a command's end asks many times a second, and
psutil takes five times as long. Other systems have interfaces of their own, which psutil knows.
Where neither is there, there is no table.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple, Protocol


class Seen(NamedTuple):
    """One process, as the system describes it."""

    is_dead: bool
    """Whether it has ended, and only its parent has not asked for its exit code yet."""
    parent: int
    group: int
    session: int
    started: float
    """The start time in the table's own unit; with the pid it identifies one process for ever."""


class ProcessTable(Protocol):
    """A way to ask the system."""

    def read(self) -> dict[int, Seen]:
        """All processes, by pid; none if the system does not say."""

    def look(self, pid: int) -> Seen | None:
        """One process, or None if it is gone."""

    def has_variable(self, pid: int, name: str, value: str) -> bool:
        """Whether a process was started with this in its environment, as far as may be known."""


def find_process_table() -> ProcessTable | None:
    """The table of this system, or None if it shows none."""
    if os.path.exists("/proc/self/stat"):
        return ProcFolder()
    try:
        return PsutilTable()
    except (ImportError, OSError):
        return None


class ProcFolder:
    """Linux's ``/proc``."""

    def read(self) -> dict[int, Seen]:
        try:
            pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        except OSError:
            return {}
        return {pid: seen for pid in pids if (seen := self.look(pid)) is not None}

    def look(self, pid: int) -> Seen | None:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                line = file.read()
        except OSError:
            return None
        # The name stands in parentheses and may itself hold spaces and parentheses.
        fields = line[line.rfind(b")") + 1 :].split()
        if len(fields) < 20:
            return None
        parent, group, session, started = (int(fields[at]) for at in (1, 2, 3, 19))
        return Seen(fields[0] in (b"Z", b"X"), parent, group, session, started)

    def has_variable(self, pid: int, name: str, value: str) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"{name}={value}".encode() in file.read().split(b"\0")
        except OSError:
            return False


class PsutilTable:
    """The table as psutil reads it. Raises ImportError if psutil is not installed.

    macOS hides the environment of its own programs (``/bin/sh``), so a variable is found only in
    others; parents, groups and sessions are known of all.
    """

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil

    def read(self) -> dict[int, Seen]:
        found: dict[int, Seen] = {}
        with contextlib.suppress(self._psutil.Error, OSError):
            for pid in self._psutil.pids():
                seen = self.look(pid)
                if seen is not None:
                    found[pid] = seen
        return found

    def look(self, pid: int) -> Seen | None:
        try:
            # A new one each time: psutil keeps earlier results in it.
            process = self._psutil.Process(pid)
            with process.oneshot():
                is_dead = process.status() in (
                    self._psutil.STATUS_ZOMBIE,
                    self._psutil.STATUS_DEAD,
                )
                parent, started = process.ppid(), process.create_time()
        except (self._psutil.Error, OSError):
            return None  # gone, or another user's, which is none of ours
        return Seen(is_dead, parent, _group_of(pid), _session_of(pid), started)

    def has_variable(self, pid: int, name: str, value: str) -> bool:
        try:
            return bool(self._psutil.Process(pid).environ().get(name) == value)
        except (self._psutil.Error, OSError, ValueError):
            return False


def _group_of(pid: int) -> int:
    """The process group, 0 if the system does not say."""
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _session_of(pid: int) -> int:
    """The session, 0 if the system does not say."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0
