"""Sessions that ``keep`` has copied: found and read as their agent's own once the originals go.

``maintenance.keeping`` writes the copies. Here, ``manifests`` describes what is kept of one file,
``index`` finds manifests and chunks, ``reading`` reads them, and ``removal`` removes them for good.

Every reading of a session goes through ``open_session``: the original if it is there, else its
copy. So listing, search, ``usage``, ``show``, ``export`` and ``import`` need not know.

A kept session is listed under its original path, with the size and times that the original had. So
the catalogue and the search index, which go by those, still hold what they hold, and nothing has to
be read again when an agent deletes a session.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessiontree.profiles import DEFAULT_PROFILE, get_profile
from sessiontree.storage.base import SessionStorage, SessionStorageReader

if TYPE_CHECKING:
    from sessiontree.discovery.adapters.base import AgentAdapter

KEEP_VARIABLE = "SESSIONTREE_KEEP_DIR"


def kept_dir() -> str:
    """The folder of the copies: ``SESSIONTREE_KEEP_DIR``, else ``kept`` beside our sessions."""
    override = os.environ.get(KEEP_VARIABLE)
    if override:
        return os.path.abspath(os.path.expanduser(override))
    return os.path.join(get_profile(DEFAULT_PROFILE).agent_dir, "kept")


def is_keeping() -> bool:
    """Whether anything was ever kept."""
    return os.path.isdir(kept_dir())


def open_session(
    adapter: AgentAdapter | None, path: str, storage: SessionStorage
) -> SessionStorageReader:
    """Open a session where it lies, or its kept copy if it is gone. Raises OSError."""
    try:
        return storage.open_reader(path) if adapter is None else adapter.open(path, storage)
    except FileNotFoundError:
        from sessiontree.discovery.kept.reading import open_kept

        found = open_kept(path)
        if found is None:
            raise
        return found if adapter is None else adapter.interpret(path, found)


def kept_agent(path: str) -> str | None:
    """The agent of a session that is gone and kept; None for one that is there."""
    if os.path.lexists(path) or not is_keeping():
        return None
    from sessiontree.discovery.kept.reading import find_agent

    return find_agent(path)
