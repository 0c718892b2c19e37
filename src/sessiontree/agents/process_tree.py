"""All processes that belong to one command, and signals for them.

Owns finding them: the command's process group, the further groups of its session, whatever
descends from it, and whatever carries its mark in the environment, which is how a process that
left the session and lost its parents is still known. Knows nothing of pipes, timeouts or tools.
Where the system shows no process table (`process_table`), the process group is all there is.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal

from sessiontree.agents.process_table import ProcessTable, Seen, find_process_table

_MARK = "SESSIONTREE_COMMAND"


def new_mark() -> dict[str, str]:
    """Environment variables that mark one command and all that it starts."""
    return {_MARK: secrets.token_hex(8)}


class ProcessTree:
    """The processes of the command whose first process, a session leader, is ``leader``.

    Members are remembered once seen: when a parent dies its children no longer show where they
    came from. With ``mark`` (of `new_mark`), those that carry it are members too.
    """

    def __init__(self, leader: int, mark: dict[str, str] | None = None) -> None:
        self.leader = leader
        self._table = find_process_table()
        self._known: dict[int, float] = {}
        self._mark = "" if mark is None else mark[_MARK]

    def living(self) -> set[int]:
        """The pids that still run. Without a process table: the leader, while its group lives."""
        seen_now = self._table.read() if self._table is not None else {}
        if self._table is None or not seen_now:
            return {self.leader} if _group_exists(self.leader) else set()
        self._learn(self._table, seen_now)
        return {
            pid
            for pid, started in self._known.items()
            if (seen := seen_now.get(pid)) is not None
            and seen.started == started
            and not seen.is_dead
        }

    def send(self, number: signal.Signals) -> None:
        """Signal the group, then every member that is not in it."""
        living = self.living()
        if not living:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, number)
        for pid in living:
            if self._table is not None and pid in self._known:
                _send_one(self._table, pid, self._known[pid], self.leader, number)

    def _learn(self, table: ProcessTable, seen_now: dict[int, Seen]) -> None:
        children: dict[int, list[int]] = {}
        for pid, seen in seen_now.items():
            children.setdefault(seen.parent, []).append(pid)
        pending = [
            pid
            for pid, seen in seen_now.items()
            if self.leader in (pid, seen.group, seen.session)
            or self._known.get(pid) == seen.started
            or (self._mark and table.has_variable(pid, _MARK, self._mark))
        ]
        reached: set[int] = set()
        while pending:
            pid = pending.pop()
            if pid not in reached:
                reached.add(pid)
                self._known[pid] = seen_now[pid].started
                pending.extend(children.get(pid, ()))


def _send_one(
    table: ProcessTable, pid: int, started: float, leader: int, number: signal.Signals
) -> None:
    """Signal a process outside the group if it is still the one that was seen.

    On Linux its descriptor is opened before the check, so that a pid given to another process
    meanwhile cannot be hit. Elsewhere there is none: a moment remains between check and signal.
    """
    if not hasattr(os, "pidfd_open"):
        if _is_outside(table, pid, started, leader):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _is_outside(table, pid, started, leader):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def _is_outside(table: ProcessTable, pid: int, started: float, leader: int) -> bool:
    """Whether a pid still stands for the process that was seen, and its group is another."""
    seen = table.look(pid)
    return seen is not None and seen.started == started and seen.group != leader


def _group_exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
