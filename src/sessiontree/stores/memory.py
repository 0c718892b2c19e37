"""``MemoryStore``: a file store on ``MemorySessionStorage``; all is gone with the process."""

from __future__ import annotations

import threading
from urllib.parse import quote

from sessiontree.profiles import Profile
from sessiontree.storage.memory import MemorySessionStorage
from sessiontree.stores.base import Ref
from sessiontree.stores.files.store import FileStore

_named: dict[str, MemorySessionStorage] = {}
_lock = threading.Lock()


class MemoryStore(FileStore):
    """Sessions in memory, which any number of managers and threads of this process may share."""

    def __init__(
        self,
        storage: MemorySessionStorage | None = None,
        profile: str | Profile | None = None,
        *,
        name: str = "",
    ) -> None:
        super().__init__(storage or MemorySessionStorage(), profile)
        self._name = name

    @property
    def url(self) -> str:
        """``memory:`` and the name by which this process shares it, if it has one."""
        return f"memory:{quote(self._name)}"

    def artifacts_dir(self, ref: Ref) -> str | None:  # noqa: ARG002
        """None: nothing of these sessions is on a disk."""
        return None


def open_memory(name: str, profile: str | Profile | None = None) -> MemoryStore:
    """The store of this name in this process; without a name a new one."""
    if not name:
        return MemoryStore(profile=profile)
    with _lock:
        storage = _named.setdefault(name, MemorySessionStorage())
    return MemoryStore(storage, profile, name=name)
