"""Search for stores without an index of words: sessions are read and matched one by one.

A query means what it means to ``sessiontree.search``, and a hit looks the same. A store that has an
index asks it for the sessions that may match, and passes only those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain

from sessiontree import clock
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.search import names
from sessiontree.discovery.search.hits import SearchHit, SearchResults
from sessiontree.discovery.search.query import parse_query
from sessiontree.discovery.search.scan import (
    Matcher,
    SessionMatch,
    judge_texts,
    make_hit,
    roles_for,
)
from sessiontree.discovery.search.times import Since, to_ms
from sessiontree.discovery.texts import (
    SPOKEN_ROLES,
    TOOL_ROLES,
    SaidText,
    texts_of_line,
)
from sessiontree.model.entries import Entry

_HALF_LIFE_DAYS = 30.0


def search_sessions(
    query: str,
    sessions: Sequence[SessionInfo],
    read: Callable[[SessionInfo], Iterable[Entry]],
    *,
    agent: str,
    role: str | None = None,
    since: Since | None = None,
    include_tools: bool = False,
    limit: int | None = 20,
    on_progress: Callable[[int, int], object] | None = None,
) -> SearchResults:
    """Find those of these sessions that contain the words of a query, best first.

    ``read`` gives a session's entries; ``agent`` is the name of the profile that hits tell. Raises
    ValueError for an unknown role, and for a ``since`` that is not a time.
    """
    if role is not None and role not in SPOKEN_ROLES | TOOL_ROLES | {"tool"}:
        raise ValueError(f"no such role: {role!r}")
    parsed, since_ms = parse_query(query), to_ms(since)
    results = SearchResults()
    if not parsed.wanted:
        return results
    matcher, roles = Matcher(parsed), roles_for(role, include_tools)
    now = clock.now()
    found: list[SearchHit] = []
    for number, info in enumerate(sessions, 1):
        is_new = since_ms is None or info.modified.timestamp() * 1000 >= since_ms
        name = names.texts_of(info.title) if role is None and is_new else []
        match = judge_texts(matcher, chain(name, _texts(read(info), roles, since_ms)))
        if match is not None:
            found.append(make_hit(info, match, _score(match, info, now), agent))
        if on_progress is not None:
            on_progress(number, len(sessions))
    found.sort(key=lambda hit: (hit.score, hit.session.modified, hit.path), reverse=True)
    results.total = len(found)
    results += found[:limit]
    return results


def _texts(
    entries: Iterable[Entry], roles: frozenset[str], since_ms: int | None
) -> Iterator[SaidText]:
    for entry in entries:
        if entry.type == "message":
            yield from said_in_line(entry.line(), roles, since_ms)


def said_in_line(line: bytes, roles: frozenset[str], since_ms: int | None) -> Iterator[SaidText]:
    """The texts of a line in one of these roles, from some time on."""
    wants_tools = not roles.isdisjoint(TOOL_ROLES)
    for said in texts_of_line(line, 0, include_tools=wants_tools):
        is_new = since_ms is None or (said.time_ms or 0) >= since_ms
        if said.text and said.role in roles and is_new:
            yield said


def _score(match: SessionMatch, info: SessionInfo, now: datetime) -> float:
    """Count the words, up to doubled for new sessions; the bonus halves every month."""
    relevance = sum(count * 2.2 / (count + 1.2) for count in match.counts)
    age_days = max(0.0, (now - info.modified).total_seconds() / 86_400)
    return relevance * (1.0 + math.pow(0.5, age_days / _HALF_LIFE_DAYS))
