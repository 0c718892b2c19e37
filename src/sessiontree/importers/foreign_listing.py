"""Find and summarize foreign sessions without converting them.

The sessions come from the catalogue, which reads only what has changed; see
``discovery.adapters``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sessiontree.discovery.adapters import get_adapter
from sessiontree.discovery.adapters.base import AgentAdapter
from sessiontree.discovery.adapters.places import SUFFIX
from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.discovery.kept import open_session
from sessiontree.discovery.last_used import last_use_ms
from sessiontree.discovery.sources import find_sources, survey_sources
from sessiontree.errors import (
    AmbiguousSessionError,
    PersistenceError,
    SessionNotFoundError,
)
from sessiontree.importers.foreign import Agent, find_agent, foreign_agents
from sessiontree.model.ids import parse_timestamp
from sessiontree.storage.base import FileStat
from sessiontree.storage.file import FileSessionStorage
from sessiontree.text.words import to_moment


@dataclass(slots=True)
class ForeignSession:
    """One session of another agent, as a listing shows it.

    ``message_count`` counts the main conversation: prompts, tool results, and each answer once.
    """

    agent: Agent
    path: str
    id: str
    cwd: str | None
    title: str | None
    first_message: str | None
    message_count: int
    created: datetime | None
    modified: datetime
    size: int

    @property
    def name(self) -> str:
        """The name to show in a list."""
        return self.title or self.first_message or self.id


def find_foreign_sessions(
    agent: Agent | None = None,
    home: str | os.PathLike[str] | None = None,
    *,
    on_progress: Callable[[int, int], object] | None = None,
) -> list[ForeignSession]:
    """List this user's sessions of other agents, newest first.

    ``home`` is another home folder; without it the agents' environment variables count. Sessions
    without a message are left out, and so are files that cannot be read.
    """
    found = []
    sources = find_sources(foreign_agents() if agent is None else agent, home)
    for source, surveyed in survey_sources(sources, on_progress):
        for stat, summary in surveyed.found:
            if summary.message_count and stat.path not in source.places.parts:
                title = source.places.titles.get(summary.session_id or "")
                found.append(_make(stat, source.adapter.name, summary, title))
    found.sort(key=lambda session: (session.modified, session.path), reverse=True)
    return found


def find_foreign_files(
    agent: Agent | None = None, home: str | os.PathLike[str] | None = None
) -> list[tuple[Agent, FileStat]]:
    """List the files that may hold another agent's session, oldest first, unread."""
    found = [
        (source.adapter.name, stat)
        for source in find_sources(foreign_agents() if agent is None else agent, home)
        for stat in source.places.files()
        if stat.path not in source.places.parts
    ]
    return sorted(found, key=lambda item: (item[1].mtime_ns, item[1].path))


def resolve_foreign(
    value: str, agent: Agent | None = None, home: str | os.PathLike[str] | None = None
) -> ForeignSession:
    """Find the session with this path, id or id prefix.

    Raises SessionNotFoundError, AmbiguousSessionError with the candidates, or NotASessionError for
    a file of another kind.
    """
    if "/" in value or "\\" in value or value.endswith(SUFFIX):
        path = os.path.abspath(os.path.expanduser(value))
        try:
            session = describe_foreign(path, agent or find_agent(path))
        except PersistenceError:
            session = None
        if session is None:
            raise SessionNotFoundError(value)
        return session
    found = [each for each in find_foreign_sessions(agent, home) if each.id.startswith(value)]
    exact = [each for each in found if each.id == value]
    if len(exact or found) > 1:
        raise AmbiguousSessionError(value, exact or found)
    if not found or not value:
        raise SessionNotFoundError(value)
    return (exact or found)[0]


def describe_foreign(
    path: str, agent: Agent, thread_names: dict[str, str] | None = None
) -> ForeignSession | None:
    """Summarize one file for a listing; None if it can't be read."""
    adapter: AgentAdapter = get_adapter(agent)
    try:
        with contextlib.closing(open_session(adapter, path, FileSessionStorage())) as reader:
            stat = reader.stat()
            summary = adapter.read(reader, path, stat.size, None).summary
    except OSError:
        return None
    return _make(stat, agent, summary, (thread_names or {}).get(summary.session_id or ""))


def _make(stat: FileStat, agent: Agent, summary: Summary, title: str | None) -> ForeignSession:
    began_ms = parse_timestamp(summary.timestamp)
    used_ms = last_use_ms(summary.last_message_ms, summary.timestamp, stat)
    return ForeignSession(
        agent,
        stat.path,
        summary.session_id or os.path.basename(stat.path),
        summary.cwd or None,
        summary.header_title or title,
        summary.first_message,
        summary.message_count,
        to_moment(began_ms * 1_000_000) if began_ms is not None else None,
        to_moment(used_ms * 1_000_000),
        stat.size,
    )
