"""The errors that Sessiontree raises on purpose, and their base. Imports nothing of ours.

    SessionTreeError
    ├── NotASessionError         the file is something else; it was not touched
    ├── EntryNotFoundError       no entry of that id in this session
    ├── EntryExistsError         an entry with that ID already exists
    ├── ConflictError            others have written since what the caller expected
    ├── SessionExistsError       a session with that ID already exists
    ├── InvalidIdError           no session can have that id
    ├── StoreError               no store can be opened by that URL
    │   └── MissingSchemaError   its database lacks our tables, or has older ones
    ├── SessionNotFoundError     no session of that id, name or path
    ├── AmbiguousSessionError    several sessions match; ``candidates`` names them
    ├── SessionBusyError         another process holds what is needed
    ├── ClockError               the system clock says a time that can't be written
    ├── PersistenceError         a read or write failed; ``path`` says where
    │                            and, defined where they are raised:
    ├── UnknownProfileError      ``profiles``: no profile of that name
    ├── NoNativeCommandError     ``discovery.native_agent``: its own agent can't open a session
    ├── UnknownAgentError        ``discovery.adapters``: no agent of that name has an adapter
    ├── CompactionError          ``core.compaction``: nothing was compacted
    │   ├── AlreadyCompactedError
    │   ├── NothingToCompactError
    │   └── CompactionCancelledError
    ├── BundleError              ``export.bundle_archive``: no sound bundle, or none can be made
    ├── RestoreRefusedError      ``maintenance``: something else is where a kept session would go
    ├── ScheduleError            ``maintenance``: the timer of ``keep`` can't be changed
    ├── NothingToForkError       ``runtime``: the session is not on disk
    ├── NotAPromptError          ``runtime``: the entry is not a user message
    ├── OperationInProgressError ``runtime``: asked from inside another operation
    ├── SessionClosedError       ``runtime``: the live session was closed
    ├── AgentBusyError           ``runtime``: the agent is already working
    ├── ModelNotFoundError       ``runtime``: no model of that name
    └── AmbiguousModelError      ``runtime``: several models match; ``candidates`` names them

All of these can be imported from ``sessiontree``. What tells a model that a tool failed, or ends
an agent's answer, stays in ``agents``.

Messages are one line, name the file or id, and say what to do where there is something to do.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, TypeVar

_E = TypeVar("_E", bound=BaseException)


class SessionTreeError(Exception):
    """Base of all errors raised on purpose. They can be copied and pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # as BaseException does it, the constructor would get the message for its first argument
        return _revive, (type(self), self.args), self.__dict__


def without_frames(error: _E) -> _E:
    """A copy of an error, and of what caused it, that may be kept.

    An error that was raised refers to the frames it passed through, and those to whatever worked
    there: an object that keeps such an error refers to itself, so that nothing but the garbage
    collector would ever close its files. For the same reason what is kept is raised as a copy.
    """
    kept = copy.copy(error)
    cause = error.__cause__
    is_plain = isinstance(cause, SessionTreeError | OSError)
    kept.__cause__ = without_frames(cause) if is_plain and cause is not None else None
    return kept


def _revive(kind: type[SessionTreeError], args: tuple[Any, ...]) -> SessionTreeError:
    """An error that its constructor does not see; the attributes are set by who asked for it."""
    return kind.__new__(kind, *args)


class NotASessionError(SessionTreeError):
    """The file is not a session and was left untouched.

    ``is_damaged`` if it was one: opening it for writing recovers what can be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        reason: str = "not a session file",
        *,
        is_damaged: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        self.is_damaged = is_damaged
        super().__init__(f"{self.path}: {reason}; the file was not modified")


class EntryNotFoundError(SessionTreeError):
    """The session has no entry with this id."""

    def __init__(self, entry_id: str) -> None:
        self.entry_id = entry_id
        super().__init__(f"Entry {entry_id} not found")


class EntryExistsError(SessionTreeError):
    """The session already has an entry with this id."""

    def __init__(self, entry_id: str) -> None:
        self.entry_id = entry_id
        super().__init__(f"Entry {entry_id} already exists")


class ConflictError(SessionTreeError):
    """Somebody else has written since; nothing was appended. ``leaf_id`` and ``revision`` are now.

    ``leaf_id`` is the entry from which a session opened now continues.
    """

    def __init__(self, ref: str, leaf_id: str | None, revision: str) -> None:
        self.ref = ref
        self.leaf_id = leaf_id
        self.revision = revision
        super().__init__(
            f"{ref}: the session has changed; its leaf is now {leaf_id}, its revision {revision}"
        )


class SessionExistsError(SessionTreeError):
    """There is a session of this id already; ``ref`` is its path or its store's name for it."""

    def __init__(self, session_id: str, ref: str) -> None:
        self.session_id = session_id
        self.ref = ref
        super().__init__(f'Session "{session_id}" already exists: {ref}')


class InvalidIdError(SessionTreeError, ValueError):
    """An id that no session can have."""

    def __init__(self, session_id: object) -> None:
        self.session_id = session_id
        super().__init__(
            f"{session_id!r} is not a session id: use 1 to 128 of A-Z a-z 0-9 . _ -, "
            'but not "." or ".." alone'
        )


class StoreError(SessionTreeError, ValueError):
    """No store can be opened by this URL."""


class MissingSchemaError(StoreError):
    """The database has no tables of ours, or not those that this version needs."""


class SessionNotFoundError(SessionTreeError):
    """No session has this id, name or path."""

    def __init__(self, value: str, message: str | None = None) -> None:
        self.value = value
        super().__init__(message or f'Session "{value}" not found.')


class AmbiguousSessionError(SessionTreeError):
    """Several sessions match; ``candidates`` lists them, newest first."""

    def __init__(self, value: str, candidates: Sequence[Any]) -> None:
        self.value = value
        self.candidates = list(candidates)
        super().__init__(f'Session "{value}" is ambiguous: {len(self.candidates)} sessions match.')


class SessionBusyError(SessionTreeError):
    """Another process holds the lock and did not release it in time."""

    def __init__(self, path: str | os.PathLike[str], waited_s: float) -> None:
        self.path = os.fspath(path)
        self.waited_s = waited_s
        super().__init__(
            f"{self.path}: another process has held its lock for {waited_s:g} s; try again"
        )


class ClockError(SessionTreeError):
    """A time has no date: the system clock is far off."""

    def __init__(self, time_ms: int) -> None:
        self.time_ms = time_ms
        super().__init__(
            f"{time_ms} ms since 1970 is not in the years 1 to 9999; check the system clock"
        )


class PersistenceError(SessionTreeError):
    """Reading or writing ``path`` failed. ``__cause__`` is the system's error."""

    is_out_of_reach = False
    """Whether the place did not answer in time; the next call may wait again."""
    is_gone = False
    """Whether a database found that the session was deleted for good."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}")

    @classmethod
    def from_os_error(cls, path: str | os.PathLike[str], error: OSError) -> PersistenceError:
        """Make the error from the system's, with the path where it happened."""
        made = cls(path, error.strerror or str(error))
        made.__cause__ = error
        return made
