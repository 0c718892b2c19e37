"""Shell completion of session ids: answered from file names, without opening a session."""

from __future__ import annotations

import os
import re
from typing import Any

import click

from sessiontree import clock

_PLAIN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


def complete_session(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[Any]:
    """The ids that begin so, this project's first, each with its age."""
    from click.shell_completion import CompletionItem

    if "/" in incomplete or incomplete.startswith("."):
        return [CompletionItem(incomplete, type="file")]
    try:
        return [CompletionItem(found, help=when) for found, when in _ids(ctx, incomplete)]
    except Exception:
        return []  # a shell that completes must never show a traceback


def _is_plain(session_id: str) -> bool:
    """Whether a shell takes this for a word: it is put into the command line as it is."""
    return _PLAIN_ID.fullmatch(session_id) is not None


def _ids(ctx: click.Context, incomplete: str) -> list[tuple[str, str]]:

    from sessiontree.cli.options import resolve_scope
    from sessiontree.discovery.paths import (
        list_session_folders,
        parse_session_file_name,
        session_folders,
    )
    from sessiontree.discovery.recent import newest_first
    from sessiontree.storage.file import FileSessionStorage
    from sessiontree.text.words import format_time_ago, to_moment

    storage = FileSessionStorage()
    with ctx.scope(cleanup=False):
        scope = resolve_scope(None, None, None)
    if scope.files is None:
        infos = scope.store.find(incomplete, cwd=scope.cwd) or scope.store.find(incomplete)
        now = clock.now()
        return [
            (info.id, format_time_ago(info.modified, now)) for info in infos if _is_plain(info.id)
        ]
    if scope.session_dir is not None:
        groups = [[scope.session_dir]]
    else:
        own = session_folders(scope.profile, scope.cwd)
        rest = [f for f in list_session_folders(scope.profile, storage) if f not in own]
        groups = [own, rest]
    now = clock.now()
    for folders in groups:
        found = []
        for stat in newest_first(storage, *folders):
            named = parse_session_file_name(os.path.basename(stat.path))
            if named is not None and _is_plain(named[1]) and named[1].startswith(incomplete):
                modified = to_moment(stat.mtime_ns)
                found.append((named[1], format_time_ago(modified, now)))
        if found:
            return found
    return []
