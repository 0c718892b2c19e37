"""All processes that belong to one command, and signals for them.

Owns finding them: the command's process group, the further groups of its session, whatever
descends from it, and whatever carries its mark in the environment, which is how a process that
left the session and lost its parents is still known. Knows nothing of pipes, timeouts or tools.
Where the system shows no process table (anything but Linux), the process group is all there is.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from typing import NamedTuple

_DEAD = "ZX"
_MARK = "SESSIONTREE_COMMAND"


def new_mark() -> dict[str, str]:
    """Environment variables that mark one command and all that it starts."""
    return {_MARK: secrets.token_hex(8)}


class _Seen(NamedTuple):
    state: str
    parent: int
    group: int
    session: int
    started: int
    """In clock ticks since boot: with the pid it names one process for ever."""


class ProcessTree:
    """The processes of the command whose first process, a session leader, is ``leader``.

    Members are remembered once seen: when a parent dies its children no longer show where they
    came from. With ``mark`` (of `new_mark`), those that carry it are members too.
    """

    def __init__(self, leader: int, mark: dict[str, str] | None = None) -> None:
        self.leader = leader
        self._known: dict[int, int] = {}
        self._mark = b"" if mark is None else f"{_MARK}={mark[_MARK]}".encode()

    def living(self) -> set[int]:
        """The pids that still run. Without a process table: the leader, while its group lives."""
        table = _process_table()
        if not table:
            return {self.leader} if _group_exists(self.leader) else set()
        self._learn(table)
        return {
            pid
            for pid, started in self._known.items()
            if (seen := table.get(pid)) is not None
            and seen.started == started
            and seen.state not in _DEAD
        }

    def send(self, number: signal.Signals) -> None:
        """Signal the group, then every member that is not in it."""
        living = self.living()
        if not living:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, number)
        for pid in living:
            if pid in self._known:
                _send_one(pid, self._known[pid], self.leader, number)

    def _learn(self, table: dict[int, _Seen]) -> None:
        children: dict[int, list[int]] = {}
        for pid, seen in table.items():
            children.setdefault(seen.parent, []).append(pid)
        pending = [
            pid
            for pid, seen in table.items()
            if self.leader in (pid, seen.group, seen.session)
            or self._known.get(pid) == seen.started
            or self._is_marked(pid)
        ]
        reached: set[int] = set()
        while pending:
            pid = pending.pop()
            if pid not in reached:
                reached.add(pid)
                self._known[pid] = table[pid].started
                pending.extend(children.get(pid, ()))

    def _is_marked(self, pid: int) -> bool:
        if not self._mark:
            return False
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return self._mark in file.read().split(b"\0")
        except OSError:
            return False


def _send_one(pid: int, started: int, leader: int, number: signal.Signals) -> None:
    """Signal a process outside the group if it is still the one that was seen.

    The descriptor is opened before the check, so that a pid given to another process meanwhile
    cannot be hit.
    """
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        seen = _look(pid)
        if seen is not None and seen.started == started and seen.group != leader:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def _group_exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _process_table() -> dict[int, _Seen]:
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return {}
    return {pid: seen for pid in pids if (seen := _look(pid)) is not None}


def _look(pid: int) -> _Seen | None:
    """What the system says of a process, or None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses.
    fields = line[line.rfind(b")") + 1 :].split()
    if len(fields) < 20:
        return None
    return _Seen(
        fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19])
    )
