"""Convert a session to another agent's dialect: write a new file, only read the source.

Tree, order, entry ids and labels stay. ``core.translation`` translates entries that the agents
spell differently; images and long texts go inline or to blobs, the name to the header or an entry,
and the session id gets the format that the target agent uses. Blobs and artifacts are written
before the file that refers to them, so a crash leaves no session with missing parts.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sessiontree import clock
from sessiontree.core.context import find_kept
from sessiontree.core.translation import EntryTranslator
from sessiontree.core.tree import SessionTree
from sessiontree.core.trimming import restore_frames, trim
from sessiontree.discovery import paths
from sessiontree.errors import PersistenceError, SessionNotFoundError
from sessiontree.model import codec
from sessiontree.model.dialects import session_name
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.header import (
    CURRENT_VERSION,
    Header,
    get_cwd,
    get_timestamp,
    get_title,
    get_version,
)
from sessiontree.model.ids import derived_entry_id, format_timestamp, new_session_id, new_uuid7
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Profile, get_profile
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.blobs import BlobStore
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores import address_of
from sessiontree.stores.base import Ref, SessionStore
from sessiontree.stores.files.copying import copy_folder
from sessiontree.stores.files.document import SessionDocument
from sessiontree.stores.files.opening import make_blob_store, profile_for
from sessiontree.stores.files.reader import load_document
from sessiontree.stores.files.store import FileStore

HEADER_KEY = "convertedFrom"
ENTRY_TYPE = "sessiontree.convert"

# Fields about the source file, and the title, which is set separately.
_OWN_FIELDS = frozenset(("title", "previousSessionFiles"))
_REF_MARK = b'"blob:sha256:'


@dataclass(slots=True)
class ConvertReport:
    """The result of a conversion, and what the target's dialect cannot express."""

    source: str
    path: str
    session_id: str
    profile: str
    entries: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    reopened: Counter[str] = field(default_factory=Counter)
    blobs_stored: int = 0
    blobs_inlined: int = 0
    blobs_missing: list[str] = field(default_factory=list)
    artifacts: int = 0
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return one line for the user for each difference from the source."""
        said = [f"kept as custom entries: {name} ({count})" for name, count in self.kept.items()]
        said += [f"missing blob, its reference stays: {ref}" for ref in self.blobs_missing]
        return said + self.notes


def convert_session(
    source_path: str | os.PathLike[str],
    target_profile: str | Profile,
    *,
    cwd: str | os.PathLike[str] | None = None,
    session_dir: str | os.PathLike[str] | None = None,
    storage: SessionStorage | None = None,
    source: SessionStore | None = None,
    source_profile: str | Profile | None = None,
    source_blobs: BlobStore | None = None,
    recorded_path: str | None = None,
    session_id: str | None = None,
    now_ms: int | None = None,
) -> ConvertReport:
    """Write a session in the dialect of ``target_profile``; return a report.

    ``source`` is the store of the session, if that is not in a file: then ``source_path`` is its
    ref. ``source_profile`` and ``source_blobs`` locate a file's blobs if its path does not;
    ``recorded_path`` is the path to record as the source if the file is a temporary copy;
    ``session_id`` is used instead of a new id. Raises SessionNotFoundError, NotASessionError or
    PersistenceError; then nothing was written.
    """
    store = storage if storage is not None else FileSessionStorage()
    where = os.fspath(source_path)
    try:
        if source is None or isinstance(source, FileStore):  # its profile and its hash are a file's
            where = os.path.abspath(where)
            found = _read_file(where, store, source_profile, source_blobs)
        else:
            found = _read_log(source, where)
        try:
            conversion = _Conversion(
                found,
                get_profile(target_profile),
                store,
                os.path.abspath(cwd) if cwd is not None else get_cwd(found.header),
                os.path.abspath(session_dir) if session_dir is not None else None,
                now_ms if now_ms is not None else clock.now_ms(),
            )
            conversion.recorded_path = recorded_path or found.path
            if session_id is not None:
                conversion.report.session_id = session_id
            return conversion.run()
        finally:
            found.close()
    except OSError as error:
        named = error.filename if isinstance(error.filename, str) else where
        raise PersistenceError.from_os_error(named, error) from error
    except ValueError as error:
        # A recorded folder or id that no file can be named after: a NUL, half a surrogate pair.
        raise PersistenceError(
            where, f"cannot be stored: no file can have its names ({error})"
        ) from error


@dataclass(frozen=True, slots=True)
class _Source:
    """The session to convert: a file, or a session in a store without files."""

    path: str
    origin: Profile
    header: Header
    title: str | None
    tree: SessionTree
    artifacts: str | None
    close: Callable[[], None]
    hash: Callable[[], str]
    missing: Callable[[], Iterable[str]]
    """The references that could not be followed, once all entries were read."""
    warnings: Callable[[], Iterable[SessionWarning]]


def _read_file(
    path: str, storage: SessionStorage, profile: str | Profile | None, blobs: BlobStore | None
) -> _Source:
    origin = profile_for(path, profile)
    document = load_document(storage, path, blobs or make_blob_store(origin, path, storage))
    if document is None:
        raise SessionNotFoundError(path)
    return _Source(
        path,
        origin,
        document.header,
        document.title,
        document.tree,
        paths.artifacts_dir(path),
        document.payloads.reader.close,
        lambda: _hash(document),
        lambda: document.payloads.missing,
        lambda: document.warnings + document.payloads.warn_of_edited(),
    )


def _read_log(store: SessionStore, ref: Ref) -> _Source:
    log = store.read(ref)

    def hash_lines() -> str:
        hasher = hashlib.sha256()
        for entry in log.tree.entries:
            hasher.update(entry.line() + b"\n")
        return hasher.hexdigest()

    return _Source(
        address_of(store, ref),
        store.profile,
        log.header,
        get_title(log.header),
        log.tree,
        store.artifacts_dir(ref),
        log.close,
        hash_lines,
        tuple,
        lambda: log.warnings,
    )


class _Conversion:
    """The conversion of one session."""

    def __init__(
        self,
        source: _Source,
        target: Profile,
        storage: SessionStorage,
        cwd: str,
        session_dir: str | None,
        now_ms: int,
    ) -> None:
        self._source = source
        self._origin = source.origin
        self._target = target
        self._storage = storage
        self._cwd = cwd
        self._session_dir = session_dir
        self._now_ms = now_ms
        self._translator = EntryTranslator(target)
        self._blobs = BlobStore(target.blobs_dir, storage)
        make_id = new_uuid7 if target.dialect == "pi" else new_session_id
        self.recorded_path = source.path
        self.report = ConvertReport(source.path, "", make_id(now_ms, os.urandom), target.name)

    def run(self) -> ConvertReport:
        report = self.report
        header = self._header()
        folder = self._session_dir or paths.default_session_dir(
            self._target, self._cwd, self._storage
        )
        name = paths.session_file_name(header["timestamp"], report.session_id)
        report.path = os.path.join(folder, name)
        self._storage.ensure_dir(folder)
        if self._source.artifacts is not None:
            report.artifacts = copy_folder(
                self._storage, self._source.artifacts, paths.artifacts_dir(report.path)
            )
        try:
            self._storage.write_atomic(report.path, self._lines(header))
        except BaseException:
            self._storage.remove_dir(paths.artifacts_dir(report.path))
            raise
        report.kept = self._translator.kept
        report.reopened = self._translator.reopened
        self._add_notes()
        return report

    def _header(self) -> dict[str, Any]:
        source = self._source.header
        header: dict[str, Any] = {
            "type": "session",
            "version": max(get_version(source), CURRENT_VERSION),
            "id": self.report.session_id,
            "timestamp": get_timestamp(source) or format_timestamp(self._now_ms),
            "cwd": self._cwd,
        }
        for key, value in source.items():
            if key not in header and key not in _OWN_FIELDS:
                header[key] = value
        title = self._title()
        if title is not None and self._target.dialect != "pi":
            header["title"] = title
        else:
            header.pop("titleSource", None)
        header[HEADER_KEY] = self._provenance
        return header

    @cached_property
    def _provenance(self) -> dict[str, Any]:
        return {
            "profile": self._origin.name,
            "sessionId": self._source.header.get("id", ""),
            "path": self.recorded_path,
            "hash": f"sha256:{self._source.hash()}",
            "when": format_timestamp(self._now_ms),
        }

    def _title(self) -> str | None:
        """Return the session's name from the place where its own agent keeps it."""
        source = self._source
        return session_name(self._origin.dialect, source.title, source.tree.raw_info_name())

    def _lines(self, header: dict[str, Any]) -> Iterator[bytes]:
        yield codec.encode(header) + b"\n"
        last_name: object = None
        for entry in self._source.tree.entries:
            data, line = self._convert(entry)
            if data is not None and data.get("type") == "session_info":
                last_name = data.get("name")
            self.report.entries += 1
            yield line + b"\n"
        for data in self._closing_entries(last_name):
            self.report.entries += 1
            yield self._to_line(data) + b"\n"

    def _convert(self, entry: Entry) -> tuple[WireEntry | None, bytes]:
        """Return the entry's data, if it had to be decoded, and its line."""
        line = entry.line()
        is_small = len(line) < _ALWAYS_SMALL and _REF_MARK not in line
        if is_small and entry.type in _PLAIN_TYPES and not self._translator.must_look_at(line):
            return None, line
        data = entry.decode()
        if self._target.dialect == "pi":
            restore_frames(data, entry.fetch_blob)
        said = self._translator.translate(self._with_first_kept(entry, data))
        if said is data and is_small:
            return said, line
        made = self._to_line(said)
        self.report.blobs_inlined += max(0, line.count(_REF_MARK) - made.count(_REF_MARK))
        # An unchanged entry keeps its bytes.
        is_same = said is data and _is_same(made, line)
        return said, line if is_same else made

    def _with_first_kept(self, entry: Entry, data: WireEntry) -> WireEntry:
        """Fill a compaction's ``firstKeptEntryId`` for pi, which requires it.

        omp leaves it empty if a provider replays the history up to another entry. The first entry
        kept is then the next one on the path, or the compaction itself, which keeps nothing.
        """
        if entry.type != "compaction" or self._target.dialect != "pi":
            return data
        if data.get("firstKeptEntryId"):
            return data
        path = self._source.tree.path(entry.id)
        kept = find_kept(path, len(path) - 1)
        return {**data, "firstKeptEntryId": path[kept].id}

    def _to_line(self, data: WireEntry) -> bytes:
        trimmed = trim(data, self._target.dialect)
        for blob in trimmed.blobs:
            self._blobs.put(blob)
            self.report.blobs_stored += 1
        return trimmed.line

    def _closing_entries(self, last_name: object) -> Iterator[WireEntry]:
        """Yield an entry with the name, if the dialect needs one, and one with the provenance.

        They follow the leaf, so that the session stays at its place for agents that take the last
        line as the leaf.
        """
        parent_id = self._source.tree.leaf_id
        taken = set(self._source.tree.by_id)
        title = self._title()
        entries: list[tuple[str, dict[str, Any]]] = []
        if self._target.dialect == "pi" and title is not None and title != last_name:
            entries.append(("session_info", {"name": title}))
        fields = {"customType": ENTRY_TYPE, "data": self._provenance}
        entries.append(("custom", fields))
        for kind, fields in entries:
            entry_id = derived_entry_id(taken, kind, parent_id, self._now_ms)
            taken.add(entry_id)
            yield {
                "type": kind,
                "id": entry_id,
                "parentId": parent_id,
                "timestamp": format_timestamp(self._now_ms),
                **fields,
            }
            parent_id = entry_id

    def _add_notes(self) -> None:
        report = self.report
        report.blobs_missing += self._source.missing()
        if report.kept["reset_boundary"]:
            report.notes.append(
                f"{self._target.name} will show the model what a reset boundary hid"
            )
        edits = report.kept["context_edit"]
        if edits:
            many = "1 context edit" if edits == 1 else f"{edits} context edits"
            report.notes.append(
                f"{self._target.name} will show the model what {many} removed or replaced"
            )
        report.notes += map(str, self._source.warnings())


# Entries that all dialects spell alike. Short ones have no text to trim and no image to move.
_PLAIN_TYPES = frozenset(("message", "thinking_level_change", "custom_message", "label"))
_ALWAYS_SMALL = 1_024


def _is_same(made: bytes, line: bytes) -> bool:
    try:
        return bool(codec.decode(made) == codec.decode(line))
    except RecursionError:  # nested too deeply to compare; either spelling is valid
        return False


def _hash(document: SessionDocument) -> str:
    """Return the hash of the source's bytes."""
    reader = document.payloads.reader
    hasher = hashlib.sha256()
    offset = 0
    while chunk := reader.read_at(offset, min(1 << 20, document.end - offset)):
        hasher.update(chunk)
        offset += len(chunk)
    return hasher.hexdigest()
