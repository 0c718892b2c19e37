"""List the sessions of several agents together, without importing them."""

from __future__ import annotations

import os

from sessiontree.core.gc import with_paused_gc
from sessiontree.discovery.adapters import Agents
from sessiontree.discovery.catalogue import OnProgress, Unreadable
from sessiontree.discovery.copies import choose_leader, gather_families
from sessiontree.discovery.families import Kin, kin_of
from sessiontree.discovery.listing import SessionInfo, SessionList, in_order
from sessiontree.discovery.selection import select_sessions
from sessiontree.discovery.sources import survey_sources
from sessiontree.errors import AmbiguousSessionError, SessionNotFoundError
from sessiontree.storage.base import FileStat
from sessiontree.storage.file import FileSessionStorage


@with_paused_gc  # thousands of objects are made, none of them garbage
def list_agent_sessions(
    agents: Agents = "all",
    cwd: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
) -> SessionList:
    """List the sessions of some agents or of all, newest first: of a project, or of every one.

    Copies of a session name it in ``copy_of``. Those without a message are only counted. Raises
    UnknownAgentError.
    """
    selected = select_sessions(cwd, None, FileSessionStorage(), agents=agents)
    made = SessionList()
    made.unreadable += [Unreadable(*each) for each in selected.unreadable]
    chosen = {stat.path for stat in selected.files}
    found: list[tuple[FileStat, SessionInfo]] = []
    kin: dict[str, Kin] = {}
    for source, surveyed in survey_sources(selected.sources, on_progress):
        made.unreadable += surveyed.unreadable
        for stat, summary in surveyed.found:
            if stat.path not in chosen:
                continue
            if summary.is_headless and not summary.message_count:
                made.unreadable.append(Unreadable(stat.path, "no session header"))
            else:
                info = source.make_info(stat, summary)
                found.append((stat, info))
                kin[info.path] = kin_of(summary, info.id, is_own=source.adapter.is_own)
    for info in in_order(found):
        (made if info.message_count else made.empty).append(info)
    for family in gather_families(made, [kin[info.path] for info in made]):
        if len(family) > 1:
            choose_leader(family)
    made.empty_count = len(made.empty)
    made.total = len(made)
    return made


def find_agent_session(value: str, agents: Agents = "all") -> SessionInfo:
    """Find the session of any agent with this path, id, beginning of an id, or name.

    Of several, those that are kept and gone come first. Raises SessionNotFoundError,
    AmbiguousSessionError.
    """
    found = list_agent_sessions(agents)
    everything = [*found, *found.empty]
    path = os.path.abspath(os.path.expanduser(value))
    ways: tuple[list[SessionInfo], ...] = (
        [info for info in everything if info.path == path or info.id == value],
        [info for info in everything if value and info.id.startswith(value)],
        [info for info in everything if value and info.title == value],
    )
    for same in ways:
        gone = [info for info in same if info.is_kept]
        if len(gone or same) > 1:
            raise AmbiguousSessionError(value, gone or same)
        if same:
            return (gone or same)[0]
    raise SessionNotFoundError(value)
