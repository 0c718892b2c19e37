"""What a session can be asked: its state, its entries, its tree, and what a model sees of it.

Nothing here writes.
"""

from __future__ import annotations

from sessiontree.core.context import SessionContext
from sessiontree.core.tree import SessionTreeNode
from sessiontree.discovery import paths
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Profile
from sessiontree.session.live import LiveSession
from sessiontree.storage.base import SessionStorage
from sessiontree.stores.files.log import SessionLog


class SessionFacts:
    """The part of ``SessionManager`` that tells about the session it stands on."""

    _session: LiveSession

    def __repr__(self) -> str:
        where = self.session_file or "in memory"
        count = len(self._session.tree.entries)
        return f"<{type(self).__name__} {self.session_id!r}, {where!r}, {count} entries>"

    # -- state -----------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """The id in the header."""
        return str(self._session.header.get("id", ""))

    @property
    def session_file(self) -> str | None:
        """Where the session is or will be written; None if it is kept nowhere."""
        return self._session.file

    @property
    def session_dir(self) -> str:
        """The folder that the session lies in, or would."""
        return self._session.place.session_dir

    @property
    def artifacts_dir(self) -> str | None:
        """The folder for what belongs to this session beside its log; it need not exist."""
        file = self.session_file
        return paths.artifacts_dir(file) if file is not None else None

    @property
    def cwd(self) -> str:
        """The project that the session belongs to."""
        return self._session.place.cwd

    @property
    def profile(self) -> Profile:
        """Whose session it is."""
        return self._session.place.profile

    @property
    def storage(self) -> SessionStorage:
        """Where it is kept."""
        return self._session.place.storage

    @property
    def has_explicit_dir(self) -> bool:
        """Whether ``session_dir`` was given, rather than derived from the project."""
        return self._session.place.has_explicit_dir

    @property
    def header(self) -> Header:
        """The header as a wire object."""
        return self._session.header

    @property
    def session_name(self) -> str | None:
        """The name it was given, if any."""
        return self._session.name

    @property
    def is_persisted(self) -> bool:
        """Whether the session is kept at all: not so for one that is in memory only."""
        return isinstance(self._session.log, SessionLog)

    @property
    def leaf_id(self) -> str | None:
        """Where the conversation stands: the parent of what is appended next."""
        return self._session.tree.leaf_id

    @property
    def leaf_entry(self) -> Entry | None:
        """The entry at the leaf; None before the first entry."""
        leaf_id = self.leaf_id
        return self._session.tree.by_id.get(leaf_id) if leaf_id is not None else None

    @property
    def warnings(self) -> list[SessionWarning]:
        """What loading or writing had to repair."""
        return self._session.warnings

    # -- tree ------------------------------------------------------------------------------

    def get_entry(self, id: str) -> Entry | None:  # noqa: A002 - the name is fixed
        """The entry of this id, if there is one."""
        return self._session.tree.by_id.get(id)

    def get_entries(self) -> list[Entry]:
        """All entries in the order they were written."""
        return self._session.tree.entries.copy()

    def get_branch(self, from_id: str | None = None) -> list[Entry]:
        """The entries from the root to ``from_id``, by default to the leaf. EntryNotFoundError."""
        return self._session.tree.path(self.leaf_id if from_id is None else from_id)

    def get_tree(self) -> list[SessionTreeNode]:
        """The roots, with everything below them."""
        return self._session.tree.nodes()

    def get_children(self, parent_id: str | None) -> list[Entry]:
        """The entries right below one, oldest first; below None, the roots."""
        return self._session.tree.children(parent_id)

    def get_label(self, id: str) -> str | None:  # noqa: A002 - the name is fixed
        """The label of an entry, if it has one."""
        found = self._session.tree.labels().get(id)
        return found[0] if found is not None else None

    def build_session_context(self) -> SessionContext:
        """What the model sees at the leaf."""
        return self._session.context()
