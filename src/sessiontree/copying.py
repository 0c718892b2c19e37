"""New sessions made of old ones: forks and branched sessions; and moving a session elsewhere.

Entries that need no change are copied byte for byte. A new file is written whole before anything
refers to it; a move that fails half-way is taken back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, cast

from sessiontree.core.tree import SessionTree
from sessiontree.discovery import paths
from sessiontree.document import SessionDocument, load_document
from sessiontree.errors import PersistenceError, SessionNotFoundError
from sessiontree.filing import SessionFiler
from sessiontree.live import LiveSession, Place
from sessiontree.log import SessionLog, is_answer
from sessiontree.model import codec
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.header import CURRENT_VERSION, Header, get_version
from sessiontree.model.ids import format_timestamp, new_entry_id
from sessiontree.opening import make_blob_store, make_session_id
from sessiontree.profiles import Dialect
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.blobs import BlobStore

# What is true of one file only.
_OWN_FIELDS = ("previousSessionFiles",)


def derive_header(
    source: Header, title: str | None, place: Place, dialect: Dialect, parent: str
) -> Header:
    """The header of a session made from another: its own identity, the other's fields."""
    wire: dict[str, Any] = {
        "type": "session",
        "version": max(get_version(source), CURRENT_VERSION),
        "id": make_session_id(dialect, place.clock),
        "timestamp": format_timestamp(place.clock()),
        "cwd": place.cwd,
    }
    for key, value in source.items():
        if key not in wire and key not in _OWN_FIELDS:
            wire[key] = value
    wire.pop("title", None)
    if title:
        wire["title"] = title
    wire["parentSession"] = parent
    return cast("Header", wire)


def target_file(place: Place, header: Header) -> str:
    """Where a session with this header is to be written."""
    name = paths.session_file_name(header.get("timestamp", ""), header.get("id", ""))
    return os.path.join(place.session_dir, name)


def fork_file(source_path: str, place: Place) -> str:
    """Copy a session file into another project; the new file. The source is only read."""
    source_path = os.path.abspath(source_path)
    source_blobs = make_blob_store(place.profile, source_path, place.storage)
    try:
        source = load_document(place.storage, source_path, source_blobs)
        if source is None:
            raise SessionNotFoundError(source_path)
        try:
            return _write_fork(source, source_path, source_blobs, place)
        finally:
            source.payloads.reader.close()
    except OSError as error:
        raise PersistenceError.from_os_error(source_path, error) from error


def _write_fork(
    source: SessionDocument, source_path: str, source_blobs: BlobStore, place: Place
) -> str:
    dialect = place.profile.dialect
    parent = source_path if dialect == "pi" else source.header.get("id", source_path)
    header = derive_header(source.header, source.title, place, dialect, parent)
    path = target_file(place, header)
    filer = SessionFiler(
        place.storage, make_blob_store(place.profile, path, place.storage), dialect
    )
    place.storage.ensure_dir(place.session_dir)
    filer.write_file(
        path, codec.encode(header) + b"\n", source.tree.entries, source_blobs=source_blobs
    )
    _copy_folder(place.storage, paths.artifacts_dir(source_path), paths.artifacts_dir(path))
    return path


def _copy_folder(storage: SessionStorage, source: str, target: str) -> None:
    for file in storage.list_files(source):
        storage.ensure_dir(target)
        name = os.path.basename(file.path)
        storage.write_atomic(os.path.join(target, name), storage.read(file.path))
    for folder in storage.list_dirs(source):
        _copy_folder(storage, folder, os.path.join(target, os.path.basename(folder)))


def fork_live(session: LiveSession) -> tuple[str, str] | None:
    """Copy an open session's file, all of it; old and new path. None if there is no file."""
    log = session.log
    if not isinstance(log, SessionLog) or log.document is None:
        return None
    session.refresh()
    log.flush()
    place = session.place
    parent = log.path if log.dialect == "pi" else session.header.get("id", log.path)
    title = session.name if log.dialect != "pi" else None
    header = derive_header(session.header, title, place, log.dialect, parent)
    path = target_file(place, header)
    target = paths.draft_path(path) if log.is_draft else path
    try:
        log.filer.write_file(target, codec.encode(header) + b"\n", session.tree.entries)
        _copy_folder(place.storage, paths.artifacts_dir(log.path), paths.artifacts_dir(path))
    except OSError as error:
        raise PersistenceError.from_os_error(target, error) from error
    return log.path, target


def branch_live(session: LiveSession, leaf_id: str) -> tuple[Header, list[Entry], bool]:
    """Header and entries of a session that holds just the path to ``leaf_id``.

    Labels are left out of the chain, their children hung on what is before them, and those that
    still hold are made anew at the end. The flag says whether the path has an answer.
    """
    log = session.log
    place = session.place
    tree = session.tree
    entries = [*_without_labels(tree.path(leaf_id)), *_labels_anew(tree, leaf_id)]
    parent = session.file or session.header.get("id", "")
    title = session.name if log.dialect != "pi" else None
    header = derive_header(session.header, title, place, log.dialect, parent)
    has_answer = any(entry.type == "message" and is_answer(entry.decode()) for entry in entries)
    return header, entries, has_answer


def _without_labels(path: list[Entry]) -> Iterator[Entry]:
    parent_id: str | None = None
    for entry in path:
        if entry.type == "label":
            continue
        if entry.parent_id != parent_id:
            data = entry.decode()
            data["parentId"] = parent_id
            entry = Entry.from_wire(data)
        yield entry
        parent_id = entry.id


def _labels_anew(tree: SessionTree, leaf_id: str) -> Iterator[Entry]:
    kept = [entry.id for entry in tree.path(leaf_id) if entry.type != "label"]
    on_path = set(kept)
    taken = set(tree.by_id)
    parent_id = kept[-1] if kept else None
    for target_id, (label, timestamp) in tree.labels().items():
        if target_id not in on_path:
            continue
        entry_id = new_entry_id(taken, os.urandom)
        taken.add(entry_id)
        data: WireEntry = {
            "type": "label",
            "id": entry_id,
            "parentId": parent_id,
            "timestamp": timestamp,
            "targetId": target_id,
            "label": label,
        }
        yield Entry.from_wire(data)
        parent_id = entry_id


def write_branch(
    session: LiveSession, header: Header, entries: list[Entry], *, is_draft: bool
) -> str:
    """Write what ``branch_live`` made: a session file, or a draft while it has no answer."""
    place = session.place
    log = session.log
    path = target_file(place, header)
    file = paths.draft_path(path) if is_draft else path
    try:
        place.storage.ensure_dir(place.session_dir)
        filer = SessionFiler(
            place.storage, make_blob_store(place.profile, path, place.storage), log.dialect
        )
        filer.write_file(file, codec.encode(header) + b"\n", entries)
    except OSError as error:
        raise PersistenceError.from_os_error(file, error) from error
    return file


def rewrite_tool_call(session: LiveSession, tool_call_id: str, arguments: dict[str, Any]) -> bool:
    """Replace the arguments of a recorded tool call; whether there was one."""
    needle = codec.encode(tool_call_id)
    for entry in reversed(session.tree.entries):
        if entry.type != "message":
            continue
        raw = entry.raw()
        if raw is not None and needle not in raw and entry.cached is None:
            continue
        message = entry.data.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if (
                isinstance(block, dict)
                and block.get("type") == "toolCall"
                and block.get("id") == tool_call_id
            ):
                before = block.get("arguments")
                block["arguments"] = arguments
                try:
                    session.rewrite(find_changes=True)
                except BaseException:
                    block["arguments"] = before
                    raise
                return True
    return False


def move_live(session: LiveSession, place: Place) -> None:
    """Move an open session to another project: file, artifacts, header; all of it or nothing.

    The new file is complete before the old one goes, and the old one goes last.
    """
    log = session.log
    before = session.header.get("cwd")
    session.change_header(cwd=place.cwd)
    if not isinstance(log, SessionLog) or log.document is None:
        if isinstance(log, SessionLog):
            log.path = os.path.join(place.session_dir, os.path.basename(log.path))
        session.place = place
        return
    path = os.path.join(place.session_dir, os.path.basename(log.path))
    try:
        if path == log.path:
            session.rewrite()
            session.place = place
        else:
            _move_file(session, log, place, path)
    except BaseException as error:
        session.change_header(cwd=before)
        if isinstance(error, OSError):
            raise PersistenceError.from_os_error(path, error) from error
        raise


def _move_file(session: LiveSession, log: SessionLog, place: Place, path: str) -> None:
    storage = place.storage
    old_file, old_artifacts = log.file, paths.artifacts_dir(log.path)
    artifacts = paths.artifacts_dir(path)
    storage.ensure_dir(place.session_dir)
    if storage.exists(path):
        raise PersistenceError(path, "is there already; the session was not moved")

    def commit() -> None:
        has_artifacts = storage.exists(old_artifacts)
        if has_artifacts:
            storage.rename(old_artifacts, artifacts)
        try:
            storage.unlink(old_file)
        except OSError:
            if has_artifacts:
                storage.rename(artifacts, old_artifacts)
            raise

    session.move(place, path, commit)
