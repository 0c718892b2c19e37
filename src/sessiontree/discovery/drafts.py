"""Find drafts: prompts that the user typed and no model answered (docs/reliability.md#promises).

A draft is a hidden file beside the session file that it would have become. Listings don't show
drafts; ``--continue`` and ``doctor`` find them here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sessiontree.discovery.heads import PREFIX_BYTES, Head, read_head
from sessiontree.discovery.paths import (
    DRAFT_SUFFIX,
    belongs_to,
    list_session_folders,
    session_folders,
    session_of_draft,
)
from sessiontree.model.entries import SETTINGS
from sessiontree.model.lines import Record, read_line
from sessiontree.profiles import Profile, get_profile
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage
from sessiontree.text.words import to_moment


@dataclass(frozen=True, slots=True)
class DraftInfo:
    """A session that exists only as a draft. Open ``path`` to continue it."""

    path: str
    session_file: str
    id: str
    cwd: str
    modified: datetime
    first_message: str | None


def find_drafts(
    cwd: str | os.PathLike[str] | None = None,
    session_dir: str | os.PathLike[str] | None = None,
    *,
    profile: str | Profile | None = None,
    storage: SessionStorage | None = None,
) -> list[DraftInfo]:
    """List the drafts of a project, or of all without ``cwd``, newest first."""
    chosen = get_profile(profile)
    store = storage if storage is not None else FileSessionStorage()
    if session_dir is not None:
        folders = [os.path.abspath(session_dir)]
    elif cwd is not None:
        folders = session_folders(chosen, cwd)
    else:
        folders = list_session_folders(chosen, store)
    belongs = belongs_to(cwd) if cwd is not None else None
    found = []
    for stat in list_draft_files(store, folders):
        head = _try_head(store, stat.path)
        if head is not None and (belongs is None or belongs(head.cwd)):
            found.append(_make_info(stat, head))
    return sorted(found, key=lambda draft: (draft.modified, draft.path), reverse=True)


def list_draft_files(storage: SessionStorage, folders: Iterable[str]) -> list[FileStat]:
    """List the draft files in some folders whose session file does not exist yet."""
    found = []
    for folder in folders:
        try:
            files = storage.list_files(folder, DRAFT_SUFFIX)
        except OSError:
            continue
        for stat in files:
            session_file = session_of_draft(stat.path)
            if session_file is not None and not storage.exists(session_file):
                found.append(stat)
    return found


def is_blank(storage: SessionStorage, stat: FileStat) -> bool:
    """Whether a draft holds settings only, as a killed program leaves it."""
    if stat.size > PREFIX_BYTES:
        return False
    try:
        lines = storage.read_prefix(stat.path, PREFIX_BYTES).split(b"\n")
    except OSError:
        return False
    records = [item for line in lines[1:] for item in read_line(line, 0, 0)]
    return all(isinstance(one, Record) and one.value.get("type") in SETTINGS for one in records)


def _make_info(stat: FileStat, head: Head) -> DraftInfo:
    return DraftInfo(
        stat.path,
        session_of_draft(stat.path) or stat.path,
        head.session_id,
        head.cwd,
        to_moment(stat.mtime_ns),
        head.first_prompt,
    )


def _try_head(storage: SessionStorage, path: str) -> Head | None:
    try:
        return read_head(storage, path)
    except OSError:
        return None
