"""A disk that can lose its power: records what a program asked of the file system, and builds
every state that could be found afterwards.

``RecordingOs`` stands in for the ``os`` module inside the storage. Everything really happens, in a
real folder, and is written down in order. ``Disk`` then plays the record back as a file system
might have kept it at some moment: of each file the bytes up to its last fsync and any part of what
came later; of each folder the names up to its last fsync and any prefix of the later changes.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    inode: int = 0
    path: str = ""
    offset: int = 0
    data: bytes = b""
    target: str = ""


@dataclass(slots=True)
class Recorder:
    """The events in order. Files get numbers of their own: the system uses inodes again."""

    events: list[Event] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    _last: int = 0

    def note(self, kind: str, **fields: Any) -> None:
        self.events.append(Event(kind, **fields))

    def new_file(self, fd: int) -> int:
        self._last += 1
        self._numbers[os.fstat(fd).st_ino] = self._last
        return self._last

    def number(self, fd: int) -> int:
        return self._numbers[os.fstat(fd).st_ino]


class RecordingOs:
    """The functions of ``os`` that change something, written down; all else passes through."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        if name == "copy_file_range":
            raise AttributeError(name)  # the copying that reads and writes is the one recorded
        return getattr(os, name)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        existed = os.path.lexists(path)
        fd = os.open(path, flags, mode)
        if flags & os.O_CREAT and not existed:
            self._recorder.note("create", inode=self._recorder.new_file(fd), path=path)
        return fd

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        os.mkdir(path, mode)
        self._recorder.note("mkdir", path=path)

    def write(self, fd: int, data: bytes) -> int:
        written = os.write(fd, data)
        end = os.lseek(fd, 0, os.SEEK_CUR)
        self._recorder.note(
            "write",
            inode=self._recorder.number(fd),
            offset=end - written,
            data=bytes(data)[:written],
        )
        return written

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        written = os.pwrite(fd, data, offset)
        number = self._recorder.number(fd)
        self._recorder.note("write", inode=number, offset=offset, data=data[:written])
        return written

    def ftruncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)
        self._recorder.note("truncate", inode=self._recorder.number(fd), offset=size)

    def fsync(self, fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self._recorder.note("fsync folder", path=os.readlink(f"/proc/self/fd/{fd}"))
        else:
            self._recorder.note("fsync", inode=self._recorder.number(fd))

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)
        self._recorder.note("rename", path=source, target=target)

    def unlink(self, path: str) -> None:
        os.unlink(path)
        self._recorder.note("unlink", path=path)


@dataclass(slots=True)
class _File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)


State = Mapping[str, bytes]
"""The files of a medium: path below its root to content."""


def write_state(state: State, root: Path) -> None:
    for path, data in state.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


class Disk:
    """What is surely on the medium after some events, and what may be."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._names: dict[str, int] = {}
        self._durable_names: dict[str, dict[str, int]] = {}
        self._pending_names: dict[str, list[Event]] = {}

    def apply(self, event: Event) -> None:
        match event.kind:
            case "create":
                self._files[event.inode] = _File()
                self._names[event.path] = event.inode
                self._change_name(event.path, event)
            case "write" | "truncate":
                self._files.setdefault(event.inode, _File()).pending.append(event)
            case "fsync":
                file = self._files[event.inode]
                for change in file.pending:
                    _change(file.durable, change, None)
                file.pending.clear()
            case "fsync folder":
                names = self._durable_names.setdefault(event.path, {})
                for change in self._pending_names.pop(event.path, []):
                    _rename(names, change)
            case "rename":
                inode = self._names.pop(event.path)
                self._names[event.target] = inode
                moved = Event("moved", inode=inode, path=event.path, target=event.target)
                self._change_name(event.target, moved)
                if os.path.dirname(event.path) != os.path.dirname(event.target):
                    self._change_name(event.path, Event("unlink", path=event.path))
            case "unlink":
                self._names.pop(event.path, None)
                self._change_name(event.path, event)
            case "mkdir":
                self._change_name(event.path, Event("create", inode=_FOLDER, path=event.path))

    def _change_name(self, path: str, event: Event) -> None:
        self._pending_names.setdefault(os.path.dirname(path), []).append(event)

    def make_state(self, base: str, rng: random.Random) -> State:
        """One state that a power cut at this moment could leave below ``base``."""
        names: dict[str, int] = {}
        for folder in {*self._durable_names, *self._pending_names}:
            kept = dict(self._durable_names.get(folder, {}))
            pending = self._pending_names.get(folder, [])
            for event in pending[: rng.randint(0, len(pending))]:
                _rename(kept, event)
            names |= kept
        state = {}
        for path, inode in names.items():
            if inode == _FOLDER or not _is_reachable(path, names, base):
                continue
            file = self._files[inode]
            data = bytearray(file.durable)
            done = rng.randint(0, len(file.pending))
            for change in file.pending[:done]:
                _change(data, change, None)
            if done < len(file.pending):
                _change(data, file.pending[done], rng)
            state[os.path.relpath(path, base)] = bytes(data)
        return state


_FOLDER = -1


def _is_reachable(path: str, names: dict[str, int], base: str) -> bool:
    """Whether every folder above the file has kept its own name."""
    folder = os.path.dirname(path)
    while folder != base:
        if names.get(folder) != _FOLDER:
            return False
        folder = os.path.dirname(folder)
    return True


def _rename(names: dict[str, int], event: Event) -> None:
    match event.kind:
        case "create":
            names[event.path] = event.inode
        case "moved":
            names.pop(event.path, None)
            names[event.target] = event.inode
        case "unlink":
            names.pop(event.path, None)


def _change(data: bytearray, event: Event, rng: random.Random | None) -> None:
    """Apply a write or truncation; with ``rng``, only a part of it, as a torn write would be."""
    if event.kind == "truncate":
        if rng is None:
            del data[event.offset :]
        return
    piece = event.data if rng is None else event.data[: rng.randint(0, len(event.data))]
    if rng is not None and rng.random() < 0.3:
        # the size reached the medium before the bytes did
        piece = piece + bytes(len(event.data) - len(piece))
    if len(data) < event.offset:
        data.extend(bytes(event.offset - len(data)))
    data[event.offset : event.offset + len(piece)] = piece
