"""Copy every agent's sessions to a folder of our own, because agents delete them.

Claude Code deletes what was not touched for 30 days. ``keep_sessions`` copies whatever is new or
has changed since the last time (by size and times, as the catalogue does), byte for byte. Content
is cut into chunks at line ends that the content itself chooses, so that what a fork has in common
with its source is stored once. A file that has grown adds its new end. Of a file that was rewritten
and lost something the earlier version stays.

``storage.packs`` describes what is on disk, and in which order; ``discovery.kept`` reads it.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sessiontree.clock import now_ms, now_s
from sessiontree.discovery.adapters import Agents
from sessiontree.discovery.adapters.base import AgentAdapter
from sessiontree.discovery.catalogue import OnProgress, Unreadable, freshness
from sessiontree.discovery.kept import kept_dir
from sessiontree.discovery.kept.index import KeptIndex, open_index
from sessiontree.discovery.kept.manifests import Kind, Manifest, encode_manifest
from sessiontree.discovery.kept.removal import clean_if_worth
from sessiontree.discovery.sources import Source, find_sources
from sessiontree.storage.base import FileStat, SessionStorageReader
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.packs import CHUNK, MANIFEST, PackFolder, PackWriter, Record, pack

if TYPE_CHECKING:
    from concurrent.futures import Future

LOCK_TIMEOUT_S = 10.0
_SMALLEST_CHUNK = 1 << 17
_LARGEST_CHUNK = 1 << 20
_BOUNDARY_BYTES = 48
_BOUNDARY_MASK = 31
"""About one line in 32 may end a chunk once it is large enough."""
_TOO_SMALL = 1 << 16
"""A last chunk below this size is written again with what was appended to it."""
_BATCH_BYTES = 64 << 20
_WEEK_S = 7 * 86_400


@dataclass(slots=True)
class KeepReport:
    """The result of one run."""

    checked: int = 0
    """Files that were looked at, parts and further files included."""
    new: int = 0
    grown: int = 0
    rewritten: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    expiring: int = 0
    """Sessions that their agents delete within a week; all of them are kept now."""
    unreadable: list[Unreadable] = field(default_factory=list)

    @property
    def changed(self) -> int:
        return self.new + self.grown + self.rewritten


@dataclass(frozen=True, slots=True)
class _Item:
    """One file to keep."""

    source: Source
    stat: FileStat
    kind: Kind
    owner: str = ""

    @property
    def path(self) -> str:
        return self.stat.path

    def open(self) -> SessionStorageReader:
        """Raises OSError."""
        if self.kind == "file":
            return FileSessionStorage().open_reader(self.path)
        return self.source.adapter.open_verbatim(self.path, self.source.storage)


def keep_sessions(
    agents: Agents = "all",
    *,
    on_progress: OnProgress | None = None,
    timeout_s: float = LOCK_TIMEOUT_S,
) -> KeepReport:
    """Copy what is new or has changed. May be interrupted at any time, and run again.

    Raises SessionBusyError if another process keeps sessions just now, UnknownAgentError,
    PersistenceError or OSError if nothing can be written; what was complete by then is kept.
    """
    sources = find_sources(agents, with_kept=False)
    report = KeepReport()
    for source in sources:
        report.unreadable += [Unreadable(*each) for each in source.places.unreadable]
        report.expiring += sum(1 for _ in _find_expiring(source, now_s() + _WEEK_S))
    items = [item for source in sources for item in _find_items(source)]
    report.checked = len(items)
    with open_index() as index:
        known = index.find_all() if index is not None else {}
    if not any(_is_changed(item, known) for item in items):
        return report
    packs = PackFolder(kept_dir())
    with packs.locked(timeout_s), open_index() as index:
        assert index is not None
        known = index.find_all()  # another process may have been quicker
        changed = [item for item in items if _is_changed(item, known)]
        run = _Run(index, packs, known, report)
        try:
            run.keep(changed, on_progress)
        finally:
            run.close()
        if report.written_bytes:
            clean_if_worth(index, packs)
    return report


def _find_items(source: Source) -> Iterator[_Item]:
    places = source.places
    for stat in places.files():
        owner = places.parts.get(stat.path, "")
        yield _Item(source, stat, "part" if owner else "session", owner)
    for owner, files in source.adapter.belongings(places).items():
        for stat in files:
            yield _Item(source, stat, "file", owner)


def _is_changed(item: _Item, known: dict[bytes, Manifest]) -> bool:
    manifest = known.get(os.fsencode(item.path))
    return manifest is None or not _holds(manifest, item.stat)


class _Run:
    """Writes one run's chunks and manifests, in batches that are each safe by themselves."""

    def __init__(
        self, index: KeptIndex, packs: PackFolder, known: dict[bytes, Manifest], report: KeepReport
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor  # a run that has nothing to do needs none

        self._index = index
        self._known = known
        self._report = report
        self._digests = set(index.chunks())
        self._writer = PackWriter(packs, index.ends())
        self._pool = ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1)))
        self._waiting: list[tuple[bytes, bytes, Future[bytes]]] = []
        self._records: list[Record] = []
        self._manifests: list[Manifest] = []
        self._bytes = 0

    def keep(self, items: Sequence[_Item], on_progress: OnProgress | None) -> None:
        """Keep these files."""
        for done, item in enumerate(items, 1):
            try:
                self._keep_one(item)
            except FileNotFoundError:
                continue  # gone since it was listed
            except OSError as error:
                reason = error.strerror or str(error)
                self._report.unreadable.append(Unreadable(item.path, reason))
            if self._bytes >= _BATCH_BYTES:
                self._commit()
            if on_progress is not None:
                on_progress(done, len(items))
        self._commit()

    def close(self) -> None:
        """Stop; what was not committed is written again by the next run."""
        self._pool.shutdown(cancel_futures=True)
        self._writer.close()

    def _keep_one(self, item: _Item) -> None:
        read_ns = freshness.read_clock_ns()
        before = self._known.get(os.fsencode(item.path))
        with closing(item.open()) as reader:
            stat = reader.stat()
            stamp = freshness.make_stamp(reader, stat, read_ns)
            whole = _count_unchanged(reader, stat, before)
            digests = before.chunks[:whole] if before is not None else []
            lengths = before.lengths[:whole] if before is not None else []
            for chunk in cut_chunks(reader, sum(lengths), stat.size):
                digests.append(self._put(chunk))
                lengths.append(len(chunk))
        has_lost = before is not None and not _continues(before, sum(lengths), whole)
        manifest = Manifest(
            item.source.adapter.name,
            os.fsencode(item.path),
            item.kind,
            now_ms(),
            stamp,
            os.fsencode(item.owner),
            digests,
            lengths,
            is_rewritten=has_lost,
        )
        self._manifests.append(manifest)
        self._count(before, manifest)

    def _count(self, before: Manifest | None, after: Manifest) -> None:
        report = self._report
        if before is None:
            report.new += 1
        elif after.is_rewritten:
            report.rewritten += 1
        elif after.chunks != before.chunks:
            report.grown += 1

    def _put(self, chunk: bytes) -> bytes:
        """Store a chunk, unless it is there; its hash."""
        digest = hashlib.sha256(chunk).digest()
        self._report.read_bytes += len(chunk)
        if digest not in self._digests:
            self._digests.add(digest)
            self._waiting.append((digest, chunk, self._pool.submit(pack, chunk)))
            self._bytes += len(chunk)
            if len(self._waiting) > 32:
                self._write_next()
        return digest

    def _write_next(self) -> None:
        digest, chunk, packed = self._waiting.pop(0)
        record = self._writer.add(CHUNK, chunk, packed=packed.result(), digest=digest)
        self._records.append(record)

    def _commit(self) -> None:
        """Chunks, sync, manifests, sync; then the index, which could be made again."""
        while self._waiting:
            self._write_next()
        if not self._manifests:
            return
        self._writer.sync()
        for manifest in self._manifests:
            self._writer.add(MANIFEST, encode_manifest(manifest))
        self._writer.commit()
        self._index.add(self._records, self._manifests, self._writer.ends)
        self._report.written_bytes = self._writer.written
        self._records, self._manifests, self._bytes = [], [], 0


def cut_chunks(reader: SessionStorageReader, start: int, end: int) -> Iterator[bytes]:
    """Cut bytes into chunks at ends of lines that the lines themselves choose.

    So equal lines in two files make equal chunks, wherever they stand.
    """
    held = b""
    at = start
    while at < end or held:
        while at < end and len(held) < _LARGEST_CHUNK:
            more = reader.read_at(at, min(_LARGEST_CHUNK, end - at))
            if not more:
                end = at
                break
            held += more
            at += len(more)
        cut = _find_cut(held)
        yield held[:cut]
        held = held[cut:]


def _find_cut(data: bytes) -> int:
    """Where the first chunk of these bytes ends."""
    limit = min(len(data), _LARGEST_CHUNK)
    newline = data.find(b"\n", _SMALLEST_CHUNK, limit)
    while newline >= 0:
        ending = data[newline - _BOUNDARY_BYTES : newline]
        if zlib.crc32(ending) & _BOUNDARY_MASK == 0:
            return newline + 1
        newline = data.find(b"\n", newline + 1, limit)
    return limit


def _count_unchanged(reader: SessionStorageReader, stat: FileStat, before: Manifest | None) -> int:
    """How many of the first chunks stay: those that the file still begins with.

    A small last one is written again, together with what comes after it.
    """
    if before is None or before.stamp is None:
        return 0
    if before.stamp.may_have_grown_to(stat) and before.stamp.is_beginning_of(reader):
        same = len(before.chunks)
    else:
        same, at = 0, 0
        for digest, length in zip(before.chunks, before.lengths, strict=True):
            if hashlib.sha256(reader.read_at(at, length)).digest() != digest:
                break
            same, at = same + 1, at + length
    if same and same == len(before.chunks) and before.lengths[same - 1] < _TOO_SMALL:
        same -= 1
    return same


def _continues(before: Manifest, size: int, whole: int) -> bool:
    """Whether the new version holds all that the one before it held, at the same places.

    A file that its agent rewrites whole each time counts as long as it gets no shorter.
    """
    if size < before.size:
        return False
    return whole >= len(before.chunks) - 1 or not before.name.endswith(".jsonl")


# -- looking ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expiring:
    """A session that its agent will delete, and when (Unix seconds)."""

    source: Source
    stat: FileStat
    deleted_at_s: float
    is_kept: bool

    @property
    def agent(self) -> AgentAdapter:
        return self.source.adapter

    @property
    def title(self) -> str:
        """The session's name, else its first prompt; untrusted, and of any length."""
        found = self.source.survey_some([self.stat]).found
        info = self.source.make_info(*found[0]) if found else None
        return (info.title or info.first_message) if info is not None else ""


@dataclass(slots=True)
class KeepStatus:
    """The copies, and the sessions that would be lost."""

    folder: str
    sessions: int = 0
    gone: int = 0
    """Kept sessions whose originals are gone."""
    unkept: int = 0
    """Sessions that are new or have changed since."""
    versions: int = 0
    content_bytes: int = 0
    stored_bytes: int = 0
    last_ms: int | None = None
    expiring: list[Expiring] = field(default_factory=list)


def read_status(agents: Agents = "all", *, within_s: float = _WEEK_S) -> KeepStatus:
    """Tell what is kept, and which sessions their agents delete in the next week."""
    status = KeepStatus(kept_dir())
    status.stored_bytes = sum(PackFolder(status.folder).sizes().values())
    with open_index() as index:
        known = index.find_all() if index is not None else {}
        status.versions = len(index.versions()) if index is not None else 0
    for source in find_sources(agents):
        _add_source(status, source, known, now_s() + within_s)
    for manifest in known.values():
        status.content_bytes += manifest.size
        status.last_ms = max(manifest.kept_ms, status.last_ms or 0)
    status.expiring.sort(key=lambda each: each.deleted_at_s)
    return status


def _add_source(
    status: KeepStatus, source: Source, known: dict[bytes, Manifest], until_s: float
) -> None:
    places = source.places
    kept = set()
    for stat in places.files():
        manifest = known.get(os.fsencode(stat.path))
        is_gone = stat.path in places.kept
        if manifest is not None and (is_gone or _holds(manifest, stat)):
            kept.add(stat.path)
        if stat.path not in places.parts:
            status.gone += is_gone
            status.sessions += manifest is not None
            status.unkept += stat.path not in kept
    status.expiring += [
        Expiring(source, stat, deleted_at_s, stat.path in kept)
        for stat, deleted_at_s in _find_expiring(source, until_s)
    ]


def _holds(manifest: Manifest, stat: FileStat) -> bool:
    return manifest.stamp is not None and manifest.stamp.holds_for(stat)


def _find_expiring(source: Source, until_s: float) -> Iterator[tuple[FileStat, float]]:
    """The sessions that their agent deletes until then, and when."""
    days = source.adapter.retention_days()
    if days is None:
        return
    places = source.places
    skipped = places.kept | places.parts.keys()
    for stat in places.files():
        deleted_at_s = stat.mtime_ns / 1e9 + days * 86_400
        if deleted_at_s < until_s and stat.path not in skipped:
            yield stat, deleted_at_s
