"""Import a bundle, made here or on another machine.

The import unpacks and verifies everything in a staging folder (``<agent dir>/.import-PID-…``), then
renames it into place: blobs, artifacts, and the session's file last. A crash leaves at most unused
blobs and artifacts, never a session that misses some of them. The process holds a lock on its
staging folder while it runs, so the next import can tell and remove the folders of killed ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

from msgspec.structs import replace

from sessiontree import clock
from sessiontree.discovery import paths
from sessiontree.discovery.talked import last_talked_ns, set_time
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.export.bundle_archive import (
    ARTIFACTS,
    BLOBS,
    SESSION,
    BundleError,
    BundleLimits,
    BundleReader,
    BundleReport,
)
from sessiontree.export.convert import convert_session
from sessiontree.export.view import read_view
from sessiontree.model import codec
from sessiontree.model.header import Header, get_cwd, get_timestamp
from sessiontree.model.ids import format_timestamp, new_session_id, new_uuid7, parse_timestamp
from sessiontree.profiles import PROFILE_NAMES, Dialect, Profile
from sessiontree.storage.base import SessionStorage, read_chunks
from sessiontree.storage.blobs import REF_PREFIX, BlobStore
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.handles import Handle
from sessiontree.storage.temp_files import claim, remove_if_abandoned
from sessiontree.stores import Storage, choose_store
from sessiontree.stores.base import Ref, SessionStore
from sessiontree.stores.files.copying import copy_folder
from sessiontree.stores.files.document import SessionDocument
from sessiontree.stores.files.reader import load_document
from sessiontree.stores.files.store import FileStore
from sessiontree.stores.whole import whole_data, write_session

HEADER_KEY = "importedFrom"
BUNDLE_AGENT = "bundle"
_STAGING_PREFIX = ".import-"


def import_bundle(
    zip_path: str | os.PathLike[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    profile: str | Profile | None = None,
    session_dir: str | os.PathLike[str] | None = None,
    storage: Storage | None = None,
    limits: BundleLimits | None = None,
    now_ms: int | None = None,
) -> BundleReport:
    """Import a bundle; ``cwd`` assigns its session to that project.

    ``storage`` is where it goes: a storage of bytes, a store or its URL.

    Importing the same bundle twice gives one session. If another session has the same id, it
    doesn't change, and the imported one gets a new id. Raises BundleError or PersistenceError; then
    nothing has changed.
    """
    source = os.path.abspath(zip_path)
    target_store = choose_store(storage, profile, session_dir)
    target = target_store.profile
    # files get the bundle's own bytes; any other store gets its entries, one by one
    files = target_store if isinstance(target_store, FileStore) else None
    store = files.storage if files is not None else FileSessionStorage()
    staging = os.path.join(
        target.agent_dir, f"{_STAGING_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
    )
    try:
        with BundleReader(source, limits) as bundle:
            project = os.path.abspath(cwd) if cwd is not None else None
            moment = now_ms if now_ms is not None else clock.now_ms()
            task = (
                _Import(bundle, files, staging, project, moment)
                if files is not None
                else _StoreImport(bundle, target_store, staging, project, moment)
            )
            guard: Handle | None = None
            try:
                guard = _make_staging(store, staging)
                return task.run()
            finally:
                with contextlib.suppress(OSError):
                    store.remove_dir(staging)
                    _sweep(store, target.agent_dir)
                if guard is not None:
                    guard.close()
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else source
        raise PersistenceError.from_os_error(where, error) from error
    except ValueError as error:
        # A recorded folder or id that no file can be named after: a NUL, half a surrogate pair.
        raise BundleError(source, f"cannot be stored under its names ({error})") from error


def _make_staging(storage: SessionStorage, folder: str) -> Handle | None:
    """Make the staging folder; while the handle is open, no other import removes the folder."""
    storage.ensure_dir(folder)
    if not isinstance(storage, FileSessionStorage) or os.name == "nt":
        return None
    guard = Handle(folder, os.O_RDONLY)
    while not claim(guard, folder):
        guard.close()
        storage.ensure_dir(folder)
        guard = Handle(folder, os.O_RDONLY)
    return guard


def _sweep(storage: SessionStorage, agent_dir: str) -> None:
    """Remove the staging folders of killed imports."""
    for folder in storage.list_dirs(agent_dir):
        name = os.path.basename(folder)
        owner = name.removeprefix(_STAGING_PREFIX).partition("-")[0]
        if name.startswith(_STAGING_PREFIX) and owner.isdecimal():
            with contextlib.suppress(OSError):
                remove_if_abandoned(folder, int(owner), storage.remove_dir)


class _Import:
    """The import of one bundle."""

    def __init__(
        self, bundle: BundleReader, files: FileStore, staging: str, cwd: str | None, now_ms: int
    ) -> None:
        self._bundle = bundle
        self._profile = files.profile
        self._storage = files.storage
        self._staging = staging
        self._cwd = cwd
        self._session_dir = files.session_dir
        self._now_ms = now_ms
        self._hash = bundle.manifest.members[SESSION].sha256
        self._staged = os.path.join(staging, "session.jsonl")
        self._blobs = BlobStore(os.path.join(staging, "blobs"), self._storage)

    def run(self) -> BundleReport:
        self._unpack()
        document = self._load()
        try:
            # The header of the file: the one in memory may be migrated.
            header: dict[str, Any] = codec.decode(document.header_line)
            cwd = self._cwd or get_cwd(document.header) or os.getcwd()
            folder = self._session_dir or paths.default_session_dir(
                self._profile, cwd, self._storage
            )
            session_id, existing = self._choose_id(document, folder)
            if existing is not None:
                return self._report(existing, session_id, is_new=False)
            header["cwd"] = cwd
            header["id"] = session_id
            header[HEADER_KEY] = self._provenance(document)
            self._rewrite_head(document, header)
            said = ((entry.type, entry.timestamp) for entry in document.tree.entries)
            talked_ns = last_talked_ns(said, self._now_ms)
        finally:
            document.payloads.reader.close()
        if self._dialect() != self._profile.dialect:
            report = self._convert(folder, session_id)
        else:
            path = self._path(folder, document.header, session_id)
            self._commit(folder, path)
            report = self._report(path, session_id)
        set_time(self._storage, report.session_path, talked_ns)
        return report

    def _unpack(self) -> None:
        for name in self._bundle.manifest.members:
            # Staged where the session expects them: in the folder named after its file.
            local = name
            if name.startswith(ARTIFACTS):
                local = f"session/{name[len(ARTIFACTS) :]}"
            path = os.path.join(self._staging, *local.split("/"))
            self._storage.ensure_dir(os.path.dirname(path))
            self._storage.write_atomic(path, self._bundle.read(name))

    def _load(self) -> SessionDocument:
        try:
            document = load_document(self._storage, self._staged)
        except NotASessionError:
            document = None
        if document is None:
            raise BundleError(self._bundle.path, "its session has no valid header")
        return document

    def _dialect(self) -> Dialect:
        named = self._bundle.manifest.session.get("dialect")
        return "pi" if named == "pi" else "omp"

    def _provenance(self, document: SessionDocument) -> dict[str, Any]:
        return {
            "agent": BUNDLE_AGENT,
            "sessionId": document.header.get("id", ""),
            "path": self._bundle.path,
            "hash": f"sha256:{self._hash}",
            "when": format_timestamp(self._now_ms),
        }

    def _choose_id(self, document: SessionDocument, folder: str) -> tuple[str, str | None]:
        """Return the session's id here, and the file of an earlier import of the same bundle."""
        own = str(document.header.get("id", ""))
        started = parse_timestamp(document.header.get("timestamp")) or self._now_ms
        make = new_uuid7 if self._profile.dialect == "pi" else new_session_id
        is_foreign = self._dialect() != self._profile.dialect
        for attempt in itertools.count():
            session_id = own
            if attempt or is_foreign or not own:
                seed = f"{own}\x00{self._hash}\x00{attempt}".encode("utf-8", "surrogatepass")
                session_id = make(started, _Digits(hashlib.sha256(seed).digest()))
            existing = self._find(session_id)
            if existing is not None and self._is_same(existing):
                return session_id, existing
            # Don't mix in artifacts whose session is gone.
            path = self._path(folder, document.header, session_id)
            if existing is None and not self._storage.exists(paths.artifacts_dir(path)):
                return session_id, None
        raise AssertionError("there is always another id")

    def _path(self, folder: str, header: Header, session_id: str) -> str:
        stamp = get_timestamp(header) or format_timestamp(self._now_ms)
        return os.path.join(folder, paths.session_file_name(stamp, session_id))

    def _find(self, session_id: str) -> str | None:
        suffix = paths.session_file_name("", session_id)
        folders = (
            [self._session_dir]
            if self._session_dir is not None
            else paths.list_session_folders(self._profile, self._storage)
        )
        for folder in folders:
            for file in self._storage.list_files(folder, suffix):
                return file.path
        return None

    def _is_same(self, path: str) -> bool:
        """Whether the session in this file was imported from this bundle."""
        try:
            document = load_document(self._storage, path)
        except NotASessionError:
            return False
        if document is None:
            return False
        document.payloads.reader.close()
        return self._is_of_bundle(document.header)

    def _is_of_bundle(self, header: Mapping[str, Any]) -> bool:
        origin = header.get(HEADER_KEY)
        return isinstance(origin, dict) and origin.get("hash") == f"sha256:{self._hash}"

    def _rewrite_head(self, document: SessionDocument, header: dict[str, Any]) -> None:
        """Replace the header; keep every other byte."""
        reader = document.payloads.reader
        head = reader.read_at(0, document.head_end)
        at = head.rfind(document.header_line)
        changed = head[:at] + codec.encode(header) + head[at + len(document.header_line) :]

        def chunks() -> Iterator[bytes]:
            yield changed
            yield from read_chunks(reader, document.head_end, document.end)

        self._storage.write_atomic(self._staged, chunks())

    def _convert(self, folder: str, session_id: str) -> BundleReport:
        """Convert the staged session, whose agent writes another dialect, into place."""
        named = self._bundle.manifest.session.get("profile")
        made = convert_session(
            self._staged,
            self._profile,
            session_dir=folder,
            storage=self._storage,
            source_profile=named if named in PROFILE_NAMES else None,
            source_blobs=self._blobs,
            recorded_path=self._bundle.path,
            session_id=session_id,
            now_ms=self._now_ms,
        )
        report = self._report(made.path, session_id)
        report.notes += made.lines()
        return report

    def _commit(self, folder: str, path: str) -> None:
        storage = self._storage
        here = BlobStore(self._profile.blobs_dir, storage)
        for file in storage.list_files(self._blobs.folder):
            name = os.path.basename(file.path)
            if here.get(REF_PREFIX + name) is None:
                storage.ensure_dir(here.folder)
                storage.rename(file.path, os.path.join(here.folder, name))
        storage.ensure_dir(folder)
        artifacts = paths.artifacts_dir(path)
        staged = paths.artifacts_dir(self._staged)
        has_artifacts = storage.exists(staged)
        if has_artifacts:
            storage.rename(staged, artifacts)
        try:
            storage.rename(self._staged, path)
        except BaseException:
            if has_artifacts:
                storage.remove_dir(artifacts)
            raise

    def _report(self, path: str, session_id: str, *, is_new: bool = True) -> BundleReport:
        names = self._bundle.manifest.members
        return BundleReport(
            self._bundle.path,
            path,
            session_id,
            blobs=sum(name.startswith(BLOBS) for name in names),
            artifacts=sum(name.startswith(ARTIFACTS) for name in names),
            is_new=is_new,
        )


class _StoreImport(_Import):
    """The import of a bundle into a store without files: as one into staged files, then from there.

    The store takes the session in one write, so there is all of it or nothing.
    """

    def __init__(
        self, bundle: BundleReader, store: SessionStore, staging: str, cwd: str | None, now_ms: int
    ) -> None:
        profile = replace(store.profile, agent_dir=staging)
        super().__init__(bundle, FileStore(None, profile), staging, cwd, now_ms)
        self._store = store

    def run(self) -> BundleReport:
        report = super().run()
        if not report.is_new:
            return report
        staged = report.session_path
        with read_view(FileStore(None, self._profile), staged) as view:
            header = {key: value for key, value in view.header.items() if key != "scope"}
            entries = map(whole_data, view.tree.entries)
            log = write_session(self._store, cast("Header", header), entries)
        log.close()
        report.session_path = log.ref
        artifacts = self._store.artifacts_dir(log.ref)
        if artifacts is not None:
            copy_folder(self._storage, paths.artifacts_dir(staged), artifacts)
        elif report.artifacts:
            report.notes.append(f"left out, for the store keeps none: {report.artifacts} artifacts")
            report.artifacts = 0
        return report

    def _find(self, session_id: str) -> Ref | None:
        return self._store.locate(session_id)

    def _is_same(self, ref: Ref) -> bool:
        with read_view(self._store, ref) as view:
            return self._is_of_bundle(view.header)


class _Digits:
    """A source of bytes for new ids that gives the digits of a hash instead of random ones."""

    def __init__(self, digest: bytes) -> None:
        self._digest = digest

    def __call__(self, length: int) -> bytes:
        return self._digest[:length]
