"""How a session comes to be open: created, read, migrated, or recovered from a damaged file.

Owns ``set_session_file`` and the writing half of migrations (docs/format.md#versions).
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from typing import get_args

from sessiontree.clock import Clock, now_ms
from sessiontree.discovery import paths
from sessiontree.discovery.heads import read_head
from sessiontree.errors import NotASessionError, PersistenceError
from sessiontree.model import codec
from sessiontree.model.dialects import detect_dialect
from sessiontree.model.header import get_cwd, make_header
from sessiontree.model.ids import format_timestamp, new_session_id, new_uuid7
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Dialect, Profile, get_profile, list_profiles
from sessiontree.session.live import LiveSession
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.blobs import BlobStore
from sessiontree.stores.files.document import SessionDocument
from sessiontree.stores.files.log import Durability, SessionLog
from sessiontree.stores.files.reader import load_document, salvage_document
from sessiontree.stores.files.unsaved import UnsavedLog
from sessiontree.stores.files.writer import set_aside
from sessiontree.stores.place import Place


def make_session_id(dialect: Dialect, clock: Clock = now_ms) -> str:
    """A new session id as the dialect spells it; later ones sort behind, also within a moment."""
    global _last_id_ms
    with _id_lock:
        _last_id_ms = max(clock(), _last_id_ms + 1)
        make = new_uuid7 if dialect == "pi" else new_session_id
        return make(_last_id_ms, os.urandom)


_id_lock = threading.Lock()
_last_id_ms = 0


def profile_for(
    path: str, profile: str | Profile | None, default: str | Profile | None = None
) -> Profile:
    """The profile asked for; else the one whose folder the file lies in; else the default."""
    if profile is not None:
        return get_profile(profile)
    for candidate in list_profiles():
        if _lies_in(candidate, path):
            return candidate
    return get_profile(default)


def _lies_in(profile: Profile, path: str) -> bool:
    """Whether a file lies in a profile's own folder."""
    return os.path.realpath(path).startswith(os.path.realpath(profile.agent_dir) + os.sep)


def dialect_of(document: SessionDocument, profile: Profile) -> Dialect:
    """A file's dialect: that of its profile's folder if it lies there, else the one it shows."""
    if _lies_in(profile, document.path):
        return profile.dialect
    return detect_dialect(document.title is not None, document.tree.entries) or profile.dialect


def make_blob_store(profile: Profile, session_file: str, storage: SessionStorage) -> BlobStore:
    """The profile's blobs; of a file that lies elsewhere also those it may refer to, to read.

    That is the agent folder that it lies in, or that of whoever wrote it to a folder of its own.
    """
    folders: list[str] = []
    if not _lies_in(profile, session_file):
        agent_dir = os.path.dirname(os.path.dirname(os.path.dirname(session_file)))
        folders.append(os.path.join(agent_dir, "blobs"))
        folders += [each.blobs_dir for each in list_profiles()]
    fallbacks = tuple(
        folder
        for folder in dict.fromkeys(folders)
        if folder != profile.blobs_dir and _may_exist(storage, folder)
    )
    user = os.path.realpath(os.path.dirname(session_file))
    return BlobStore(profile.blobs_dir, storage, fallbacks, user)


def _may_exist(storage: SessionStorage, folder: str) -> bool:
    try:
        return storage.exists(folder)
    except OSError:
        return True  # whoever looks for a blob there will see


def require_durability(durability: str) -> None:
    """ValueError for a word that names none: what is misspelt would never be synced."""
    if durability not in get_args(Durability):
        known = " or ".join(map(repr, get_args(Durability)))
        raise ValueError(f"durability is {known}, not {durability!r}")


def start_session(
    place: Place,
    durability: Durability,
    *,
    parent_session: str | None = None,
    session_id: str | None = None,
    path: str | None = None,
) -> LiveSession:
    """A new session. Its file appears with the first answer, or at once at an explicit ``path``.

    FileExistsError if somebody was faster there.
    """
    require_durability(durability)
    timestamp = format_timestamp(place.clock())
    named = paths.parse_session_file_name(path) if path is not None else None
    made_id = (
        session_id
        or (named[1] if named is not None else None)
        or make_session_id(place.profile.dialect, place.clock)
    )
    header = make_header(made_id, timestamp, place.cwd, parent_session=parent_session)
    file = path or os.path.join(place.session_dir, paths.session_file_name(timestamp, made_id))
    log = make_log(place, file, place.profile.dialect, durability)
    log.begin(file, is_draft=path is None)
    if path is not None:
        try:
            place.storage.ensure_dir(os.path.dirname(file))
        except OSError as error:
            raise PersistenceError.from_os_error(file, error) from error
        if not log.create(codec.encode(header) + b"\n", file):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
    return LiveSession(place, header, log)


def start_unsaved(place: Place) -> LiveSession:
    """A new session that is kept nowhere."""
    header = make_header(
        make_session_id(place.profile.dialect, place.clock),
        format_timestamp(place.clock()),
        place.cwd,
    )
    return LiveSession(place, header, UnsavedLog(place.profile.dialect))


def open_session(
    path: str,
    *,
    profile: str | Profile | None,
    storage: SessionStorage,
    durability: Durability,
    session_dir: str | None = None,
    cwd: str | None = None,
    clock: Clock = now_ms,
    default_profile: Profile | None = None,
) -> LiveSession:
    """The session at ``path``: continued, migrated, recovered, or begun there.

    Raises NotASessionError for a file of another kind, PersistenceError if it cannot be read.
    """
    require_durability(durability)
    path = os.path.abspath(path)
    try:
        path, target = _find_draft(path, storage)
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
    found = profile_for(path, profile, default_profile)
    blobs = make_blob_store(found, path, storage)
    warnings: list[SessionWarning] = []
    fallback_cwd = cwd or os.getcwd()
    folder = session_dir or os.path.dirname(path)

    def read() -> SessionDocument | None:
        return _read(storage, path, blobs, found, fallback_cwd, warnings, clock)

    document = read()
    if document is None:
        place = Place(found, storage, fallback_cwd, folder, session_dir is not None, clock)
        try:
            return start_session(place, durability, path=target or path)
        except FileExistsError as error:
            document = read()
            if document is None:
                raise PersistenceError.from_os_error(path, error) from error
    place = Place(
        found,
        storage,
        get_cwd(document.header) or fallback_cwd,
        folder,
        session_dir is not None,
        clock,
    )
    dialect = found.dialect if profile is not None else dialect_of(document, found)
    log = make_log(place, path, dialect, durability)
    if target is not None:
        log.begin(target)
    log.adopt(document, is_draft=target is not None)
    session = LiveSession(place, document.header, log, warnings)
    if document.is_migrated:
        session.change_header()
        session.rewrite(find_changes=True)
    return session


def _find_draft(path: str, storage: SessionStorage) -> tuple[str, str | None]:
    """The file to read, and the session file it is the draft of, if it is one.

    A session that was never answered is still only a draft, whichever of its names is asked for.
    """
    target = paths.session_of_draft(path)
    if target is not None:
        return (target, None) if storage.exists(target) else (path, target)
    draft = paths.draft_path(path)
    if not storage.exists(path) and storage.exists(draft):
        return draft, path
    return path, None


def make_log(place: Place, file: str, dialect: Dialect, durability: Durability) -> SessionLog:
    """A log for a session file of this profile; it stands on nothing yet."""
    blobs = make_blob_store(place.profile, file, place.storage)

    def other_places(path: str) -> Iterator[str]:
        return paths.other_places(place.profile, path, place.storage)

    return SessionLog(place.storage, blobs, dialect, durability, paths.draft_path, other_places)


def _read(
    storage: SessionStorage,
    path: str,
    blobs: BlobStore,
    profile: Profile,
    cwd: str,
    warnings: list[SessionWarning],
    clock: Clock,
) -> SessionDocument | None:
    """The session at ``path``, recovered if it is damaged; None if there is nothing."""
    try:
        try:
            return load_document(storage, path, blobs)
        except NotASessionError as error:
            if not error.is_damaged:
                raise
        with contextlib.closing(storage.open_writer(path, create=False)) as writer:
            writer.lock()
            try:
                return load_document(storage, path, blobs)  # somebody else has recovered it
            except NotASessionError as error:
                if not error.is_damaged:
                    raise
            told = _recover(storage, path, profile, cwd, clock)
            document = load_document(storage, path, blobs)
            known = document.warnings if document is not None else []
            warnings += [warning for warning in told if warning not in known]
            return document
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error


def _recover(
    storage: SessionStorage, path: str, profile: Profile, cwd: str, clock: Clock
) -> list[SessionWarning]:
    """Keep the damaged file whole under another name, and its entries in a new session."""
    now = clock()
    named = paths.parse_session_file_name(paths.session_of_draft(path) or path)
    fallback = make_header(
        named[1] if named else make_session_id(profile.dialect, clock),
        named[0] if named else format_timestamp(now),
        _project_of(path, profile, cwd, storage),
    )
    header, entries, told = salvage_document(storage, path, fallback)
    # The copy is complete before the new file takes its place: at no moment is there neither.
    aside = set_aside(storage, path, now)
    lines = [codec.encode(header), *(entry.line() for entry in entries)]
    storage.write_atomic(path, b"".join(line + b"\n" for line in lines), private=True)
    # First: of many warnings commands print only some.
    count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    summary = f"{path} had no valid header; {count} recovered, the damaged file is kept as {aside}"
    return [SessionWarning(summary), *told]


def _project_of(path: str, profile: Profile, cwd: str, storage: SessionStorage) -> str:
    """The project of a file that does not say: that of its folder, by ``cwd`` or a neighbour.

    Empty if nothing tells: a session without a project goes by its folder.
    """
    folder = os.path.dirname(path)
    if not paths.same_cwd(os.path.dirname(folder), profile.sessions_dir):
        return cwd

    def belongs(project: str) -> bool:
        names = map(os.path.basename, paths.session_folders(profile, project))
        return os.path.basename(folder) in names

    if belongs(cwd):
        return cwd
    with contextlib.suppress(OSError):
        for file in storage.list_files(folder, paths.SESSION_SUFFIX):
            head = read_head(storage, file.path)
            if head is not None and head.cwd and belongs(head.cwd):
                return head.cwd
    return ""
