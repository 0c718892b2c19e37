"""Shell completion of session ids, each with its title and age.

The ids come from file names; only the beginnings of the newest files are read, for their titles.
"""

from __future__ import annotations

import os
import re
from typing import Any

import click

from sessiontree import clock
from sessiontree.text.escaping import one_line
from sessiontree.text.words import make_name

_MOST_TITLES = 50
"""Files to read the beginnings of: more are not looked through one by one."""
_PLAIN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


def complete_session(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[Any]:
    """The ids that begin so, this project's first, each with its title and age."""
    from click.shell_completion import CompletionItem

    if "/" in incomplete or incomplete.startswith("."):
        return [CompletionItem(incomplete, type="file")]
    try:
        return [CompletionItem(found, help=when) for found, when in _ids(ctx, incomplete)]
    except Exception:
        return []  # a shell that completes must never show a traceback


def teach_fish_commas() -> None:
    """Have the script for fish keep a description whole that has a comma in it."""
    from click.shell_completion import FishComplete, add_completion_class

    class WholeDescriptions(FishComplete):
        source_template = FishComplete.source_template.replace(
            'string split ","', 'string split --max 1 ","'
        )

    add_completion_class(WholeDescriptions)


def _is_plain(session_id: str) -> bool:
    """Whether a shell takes this for one word: it is put into the command line unquoted."""
    return _PLAIN_ID.fullmatch(session_id) is not None


def _describe(age: str, *titles: str | None) -> str:
    """A session's title and age, in one safe line."""
    name = one_line(make_name(*titles))
    return f"{name} · {age}" if name else age


def _ids(ctx: click.Context, incomplete: str) -> list[tuple[str, str]]:
    from sessiontree.cli.options import resolve_scope
    from sessiontree.discovery.heads import read_head
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
            (
                info.id,
                _describe(format_time_ago(info.modified, now), info.title, info.first_message),
            )
            for info in infos
            if _is_plain(info.id)
        ]
    if scope.session_dir is not None:
        groups = [[scope.session_dir]]
    else:
        own = session_folders(scope.profile, scope.cwd)
        rest = [f for f in list_session_folders(scope.profile, storage) if f not in own]
        groups = [own, rest]
    now = clock.now()
    for folders in groups:
        found: list[tuple[str, str]] = []
        for stat in newest_first(storage, *folders):
            named = parse_session_file_name(os.path.basename(stat.path))
            if named is not None and _is_plain(named[1]) and named[1].startswith(incomplete):
                age = format_time_ago(to_moment(stat.mtime_ns), now)
                head = read_head(storage, stat.path) if len(found) < _MOST_TITLES else None
                titles = (head.title, head.first_prompt) if head is not None else ()
                found.append((named[1], _describe(age, *titles)))
        if found:
            return found
    return []
