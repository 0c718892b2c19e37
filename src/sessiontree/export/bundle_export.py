"""Export a session as a bundle: one archive with the log, the blobs it names and its artifacts.

With a redactor the bundle gets the same entries without secrets. Each entry is completed with its
long texts and images, redacted, and trimmed again, so that no secret stays in a blob. Damaged lines
and binary artifacts can't be searched, so a redacted bundle leaves them out.

``bundle_import`` imports a bundle, ``bundle_archive`` reads one safely.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from sessiontree import clock
from sessiontree.core.tree import SessionTree
from sessiontree.core.trimming import trim
from sessiontree.discovery import paths
from sessiontree.errors import PersistenceError, SessionNotFoundError
from sessiontree.export.bundle_archive import (
    ARTIFACTS,
    BLOBS,
    MANIFEST,
    SESSION,
    BundleError,
    BundleLimits,
    BundleReport,
    Manifest,
    Member,
    fold,
    is_safe_name,
)
from sessiontree.export.bundle_import import import_bundle
from sessiontree.export.redact import Redactor
from sessiontree.model import codec
from sessiontree.model.dialects import detect_dialect
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.header import Header, TitleSlot, get_cwd, get_title
from sessiontree.model.ids import format_timestamp
from sessiontree.profiles import Dialect, Profile
from sessiontree.storage.base import SessionStorage, read_chunks
from sessiontree.storage.blobs import REF_PREFIX
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.syncing import sync_folder
from sessiontree.storage.temp_files import make_temp_path
from sessiontree.stores import Storage, address_of, choose_store
from sessiontree.stores.base import Ref, SessionStore
from sessiontree.stores.files.opening import make_blob_store, profile_for
from sessiontree.stores.files.reader import load_document
from sessiontree.stores.files.store import FileStore
from sessiontree.stores.whole import whole_data

__all__ = ["BundleError", "BundleLimits", "BundleReport", "export_bundle", "import_bundle"]

_REF = re.compile(rb"blob:sha256:([0-9a-f]{64})")
_REF_LENGTH = len(REF_PREFIX) + 64


def export_bundle(
    session_path: str | os.PathLike[str],
    zip_path: str | os.PathLike[str],
    *,
    profile: str | Profile | None = None,
    storage: Storage | None = None,
    overwrite: bool = False,
    redactor: Redactor | None = None,
    now_ms: int | None = None,
) -> BundleReport:
    """Write a session, its blobs and its artifacts into one archive. The session is only read.

    ``storage`` is where it is kept: a storage of bytes, a store or its URL; then ``session_path``
    is what the store calls it.

    A ``redactor`` replaces secrets; damaged lines and binary artifacts, which it can't search, are
    left out and listed in the report's notes. Raises SessionNotFoundError, NotASessionError,
    BundleError if the session is too large for a bundle, or PersistenceError; then no archive is
    written.
    """
    target = os.path.abspath(zip_path)
    store = choose_store(storage, profile)
    if os.path.exists(target):
        if not overwrite:
            raise PersistenceError(target, "already exists; choose another name")
        if not os.path.isfile(target):
            raise PersistenceError(target, "not a regular file")
    try:
        if isinstance(store, FileStore):  # byte for byte, damaged lines and all
            source = _read_file(os.path.abspath(session_path), store)
        else:
            source = _read_log(store, os.fspath(session_path))
        try:
            writer = _BundleWriter(source, target, redactor)
            return writer.write(now_ms if now_ms is not None else clock.now_ms())
        finally:
            source.close()
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else target
        raise PersistenceError.from_os_error(where, error) from error


@dataclass(frozen=True, slots=True)
class _Source:
    """The session to export: a file, or a session in a store without files."""

    path: str
    profile: Profile
    header: Header
    slot: TitleSlot | None
    tree: SessionTree
    skipped: int
    """The number of pieces of the file that could not be read."""
    size: int
    artifacts: str | None
    storage: SessionStorage
    """Where the artifacts are."""
    close: Callable[[], None]
    read: Callable[[], Iterator[bytes]] | None = None
    """Yields a file's bytes unchanged; without it each entry is spelled again, with its blobs."""
    get_blob: Callable[[str], bytes | None] | None = None


def _read_file(path: str, store: FileStore) -> _Source:
    profile = profile_for(path, store.profile if store.has_given_profile else None)
    blobs = make_blob_store(profile, path, store.storage)
    document = load_document(store.storage, path, blobs)
    if document is None:
        raise SessionNotFoundError(path)
    reader = document.payloads.reader
    return _Source(
        path,
        profile,
        document.header,
        document.slot,
        document.tree,
        len(document.skipped),
        document.end,
        paths.artifacts_dir(path),
        store.storage,
        reader.close,
        lambda: read_chunks(reader, 0, document.end),
        blobs.get,
    )


def _read_log(store: SessionStore, ref: Ref) -> _Source:
    log = store.read(ref)
    return _Source(
        address_of(store, ref),
        store.profile,
        log.header,
        None,
        log.tree,
        0,
        sum(len(entry.line()) + 1 for entry in log.tree.entries),
        store.artifacts_dir(ref),
        FileSessionStorage(),
        log.close,
    )


class _BundleWriter:
    """Write one archive as a temporary file beside the target, then rename it."""

    def __init__(self, source: _Source, target: str, redactor: Redactor | None) -> None:
        self._source = source
        self._storage = source.storage
        self._target = target
        self._limits = BundleLimits()
        self._manifest = Manifest()
        self._refs: dict[str, None] = {}
        self._when = (1980, 1, 1, 0, 0, 0)
        self._report = BundleReport(target, source.path, str(source.header.get("id", "")))
        found = detect_dialect(get_title(source.header) is not None, source.tree.entries)
        self._dialect = found or source.profile.dialect
        is_spelled_anew = redactor is not None or source.read is None
        self._spelled = SpelledLog(source, self._dialect, redactor) if is_spelled_anew else None

    def write(self, now_ms: int) -> BundleReport:
        self._when = time.gmtime(max(now_ms // 1000, 315_619_200))[:6]
        self._manifest.created = format_timestamp(now_ms)
        header = self._source.header
        if self._spelled is not None:
            header = self._spelled.header
        self._manifest.session = {
            "id": str(header.get("id", "")),
            "cwd": get_cwd(header),
            "profile": self._source.profile.name,
            "dialect": self._dialect,
        }
        temp = make_temp_path(self._target)
        fd = os.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(fd, "w+b") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                    self._add_all(archive)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temp, self._target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise
        sync_folder(os.path.dirname(self._target))
        return self._report

    def _add_all(self, archive: zipfile.ZipFile) -> None:
        self._add(archive, SESSION, self._source.size, self._session_chunks())
        for digest, data in self._blobs():
            self._add(archive, BLOBS + digest, len(data), iter((data,)))
            self._report.blobs += 1
            self._refs.pop(digest, None)
        self._report.notes += [f"a blob is missing: {digest}" for digest in self._refs]
        seen: set[str] = set()
        for path, recorded in self._artifacts():
            name = recorded if self._spelled is None else self._spelled.redact_path(recorded)
            if not is_safe_name(name, self._limits) or fold(name) in seen:
                self._report.notes.append(f"an artifact has no portable name: {name!r}")
                continue
            seen.add(fold(name))
            content = self._artifact(path)
            if content is None:
                self._report.notes.append(f"left out an artifact that is not text: {name!r}")
                continue
            self._add(archive, name, len(content), iter((content,)))
            self._report.artifacts += 1
        body = self._manifest.encode()
        archive.writestr(self._info(MANIFEST, len(body)), body, zipfile.ZIP_DEFLATED)

    def _session_chunks(self) -> Iterator[bytes]:
        """Yield the log in pieces, and collect the blob references in it."""
        seam = b""
        if self._spelled is not None:
            chunks = self._spelled.lines()
            if self._source.skipped:
                count = self._source.skipped
                self._report.notes.append(f"{count} unreadable pieces were left out")
        else:
            assert self._source.read is not None
            chunks = self._source.read()
        for chunk in chunks:
            for digest in _REF.findall(seam + chunk):
                self._refs[digest.decode()] = None
            seam = chunk[-_REF_LENGTH:]
            yield chunk

    def _blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield hash and content of the blobs that exist."""
        if self._spelled is not None:
            yield from self._spelled.blobs()
            return
        assert self._source.get_blob is not None
        for digest in list(self._refs):
            data = self._source.get_blob(REF_PREFIX + digest)
            if data is not None:
                yield digest, data

    def _artifact(self, path: str) -> bytes | None:
        data = self._storage.read(path)
        return data if self._spelled is None else self._spelled.redact_file(data)

    def _artifacts(self) -> Iterator[tuple[str, str]]:
        """Yield the artifact files and their names in the bundle, without links."""
        if self._source.artifacts is None:
            return
        folders = [(self._source.artifacts, ARTIFACTS)]
        while folders:
            folder, prefix = folders.pop()
            for file in sorted(self._storage.list_files(folder), key=lambda file: file.path):
                if os.path.islink(file.path):
                    self._report.notes.append(f"a link was left out: {file.path!r}")
                else:
                    yield file.path, prefix + os.path.basename(file.path)
            inner = sorted(self._storage.list_dirs(folder), reverse=True)
            folders += [
                (each, f"{prefix}{os.path.basename(each)}/")
                for each in inner
                if not os.path.islink(each)
            ]

    def _info(self, name: str, size: int) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, self._when)
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        info.file_size = size
        return info

    def _add(self, archive: zipfile.ZipFile, name: str, size: int, chunks: Iterator[bytes]) -> None:
        total = size + sum(member.size for member in self._manifest.members.values())
        if size > self._limits.file_bytes or total > self._limits.total_bytes:
            raise BundleError(self._target, "the session is too large for a bundle")
        if len(self._manifest.members) + 2 > self._limits.files:
            raise BundleError(self._target, "the session has too many files for a bundle")
        hasher = hashlib.sha256()
        count = 0
        with archive.open(self._info(name, size), "w") as file:
            for chunk in chunks:
                hasher.update(chunk)
                count += len(chunk)
                file.write(chunk)
        self._manifest.members[name] = Member(name, count, hasher.hexdigest())


class SpelledLog:
    """A session spelled again: complete with its blobs, and redacted if there is a redactor."""

    def __init__(self, source: _Source, dialect: Dialect, redactor: Redactor | None) -> None:
        self._source = source
        self._dialect = dialect
        self._redactor = redactor
        self._with_blobs: list[Entry] = []
        self.header: Header = self._redact(dict(source.header), redactor)

    def _redact(self, value: Any, redactor: Redactor | None) -> Any:
        return redactor.redact_value(value) if redactor is not None else value

    def _read(self, entry: Entry) -> WireEntry:
        # the pictures of a compaction's archive are megabytes that nothing redacts
        return entry.decode() if self._redactor is not None else whole_data(entry)

    def lines(self) -> Iterator[bytes]:
        """Yield the file line by line."""
        slot, redactor = self._source.slot, self._redactor
        if slot is not None:
            title = redactor.redact_text(slot.title) if redactor is not None else slot.title
            yield msgspec.structs.replace(slot, title=title, line=b"").encode()
        yield codec.encode(self.header) + b"\n"
        for entry in self._source.tree.entries:
            trimmed = trim(self._redact(self._read(entry), redactor), self._dialect)
            if trimmed.blobs:
                self._with_blobs.append(entry)
            yield trimmed.line + b"\n"

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield hash and content of the blobs that the lines name; call it after ``lines``.

        Each blob is made a second time, because all of them together may not fit into memory.
        """
        again = Redactor() if self._redactor is not None else None
        seen: set[str] = set()
        for entry in self._with_blobs:
            for blob in trim(self._redact(self._read(entry), again), self._dialect).blobs:
                digest = hashlib.sha256(blob).hexdigest()
                if digest not in seen:
                    seen.add(digest)
                    yield digest, blob

    def redact_path(self, path: str) -> str:
        """Redact the path that an artifact gets in the bundle."""
        return self._redactor.redact_path(path) if self._redactor is not None else path

    def redact_file(self, data: bytes) -> bytes | None:
        """Redact an artifact that is text; None if it is not, since it can't be searched."""
        if self._redactor is None:
            return data
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return None
        return self._redactor.redact_text(text).encode("utf-8")
