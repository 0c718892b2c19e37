"""Write an imported session: create its file, or update the file of an earlier import.

The first import writes the whole session at once. A later one updates the file to what a first
import would write now, plus everything added here since:

- Usually the source has only grown. The import then takes the file's lock and appends the new
  entries, one line each; every other byte stays.
- Entries imported before may have changed at the source: an answer was half written, its token
  count came later, records were out of order. The import then replaces the whole file atomically.
- If the source was rewritten, entries that it no longer has stay: agents tidy their files.
- Entries added here stay, with all entries they follow. If the user continued the conversation
  here, its leaf stays too.

Provenance is recorded in the header (``importedFrom``) and, for every import that added something,
in one ``custom`` entry. That entry also holds the ledger: a digest of each imported entry. By it
the next import can tell an entry that changed at its source from one that the user changed here,
and leaves the latter alone.

A crash leaves a shorter session, which the next import completes. The file's mtime is the time of
the last message, because an import is not activity.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sessiontree.core.tree import SessionTree
from sessiontree.core.trimming import trim
from sessiontree.discovery import paths
from sessiontree.discovery.adapters.records import get_count, get_object, get_text, spell_time
from sessiontree.discovery.talked import last_talked_ns, set_time
from sessiontree.errors import NotASessionError, PersistenceError, SessionNotFoundError
from sessiontree.importers.foreign import ForeignSource, has_grown
from sessiontree.importers.transcript import ConversionReport, Transcript
from sessiontree.model import codec
from sessiontree.model.dialects import read_model_change, session_name, spell_model_change
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.header import Header, get_title, make_header
from sessiontree.model.ids import ENTRY_ID_LENGTH, derived_entry_id, new_session_id, new_uuid7
from sessiontree.profiles import Dialect
from sessiontree.session.live import LiveSession
from sessiontree.session.name import rename_live
from sessiontree.storage.base import SessionStorageWriter
from sessiontree.storage.blobs import BlobStore
from sessiontree.stores.base import Ref, SessionLog, SessionStore
from sessiontree.stores.files.log import FileLog
from sessiontree.stores.files.reader import load_document
from sessiontree.stores.files.store import FileStore
from sessiontree.stores.whole import write_session

_MAX_REPLACEMENTS = 20

# Entries a user may add to an imported session without continuing its conversation.
_ANNOTATIONS = frozenset(("label", "session_info", "title_change"))


@dataclass(slots=True)
class ImportReport:
    """The result of an import, and what it could not map."""

    source: str
    agent: str
    path: str
    session_id: str
    is_new: bool
    added: int
    entries: int
    changed: int = 0
    keeps_local_leaf: bool = False
    conversion: ConversionReport = field(default_factory=ConversionReport)

    @property
    def is_unchanged(self) -> bool:
        """Whether the file already had everything."""
        return not self.is_new and self.added == 0 and self.changed == 0


@dataclass(slots=True)
class ImportTarget:
    """The destination of an import: the store, the project, and the time of the import."""

    store: SessionStore
    cwd: str
    now_ms: int

    @property
    def files(self) -> FileStore | None:
        """The store, if it keeps files: those are written as other agents append to them."""
        return self.store if isinstance(self.store, FileStore) else None

    @property
    def dialect(self) -> Dialect:
        return self.store.dialect


def bring_in(source: ForeignSource, target: ImportTarget) -> ImportReport:
    """Write the session, or update the file of an earlier import. Also raises OSError."""
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
            target.dialect,
            transcript.agent,
            transcript.session_id,
            transcript.started_ms if transcript.is_dated else 0,
            attempt,
        )
        files = target.files
        path = (
            _find_session_file(files, session_id)
            if files is not None
            else target.store.locate(session_id)
        )
        if path is None:
            return session_id, None
        if _is_import(target.store, path, transcript):
            return session_id, path
        attempt += 1


def _find_session_file(files: FileStore, session_id: str) -> str | None:
    """A session of this id in the target's folders, by its file name."""
    folders = (
        [files.session_dir]
        if files.session_dir is not None
        else paths.list_session_folders(files.profile, files.storage)
    )
    for folder in folders:
        for file in files.storage.list_files(folder, f"_{session_id}{paths.SESSION_SUFFIX}"):
            return file.path
    return None


def _is_import(store: SessionStore, ref: Ref, transcript: Transcript) -> bool:
    """Whether this session is an earlier import of the transcript.

    Another agent that rewrites a file may drop header fields it does not know; entries it keeps.
    """
    try:
        log = store.read(ref)
    except (NotASessionError, SessionNotFoundError):
        return False
    try:
        origins = [log.header.get(HEADER_KEY)]
        origins += [
            entry.decode().get("data")
            for entry in log.tree.entries
            if entry.type == "custom" and ENTRY_TYPE.encode() in entry.line()
        ]
        return any(is_import_of(each, transcript.agent, transcript.session_id) for each in origins)
    finally:
        log.close()


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
    note = _make_note(source, provenance, make_ledger(transcript.entries), title)
    entries += _closing_entries(
        target, taken, transcript.leaf_id, note, title if target.dialect == "pi" else None
    )
    if target.files is not None:
        path = _write_file(target.files, header, entries, target)
        set_time(target.files.storage, path, _last_talked_ns(transcript.entries, target))
    else:
        log = write_session(target.store, cast("Header", header), entries)
        log.close()
        path = log.ref
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


def _write_file(
    files: FileStore, header: dict[str, Any], entries: list[WireEntry], target: ImportTarget
) -> str:
    """Write the file of a new session at once; its path."""
    folder = files.folder_for(target.cwd)
    path = os.path.join(folder, paths.session_file_name(header["timestamp"], header["id"]))
    files.storage.ensure_dir(folder)

    def lines() -> Iterator[bytes]:
        yield codec.encode(header) + b"\n"
        for entry in entries:
            yield _to_line(entry, files)

    files.storage.write_atomic(path, lines())
    return path


def _update(
    source: ForeignSource,
    target: ImportTarget,
    ref: Ref,
    session_id: str,
    provenance: dict[str, Any],
) -> ImportReport:
    if target.files is None:
        update: _Update = _LogUpdate(source, target, ref, session_id, provenance)
    else:
        update = _FileUpdate(source, target, ref, session_id, provenance)
    update.run()
    return update.report


class _Update(ABC):
    """An import of a session that was imported before."""

    def __init__(
        self,
        source: ForeignSource,
        target: ImportTarget,
        path: str,
        session_id: str,
        provenance: dict[str, Any],
    ) -> None:
        self._source = source
        self._transcript = source.transcript
        self._target = target
        self._provenance = provenance
        self._path = path
        self._ledger = make_ledger(source.transcript.entries)
        self._title = _clean_title(source.transcript.title)
        self._has_new_name = False
        self.report = ImportReport(
            source.path,
            source.transcript.agent,
            path,
            session_id,
            is_new=False,
            added=0,
            entries=0,
            conversion=source.transcript.report,
        )

    @abstractmethod
    def run(self) -> None:
        """Bring the session up to date with its source."""

    def _plan(self, tree: SessionTree, title: str | None) -> list[WireEntry] | None:
        """The entries that the session lacks; None if others have to change."""
        past = _read_past(tree)
        self.report.entries = len(tree.entries)
        is_other = self._find_changed(tree, past) or self._find_gone(tree, past)
        if is_other and past.is_begun_by(self._source):
            return None
        self._has_new_name = self._is_renamed(past, tree, title)
        new = [entry for entry in self._transcript.entries if entry["id"] not in tree.by_id]
        self.report.keeps_local_leaf = _was_continued(
            tree, self._ledger.keys() | past.ledger.keys()
        )
        if not (new or self._has_new_name or self._is_elsewhere(tree, past)):
            return []
        unlisted = {key: self._ledger[key] for key in self._ledger if key not in past.ledger}
        added = [_spell(entry, self._target.dialect) for entry in new]
        added += self._closing(tree, {entry["id"] for entry in new}, unlisted)
        self.report.added = len(added)
        self.report.entries += len(added)
        return added

    @abstractmethod
    def _is_same(self, there: Entry, spelled: WireEntry) -> bool:
        """Whether the entry says this."""

    def _closing(self, tree: SessionTree, new: set[str], ledger: Ledger) -> list[WireEntry]:
        leaf = tree.leaf_id if self.report.keeps_local_leaf else self._transcript.leaf_id
        note = _make_note(self._source, self._provenance, ledger, self._title)
        return _closing_entries(self._target, tree.by_id.keys() | new, leaf, note, None)

    def _find_changed(self, tree: SessionTree, past: _Past) -> set[str]:
        """Find the imported entries that have changed at the source."""
        changed = set()
        for wire in self._transcript.entries:
            there = tree.by_id.get(wire["id"])
            if there is None:
                continue
            known = past.ledger.get(there.id)
            if known is None:
                # An interrupted import wrote this entry before it could list it.
                if not self._is_same(there, _spell(wire, self._target.dialect)):
                    changed.add(there.id)
            elif known not in ("", self._ledger[there.id]):
                changed.add(there.id)
        return changed

    def _find_gone(self, tree: SessionTree, past: _Past) -> set[str]:
        """Find entries that only an earlier import would write and that nothing here depends on."""
        gone = {key for key in past.ledger if key not in self._ledger and key in tree.by_id}
        if not gone:
            return gone
        for entry in tree.entries:
            if entry.id in self._ledger or entry.id in past.ledger or _is_note(entry):
                continue
            at: Entry | None = entry
            if entry.type == "label":
                at = tree.by_id.get(get_text(entry.data, "targetId") or "")
            elif entry.type in _ANNOTATIONS:
                continue
            while at is not None and at.id not in self._ledger:
                gone.discard(at.id)
                at = tree.by_id.get(at.parent_id or "")
        return gone

    def _is_elsewhere(self, tree: SessionTree, past: _Past) -> bool:
        """Whether the source's conversation went back to an entry imported before."""
        at = _find_leaf(tree)
        is_moved = at is not None and at.id != self._transcript.leaf_id
        return is_moved and not self.report.keeps_local_leaf and past.is_begun_by(self._source)

    def _is_renamed(self, past: _Past, tree: SessionTree, title: str | None) -> bool:
        """Whether the source has a new title and the user has not renamed the session here."""
        name = session_name(self._target.dialect, title, tree.info_name())
        if name == self._title or (name is not None and name != past.title):
            return False
        # A tidied source has lost its title; it was not removed on purpose.
        return self._title is not None or past.is_begun_by(self._source)


class _LogUpdate(_Update):
    """An update of a session that is in no file: what is new is appended, what changed rewritten.

    What only an earlier import wrote stays: a store rewrites entries, and removes none.
    """

    def run(self) -> None:
        """Bring the session up to date with its source."""
        # A SessionManager would write a breadcrumb: -c in this terminal would open this session.
        log = self._target.store.open(self._path)
        try:
            log.settle(lambda: self._settled(log))
            if self._has_new_name:
                rename_live(LiveSession(log), self._title or "")
            log.flush()
        finally:
            log.close()

    def _settled(self, log: SessionLog) -> None:
        title = get_title(log.header)
        added = self._plan(log.tree, title)
        if added is None:
            added = self._change(log, title)
        if added:
            log.append([Entry.from_wire(each) for each in added])
            log.tree.leaf_id = log.tree.last_id

    def _change(self, log: SessionLog, title: str | None) -> list[WireEntry]:
        """Rewrite the entries that changed at the source; those to append."""
        tree = log.tree
        past = _read_past(tree)
        changed = self._find_changed(tree, past)
        self._has_new_name = self._is_renamed(past, tree, title)
        for wire in self._transcript.entries:
            if wire["id"] in changed:
                there = tree.by_id[wire["id"]]
                there.data.clear()
                there.data.update(_spell(wire, self._target.dialect))
                there.place(wire["id"], wire["parentId"])
        log.rewrite(find_changes=True)
        new = [wire for wire in self._transcript.entries if wire["id"] not in tree.by_id]
        added = [_spell(wire, self._target.dialect) for wire in new]
        added += self._closing(tree, {wire["id"] for wire in new}, self._ledger)
        self.report.added, self.report.changed = len(added), len(changed)
        self.report.entries = len(tree.entries) + len(added)
        return added

    def _is_same(self, there: Entry, spelled: WireEntry) -> bool:
        """Whether the entry says this, however its store spells it."""
        return codec.encode(there.decode()) == codec.encode(spelled)


class _FileUpdate(_Update):
    """An update of a session file: lines are appended under its lock, or the file is replaced."""

    def run(self) -> None:
        """Bring the file up to date with its source."""
        if self._append_held():
            self._take_name()
        else:
            self._rewrite()

    @property
    def _files(self) -> FileStore:
        files = self._target.files
        assert files is not None
        return files.like(has_given_profile=True)

    def _append_held(self) -> bool:
        """Append what is new with the file locked; False if the file must be rewritten."""
        for _ in range(_MAX_REPLACEMENTS):
            writer = self._files.storage.open_writer(self._path, create=False)
            try:
                size = writer.lock()
                try:
                    # A rewrite replaces the file under this name; lines appended to the old file
                    # are lost. After waiting for the lock, check that the name still means this
                    # file.
                    if size is not None:
                        return self._append(writer)
                finally:
                    writer.unlock()
            finally:
                writer.close()
        raise PersistenceError(self._path, "is replaced again and again by another program")

    def _append(self, writer: SessionStorageWriter) -> bool:
        """Append the entries that the file lacks; False if others have to change.

        The file is locked, and only written if it holds all earlier imports unchanged.
        """
        files = self._files
        document = load_document(files.storage, self._path)
        if document is None:
            raise PersistenceError(self._path, "was emptied by another program")
        try:
            before_ns = writer.stat().mtime_ns
            known = set(document.tree.by_id)
            added = self._plan(document.tree, document.title)
            if added is None:
                return False
            if not added:
                return True
            if not document.has_final_newline:
                writer.write_line(b"\n")
            for entry in added:
                writer.write_line(_to_line(entry, files))
            writer.fsync()
            # Still under the lock: no other process can have continued it meanwhile.
            new = [entry for entry in self._transcript.entries if entry["id"] not in known]
            said_ns = _last_talked_ns(new, self._target) or 0
            set_time(files.storage, self._path, max(before_ns, said_ns))
        finally:
            document.payloads.reader.close()
        return True

    def _rewrite(self) -> None:
        """Write the whole file: the entries imported now, then those added here."""
        # A SessionManager would write a breadcrumb: -c in this terminal would open this session.
        files = self._files
        before_ns = files.storage.stat(self._path).mtime_ns
        log = files.open(self._path)
        session = LiveSession(log)
        try:
            log.settle(lambda: self._rewrite_held(log))
            if self._has_new_name:
                rename_live(session, self._title or "")
        finally:
            session.close()
        said_ns = _last_talked_ns(self._transcript.entries, self._target) or 0
        set_time(files.storage, self._path, max(before_ns, said_ns))

    def _rewrite_held(self, log: FileLog) -> None:
        tree = log.tree
        past = _read_past(tree)
        changed = self._find_changed(tree, past)
        gone = self._find_gone(tree, past)
        self._has_new_name = self._is_renamed(past, tree, get_title(log.header))
        self.report.keeps_local_leaf = _was_continued(
            tree, self._ledger.keys() | past.ledger.keys()
        )
        kept = [self._entry(wire, tree, changed) for wire in self._transcript.entries]
        new = {entry.id for entry in kept if entry.id not in tree.by_id}
        rest = [e for e in tree.entries if e.id not in self._ledger and e.id not in gone]
        for entry in rest:
            _hang_on_what_stays(entry, tree, gone)
        unlisted = {
            key: digest for key, digest in self._ledger.items() if past.ledger.get(key) != digest
        }
        closing = [Entry.from_wire(e) for e in self._closing(tree, new, unlisted)]
        tree.entries[:] = [*kept, *rest, *closing]
        tree.by_id.clear()
        tree.by_id.update((entry.id, entry) for entry in tree.entries)
        tree.forget_indexes()
        tree.leaf_id = tree.entries[-1].id
        log.rewrite()
        self.report.added = len(new) + len(closing)
        self.report.changed = len(changed) + len(gone)
        self.report.entries = len(tree.entries)

    def _entry(self, wire: WireEntry, tree: SessionTree, changed: set[str]) -> Entry:
        """Return the entry as imported now, or the one in the file if both are equal."""
        there = tree.by_id.get(wire["id"])
        if there is None or there.id in changed:
            return Entry.from_wire(_spell(wire, self._target.dialect))
        if there.parent_id != wire["parentId"]:
            there.place(there.id, wire["parentId"])
        return there

    def _is_same(self, there: Entry, spelled: WireEntry) -> bool:
        """Whether the entry's line is what an import writes."""
        return there.raw() == trim(spelled, self._target.dialect).line

    def _take_name(self) -> None:
        """Take over the source's title if it has changed since the last import."""
        if not self._has_new_name:
            return
        files = self._files
        before_ns = files.storage.stat(self._path).mtime_ns
        session = LiveSession(files.open(self._path))
        try:
            rename_live(session, self._title or "")
        finally:
            session.close()
        set_time(files.storage, self._path, before_ns)


@dataclass(slots=True)
class _Past:
    """The entries that earlier imports wrote, and what the last one recorded about its source."""

    ledger: Ledger
    title: str | None = None
    size: int = 0
    own_hash: str | None = None

    def is_begun_by(self, source: ForeignSource) -> bool:
        """Whether the source still begins with what the last import read."""
        return self.own_hash is None or has_grown(
            source.path, self.size, self.own_hash, source.agent
        )


def _read_past(tree: SessionTree) -> _Past:
    past = _Past({})
    for index, entry in enumerate(tree.entries):
        if not _is_note(entry):
            continue
        data = entry.data.get("data")
        ledger = read_ledger(data)
        if ledger is not None:
            past.ledger |= ledger
        elif not past.ledger:
            # Versions without a ledger: a first import wrote all entries before its own.
            past.ledger = dict.fromkeys((each.id for each in tree.entries[:index]), "")
        known = data if isinstance(data, dict) else {}
        past.title = get_text(known, TITLE_KEY)
        past.size = get_count(get_object(known, FILE_KEY), "size")
        past.own_hash = get_text(get_object(known, FILE_KEY), "hash")
    return past


def _is_note(entry: Entry) -> bool:
    """Whether this is the entry that an import ends with."""
    return entry.type == "custom" and entry.data.get("customType") == ENTRY_TYPE


def _hang_on_what_stays(entry: Entry, tree: SessionTree, gone: set[str]) -> None:
    parent_id = entry.parent_id
    while parent_id in gone:
        parent_id = tree.by_id[parent_id].parent_id
    if parent_id != entry.parent_id:
        entry.place(entry.id, parent_id)


def _was_continued(tree: SessionTree, imported: Collection[str]) -> bool:
    """Whether the conversation's leaf is another than the last import left."""
    at = _find_leaf(tree)
    return at is not None and at.id not in imported


def _find_leaf(tree: SessionTree) -> Entry | None:
    """Return the conversation's leaf; notes after it (labels, names) don't count."""
    at = tree.by_id.get(tree.leaf_id or "")
    while at is not None and (at.type in _ANNOTATIONS or _is_note(at)):
        at = tree.by_id.get(at.parent_id or "")
    return at


def _make_note(
    source: ForeignSource, provenance: dict[str, Any], ledger: Ledger, title: str | None
) -> dict[str, Any]:
    file = {"size": source.size, "hash": source.own_hash}
    note = {**provenance, FILE_KEY: file, LEDGER_KEY: spell_ledger(ledger)}
    return note if title is None else {**note, TITLE_KEY: title}


def _closing_entries(
    target: ImportTarget,
    taken: set[str],
    leaf_id: str | None,
    note: dict[str, Any],
    name: str | None,
) -> list[WireEntry]:
    """Return the entries that end an import. Agents continue a session at its last line."""
    entries = []
    if name is not None:
        entries.append(_make_entry(target, taken, leaf_id, "session_info", {"name": name}))
        leaf_id = entries[0]["id"]
    fields = {"customType": ENTRY_TYPE, "data": note}
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
    """Translate an entry from omp's dialect, which the converters write, to ``dialect``."""
    change = read_model_change(entry) if entry["type"] == "model_change" else None
    if change is None or dialect != "pi":
        return entry
    spelled = {key: value for key, value in entry.items() if key != "model"}
    return {**spelled, **spell_model_change(dialect, change[1], None)}


def _to_line(entry: WireEntry, files: FileStore) -> bytes:
    """Return the entry's line, after storing the blobs it refers to."""
    trimmed = trim(entry, files.dialect)
    for blob in trimmed.blobs:
        BlobStore(files.profile.blobs_dir, files.storage).put(blob)
    return trimmed.line + b"\n"


def _clean_title(title: str | None) -> str | None:
    """One line without control characters: a title goes to terminals and into a fixed slot."""
    if title is None:
        return None
    kept = "".join(char if char.isprintable() else " " for char in title)
    return " ".join(kept.split())[:200] or None


def _last_talked_ns(entries: Sequence[WireEntry], target: ImportTarget) -> int | None:
    said = ((entry["type"], entry["timestamp"]) for entry in entries)
    return last_talked_ns(said, target.now_ms)


HEADER_KEY = "importedFrom"
ENTRY_TYPE = "sessiontree.import"
LEDGER_KEY = "entries"
TITLE_KEY = "title"
FILE_KEY = "file"

_HALF = ENTRY_ID_LENGTH


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of one import: session, file, content hash, and time."""

    agent: str
    session_id: str
    path: str
    content_hash: str
    imported_ms: int

    def to_wire(self) -> dict[str, Any]:
        """Return the object for the header and the entry."""
        return {
            "agent": self.agent,
            "sessionId": self.session_id,
            "path": self.path,
            "hash": f"sha256:{self.content_hash}",
            "when": spell_time(self.imported_ms),
        }


Ledger = dict[str, str]
"""A digest of each imported entry by its id; an empty digest if its content is unknown."""


def make_ledger(entries: Iterable[WireEntry]) -> Ledger:
    """The digest of each entry as it is imported, its place included."""
    return {
        entry["id"]: hashlib.sha256(codec.encode(entry)).hexdigest()[:_HALF] for entry in entries
    }


def spell_ledger(ledger: Ledger) -> str:
    """The ledger as one string: ids and digests in turn, eight digits each."""
    return "".join(f"{entry_id}{digest}" for entry_id, digest in ledger.items())


def read_ledger(data: object) -> Ledger | None:
    """The ledger in the data of an import's entry; None if it has none."""
    text = get_text(data if isinstance(data, dict) else {}, LEDGER_KEY)
    if text is None:
        return None
    step = 2 * _HALF
    return {text[at : at + _HALF]: text[at + _HALF : at + step] for at in range(0, len(text), step)}


def is_import_of(origin: object, agent: str, session_id: str) -> bool:
    """Whether the origin in a header or an entry names this session."""
    found = origin if isinstance(origin, dict) else {}
    return get_text(found, "agent") == agent and get_text(found, "sessionId") == session_id


def derive_session_id(
    dialect: Dialect, agent: str, session_id: str, started_ms: int, attempt: int = 0
) -> str:
    """Derive an imported session's id here: the same each time, and sorted by start time.

    If another session has that id, raise ``attempt`` to get the next one.
    """
    seed = f"{agent}\x00{session_id}\x00{attempt}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(seed).digest()
    make = new_uuid7 if dialect == "pi" else new_session_id
    return make(started_ms, lambda length: digest[:length])
