"""Ask the index which sessions match, and where.

The index answers for files, term by term. A session may have several files (its parts), and a term
may be in messages, in what tools printed, or in the name. So the answers for a term are
joined by session first, and then sessions by term. Where the index can't be sure (a phrase in tool
output, a time), the session becomes a candidate that is read before it is shown.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from sessiontree.discovery.search import tool_words
from sessiontree.discovery.search.index import IndexRow, SearchIndex, session_of
from sessiontree.discovery.search.query import Query, Term
from sessiontree.discovery.search.scan import Piece, SessionMatch
from sessiontree.discovery.search.segments import SEGMENT_BITS
from sessiontree.discovery.selection import Selection
from sessiontree.discovery.texts import SPOKEN_ROLES, TOOL_ROLES
from sessiontree.storage.base import FileStat

# More than any number of occurrences in messages: bm25 stays below 2.2 times the rarity.
_NAME_WEIGHT = 3.0
# What a tool printed says less about a session than a message does.
_TOOL_WEIGHT = 0.5
_HALF_LIFE_DAYS = 30.0
_BONUSES_NS = 60 * 10**9
_MOST_MATCHED = 4


class Candidate(msgspec.Struct):
    """A session that matches, or may match until it is read."""

    stat: FileStat
    relevance: float
    pieces: list[Piece] = msgspec.field(default_factory=list)
    is_sure: bool = True
    """Whether it certainly matches, read or not."""
    match: SessionMatch | None = None


class Wanted(msgspec.Struct, frozen=True):
    """The texts that count: whose, and from when on."""

    role: str | None
    with_tools: bool
    since_ms: int | None

    @property
    def in_said(self) -> bool:
        """Whether messages of users or the model count."""
        return self.role is None or self.role in SPOKEN_ROLES

    @property
    def in_tools(self) -> bool:
        """Whether calls of tools and their output count."""
        return not self.in_said or (self.with_tools and self.role is None)

    @property
    def in_names(self) -> bool:
        return self.role is None


class _Place(msgspec.Struct):
    """Where a file has a term."""

    score: float = -1.0
    is_sure: bool = False
    segments: set[int] = msgspec.field(default_factory=set)


_Places = dict[int, _Place]
"""The places of a term, by the numbers of files."""


def name_bonus(called: int, total: int) -> float:
    """Return the score of a word in the name that this many sessions have in theirs."""
    return _NAME_WEIGHT * rarity(called, total)


def rarity(matching: int, total: int) -> float:
    """The weight of a word that this many of all sessions have."""
    return max(1e-6, math.log((max(total - matching, 0) + 0.5) / (matching + 0.5)))


def bonus(stat: FileStat, now_ns: int) -> float:
    """A new session counts up to twice; what is above once halves every month."""
    age_days = max(0.0, (now_ns - stat.mtime_ns) / 86_400e9)
    return 1.0 + math.pow(0.5, age_days / _HALF_LIFE_DAYS)


def ask(
    index: SearchIndex, query: Query, wanted: Wanted, selection: Selection, left: set[str]
) -> list[Candidate]:
    """Find the sessions that match or may match, but for those ``left`` to be read."""
    asked = [_find(index, term, wanted, len(selection.files)) for term in query.wanted]
    shunned = [_find(index, term, wanted, len(selection.files)) for term in query.unwanted]
    joined = _join_parts(index, selection, (*asked, *shunned))
    by_term = [_by_session(places, joined) for places in asked]
    sessions = set(by_term[0]).intersection(*by_term[1:])
    doubtful: set[int] = set()
    for found in (_by_session(places, joined) for places in shunned):
        for session in sessions.intersection(found):
            is_out = any(place.is_sure for _, place in found[session])
            if is_out and wanted.since_ms is None:
                sessions.discard(session)
            else:
                doubtful.add(session)  # it may be too old to count, or no match
        by_term.append(found)
    where = {session: _segments(by_term, session) for session in sessions}
    rows = index.get_sessions(sorted(no for places in where.values() for no in places))
    candidates = []
    for session in sorted(sessions):
        made = _make(where[session], rows, wanted, selection, left)
        if made is not None:
            hits = [found[session] for found in by_term[: len(asked)]]
            made.relevance = sum(max(place.score for _, place in hit) for hit in hits)
            made.is_sure = (
                wanted.since_ms is None
                and session not in doubtful
                and all(any(place.is_sure for _, place in hit) for hit in hits)
            )
            candidates.append(made)
    return candidates


class Numbered(msgspec.Struct):
    """The sessions in question, by the index's numbers for their files.

    A program that asks often keeps it, so that nothing is looked up for a session that has the
    words but is not among the best.
    """

    stats: Mapping[int, FileStat]
    """Each session, by the number that stands for it."""
    joined: Mapping[int, int]
    """The number that stands for the session of each part."""
    parts: Mapping[int, Sequence[int]]
    """The numbers of a session's parts, by the number that stands for it."""
    last: int
    """The largest number when this was made; above it there are sessions that it lacks."""
    _bonuses: tuple[int, Mapping[int, float]] = (0, {})
    """When bonuses were last worked out, and each session's."""
    _matched: tuple[bytes, Mapping[tuple[str, str | None], Mapping[int, float]]] = (b"", {})
    """The terms asked last: the index's state then, and the segments with each."""

    @classmethod
    def make(cls, index: SearchIndex, selection: Selection) -> Numbered:
        """Number a selection that the index holds."""
        paths = index.get_all_paths()
        wholes = {path: no for no, path in paths.items() if path not in selection.parts}
        stats: dict[int, FileStat] = {}
        joined: dict[int, int] = {}
        parts: dict[int, list[int]] = {}
        for no, path in paths.items():
            whole = selection.session_of(path)
            stat = selection.find(whole)
            if stat is None:
                continue
            stands = wholes.setdefault(whole, no)
            stats[stands] = stat
            if stands != no:
                joined[no] = stands
                parts.setdefault(stands, []).append(no)
        return cls(stats, joined, parts, max(paths, default=0))

    def match(
        self, index: SearchIndex, terms: Sequence[Term], role: str | None
    ) -> list[Mapping[int, float]]:
        """What ``SearchIndex.match`` finds of each term, or found for one of the last questions.

        Who types asks for the same words at every letter of the next one.
        """
        state = index.read_state()
        before, kept = self._matched
        asked = {}
        for term in terms:
            found = kept.get((term.expression, role)) if state and state == before else None
            asked[term.expression, role] = index.match(term, role) if found is None else found
        matched = [asked[term.expression, role] for term in terms]
        if state == before:
            older = [each for each in kept.items() if each[0] not in asked]
            asked |= older[: max(0, _MOST_MATCHED - len(asked))]
        self._matched = (state, asked)
        return matched

    def bonuses(self, now_ns: int) -> Mapping[int, float]:
        """The bonus of each session as of now, or a moment ago: who asks weighs thousands."""
        made_ns, made = self._bonuses
        if len(made) != len(self.stats) or not 0 <= now_ns - made_ns < _BONUSES_NS:
            made = {no: bonus(stat, now_ns) for no, stat in self.stats.items()}
            self._bonuses = (now_ns, made)
        return made


class Best(msgspec.Struct, frozen=True):
    """The best candidates, and how many others match."""

    candidates: list[Candidate]
    others: int


def ask_for_best(
    index: SearchIndex,
    query: Query,
    wanted: Wanted,
    selection: Selection,
    numbered: Numbered,
    now_ns: int,
    most: int,
    *,
    among: Container[str] | None = None,
    copies: Mapping[str, str],
) -> Best | None:
    """Find the best of the sessions that match: what ``ask`` finds, quicker for common words.

    None where only ``ask`` knows: about tools and times, and if the index has newer sessions than
    ``numbered``. ``among`` and ``copies`` are those of ``LiveIndex.search``.
    """
    if wanted.since_ms is not None or wanted.in_tools or not wanted.in_said:
        return None
    matched = numbered.match(index, query.wanted, wanted.role)
    called = [index.match_names(term) if wanted.in_names else set() for term in query.wanted]
    total = len(selection.files)
    scores = [
        _score_sessions(found, names, total, numbered)
        for found, names in zip(matched, called, strict=True)
    ]
    shunned: set[int] = set()
    for term in query.unwanted:
        names = index.match_names(term) if wanted.in_names else set()
        shunned.update(_score_sessions(index.match(term, wanted.role), names, total, numbered))
    if any(max(each, default=0) > numbered.last for each in (*scores, shunned)):
        return None
    stats = numbered.stats
    sessions = set(stats).intersection(*scores) - shunned
    if among is not None:
        sessions = {no for no in sessions if stats[no].path in among}
    if copies:
        paths = {stats[no].path for no in sessions}
        sessions = {no for no in sessions if copies.get(stats[no].path) not in paths}
    relevance = dict.fromkeys(sessions, 0.0)
    for each in scores:
        relevance = {no: score + each[no] for no, score in relevance.items()}
    bonuses = numbered.bonuses(now_ns)
    weights = {no: score * bonuses[no] for no, score in relevance.items()}
    least = min(heapq.nlargest(most, weights.values()), default=0.0)
    best = heapq.nlargest(
        most,
        (no for no, weight in weights.items() if weight >= least),
        key=lambda no: (weights[no], stats[no].mtime_ns, stats[no].path),
    )
    where = _places_of(best, matched, called, numbered)
    rows = index.get_sessions(sorted(no for places in where.values() for no in places))
    candidates = []
    for session in best:
        made = _make(where[session], rows, wanted, selection, set())
        if made is not None:
            made.relevance = relevance[session]
            candidates.append(made)
    return Best(candidates, len(sessions) - len(best))


def _score_sessions(
    found: Mapping[int, float], called: set[int], total: int, numbered: Numbered
) -> dict[int, float]:
    """Score each session with a term by its best place."""
    scores: dict[int, float] = {}
    for rowid, score in found.items():
        no = rowid >> SEGMENT_BITS
        if score > scores.get(no, -1.0):
            scores[no] = score
    for no in called:
        scores[no] = max(scores.get(no, 0.0), 0.0) + name_bonus(len(called), total)
    for no in numbered.joined.keys() & scores.keys():
        whole, score = numbered.joined[no], scores.pop(no)
        scores[whole] = max(scores.get(whole, -1.0), score)
    return scores


def _places_of(
    sessions: Iterable[int],
    matched: Sequence[Mapping[int, float]],
    called: Sequence[set[int]],
    numbered: Numbered,
) -> dict[int, dict[int, set[int]]]:
    """The files of these sessions that have a term, and in which segments."""
    where: dict[int, dict[int, set[int]]] = {}
    in_order = [sorted(found) for found in matched]
    for session in sessions:
        places = where.setdefault(session, {})
        for no in (session, *numbered.parts.get(session, ())):
            for rowids in in_order:
                at = bisect_left(rowids, no << SEGMENT_BITS)
                while at < len(rowids) and rowids[at] >> SEGMENT_BITS == no:
                    places.setdefault(no, set()).add(session_of(rowids[at])[1])
                    at += 1
            if any(no in names for names in called):
                places.setdefault(no, set())
    return where


def _find(index: SearchIndex, term: Term, wanted: Wanted, total: int) -> _Places:
    """Where a term is, by files."""
    places: _Places = {}
    if wanted.in_said:
        for rowid, score in index.match(term, wanted.role).items():
            no, segment = session_of(rowid)
            place = places.setdefault(no, _Place())
            place.segments.add(segment)
            place.is_sure = True
            place.score = max(place.score, score)
    if wanted.in_tools:
        is_sure = tool_words.is_exact(term) and wanted.role not in TOOL_ROLES
        found = [session_of(rowid) for rowid in index.match_tools(term)]
        score = _TOOL_WEIGHT * rarity(len({no for no, _ in found}), total)
        for no, segment in found:
            place = places.setdefault(no, _Place())
            place.segments.add(segment)
            place.is_sure = place.is_sure or is_sure
            place.score = max(place.score, score)
    if wanted.in_names:
        called = index.match_names(term)
        for no in called:
            place = places.setdefault(no, _Place())
            place.is_sure = True
            place.score = max(place.score, 0.0) + name_bonus(len(called), total)
    return places


def _join_parts(
    index: SearchIndex, selection: Selection, terms: Iterable[_Places]
) -> dict[int, int]:
    """The number that stands for its session, for each file with a term that is a part."""
    if not selection.parts:
        return {}
    paths = index.get_paths(sorted({no for places in terms for no in places}))
    numbers = {path: no for no, path in paths.items() if path not in selection.parts}
    joined = {}
    for no, path in paths.items():
        if path in selection.parts:
            joined[no] = numbers.setdefault(selection.parts[path], no)
    return joined


def _by_session(places: _Places, joined: dict[int, int]) -> dict[int, list[tuple[int, _Place]]]:
    found: dict[int, list[tuple[int, _Place]]] = {}
    for no, place in places.items():
        found.setdefault(joined.get(no, no), []).append((no, place))
    return found


def _segments(
    by_term: Sequence[dict[int, list[tuple[int, _Place]]]], session: int
) -> dict[int, set[int]]:
    """The segments of a session's files that have a term."""
    found: dict[int, set[int]] = {}
    for term in by_term:
        for no, place in term.get(session, ()):
            found.setdefault(no, set()).update(place.segments)
    return found


def _make(
    where: dict[int, set[int]],
    rows: dict[int, tuple[str, IndexRow]],
    wanted: Wanted,
    selection: Selection,
    left: set[str],
) -> Candidate | None:
    """The candidate, unless the session is not in question, to be read anyway, or too old."""
    pieces: list[Piece] = []
    stat = None
    newest_ms = 0
    for no, segments in where.items():
        path, row = rows.get(no, ("", None))
        stat = selection.find(selection.session_of(path)) if row is not None else None
        if row is None or stat is None or stat.path in left:
            return None
        chosen = [row.segments[at] for at in sorted(segments) if at < len(row.segments)]
        if wanted.since_ms is not None:
            newest_ms = max(newest_ms, *(each.newest_ms for each in chosen), 0)
        ranges = [(segment.start, segment.end) for segment in chosen]
        piece = Piece(path, selection.adapter_of(path), ranges)
        pieces.insert(0 if path == stat.path else len(pieces), piece)
    if stat is None:
        return None
    newest_ms = max(newest_ms, stat.mtime_ns // 1_000_000)
    is_old = wanted.since_ms is not None and newest_ms < wanted.since_ms
    return None if is_old else Candidate(stat, 0.0, pieces)
