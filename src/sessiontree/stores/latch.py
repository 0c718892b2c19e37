"""Keep the error that stopped a log, and the warnings it has to tell.

The first error stays **latched**: until ``recover``, every later write raises it, because writing
on after a lost entry would leave a conversation with a hole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from sessiontree.errors import PersistenceError, without_frames
from sessiontree.logs import get_logger
from sessiontree.model.lines import SessionWarning
from sessiontree.text.escaping import one_line

logger = get_logger()


class ErrorLatch(ABC):
    """The part of a log that refuses to write after an error. The log sets what it declares."""

    foreign: int
    """How many entries others have appended since the session was opened here."""
    _error: PersistenceError | None
    _is_read_only: bool
    _own_warnings: list[SessionWarning]

    @property
    @abstractmethod
    def name(self) -> str:
        """The session's name in errors and warnings."""

    @property
    def has_failed(self) -> bool:
        """Whether an error is latched."""
        return self._error is not None

    def check(self) -> None:
        """Raise the error that stopped this log, if one did."""
        if self._error is not None:
            raise without_frames(self._error)
        if self._is_read_only:
            raise PersistenceError(self.name, "is open for reading only")

    def stop(self, error: PersistenceError) -> None:
        """Refuse to write until ``recover``; later operations raise the first error."""
        if self._error is None:
            self._error = without_frames(error)
            # As text: a handler may keep the record, and with an error it would keep open files.
            logger.error("writing stopped: %s", one_line(str(error)))

    def warn(self, *warnings: SessionWarning) -> None:
        """Add warnings, each of them once."""
        self._own_warnings += [warning for warning in warnings if warning not in self._own_warnings]

    def _warn_of_others(self) -> list[SessionWarning]:
        """The warning that others have written to the session, if they have."""
        if not self.foreign:
            return []
        plural = "entry was" if self.foreign == 1 else "entries were"
        return [SessionWarning(f"{self.foreign} {plural} appended by another process")]
