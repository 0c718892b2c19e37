"""Search the text of all sessions of all agents (docs/discovery.md#search).

A search selects the files, updates the index as far as the time allows, and asks it. It reads the
files that the index does not hold yet. So the answer is the same with or without an index; only
the time differs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

import msgspec

from sessiontree import clock
from sessiontree.discovery.adapters import Agents
from sessiontree.discovery.catalogue import OnProgress
from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.discovery.copies import choose_leader, gather_families
from sessiontree.discovery.families import Kin, kin_of
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.search import index as search_index
from sessiontree.discovery.search import names
from sessiontree.discovery.search.asking import (
    Best,
    Candidate,
    Numbered,
    Wanted,
    ask,
    ask_for_best,
    bonus,
    name_bonus,
    rarity,
)
from sessiontree.discovery.search.hits import IndexProgress, SearchHit, SearchResults
from sessiontree.discovery.search.query import Query, parse_query
from sessiontree.discovery.search.scan import (
    Matcher,
    Piece,
    Scanner,
    SessionMatch,
    make_hit,
    make_snippet,
    roles_for,
)
from sessiontree.discovery.search.times import Since, to_ms
from sessiontree.discovery.selection import Selection, select_sessions
from sessiontree.discovery.sources import Source
from sessiontree.discovery.texts import SPOKEN_ROLES, TOOL_ROLES, SaidText
from sessiontree.profiles import Profile
from sessiontree.storage import sqlite
from sessiontree.storage.base import FileStat, SessionStorage
from sessiontree.storage.file import FileSessionStorage

DEFAULT_LIMIT = 20
DEFAULT_INDEXING_S = 1.0
_NAMES_AT_ONCE = 32
_ASKED_AT_ONCE = 256

Accept = Callable[[SessionInfo], bool]
"""Tells whether a session is in question."""
OnPart = Callable[[SearchResults], object]
"""Called with the sessions found so far; their ``indexing`` says how far the search is."""


def search(
    query: str,
    *,
    cwd: str | os.PathLike[str] | None = None,
    profile: str | Profile | None = None,
    agents: Agents = None,
    role: str | None = None,
    since: Since | None = None,
    include_tools: bool = False,
    limit: int | None = DEFAULT_LIMIT,
    on_progress: OnProgress | None = None,
    max_indexing_s: float | None = DEFAULT_INDEXING_S,
    folders: Sequence[str] | None = None,
    storage: SessionStorage | None = None,
    accept: Accept | None = None,
    on_part: OnPart | None = None,
) -> SearchResults:
    """Find the sessions that contain the words of a query, best first; any text is a query.

    Words may be in messages and in the session's name; where only the name has them, the hit's
    role is ``name`` and it has no entry id. With a ``role`` names don't count; with ``since`` those
    of sessions written to from then on do.
    ``cwd`` narrows it to a project, ``agents`` to some agents (without: all), ``profile`` to one of
    pi's family, ``role`` to what users, the model or tools (``tool``) said, ``since`` to what was
    said from then on. Calls of tools and their output count only with ``include_tools`` or a role
    of theirs. The index is brought up to date for at most ``max_indexing_s`` (None: until done).
    ``folders`` stands for a project: just the sessions in these; ``accept`` decides about each
    session that has the words; ``on_progress`` hears of sessions indexed or read, and their number.
    Copies of a session (``session.copy_of``) follow it at once, and count with it in ``limit``.
    ``on_part`` hears what was found after a second; indexing then goes on for ``max_indexing_s``.
    """
    if role is not None and role not in SPOKEN_ROLES | TOOL_ROLES | {"tool"}:
        raise ValueError(f"no such role: {role!r}")
    parsed = parse_query(query)
    store = storage if storage is not None else FileSessionStorage()
    selection = select_sessions(cwd, profile, store, folders, agents)
    results = SearchResults()
    if not parsed.wanted or not selection.files:
        return results
    scanner = Scanner(Matcher(parsed), roles_for(role, include_tools), to_ms(since))
    wanted = Wanted(role, role is None and include_tools, to_ms(since))
    is_of_agents = profile is None and folders is None
    run = Run(parsed, selection, store, scanner, wanted, on_progress, accept, is_of_agents)
    pending = selection.files
    candidates: list[Candidate] = []
    if isinstance(store, FileSessionStorage) and not parsed.needs_scan:
        first_s = max_indexing_s if on_part is None else DEFAULT_INDEXING_S
        candidates, pending = run.ask_index(first_s)
        results.indexing = run.progress_without(pending)
        if pending and on_part is not None:
            run.fill(results, candidates, limit)
            on_part(results)
            candidates, pending = run.ask_index(max_indexing_s)
            results = SearchResults()
            results.indexing = run.progress_without(pending)
    candidates += run.scan(pending)
    run.fill(results, candidates, limit)
    return results


def update_search_index(
    *,
    profile: str | Profile | None = None,
    agents: Agents = None,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> IndexProgress:
    """Index new and changed sessions until done or stopped. Safe to interrupt at any time.

    Another process that holds the index is waited for, unless that was just done in vain.
    """
    selection = select_sessions(None, profile, FileSessionStorage(), agents=agents)
    left = selection.files
    try:
        with search_index.open_index(is_patient=not is_index_held()) as index:
            if index is not None:
                left = index.update(
                    index.find_stale(selection.by_folder),
                    selection,
                    should_stop=should_stop,
                    on_progress=on_progress,
                )
    except sqlite.FAILURES as error:
        give_up(error)
    missing = len({selection.session_of(stat.path) for stat in left})
    return IndexProgress(len(selection.files) - missing, len(selection.files))


def match_index(
    query: Query,
    *,
    profile: str | Profile | None = None,
    agents: Agents = None,
    cwd: str | os.PathLike[str] | None = None,
    role: str | None = None,
    include_tools: bool = False,
) -> IndexMatches:
    """Ask the index as it is which sessions match, and read none of those that surely do.

    For screens that answer while somebody types: ``search`` finds the same, and what the index does
    not hold yet.
    """
    selection = select_sessions(cwd, profile, FileSessionStorage(), agents=agents)
    scanner = Scanner(Matcher(query), roles_for(role, include_tools), None)
    wanted = Wanted(role, role is None and include_tools, None)
    run = Run(query, selection, FileSessionStorage(), scanner, wanted, None)
    if not query.wanted or query.needs_scan or not selection.files:
        return IndexMatches({}, run, [])
    found, pending = run.ask_index(0.0)
    sure = [each for each in found if each.is_sure or run.confirms(each)]
    return IndexMatches({each.stat.path: each for each in sure}, run, pending)


class IndexMatches(msgspec.Struct):
    """The sessions that match by the index, by their paths, and where each does.

    ``pending`` are files that the index does not hold as they are.
    """

    found: dict[str, Candidate]
    _run: Run
    pending: list[FileStat]

    def snippet(self, path: str) -> tuple[str, str, tuple[tuple[int, int], ...]] | None:
        """Read where a session matches: who said it, one line of it, and the marks in that."""
        candidate = self.found.get(path)
        match = self._run.locate(candidate) if candidate is not None else None
        if match is None:
            return None
        snippet = make_snippet(match.said.text, match.spans)
        return match.said.role, snippet.text, snippet.marks


def is_index_held() -> bool:
    """Whether another process held the index a moment ago, for too long."""
    return sqlite.is_given_up(search_index.SCHEMA)


def forget_index() -> None:
    """Remove the index with every word in it; the next search builds a new one."""
    sqlite.replace(search_index.SCHEMA)


class Run(msgspec.Struct):
    """One running search."""

    query: Query
    selection: Selection
    storage: SessionStorage
    scanner: Scanner
    wanted: Wanted
    on_progress: OnProgress | None
    accept: Accept | None = None
    ties_copies: bool = False
    """Whether copies of a session stand below it, and count with it."""

    def ask_index(self, max_indexing_s: float | None) -> tuple[list[Candidate], list[FileStat]]:
        """Return the index's matches, and the sessions that it does not hold."""
        deadline = time.monotonic() + max_indexing_s if max_indexing_s is not None else None
        try:
            with search_index.open_index() as index:
                if index is not None:
                    stale = index.find_stale(self.selection.by_folder)
                    files = index.update(
                        stale, self.selection, deadline=deadline, on_progress=self.on_progress
                    )
                    left = {self.selection.session_of(stat.path) for stat in files}
                    with index.snapshot():
                        found = ask(index, self.query, self.wanted, self.selection, left)
                    if index.is_worn_out():
                        sqlite.replace(search_index.SCHEMA)
                    pending = map(self.selection.find, sorted(left))
                    return found, [stat for stat in pending if stat is not None]
        except sqlite.FAILURES as error:
            give_up(error)
        return [], self.selection.files

    def ask_as_it_is(self) -> list[Candidate]:
        """Return the index's matches without checking the files, which may have changed since."""
        try:
            with search_index.open_index() as index:
                if index is not None:
                    with index.snapshot():
                        return ask(index, self.query, self.wanted, self.selection, set())
        except sqlite.FAILURES as error:
            give_up(error)
        return []

    def ask_for_best(
        self,
        numbered: Numbered,
        most: int,
        among: Container[str] | None,
        copies: Mapping[str, str],
    ) -> Best | None:
        """Return the best of the index's matches; None where ``ask_as_it_is`` has to find them."""
        now_ns = clock.now_ns()
        try:
            with search_index.open_index() as index:
                if index is not None:
                    with index.snapshot():
                        return ask_for_best(
                            index,
                            self.query,
                            self.wanted,
                            self.selection,
                            numbered,
                            now_ns,
                            most,
                            among=among,
                            copies=copies,
                        )
        except sqlite.FAILURES as error:
            give_up(error)
        return None

    def progress_without(self, pending: Sequence[FileStat]) -> IndexProgress:
        """Make the progress of an index that lacks these files."""
        total = len(self.selection.files)
        return IndexProgress(total - len(pending), total)

    def _name(self, stat: FileStat, name: str | None) -> list[SaidText]:
        """The name of a session, if it counts."""
        since_ms = self.wanted.since_ms
        is_old = since_ms is not None and _mtime_ms(stat) < since_ms
        return [] if not self.wanted.in_names or is_old else names.texts_of(name)

    def scan(self, pending: Sequence[FileStat], deadline: float | None = None) -> list[Candidate]:
        """Search the files themselves, until ``deadline`` (monotonic)."""
        found: list[Candidate] = []
        called: dict[str, str] = {}
        read_names = names.names_reader(self.selection.source_of)
        for done, stat in enumerate(pending):
            if deadline is not None and time.monotonic() > deadline:
                break
            if done % _NAMES_AT_ONCE == 0:
                called |= read_names(pending[done : done + _NAMES_AT_ONCE])
            files = self.selection.pieces_of(stat)
            pieces = [Piece(each.path, self.selection.adapter_of(each.path)) for each in files]
            candidate = Candidate(stat, 0.0, pieces, is_sure=False)
            candidate.match = self._read(candidate, called.get(stat.path))
            if candidate.match is not None:
                found.append(candidate)
            if self.on_progress is not None:
                self.on_progress(done + 1, len(pending))
        total = len(self.selection.files)
        for candidate in found:
            assert candidate.match is not None
            name = self._name(candidate.stat, called.get(candidate.stat.path))
            in_name = sum(self.scanner.count_terms(said) for said in name)
            candidate.relevance = _bm25(candidate.match.counts, len(found), total)
            candidate.relevance += in_name * name_bonus(len(found), total)
        return found

    def _read(self, candidate: Candidate, name: str | None) -> SessionMatch | None:
        said = self._name(candidate.stat, name)
        look = self.scanner.locate if candidate.is_sure else self.scanner.scan
        try:
            return look(self.storage, candidate.pieces, said)
        except OSError:
            return None

    def fill(self, results: SearchResults, candidates: list[Candidate], limit: int | None) -> None:
        """Turn the best candidates into hits."""
        now_ns = clock.now_ns()
        scored = sorted(
            ((_score(candidate, now_ns), candidate) for candidate in candidates),
            key=lambda item: (item[0], item[1].stat.mtime_ns, item[1].stat.path),
            reverse=True,
        )
        families = self._families(scored)
        shown = wrong = 0
        step = limit if limit is not None else len(families)
        if self.accept is not None:
            step = max(step, _ASKED_AT_ONCE)  # most may be refused
        while shown + wrong < len(families) and (limit is None or shown < limit):
            # as many as are missing: as a rule all of the first are hits
            start = shown + wrong
            some = families[start : start + max(1, step - shown)]
            infos = self._infos([each.stat for family in some for (_, each), _ in family])
            for family in some:
                if limit is not None and shown >= limit:
                    break
                hits = [
                    (hit, kin)
                    for (score, candidate), kin in family
                    if (hit := self._hit(candidate, infos, score)) is not None
                ]
                results += _leader_first(hits)
                shown, wrong = shown + bool(hits), wrong + (not hits)
        rest = [each for family in families[shown + wrong :] for (_, each), _ in family]
        is_known = all(each.is_sure or each.match is not None for each in rest)
        if self.wanted.since_ms is not None or self.accept is not None:
            is_known = not rest
        results.total = len(families) - wrong if is_known else None

    def _families(
        self, scored: list[tuple[float, Candidate]]
    ) -> list[list[tuple[tuple[float, Candidate], Kin]]]:
        """Put copies of a session together; those of one profile are listed one by one."""
        paths = [candidate.stat.path for _, candidate in scored]
        if not self.ties_copies:
            return [[(each, Kin(path))] for each, path in zip(scored, paths, strict=True)]
        known = {
            stat.path: kin_of(
                summary, summary.session_id or stat.path, is_own=source.adapter.is_own
            )
            for source, stat, summary in self._survey([each.stat for _, each in scored])
        }
        return gather_families(scored, [known.get(path, Kin(path)) for path in paths])

    def _hit(
        self, candidate: Candidate, infos: dict[str, SessionInfo], score: float
    ) -> SearchHit | None:
        """The hit that a candidate is, if it is one."""
        info = infos.get(candidate.stat.path)
        if info is None or (self.accept is not None and not self.accept(info)):
            return None
        match = self._match(candidate, info)
        if match is None or self._is_too_old(match, info):
            return None
        return make_hit(info, match, score, info.agent)

    def confirms(self, candidate: Candidate) -> bool:
        """Whether a session that may match does; it is read for that."""
        return self.locate(candidate) is not None

    def locate(self, candidate: Candidate) -> SessionMatch | None:
        """Read where a session matches."""
        if candidate.match is None:
            infos = self._infos([candidate.stat])
            info = infos.get(candidate.stat.path)
            candidate.match = self._read(candidate, info.title if info is not None else None)
        return candidate.match

    def _match(self, candidate: Candidate, info: SessionInfo) -> SessionMatch | None:
        return candidate.match or self._read(candidate, info.title)

    def _is_too_old(self, match: SessionMatch, info: SessionInfo) -> bool:
        """Whether only the name matches, and the session has no message since the time asked
        for."""
        if self.wanted.since_ms is None or match.said.role != names.NAME_ROLE:
            return False
        return info.modified.timestamp() * 1000 < self.wanted.since_ms

    def _infos(self, stats: list[FileStat]) -> dict[str, SessionInfo]:
        return {
            stat.path: source.make_info(stat, summary)
            for source, stat, summary in self._survey(stats)
        }

    def _survey(self, stats: list[FileStat]) -> Iterator[tuple[Source, FileStat, Summary]]:
        by_source: dict[int, list[FileStat]] = {}
        for stat in stats:
            by_source.setdefault(id(self.selection.source_of(stat.path)), []).append(stat)
        for group in by_source.values():
            source = self.selection.source_of(group[0].path)
            for stat, summary in source.survey_some(group).found:
                yield source, stat, summary


def _score(candidate: Candidate, now_ns: int) -> float:
    return candidate.relevance * bonus(candidate.stat, now_ns)


def _mtime_ms(stat: FileStat) -> int:
    return stat.mtime_ns // 1_000_000


def _bm25(counts: list[int], matching: int, total: int) -> float:
    """Estimate the index's score of a session of average length."""
    weight = rarity(matching, total)
    return sum(weight * count * 2.2 / (count + 1.2) for count in counts)


def _leader_first(hits: list[tuple[SearchHit, Kin]]) -> list[SearchHit]:
    """The hits of one family, that of the session first of which the others are copies."""
    if hits:
        leader = choose_leader([(hit.session, kin) for hit, kin in hits])
        hits.sort(key=lambda item: item[0].session is not leader)
    return [hit for hit, _ in hits]


def give_up(error: sqlite.Failure) -> None:
    """After the index failed: answer without it, and remove it if it is broken."""
    if isinstance(error, sqlite.DamagedRowError):
        sqlite.replace(search_index.SCHEMA)  # the database itself may be sound
    elif sqlite.is_corruption(error):
        sqlite.discard(search_index.SCHEMA)


__all__ = [
    "IndexMatches",
    "IndexProgress",
    "SearchHit",
    "SearchResults",
    "match_index",
    "search",
    "update_search_index",
]
