"""Read kept sessions, and list those whose originals are gone.

``open_session`` (in the package) comes here when an original is gone.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from sessiontree.discovery.kept import is_keeping, kept_dir
from sessiontree.discovery.kept.index import KeptIndex, open_index
from sessiontree.discovery.kept.manifests import Manifest
from sessiontree.storage import sqlite
from sessiontree.storage.base import UNKNOWN_SIZE, FileStat
from sessiontree.storage.packs import PackFolder, Record

if TYPE_CHECKING:
    from sessiontree.discovery.adapters.base import AgentAdapter, Places

_CACHED_CHUNKS = 4


class KeptReader:
    """A kept file, read chunk by chunk; what is read is checked against its hash."""

    def __init__(self, manifest: Manifest, records: list[Record], packs: PackFolder) -> None:
        self._manifest = manifest
        self._records = records
        self._packs = packs
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._is_closed = False

    def stat(self) -> FileStat:
        """The original's stat."""
        self._check()
        return self._manifest.stat

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end. Raises OSError."""
        self._check()
        pieces = []
        start = 0
        for no, size in enumerate(self._manifest.lengths):
            if start >= offset + length:
                break
            if start + size > offset:
                data = self._chunk(no)
                pieces.append(data[max(0, offset - start) : offset + length - start])
            start += size
        return b"".join(pieces)

    def close(self) -> None:
        """Free what is in memory."""
        self._is_closed = True
        self._cache.clear()

    def _check(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._manifest.name)

    def _chunk(self, no: int) -> bytes:
        found = self._cache.get(no)
        if found is None:
            try:
                found = self._packs.read(self._records[no])
            except FileNotFoundError:  # the packs were rewritten meanwhile
                self._records = find_chunks(self._manifest)
                found = self._packs.read(self._records[no])
            self._cache[no] = found
            if len(self._cache) > _CACHED_CHUNKS:
                self._cache.popitem(last=False)
        return found


def open_kept(path: str, *, version: int = 0) -> KeptReader | None:
    """Open the copy of a file; None if there is none. Raises OSError for a damaged one.

    ``version`` 1 is the one before the last rewrite, 2 the one before that.
    """
    if not is_keeping():
        return None
    try:
        with open_index() as index:
            manifest = find_version(index, path, version) if index is not None else None
    except sqlite.FAILURES as error:
        raise OSError(errno.EIO, f"its copy cannot be read ({error})", path) from error
    if manifest is None:
        return None
    return KeptReader(manifest, find_chunks(manifest), PackFolder(kept_dir()))


def find_version(index: KeptIndex, path: str, version: int) -> Manifest | None:
    """A version of a kept file, as ``open_kept`` counts them. Raises sqlite.FAILURES."""
    if version == 0:
        return index.find(path)
    earlier = index.versions(path)
    return earlier[-version] if version <= len(earlier) else None


def find_chunks(manifest: Manifest) -> list[Record]:
    """The places of a kept file's content. Raises OSError if some of it is lost."""
    try:
        with open_index() as index:
            found = [index.chunk(digest) if index else None for digest in manifest.chunks]
    except sqlite.FAILURES as error:
        raise OSError(errno.EIO, f"its copy cannot be read ({error})", manifest.name) from error
    if None in found:
        raise OSError(errno.EIO, "its copy is damaged", manifest.name)
    return [each for each in found if each is not None]


def find_agent(path: str) -> str | None:
    """The agent whose session was kept under this path."""
    try:
        with open_index() as index:
            manifest = index.find(path) if index is not None else None
    except (OSError, *sqlite.FAILURES):
        return None
    return manifest.agent if manifest is not None else None


def kept_parts(path: str) -> list[str]:
    """The paths of the kept parts of a session."""
    if not is_keeping():
        return []
    try:
        with open_index() as index:
            found = index.belongings(path) if index is not None else []
    except (OSError, *sqlite.FAILURES):
        return []
    return [each.name for each in found if each.kind == "part"]


def kept_sessions() -> dict[str, list[str]]:
    """The paths of the kept sessions and their parts, by agent."""
    with contextlib.suppress(OSError, *sqlite.FAILURES), open_index() as index:
        if index is not None:
            found = index.paths()
            return {agent: list(map(os.fsdecode, paths)) for agent, paths in found.items()}
    return {}


def add_kept(found: Iterable[tuple[AgentAdapter, Places]], kept: Mapping[str, list[str]]) -> None:
    """Add each agent's kept sessions whose originals are gone to where its sessions are.

    A session that is there under another path, because it was moved or archived, is not gone.
    """
    for adapter, places in found:
        if adapter.name in kept:
            _add_of_agent(adapter, places, kept[adapter.name])


def _add_of_agent(adapter: AgentAdapter, places: Places, kept: list[str]) -> None:
    present = {stat.path for stat in places.files()}
    missing = [path for path in kept if path not in present]
    if not missing:
        return
    names = {os.fsencode(os.path.basename(path)) for path in present}
    # What a person removed does not come back here.
    names |= set(map(os.fsencode, adapter.removed_names()))
    with contextlib.suppress(OSError, *sqlite.FAILURES), open_index() as index:
        for manifest in index.find_some(missing) if index is not None else ():
            if not _is_elsewhere(manifest, names, places):
                _add(adapter, places, manifest)


def _is_elsewhere(manifest: Manifest, names: set[bytes], places: Places) -> bool:
    """Whether a session that is not at its path may be somewhere else."""
    main = manifest.owner or manifest.path
    if main.rpartition(b"/")[2] in names and (manifest.kind == "session" or not _exists(main)):
        return True
    # What cannot be listed now is not gone.
    return any(manifest.name.startswith(os.path.join(base, "")) for base, _ in places.unreadable)


def _exists(path: bytes) -> bool:
    return os.path.lexists(path)


def _add(adapter: AgentAdapter, places: Places, manifest: Manifest) -> None:
    stat = manifest.stat
    if adapter.is_interpreted:  # the copy's size is not that of its lines
        stat = msgspec.structs.replace(stat, size=UNKNOWN_SIZE)
    places.folders.setdefault(os.path.dirname(stat.path), []).append(stat)
    places.kept.add(stat.path)
    if manifest.kind == "part":
        places.parts[stat.path] = os.fsdecode(manifest.owner)
