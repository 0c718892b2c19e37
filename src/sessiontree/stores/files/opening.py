"""Open a session file: create, read, migrate it, or recover it after damage.

**What may be at a path**, and what opening does with it:

- nothing: a new session begins there, and is on disk at once. If another process is quicker, its
  session is read instead;
- a draft, under either of its names: it is read, and the session goes on as a draft;
- a session of version 3: it is read, and nothing is written;
- an older version (docs/format.md#versions): it is migrated in memory, then rewritten as a whole;
- lines that another program wrote to the place a session was moved from: they are brought to the
  session, and that is opened;
- a damaged session, whose header can't be read: the damaged file is kept whole under another name,
  and its entries go to a new file (docs/decisions/0004-recovery.md);
- another program's file: NotASessionError, and the file stays as it is.

**Who may do it.** Reading needs no lock. A recovery takes the file's lock first and reads again,
because another process may have recovered it meanwhile.

**What a crash leaves.** A recovery writes a copy of the damaged file under another name, and only
when that is complete does the new file take the old one's place, by one rename. At no moment is
there neither; a recovery that was cut off is done again by the next process that opens the file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from sessiontree.clock import Clock
from sessiontree.discovery import paths
from sessiontree.discovery.heads import read_head
from sessiontree.errors import (
    NotASessionError,
    PersistenceError,
    SessionNotFoundError,
    SessionTreeError,
)
from sessiontree.model import codec
from sessiontree.model.dialects import detect_dialect
from sessiontree.model.header import make_header
from sessiontree.model.ids import format_timestamp
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Dialect, Profile, get_profile, list_profiles
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.blobs import BlobStore
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import Durability
from sessiontree.stores.files.document import SessionDocument
from sessiontree.stores.files.left_behind import LeftBehind, gather
from sessiontree.stores.files.log import FileLog
from sessiontree.stores.files.reader import load_copy, load_document, salvage_document
from sessiontree.stores.files.strays import bring_home, find_home
from sessiontree.stores.files.writer import set_aside
from sessiontree.stores.identity import make_session_id, require_durability

if TYPE_CHECKING:
    from sessiontree.stores.files.store import FileStore


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

    That is the agent folder that it lies in, or that of the agent that wrote it to another folder.
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
        return True  # looking for a blob there reports the error


def open_log(
    store: FileStore, path: str, cwd: str | None = None, durability: Durability = "flush"
) -> FileLog:
    """The session at ``path``: continued, migrated, recovered, or begun there.

    ``cwd`` is its project if it does not say. Raises NotASessionError for a file of another kind,
    PersistenceError if it cannot be read.
    """
    require_durability(durability)
    storage = store.storage
    path = os.path.abspath(path)
    blobs = store.blobs_for(path)
    warnings: list[SessionWarning] = []
    fallback_cwd = cwd or os.getcwd()

    def read(file: str) -> SessionDocument | None:
        return _read(store, file, blobs, fallback_cwd, warnings)

    try:
        document, path, target = _read_either(storage, path, read)
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
    if document is None:
        path, target = target or path, None
        try:
            return begin_at(store, path, fallback_cwd, durability)
        except FileExistsError as error:
            document = read(path)
            if document is None:
                raise PersistenceError.from_os_error(path, error) from error
    log = _adopt(store, document, target, blobs, durability)
    log.warn(*warnings)
    if document.is_migrated:
        log.set_header({})
        try:
            log.rewrite(find_changes=True)
        except BaseException:
            # its file would stay open, and locked if not even unlocking worked
            with contextlib.suppress(SessionTreeError):
                log.close()
            raise
    return log


def _adopt(
    store: FileStore,
    document: SessionDocument,
    target: str | None,
    blobs: BlobStore,
    durability: Durability,
    *,
    is_read_only: bool = False,
) -> FileLog:
    """A log on a document that was read; ``target`` is the file that it is the draft of."""
    log = FileLog(
        store,
        document.header,
        target or document.path,
        store.dialect if store.has_given_profile else dialect_of(document, store.profile),
        durability,
        is_draft=target is not None,
        blobs=blobs,
        is_read_only=is_read_only,
    )
    log.adopt(document, is_draft=target is not None)
    return log


def read_log(store: FileStore, path: str) -> FileLog:
    """The session at ``path``, migrated in memory only; nothing can be written.

    Raises SessionNotFoundError, NotASessionError, PersistenceError.
    """
    path = os.path.abspath(path)
    try:
        blobs = store.blobs_for(path)
        document, path, target = _read_either(
            store.storage, path, lambda file: load_document(store.storage, file, blobs)
        )
        if document is None and not store.storage.exists(path):
            is_on_disk = isinstance(store.storage, FileSessionStorage)
            document = load_copy(path, blobs) if is_on_disk else None
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
    if document is None:
        raise SessionNotFoundError(path)
    return _adopt(store, document, target, blobs, "flush", is_read_only=True)


def begin_at(store: FileStore, path: str, cwd: str, durability: Durability) -> FileLog:
    """A new session, written at once to this very path. FileExistsError, PersistenceError."""
    named = paths.parse_session_file_name(path)
    header = make_header(
        named[1] if named is not None else make_session_id(store.dialect, store.clock),
        format_timestamp(store.clock()),
        cwd,
    )
    log = FileLog(store, header, path, store.dialect, durability, is_draft=False)
    log.start()
    return log


def _read_either(
    storage: SessionStorage, path: str, read: Callable[[str], SessionDocument | None]
) -> tuple[SessionDocument | None, str, str | None]:
    """Read a session file, or its draft; which one, and the session file that it is a draft of.

    With the first answer a draft becomes the session file, perhaps right after it was found.
    """
    file, target = _find_draft(path, storage)
    document = read(file)
    if document is None and target is not None and storage.exists(target):
        file, target = target, None
        document = read(file)
    return document, file, target


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


def _read(
    store: FileStore, path: str, blobs: BlobStore, cwd: str, warnings: list[SessionWarning]
) -> SessionDocument | None:
    """The session at ``path``, recovered if it is damaged; None if there is nothing.

    Lines that were written to the place that a session was moved from are brought to it.
    """
    storage = store.storage
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
            home = find_home(store, path)
            if home is not None:
                bring_home(store, path, home, writer)
                told_home = f"{path} held lines of a session that was moved: they are in {home}"
                warnings.append(SessionWarning(told_home))
                return load_document(storage, home, blobs)
            told = _recover(storage, path, store.profile, cwd, store.clock)
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
    reader = storage.open_reader(path)
    try:
        old = LeftBehind(reader, reader.stat().size)
        header, entries, told = salvage_document(storage, path, fallback)
        # The copy is complete before the new file takes its place: at no moment is there neither.
        aside = set_aside(storage, path, now)
        lines = [codec.encode(header), *(entry.line() for entry in entries)]
        storage.write_atomic(path, b"".join(line + b"\n" for line in lines), private=True)
        with contextlib.suppress(OSError, SessionTreeError):
            gather(storage, path, old, known=set(lines))
    finally:
        reader.close()
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
