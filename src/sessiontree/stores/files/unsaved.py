"""The log of a session that is kept nowhere: everything succeeds, nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sessiontree.core.tree import SessionTree
from sessiontree.model import codec
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header
from sessiontree.profiles import Dialect
from sessiontree.stores.files.document import SessionDocument

_T = TypeVar("_T")


class UnsavedLog:
    """The log of a session that is kept nowhere."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.tree = SessionTree()
        self.document: SessionDocument | None = None

    has_failed = False

    def is_behind(self) -> bool:
        return False

    def is_gone(self) -> bool:
        return False

    def check(self) -> None:
        """Nothing can have failed."""

    def exclusive(self, work: Callable[[None], _T]) -> _T:
        return work(None)

    def append(self, entry: Entry, header: Header) -> None:  # noqa: ARG002
        codec.encode(entry.data)  # what could not be saved is refused here too

    def flush(self) -> None:
        """Nothing is kept."""

    def recover(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is held."""
