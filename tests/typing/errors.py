"""What type checkers say about errors. mypy checks this file; nothing runs it.

Every error of ours is a `SessionTreeError`. Those that a program may want to answer say by their
attributes what they are about.
"""

from __future__ import annotations

from typing import Any, assert_type

from sessiontree import (
    AgentBusyError,
    AlreadyCompactedError,
    AmbiguousModelError,
    AmbiguousSessionError,
    BundleError,
    ClockError,
    CompactionCancelledError,
    CompactionError,
    ConflictError,
    EntryExistsError,
    EntryNotFoundError,
    InvalidIdError,
    MissingSchemaError,
    ModelNotFoundError,
    NoNativeCommandError,
    NotAPromptError,
    NotASessionError,
    NothingToCompactError,
    NothingToForkError,
    OperationInProgressError,
    PersistenceError,
    RestoreRefusedError,
    ScheduleError,
    SessionBusyError,
    SessionClosedError,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    StoreError,
    UnknownAgentError,
    UnknownProfileError,
)

of_sessions: list[type[SessionTreeError]] = [
    BundleError,
    ClockError,
    NotAPromptError,
    NothingToForkError,
    OperationInProgressError,
    RestoreRefusedError,
    ScheduleError,
    SessionClosedError,
    AgentBusyError,
    ModelNotFoundError,
    NoNativeCommandError,
]
of_compactions: list[type[CompactionError]] = [
    AlreadyCompactedError,
    CompactionCancelledError,
    NothingToCompactError,
]
of_wrong_values: list[type[ValueError]] = [
    InvalidIdError,
    MissingSchemaError,
    StoreError,
    UnknownAgentError,
    UnknownProfileError,
]


def answer(error: SessionTreeError) -> None:
    match error:
        case ConflictError():
            assert_type(error.leaf_id, str | None)
            assert_type(error.revision, str)
        case EntryExistsError() | EntryNotFoundError():
            assert_type(error.entry_id, str)
        case SessionExistsError():
            assert_type(error.ref, str)
        case SessionNotFoundError():
            assert_type(error.value, str)
        case AmbiguousSessionError():
            assert_type(error.candidates, list[Any])
        case AmbiguousModelError():
            assert_type(error.candidates, list[str])
        case SessionBusyError():
            assert_type(error.waited_s, float)
        case PersistenceError() | NotASessionError():
            assert_type(error.path, str)
            assert_type(error.reason, str)
        case _:
            raise error
