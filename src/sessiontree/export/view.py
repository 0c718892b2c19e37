"""Read one session for exports and listings; never write.

``open_view`` reads a file, ``read_view`` a session of any store; an older version is migrated in
memory only. ``view_of`` gives a view
of a session that is already open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from sessiontree.core.tree import SessionTree
from sessiontree.errors import EntryNotFoundError
from sessiontree.model.dialects import session_name
from sessiontree.model.entries import Entry
from sessiontree.model.header import get_title
from sessiontree.model.lines import SessionWarning
from sessiontree.model.messages import as_text
from sessiontree.profiles import Profile
from sessiontree.storage.base import SessionStorage
from sessiontree.stores.base import Ref, SessionStore
from sessiontree.stores.files.store import FileStore

if TYPE_CHECKING:
    from sessiontree.session.manager import SessionManager


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session: its header, its name, all its entries, and the path to its leaf.

    Entries are read from the file when accessed, so close the view after use (``with``).
    """

    header: Mapping[str, Any]
    name: str | None
    file: str | None
    tree: SessionTree
    path: Sequence[Entry]
    warnings: Sequence[SessionWarning] = ()
    on_close: Callable[[], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self.on_close is not None:
            self.on_close()

    @property
    def id(self) -> str:
        return as_text(self.header.get("id"))

    @property
    def cwd(self) -> str:
        return as_text(self.header.get("cwd"))

    @property
    def timestamp(self) -> str:
        return as_text(self.header.get("timestamp"))

    def at(self, entry_id: str) -> SessionView:
        """Return the same session with another entry (or a prefix of its id) as the leaf.

        Raises EntryNotFoundError if no entry, or more than one, matches.
        """
        found = [entry.id for entry in self.tree.entries if entry.id.startswith(entry_id)]
        if entry_id in self.tree.by_id:
            found = [entry_id]
        if len(found) != 1:
            raise EntryNotFoundError(entry_id)
        return replace(self, path=self.tree.path(found[0]))


def open_view(
    path: str | os.PathLike[str],
    *,
    profile: str | Profile | None = None,
    storage: SessionStorage | None = None,
) -> SessionView:
    """Open the session in this file for reading.

    Raises SessionNotFoundError if there is no such file, NotASessionError for another kind of file,
    PersistenceError if it can't be read.
    """
    return read_view(FileStore(storage, profile), os.path.abspath(path))


def read_view(store: SessionStore, ref: Ref) -> SessionView:
    """Open a session of any store for reading.

    Raises SessionNotFoundError, NotASessionError, PersistenceError.
    """
    log = store.read(ref)
    tree = log.tree
    return SessionView(
        header=log.header,
        name=session_name(log.dialect, get_title(log.header), tree.info_name()),
        file=ref,
        tree=tree,
        path=tree.path(tree.leaf_id),
        warnings=log.warnings,
        on_close=log.close,
    )


def view_of(manager: SessionManager) -> SessionView:
    """Return a view of the open session in its present state."""
    tree = SessionTree()
    for entry in manager.get_entries():
        tree.add(entry)
    tree.leaf_id = manager.leaf_id
    return SessionView(
        header=cast("Mapping[str, Any]", manager.header),
        name=manager.session_name,
        file=manager.session_file,
        tree=tree,
        path=manager.get_branch(),
    )
