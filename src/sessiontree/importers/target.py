"""The file an import goes to: found again by what it was imported from, made, or added to.

A first import writes the whole session at once. A later one adds the entries that are not there
yet, under the file's lock, one line each, and touches nothing else: what was done here since stays,
and if the conversation was carried on here, it still stands where it stood. Cut short, an import
leaves a shorter session that the next one completes. The file's time is that of what was said last:
importing is not talking.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sessiontree.core.tree import SessionTree
from sessiontree.core.trimming import trim
from sessiontree.discovery import paths
from sessiontree.discovery.talked import last_talked_ns, set_time
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.importers.foreign import ForeignSource
from sessiontree.importers.provenance import (
    ENTRY_TYPE,
    HEADER_KEY,
    Provenance,
    derive_session_id,
    is_import_of,
)
from sessiontree.importers.records import get_text, spell_time
from sessiontree.importers.transcript import ConversionReport, Transcript
from sessiontree.model import codec
from sessiontree.model.dialects import read_model_change, spell_model_change
from sessiontree.model.entries import WireEntry
from sessiontree.model.header import make_header
from sessiontree.model.ids import derived_entry_id
from sessiontree.profiles import Dialect, Profile
from sessiontree.session.name import rename_live
from sessiontree.session.opening import open_session
from sessiontree.storage.base import SessionStorage, SessionStorageWriter
from sessiontree.storage.blobs import BlobStore
from sessiontree.stores.files.document import SessionDocument
from sessiontree.stores.files.reader import load_document

_MAX_REPLACEMENTS = 20

# Entries a user may add to an imported session without carrying its conversation on.
_ANNOTATIONS = frozenset(("label", "session_info", "title_change"))


@dataclass(slots=True)
class ImportReport:
    """What an import did, and what it could not say in our words."""

    source: str
    agent: str
    path: str
    session_id: str
    is_new: bool
    added: int
    entries: int
    keeps_local_leaf: bool = False
    conversion: ConversionReport = field(default_factory=ConversionReport)

    @property
    def is_unchanged(self) -> bool:
        """Whether everything was there already."""
        return not self.is_new and self.added == 0


@dataclass(slots=True)
class ImportTarget:
    """Where an import goes: profile, storage, project, folder, and the time it is made at."""

    profile: Profile
    storage: SessionStorage
    cwd: str
    session_dir: str | None
    now_ms: int

    @property
    def dialect(self) -> Dialect:
        return self.profile.dialect

    @property
    def blobs(self) -> BlobStore:
        return BlobStore(self.profile.blobs_dir, self.storage)


def bring_in(source: ForeignSource, target: ImportTarget) -> ImportReport:
    """Write the session, or bring the file of an earlier import up to date. Raises OSError too."""
    transcript = source.transcript
    session_id, existing = _find_target(source, target)
    provenance = Provenance(
        transcript.agent,
        transcript.session_id,
        source.path,
        source.content_hash,
        target.now_ms,
    ).to_wire()
    if existing is not None:
        return _update(source, target, existing, session_id, provenance)
    return _create(source, target, session_id, provenance)


def _find_target(source: ForeignSource, target: ImportTarget) -> tuple[str, str | None]:
    """The id this session has here, and the file of an earlier import, if there is one."""
    transcript = source.transcript
    attempt = 0
    while True:
        session_id = derive_session_id(
            target.dialect, transcript.agent, transcript.session_id, transcript.started_ms, attempt
        )
        path = _find_session_file(target, session_id)
        if path is None:
            return session_id, None
        if _is_import(target.storage, path, transcript):
            return session_id, path
        attempt += 1


def _find_session_file(target: ImportTarget, session_id: str) -> str | None:
    """A session of this id in the target's folders, by its file name."""
    folders = [target.session_dir] if target.session_dir is not None else _project_folders(target)
    for folder in folders:
        for file in target.storage.list_files(folder, f"_{session_id}{paths.SESSION_SUFFIX}"):
            return file.path
    return None


def _project_folders(target: ImportTarget) -> list[str]:
    return target.storage.list_dirs(target.profile.sessions_dir)


def _is_import(storage: SessionStorage, path: str, transcript: Transcript) -> bool:
    """Whether this file is an earlier import of the session.

    Another agent that rewrites a file may drop header fields it does not know; entries it keeps.
    """
    try:
        document = load_document(storage, path)
    except NotASessionError:
        return False
    if document is None:
        return False
    try:
        origins = [document.header.get(HEADER_KEY)]
        origins += [
            entry.decode().get("data")
            for entry in document.tree.entries
            if entry.type == "custom" and ENTRY_TYPE.encode() in (entry.raw() or b"")
        ]
        return any(is_import_of(each, transcript.agent, transcript.session_id) for each in origins)
    finally:
        document.payloads.reader.close()


# -- writing -------------------------------------------------------------------------------


def _create(
    source: ForeignSource, target: ImportTarget, session_id: str, provenance: dict[str, Any]
) -> ImportReport:
    transcript = source.transcript
    timestamp = spell_time(transcript.started_ms)
    header = cast(
        "dict[str, Any]",
        make_header(session_id, timestamp, target.cwd, parent_session=transcript.parent_session),
    )
    title = _clean_title(transcript.title)
    if title is not None and target.dialect != "pi":
        header["title"] = title
        header["titleSource"] = transcript.title_source or "auto"
    header[HEADER_KEY] = provenance
    entries = [_spell(entry, target.dialect) for entry in transcript.entries]
    taken = {entry["id"] for entry in entries}
    entries += _closing_entries(
        target, taken, transcript.leaf_id, provenance, title if target.dialect == "pi" else None
    )
    folder = target.session_dir or paths.default_session_dir(
        target.profile, target.cwd, target.storage
    )
    path = os.path.join(folder, paths.session_file_name(timestamp, session_id))
    target.storage.ensure_dir(folder)

    def lines() -> Iterator[bytes]:
        yield codec.encode(header) + b"\n"
        for entry in entries:
            yield _to_line(entry, target)

    target.storage.write_atomic(path, lines())
    set_time(target.storage, path, _last_talked_ns(transcript.entries, target))
    return ImportReport(
        source.path,
        transcript.agent,
        path,
        session_id,
        is_new=True,
        added=len(entries),
        entries=len(entries),
        conversion=transcript.report,
    )


def _update(
    source: ForeignSource,
    target: ImportTarget,
    path: str,
    session_id: str,
    provenance: dict[str, Any],
) -> ImportReport:
    report = ImportReport(
        source.path,
        source.transcript.agent,
        path,
        session_id,
        is_new=False,
        added=0,
        entries=0,
        conversion=source.transcript.report,
    )
    for _ in range(_MAX_REPLACEMENTS):
        writer = target.storage.open_writer(path, create=False)
        try:
            size = writer.lock()
            try:
                # A rewrite puts another file under the name: what is appended to the old one is
                # lost, so whoever waited for the lock looks again.
                if size is not None:
                    document = _append_new(source.transcript, target, writer, provenance, report)
                    break
            finally:
                writer.unlock()
        finally:
            writer.close()
    else:
        raise PersistenceError(path, "is replaced again and again by another program")
    try:
        if report.added:
            _name_if_unnamed(document, target, _clean_title(source.transcript.title))
    finally:
        document.payloads.reader.close()
    return report


def _append_new(
    transcript: Transcript,
    target: ImportTarget,
    writer: SessionStorageWriter,
    provenance: dict[str, Any],
    report: ImportReport,
) -> SessionDocument:
    """Append the entries that the file does not have; the file as it was before."""
    document = load_document(target.storage, report.path)
    if document is None:
        raise PersistenceError(report.path, "was emptied by another program")
    before_ns = writer.stat().mtime_ns
    tree = document.tree
    new = [entry for entry in transcript.entries if entry["id"] not in tree.by_id]
    report.entries = len(tree.entries)
    if not new:
        return document
    report.keeps_local_leaf = _was_continued(tree, transcript.entries)
    leaf = tree.leaf_id if report.keeps_local_leaf else transcript.leaf_id
    taken = tree.by_id.keys() | {entry["id"] for entry in new}
    new += _closing_entries(target, taken, leaf, provenance, None)
    if not document.has_final_newline:
        writer.write_line(b"\n")
    for entry in new:
        writer.write_line(_to_line(_spell(entry, target.dialect), target))
    writer.fsync()
    # Still under the lock: nobody can have gone on with it meanwhile.
    set_time(target.storage, report.path, max(before_ns, _last_talked_ns(new, target) or 0))
    report.added = len(new)
    report.entries += len(new)
    return document


def _was_continued(tree: SessionTree, imported: Sequence[WireEntry]) -> bool:
    """Whether the conversation stands elsewhere than the last import left it."""
    at = tree.by_id.get(tree.leaf_id or "")
    while at is not None and at.type in _ANNOTATIONS:
        at = tree.by_id.get(at.parent_id or "")
    if at is None or any(entry["id"] == at.id for entry in imported):
        return False
    return at.type != "custom" or at.data.get("customType") != ENTRY_TYPE


def _closing_entries(
    target: ImportTarget,
    taken: set[str],
    leaf_id: str | None,
    provenance: dict[str, Any],
    name: str | None,
) -> list[WireEntry]:
    """The entries that end an import. The last line is where agents take up a session."""
    entries = []
    if name is not None:
        entries.append(_make_entry(target, taken, leaf_id, "session_info", {"name": name}))
        leaf_id = entries[0]["id"]
    fields = {"customType": ENTRY_TYPE, "data": provenance}
    entries.append(_make_entry(target, taken, leaf_id, "custom", fields))
    return entries


def _make_entry(
    target: ImportTarget, taken: set[str], parent_id: str | None, kind: str, fields: dict[str, Any]
) -> WireEntry:
    entry_id = derived_entry_id(taken, kind, parent_id, target.now_ms)
    taken.add(entry_id)
    return {
        "type": kind,
        "id": entry_id,
        "parentId": parent_id,
        "timestamp": spell_time(target.now_ms),
        **fields,
    }


def _spell(entry: WireEntry, dialect: Dialect) -> WireEntry:
    """The entry as the dialect has it: converters speak omp's."""
    change = read_model_change(entry) if entry["type"] == "model_change" else None
    if change is None or dialect != "pi":
        return entry
    spelled = {key: value for key, value in entry.items() if key != "model"}
    return {**spelled, **spell_model_change(dialect, change[1], None)}


def _to_line(entry: WireEntry, target: ImportTarget) -> bytes:
    """The entry's line; what it refers to is stored first."""
    trimmed = trim(entry, target.dialect)
    for blob in trimmed.blobs:
        target.blobs.put(blob)
    return trimmed.line + b"\n"


def _clean_title(title: str | None) -> str | None:
    """One line without control characters: a title goes to terminals and into a fixed slot."""
    if title is None:
        return None
    kept = "".join(char if char.isprintable() else " " for char in title)
    return " ".join(kept.split())[:200] or None


def _name_if_unnamed(document: SessionDocument, target: ImportTarget, title: str | None) -> None:
    """A session that had no name when it was first imported takes the one it has now."""
    is_named = document.title is not None or any(
        entry.type == "session_info" and get_text(entry.decode(), "name")
        for entry in document.tree.entries
    )
    if title is None or is_named:
        return
    before_ns = target.storage.stat(document.path).mtime_ns
    # Not through a SessionManager: that would make this the session its terminal continues.
    session = open_session(
        document.path, profile=target.profile, storage=target.storage, durability="flush"
    )
    try:
        rename_live(session, title)
    finally:
        session.close()
    set_time(target.storage, document.path, before_ns)


def _last_talked_ns(entries: Sequence[WireEntry], target: ImportTarget) -> int | None:
    said = ((entry["type"], entry["timestamp"]) for entry in entries)
    return last_talked_ns(said, target.now_ms)
