"""Move sessions to a profile's trash, restore them, or delete them for good.

``<agent dir>/trash/<item>/`` holds what belonged to one session (its file, draft, artifacts and
the copies that repairs left beside it) and ``manifest.json``. Removal writes the manifest first,
with the original path of each piece, and then renames the pieces one by one. So after a crash at
any moment ``restore`` can undo the removal.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sessiontree.clock import Clock, now_ms
from sessiontree.discovery import paths
from sessiontree.discovery.catalogue import survey
from sessiontree.errors import PersistenceError, SessionNotFoundError
from sessiontree.model import codec
from sessiontree.model.ids import format_timestamp
from sessiontree.profiles import Profile
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.stores.base import TrashedSession
from sessiontree.stores.files.claims import remove_empty_scope
from sessiontree.stores.files.folders import work_in
from sessiontree.stores.files.moved_file import unlink_for_good
from sessiontree.stores.files.reader import require_session
from sessiontree.stores.files.strays import continues, put_back_over

MANIFEST = "manifest.json"
_MAX_MANIFEST = 1 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class TrashItem(TrashedSession):
    """One removed session file. ``pieces`` are (where it was, its name in the trash)."""

    folder: str
    pieces: tuple[tuple[str, str], ...]


def move_to_trash(
    path: str | os.PathLike[str],
    *,
    profile: Profile,
    storage: SessionStorage | None = None,
    batch: str | None = None,
    clock: Clock = now_ms,
) -> TrashItem:
    """Move a session and what belongs to it to the profile's trash.

    Sessions removed together share a ``batch``, so that they can be put back together. Raises
    SessionNotFoundError if there is none, NotASessionError for a file of another program,
    PersistenceError if it can't be moved or does not have a session's file name. After an error
    every piece is where it was.
    """
    store = storage if storage is not None else FileSessionStorage()
    named = os.path.abspath(path)
    file = paths.session_of_draft(named) or named
    require_session_name(store, file)
    sources = list(belongings(store, file))
    if not sources:
        raise SessionNotFoundError(file)
    require_removable(store, file)
    stamp = format_timestamp(clock())
    item = _describe(store, file, profile, stamp, batch, sources)
    try:
        store.ensure_dir(profile.trash_dir)
        store.ensure_dir(item.folder)
        store.write_atomic(os.path.join(item.folder, MANIFEST), codec.encode(_to_wire(item)))
        _move_all(store, [(old, os.path.join(item.folder, name)) for old, name in item.pieces])
    except OSError as error:
        _remove_if_empty(store, item.folder)
        raise PersistenceError.from_os_error(file, error) from error
    return item


def restore(item: TrashItem, *, storage: SessionStorage | None = None) -> str:
    """Put a removed session back where it was; return the path of its file.

    A program that had the session open may have written the file again since: a file that begins
    with all of the removed one stays. One that finds the session by its name for each line (pi) has
    begun a file without a header there: its lines are appended to the session. Raises
    PersistenceError if another file is at the place, or if moving fails; then the item stays in the
    trash.
    """
    store = storage if storage is not None else FileSessionStorage()
    moves = []
    needless = []
    gone_on = None
    for old, name in item.pieces:
        kept = os.path.join(item.folder, name)
        if not store.exists(kept) and not _is_dir(store, kept):
            continue  # a crash stopped the removal before this piece
        if _is_contained(store, kept, old):
            needless.append(kept)
            continue
        if store.exists(old) or _is_dir(store, old):
            if not _has_gone_on(store, kept, old, item):
                raise PersistenceError(old, "something else is there now; move it away first")
            gone_on = kept
            continue
        moves.append((kept, old))
    try:

        def move_back() -> None:
            for folder in {os.path.dirname(old) for _, old in moves}:
                store.ensure_dir(folder)
            _move_all(store, moves)

        if moves:
            work_in(store, os.path.dirname(item.path), move_back)
        if gone_on is not None:
            put_back_over(store, gone_on, item.path)
        for kept in needless:
            store.unlink(kept)
        _remove_if_empty(store, item.folder)
    except OSError as error:
        raise PersistenceError.from_os_error(item.path, error) from error
    return item.path


def _has_gone_on(store: SessionStorage, kept: str, path: str, item: TrashItem) -> bool:
    """Whether the file at the place is what a program wrote there that continues the session."""
    with contextlib.suppress(OSError):
        return path == item.path and not os.path.islink(path) and continues(store, path, kept)
    return False


def delete_forever(item: TrashItem, *, storage: SessionStorage | None = None) -> None:
    """Remove an item of the trash for good. Raises PersistenceError."""
    store = storage if storage is not None else FileSessionStorage()
    try:
        for old, name in item.pieces:
            kept = os.path.join(item.folder, name)
            if old in (item.path, paths.draft_path(item.path)) and store.exists(kept):
                unlink_for_good(store, kept)  # a window that has it open must not write it again
        store.remove_dir(item.folder)
    except OSError as error:
        raise PersistenceError.from_os_error(item.folder, error) from error
    if isinstance(store, FileSessionStorage) and not store.exists(item.path):
        forget_copy(item.path)
    remove_empty_scope(store, os.path.dirname(item.path))


def holds_file(profile: Profile, path: str, found: FileStat, *, storage: SessionStorage) -> bool:
    """Whether this very file, which was at ``path``, is in the trash. OSError."""
    name = os.path.basename(path)
    for folder in storage.list_dirs(profile.trash_dir):
        for place in (f"0-{name}", f"1-{name}"):  # a draft may lie there behind its session
            with contextlib.suppress(FileNotFoundError):
                if storage.stat(os.path.join(folder, place)).is_same_file(found):
                    return True
    return False


def forget_copy(path: str) -> None:
    """Remove the copy that ``keep`` made of a session. Raises PersistenceError."""
    from sessiontree.discovery.kept.removal import forget_kept

    try:
        forget_kept([path])
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error


def list_trash(profile: Profile, *, storage: SessionStorage | None = None) -> list[TrashItem]:
    """List the profile's trash, the last removed first."""
    store = storage if storage is not None else FileSessionStorage()
    try:
        folders = store.list_dirs(profile.trash_dir)
    except OSError as error:
        raise PersistenceError.from_os_error(profile.trash_dir, error) from error
    found = [_read_item(store, folder) for folder in folders if not os.path.islink(folder)]
    items = [item for item in found if item is not None]
    return sorted(items, key=lambda item: (item.removed_at, item.id), reverse=True)


def find_in_trash(
    value: str, profile: Profile, *, storage: SessionStorage | None = None
) -> list[TrashItem]:
    """Find the items whose session id or trash id begins with ``value``, or whose path is it."""
    return [
        item
        for item in list_trash(profile, storage=storage)
        if item.session_id.startswith(value)
        or item.id.startswith(value)
        or item.path == os.path.abspath(value)
    ]


def is_older(item: TrashedSession, moment: datetime) -> bool:
    """Whether an item was removed before this moment; False for one without a time."""
    try:
        return datetime.fromisoformat(item.removed_at).astimezone(UTC) < moment
    except (ValueError, OverflowError):
        return False


# -- what belongs to a session ---------------------------------------------------------------------


def require_session_name(store: SessionStorage, file: str) -> None:
    """Raise PersistenceError for a file without the name of a session file."""
    if not file.endswith(paths.SESSION_SUFFIX) and store.exists(file):
        raise PersistenceError(file, f"only *{paths.SESSION_SUFFIX} files can be removed")


def require_removable(store: SessionStorage, file: str) -> None:
    """Raise NotASessionError for another program's file, before it and its folder are taken.

    A file named exactly as sessions are can be removed even if it is ruined.
    """
    if store.exists(file) and paths.parse_session_file_name(os.path.basename(file)) is None:
        with contextlib.suppress(OSError):  # an unreadable session can still be removed
            require_session(store, file)


def belongings(store: SessionStorage, file: str) -> Iterator[str]:
    """Yield the session's file first, then every file and folder beside it that belongs to it."""
    if store.exists(file):
        yield file
    draft = paths.draft_path(file)
    if store.exists(draft):
        yield draft
    folder, name = os.path.split(file)
    for found in store.list_files(folder):
        beside = os.path.basename(found.path)
        if beside == f"{name}.rejected" or beside.startswith(f"{name}.corrupt-"):
            yield found.path
    artifacts = paths.artifacts_dir(file)
    if _is_dir(store, artifacts):
        yield artifacts


def _describe(
    store: SessionStorage,
    file: str,
    profile: Profile,
    stamp: str,
    batch: str | None,
    sources: list[str],
) -> TrashItem:
    session_id, title, cwd = _identify(store, sources[0], file, profile)
    item_id = f"{stamp.replace(':', '-').replace('.', '-')}-{os.urandom(3).hex()}"
    return TrashItem(
        id=item_id,
        folder=os.path.join(profile.trash_dir, item_id),
        path=file,
        session_id=session_id,
        title=title,
        cwd=cwd,
        removed_at=stamp,
        batch=batch or item_id,
        # Numbered, so that no two pieces have the same name.
        pieces=tuple((old, f"{n}-{os.path.basename(old)}") for n, old in enumerate(sources)),
    )


def _identify(
    store: SessionStorage, source: str, file: str, profile: Profile
) -> tuple[str, str | None, str]:
    """Return id, title and project as a listing shows them, as far as a damaged file has them."""
    named = paths.parse_session_file_name(os.path.basename(file))
    session_id = named[1] if named else os.path.basename(file)
    try:
        found = survey([store.stat(source)], store, is_complete=False).found
    except OSError:
        found = []
    if not found:
        return session_id, None, ""
    summary = found[0][1]
    prompt = " ".join((summary.first_message or "").split())[:80]
    title = summary.title(profile.dialect) or prompt or None
    return summary.session_id or session_id, title, summary.cwd


def _move_all(store: SessionStorage, moves: list[tuple[str, str]]) -> None:
    """Move all of these; if one fails, move those before it back and raise OSError."""
    done: list[tuple[str, str]] = []
    try:
        for source, target in moves:
            store.rename(source, target)
            done.append((source, target))
    except OSError:
        for source, target in reversed(done):
            store.rename(target, source)
        raise


def _is_contained(store: SessionStorage, kept: str, file: str) -> bool:
    """Whether ``file`` begins with every byte of ``kept``."""
    if not (store.exists(kept) and store.exists(file)):
        return False
    with contextlib.ExitStack() as stack:
        try:
            ours = stack.enter_context(contextlib.closing(store.open_reader(kept)))
            theirs = stack.enter_context(contextlib.closing(store.open_reader(file)))
            kept_stat, found = ours.stat(), theirs.stat()
            size = kept_stat.size
            if found.size < size or found.is_same_file(kept_stat):
                return False  # the same file through a link, not a second copy
            return all(
                ours.read_at(at, min(_CHUNK, size - at))
                == theirs.read_at(at, min(_CHUNK, size - at))
                for at in range(0, size, _CHUNK)
            )
        except OSError:
            return False  # folders or unreadable files: their content is unknown


def _remove_if_empty(store: SessionStorage, folder: str) -> None:
    """Remove an item's folder if nothing but its manifest is left."""
    left = [found.path for found in store.list_files(folder)] + store.list_dirs(folder)
    if all(os.path.basename(path) == MANIFEST for path in left):
        store.remove_dir(folder)


def _is_dir(store: SessionStorage, path: str) -> bool:
    return path in store.list_dirs(os.path.dirname(path))


# -- the manifest ----------------------------------------------------------------------------------


def _to_wire(item: TrashItem) -> dict[str, Any]:
    return {
        "version": 1,
        "path": item.path,
        "sessionId": item.session_id,
        "title": item.title,
        "cwd": item.cwd,
        "removedAt": item.removed_at,
        "batch": item.batch,
        "pieces": [{"from": old, "name": name} for old, name in item.pieces],
    }


def _read_item(store: SessionStorage, folder: str) -> TrashItem | None:
    try:
        wire = codec.decode(store.read_prefix(os.path.join(folder, MANIFEST), _MAX_MANIFEST))
        pieces = tuple((piece["from"], piece["name"]) for piece in wire["pieces"])
        item = TrashItem(
            id=os.path.basename(folder),
            folder=folder,
            path=wire["path"],
            session_id=wire["sessionId"],
            title=wire["title"] if isinstance(wire["title"], str) else None,
            cwd=wire["cwd"],
            removed_at=wire["removedAt"],
            batch=wire["batch"],
            pieces=pieces,
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return item if _is_sane(item) else None


def _is_sane(item: TrashItem) -> bool:
    """Whether ``restore`` is safe with this manifest.

    It must take only files of the item's own folder, and move them only to the names that a
    session's file and its belongings can have.
    """
    texts = (item.path, item.session_id, item.cwd, item.removed_at, item.batch)
    return (
        all(isinstance(text, str) for text in texts)
        and os.path.isabs(item.path)
        and _can_be_a_path(item.path)
        and item.path.endswith(paths.SESSION_SUFFIX)
        and all(
            isinstance(old, str)
            and isinstance(name, str)
            and _can_belong(old, item.path)
            and os.path.basename(name) == name
            and _can_be_a_path(name)
            and name not in ("", ".", "..", MANIFEST)
            for old, name in item.pieces
        )
    )


def _can_be_a_path(text: str) -> bool:
    """Whether a file can have this name: no NUL, no unpaired surrogate."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _can_belong(path: str, file: str) -> bool:
    """Whether ``belongings`` could yield this path for the session."""
    own = (file, paths.draft_path(file), f"{file}.rejected", paths.artifacts_dir(file))
    is_copy = path.startswith(f"{file}.corrupt-") and os.path.dirname(path) == os.path.dirname(file)
    return path in own or is_copy
