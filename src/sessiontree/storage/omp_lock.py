"""Hold omp's own lock on a session file while another file takes its place.

omp 18 takes this lock around each append and each rewrite. An appending omp that has it looks
whether the name still stands for the file it has open, and opens the name again if not. So a file
that is replaced with the lock held loses none of omp's lines: those that were written before are
read and copied, and the next one goes to the new file.

The lock has two layers, and every process takes both, in this order:

1. The gate belongs to a process, and the kernel drops it with the process. On Linux it is the name
   of a datagram socket in the abstract namespace, made of two hashes of the path
   ``.NAME.jsonl.lock.os``; on other Unix systems it is ``flock`` on that file.
2. The lock file ``.NAME.jsonl.lock`` holds ``PID:MILLISECONDS``. It is made with ``O_EXCL`` and
   removed afterwards. It keeps out older versions, and processes in containers that share the
   folder and not the network. One that a dead process left behind is removed by the next.

omp waits 500 ms for either layer. Then it gives up, and after that it saves nothing of this session
any more. So nothing slow may be done with the lock held: no sync, and no copying of a whole file.

A plain append does not take it. Two programs that append with ``O_APPEND`` do not disturb each
other, and a line of ours that omp's rewrite drops is noticed and written again (``replaced_file``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import time
from collections.abc import Callable
from operator import attrgetter
from typing import TypeVar

from sessiontree.clock import now_s
from sessiontree.errors import SessionBusyError
from sessiontree.storage import locks, regular
from sessiontree.storage.handles import Handle
from sessiontree.storage.temp_files import is_process_alive

_T = TypeVar("_T")

_HIGH_SEED = 0x4F4D_502D_4C4F_434B
_LOW_SEED = 0x5049_2D46_494C_454C
_PAUSE_S = 0.002
# omp holds its lock file for microseconds. One that is older was left behind, if its process is
# gone or the gate says that no process is at work.
_DEAD_AFTER_S = 2.0
_STRANDED_AFTER_S = 30.0
_unremoved: set[bytes] = set()
"""Records of lock files that this process was not allowed to remove when it was done."""


def hold(path: str, work: Callable[[], _T], timeout_s: float = locks.DEFAULT_TIMEOUT_S) -> _T:
    """Call a function while omp can neither append to nor rewrite the session file at ``path``.

    This is a function and no ``with`` block for the reason that ``SessionLog.exclusive`` gives: an
    interrupt must not leave the lock file behind. Raises SessionBusyError.
    """
    lock = _OmpLock(path)
    deadline = time.monotonic() + timeout_s
    try:
        try:
            while not lock.try_acquire():
                if time.monotonic() >= deadline:
                    raise SessionBusyError(path, timeout_s)
                time.sleep(_PAUSE_S)
            return work()
        finally:
            lock.release()
    except BaseException:
        lock.release()  # an interrupt may have come before the first one was done
        raise


def is_held(path: str) -> bool:
    """Whether an omp of this machine is writing to the session now."""
    gate = _Gate(_gate_path(path))
    try:
        return not gate.try_acquire()
    finally:
        gate.release()


class _OmpLock:
    """Both layers of the lock on one session file."""

    def __init__(self, path: str) -> None:
        self._file = _lock_path(path)
        self._gate = _Gate(_gate_path(path))
        self._record = b"%d:%d\n" % (os.getpid(), now_s() * 1000)
        self._is_claimed = False
        self._is_creating = False

    def try_acquire(self) -> bool:
        if not self._gate.try_acquire():
            return False
        self._is_claimed = True  # from here on release looks whether the file is ours
        try:
            if self._create() or (self._is_left_behind() and self._create()):
                return True
        except OSError:
            # Nothing can be made in this folder. Whether the session can be replaced there is
            # found out by the next to try; the gate keeps out every omp of today.
            return True
        self._is_claimed = False
        self._gate.release()
        return False

    def _create(self) -> bool:
        self._is_creating = True
        try:
            handle = Handle(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            self._is_creating = False
            return False
        try:
            os.write(handle.number, self._record)
        finally:
            handle.close()
        self._is_creating = False
        return True

    def _is_left_behind(self) -> bool:
        """Remove a lock file whose owner is dead; return whether to try again."""
        try:
            content = self._read()
            age_s = now_s() - os.lstat(self._file).st_mtime
        except FileNotFoundError:
            return True
        owner, _, _ = content.partition(b":")
        if content in _unremoved:
            os.unlink(self._file)
            _unremoved.discard(content)
            return True
        is_dead = not (owner.isdigit() and is_process_alive(int(owner)))
        if age_s < (_DEAD_AFTER_S if is_dead else _STRANDED_AFTER_S) or self._read() != content:
            return False
        os.unlink(self._file)
        return True

    def _read(self) -> bytes:
        handle = Handle(self._file, os.O_RDONLY | regular.NONBLOCK | regular.NOFOLLOW)
        try:
            return os.read(handle.number, 100)
        finally:
            handle.close()

    def release(self) -> None:
        try:
            if self._is_claimed:
                self._remove()
                self._is_claimed = False
        finally:
            self._gate.release()

    def _remove(self) -> None:
        """Remove the lock file if it is ours; note one that stays."""
        _unremoved.add(self._record)
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileNotFoundError):
                content = self._read()
                if content == self._record or (self._is_creating and not content):
                    os.unlink(self._file)
            _unremoved.discard(self._record)


if sys.platform == "linux":

    class _Socket(socket.SocketType):
        """A socket that an interrupt cannot leave open, for the reasons that ``Handle`` gives."""

        __slots__ = ()
        __del__ = property(attrgetter("close"))

    class _Gate:
        """The name of a socket, which one process of the machine can have."""

        def __init__(self, path: str) -> None:
            self._address = b"\0" + gate_name(path).encode()
            self._socket: _Socket | None = None

        def try_acquire(self) -> bool:
            try:
                self._socket = _Socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.bind(self._address)
            except OSError as error:
                self.release()
                # Where sockets are forbidden, omp cannot have one either.
                return error.errno != errno.EADDRINUSE
            return True

        def release(self) -> None:
            if self._socket is not None:
                self._socket.close()

else:

    class _Gate:
        """A lock on a file that omp makes and leaves in place."""

        def __init__(self, path: str) -> None:
            self._path = path
            self._handle: Handle | None = None

        def try_acquire(self) -> bool:
            try:
                flags = os.O_RDWR | regular.NONBLOCK | regular.NOFOLLOW
                self._handle = Handle(self._path, flags)
            except OSError:
                return True  # no omp has been here; the lock file is for one that comes now
            try:
                locks.lock(self._handle.number, self._path, 0)
            except SessionBusyError:
                self.release()
                return False
            return True

        def release(self) -> None:
            if self._handle is not None:
                self._handle.close()
                self._handle = None


def gate_name(path: str) -> str:
    """Return omp's name for the gate of this path."""
    data = os.fsencode(path)
    return f"omp-file-lock-{_xxh64(data, _HIGH_SEED):016x}{_xxh64(data, _LOW_SEED):016x}"


def _lock_path(path: str) -> str:
    # omp makes a path absolute without following its links
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(folder, f".{name}.lock")


def _gate_path(path: str) -> str:
    return f"{_lock_path(path)}.os"


_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5


def _xxh64(data: bytes, seed: int) -> int:
    """The XXH64 hash, as its specification gives it."""
    end = len(data)
    position = 0
    if end >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while position <= end - 32:
            for number in range(4):
                lanes[number] = _round(lanes[number], _word(data, position, 8))
                position += 8
        made = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            made = ((made ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        made = seed + _P5
    made = (made + end) & _MASK
    while position <= end - 8:
        made = (_rotate(made ^ _round(0, _word(data, position, 8)), 27) * _P1 + _P4) & _MASK
        position += 8
    if position <= end - 4:
        made = (_rotate(made ^ (_word(data, position, 4) * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in data[position:]:
        made = _rotate(made ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    made = (made ^ made >> 33) * _P2 & _MASK
    made = (made ^ made >> 29) * _P3 & _MASK
    return made ^ made >> 32


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotate(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> 64 - by) & _MASK


def _word(data: bytes, position: int, length: int) -> int:
    return int.from_bytes(data[position : position + length], "little")
