"""Search the text of all sessions of all profiles (docs/discovery.md#search).

A search selects the files, updates the index as far as the time allows, and asks it. It reads the
files that the index does not hold yet. So the answer is the same with or without an index; only
the time differs.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sessiontree.discovery.catalogue import OnProgress, survey
from sessiontree.discovery.listing import SessionInfo, make_session_info
from sessiontree.discovery.search import index as search_index
from sessiontree.discovery.search import names
from sessiontree.discovery.search.hits import IndexProgress, SearchHit, SearchResults
from sessiontree.discovery.search.query import Query, parse_query
from sessiontree.discovery.search.scan import (
    Matcher,
    Range,
    Scanner,
    SessionMatch,
    make_snippet,
    roles_for,
)
from sessiontree.discovery.search.scope import SearchScope, find_scope
from sessiontree.discovery.search.times import Since, to_datetime, to_ms
from sessiontree.discovery.texts import SPOKEN_ROLES, TOOL_ROLES, SaidText
from sessiontree.profiles import Profile
from sessiontree.storage import sqlite
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage

DEFAULT_LIMIT = 20
DEFAULT_INDEXING_S = 1.0
_HALF_LIFE_DAYS = 30.0
# More than any number of occurrences in messages: bm25 stays below 2.2 times the rarity.
_NAME_WEIGHT = 3.0
_NAMES_AT_ONCE = 32


@dataclass(slots=True)
class _Candidate:
    """A session that matches, or may match until it is read."""

    stat: FileStat
    relevance: float
    ranges: list[Range] | None = None
    match: SessionMatch | None = None


def search(
    query: str,
    *,
    cwd: str | os.PathLike[str] | None = None,
    profile: str | Profile | None = None,
    role: str | None = None,
    since: Since | None = None,
    include_tools: bool = False,
    limit: int | None = DEFAULT_LIMIT,
    on_progress: OnProgress | None = None,
    max_indexing_s: float | None = DEFAULT_INDEXING_S,
    folders: Sequence[str] | None = None,
    storage: SessionStorage | None = None,
) -> SearchResults:
    """Find the sessions that contain the words of a query, best first; any text is a query.

    Words may stand in messages and in the session's name; where only the name has them, the hit's
    role is ``name`` and it has no entry id. With a ``role`` names don't count; with ``since`` those
    of sessions written to from then on do.
    ``cwd`` narrows it to a project, ``profile`` to one agent, ``role`` to what users, the model or
    tools (``tool``) said, ``since`` to what was said from then on. Calls of tools and their output
    count only with ``include_tools`` or a role of theirs. The index is brought up to date for at
    most ``max_indexing_s`` (None: until done). ``folders`` stands for a project: just the sessions
    in these; ``on_progress`` hears of sessions indexed or read,
    and their number.
    """
    if role is not None and role not in SPOKEN_ROLES | TOOL_ROLES | {"tool"}:
        raise ValueError(f"no such role: {role!r}")
    parsed = parse_query(query)
    store = storage if storage is not None else FileSessionStorage()
    scope = find_scope(cwd, profile, store, folders)
    results = SearchResults()
    if not parsed.wanted or not scope.files:
        return results
    scanner = Scanner(Matcher(parsed), roles_for(role, include_tools), to_ms(since))
    read_names = names.names_reader(scope.profile_of, store)
    run = _Run(parsed, scope, store, scanner, read_names, role, to_ms(since), on_progress)
    can_index = (
        isinstance(store, FileSessionStorage)
        and not include_tools
        and not parsed.needs_scan
        and (role is None or role in SPOKEN_ROLES)
    )
    pending = scope.files
    candidates: list[_Candidate] = []
    if can_index:
        candidates, pending = run.ask_index(max_indexing_s)
        done = len(scope.files) - len(pending)
        results.indexing = IndexProgress(done, len(scope.files))
    candidates += run.scan(pending)
    run.fill(results, candidates, limit)
    return results


def update_search_index(
    *,
    profile: str | Profile | None = None,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> IndexProgress:
    """Index new and changed sessions until done or stopped. Safe to interrupt at any time.

    Another process that holds the index is waited for, unless that was just done in vain.
    """
    store = FileSessionStorage()
    scope = find_scope(None, profile, store)
    left = scope.files
    try:
        with search_index.open_index(is_patient=not is_index_held()) as index:
            if index is not None:
                left = index.update(
                    index.find_stale(scope.by_folder),
                    store,
                    names.names_reader(scope.profile_of, store),
                    should_stop=should_stop,
                    on_progress=on_progress,
                )
    except sqlite.FAILURES as error:
        _give_up(error)
    return IndexProgress(len(scope.files) - len(left), len(scope.files))


def is_index_held() -> bool:
    """Whether another process held the index a moment ago, for too long."""
    return sqlite.is_given_up(search_index.SCHEMA)


def forget_index() -> None:
    """Remove the index with every word in it; the next search builds a new one."""
    sqlite.replace(search_index.SCHEMA)


@dataclass(slots=True)
class _Run:
    """One running search."""

    query: Query
    scope: SearchScope
    storage: SessionStorage
    scanner: Scanner
    read_names: names.ReadNames
    role: str | None
    since_ms: int | None
    on_progress: OnProgress | None

    def ask_index(self, max_indexing_s: float | None) -> tuple[list[_Candidate], list[FileStat]]:
        """Return the index's matches, and the files it does not hold."""
        deadline = time.monotonic() + max_indexing_s if max_indexing_s is not None else None
        try:
            with search_index.open_index() as index:
                if index is not None:
                    stale = index.find_stale(self.scope.by_folder)
                    left = index.update(
                        stale,
                        self.storage,
                        self.read_names,
                        deadline=deadline,
                        on_progress=self.on_progress,
                    )
                    with index.snapshot():
                        found = self._ask(index, {stat.path for stat in left})
                    if index.is_worn_out():
                        sqlite.replace(search_index.SCHEMA)
                    return found, [stat for stat in left if self.scope.find(stat.path) is not None]
        except sqlite.FAILURES as error:
            _give_up(error)
        return [], self.scope.files

    def _ask(self, index: search_index.SearchIndex, left: set[str]) -> list[_Candidate]:
        sessions: set[int] | None = None
        relevance: dict[int, float] = {}
        segments: dict[int, set[int]] = {}
        for term in self.query.wanted:
            best: dict[int, float] = {}
            for rowid, score in index.match(term, self.role).items():
                no, segment = search_index.session_of(rowid)
                segments.setdefault(no, set()).add(segment)
                if score > best.get(no, -1.0):
                    best[no] = score
            called = index.match_names(term) if self.role is None else ()
            for no in called:
                segments.setdefault(no, set())
                best[no] = best.get(no, 0.0) + self._name_bonus(len(called))
            sessions = set(best) if sessions is None else sessions.intersection(best)
            for no, score in best.items():
                relevance[no] = relevance.get(no, 0.0) + score
        assert sessions is not None
        excluded = self._unwanted(index, segments)
        found = []
        for no, (path, row) in index.get_sessions(sorted(sessions)).items():
            stat = self.scope.find(path)
            if stat is None or path in left:
                continue
            if no in excluded and self.since_ms is None:
                continue
            chosen = [row.segments[at] for at in sorted(segments[no]) if at < len(row.segments)]
            if self.since_ms is not None and not any(
                time_ms >= self.since_ms
                for time_ms in (_mtime_ms(stat), *(segment.newest_ms for segment in chosen))
            ):
                continue
            ranges = [(segment.start, segment.end) for segment in chosen]
            found.append(_Candidate(stat, relevance[no], ranges))
        return found

    def _unwanted(self, index: search_index.SearchIndex, segments: dict[int, set[int]]) -> set[int]:
        """Sessions with an unwanted term. With ``since`` it may be too old to count: then read."""
        excluded: set[int] = set()
        for term in self.query.unwanted:
            for rowid in index.match(term, self.role):
                no, segment = search_index.session_of(rowid)
                excluded.add(no)
                if no in segments:
                    segments[no].add(segment)
            if self.role is None:
                excluded |= index.match_names(term)
        return excluded

    def _name_bonus(self, called: int) -> float:
        """Return the score of a word in the name that this many sessions have in theirs."""
        return _NAME_WEIGHT * _rarity(called, len(self.scope.files))

    def _name(self, stat: FileStat, name: str | None) -> list[SaidText]:
        """The name of a session, if it counts."""
        is_old = self.since_ms is not None and _mtime_ms(stat) < self.since_ms
        return [] if self.role is not None or is_old else names.as_text(name)

    def scan(self, pending: list[FileStat]) -> list[_Candidate]:
        """Search the files themselves."""
        found: list[_Candidate] = []
        called: dict[str, str] = {}
        for done, stat in enumerate(pending):
            if done % _NAMES_AT_ONCE == 0:
                called |= self.read_names(pending[done : done + _NAMES_AT_ONCE])
            match = self._read(stat, called.get(stat.path))
            if match is not None:
                found.append(_Candidate(stat, 0.0, match=match))
            if self.on_progress is not None:
                self.on_progress(done + 1, len(pending))
        for candidate in found:
            assert candidate.match is not None
            name = self._name(candidate.stat, called.get(candidate.stat.path))
            in_name = sum(self.scanner.count_terms(said) for said in name)
            candidate.relevance = _bm25(candidate.match.counts, len(found), len(self.scope.files))
            candidate.relevance += in_name * self._name_bonus(len(found))
        return found

    def _read(
        self, stat: FileStat, name: str | None, ranges: list[Range] | None = None
    ) -> SessionMatch | None:
        said = self._name(stat, name)
        try:
            if ranges is None:
                return self.scanner.scan(self.storage, stat.path, said)
            if self.since_ms is None:
                return self.scanner.locate(self.storage, stat.path, ranges, said)
            return self.scanner.check(self.storage, stat.path, ranges, said)
        except OSError:
            return None

    def fill(self, results: SearchResults, candidates: list[_Candidate], limit: int | None) -> None:
        """Turn the best candidates into hits."""
        now_ns = time.time_ns()
        scored = sorted(
            ((_score(candidate, now_ns), candidate) for candidate in candidates),
            key=lambda item: (item[0], item[1].stat.mtime_ns, item[1].stat.path),
            reverse=True,
        )
        wrong = 0
        step = limit if limit is not None else len(scored)
        while len(results) + wrong < len(scored) and (limit is None or len(results) < limit):
            # as many as are missing: as a rule all of the first are hits
            start = len(results) + wrong
            some = scored[start : start + step - len(results)]
            infos = self._infos([candidate.stat for _, candidate in some])
            for score, candidate in some:
                info = infos.get(candidate.stat.path)
                match = self._match(candidate, info) if info is not None else None
                if info is None or match is None or self._is_too_old(match, info):
                    wrong += 1
                else:
                    profile = self.scope.profile_of(candidate.stat.path)
                    results.append(_make_hit(info, match, score, profile))
        is_all = len(results) + wrong == len(scored)
        results.total = len(scored) - wrong if is_all or self.since_ms is None else None

    def _match(self, candidate: _Candidate, info: SessionInfo) -> SessionMatch | None:
        return candidate.match or self._read(candidate.stat, info.title, candidate.ranges)

    def _is_too_old(self, match: SessionMatch, info: SessionInfo) -> bool:
        """Whether a name is all that was found, and nothing was said since the time asked for."""
        if self.since_ms is None or match.said.role != names.NAME_ROLE:
            return False
        return info.modified.timestamp() * 1000 < self.since_ms

    def _infos(self, stats: list[FileStat]) -> dict[str, SessionInfo]:
        surveyed = survey(stats, self.storage, is_complete=False)
        return {
            stat.path: make_session_info(
                stat, summary, self.scope.profile_of(stat.path).dialect, self.storage
            )
            for stat, summary in surveyed.found
        }


def _score(candidate: _Candidate, now_ns: int) -> float:
    """Return the relevance, up to doubled for new sessions; the bonus halves every month."""
    age_days = max(0.0, (now_ns - candidate.stat.mtime_ns) / 86_400e9)
    return candidate.relevance * (1.0 + math.pow(0.5, age_days / _HALF_LIFE_DAYS))


def _mtime_ms(stat: FileStat) -> int:
    return stat.mtime_ns // 1_000_000


def _rarity(matching: int, total: int) -> float:
    return max(1e-6, math.log((max(total - matching, 0) + 0.5) / (matching + 0.5)))


def _bm25(counts: list[int], matching: int, total: int) -> float:
    """Estimate the index's score of a session of average length."""
    rarity = _rarity(matching, total)
    return sum(rarity * count * 2.2 / (count + 1.2) for count in counts)


def _make_hit(info: SessionInfo, match: SessionMatch, score: float, profile: Profile) -> SearchHit:
    snippet = make_snippet(match.said.text, match.spans)
    return SearchHit(
        info,
        match.said.entry_id,
        match.said.role,
        to_datetime(match.said.time_ms),
        snippet.text,
        snippet.marks,
        score,
        profile.name,
    )


def _give_up(error: sqlite3.Error | UnicodeDecodeError) -> None:
    """After the index failed: answer without it, and remove it if it is broken."""
    if isinstance(error, sqlite.DamagedRowError):
        sqlite.replace(search_index.SCHEMA)  # as a database it may well be sound
    elif sqlite.is_corruption(error):
        sqlite.discard(search_index.SCHEMA)


__all__ = ["IndexProgress", "SearchHit", "SearchResults", "search", "update_search_index"]
