"""Search in PostgreSQL: the database finds candidates by their words, their lines decide.

A session matches if each wanted term is in a message or in its name and no unwanted one is
(``discovery.search``). The word index answers that for single words; a phrase, or a word longer
than the index keeps, is looked for in the lines of the few that are shown. A term of more messages
than ``MOST_ROWS`` gives its share only through the other terms, or through as many as that, and the
newest sessions are asked where this gives little: no word is so common that a search takes long.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessiontree import clock
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.search.hits import IndexProgress, SearchResults
from sessiontree.discovery.search.names import texts_of
from sessiontree.discovery.search.query import Query, Term, parse_query
from sessiontree.discovery.search.scan import (
    Matcher,
    SessionMatch,
    judge_texts,
    make_hit,
    roles_for,
)
from sessiontree.discovery.search.times import Since, to_ms
from sessiontree.discovery.texts import SPOKEN_ROLES, TOOL_ROLES, SaidText
from sessiontree.stores.matching import said_in_line
from sessiontree.stores.postgres.database import Statement
from sessiontree.stores.postgres.listing import COLUMNS, IN_ORDER, filter_of, make_info, pages
from sessiontree.stores.postgres.pool import Row
from sessiontree.stores.postgres.rows import cut_word, quote_word
from sessiontree.stores.postgres.texts import index_session, unindexed, unindexed_statement

if TYPE_CHECKING:
    from sessiontree.stores.postgres.store import PostgresStore

MOST_ROWS = 5_000
MOST_INDEXING_S = 1.0
_MOST_SESSIONS = 1_000
_MOST_ASKED = 150
_ROWS_SHOWN = 20
_STEP = 20
_HALF_LIFE_DAYS = 30.0
_NAME_WEIGHT = 3.0
_UNINDEXED_AT_ONCE = 200

OnProgress = Callable[[int, int], object]


def search_rows(
    store: PostgresStore,
    query: str,
    *,
    cwd: str | None = None,
    scope: str | None = None,
    limit: int | None = 20,
    role: str | None = None,
    since: Since | None = None,
    include_tools: bool = False,
    on_progress: OnProgress | None = None,
    max_indexing_s: float | None = MOST_INDEXING_S,
    accept: Callable[[SessionInfo], bool] | None = None,
) -> SearchResults:
    """The sessions that contain the words of a query, best first; any text is a query.

    Of those that ``accept`` takes all are found, the newest of the rest behind the best.
    """
    if role is not None and role not in SPOKEN_ROLES | TOOL_ROLES | {"tool"}:
        raise ValueError(f"no such role: {role!r}")
    parsed = parse_query(query)
    results = SearchResults()
    if not parsed.wanted:
        return results
    run = _Search(store, parsed, cwd, scope, roles_for(role, include_tools), to_ms(since))
    run.has_names = role is None
    if run.is_behind():
        results.indexing = _index(store, max_indexing_s, on_progress)
    run.fill(results, limit, accept)
    return results


def _index(
    store: PostgresStore, max_indexing_s: float | None, on_progress: OnProgress | None
) -> IndexProgress:
    """Index missing words for as long as it may take; return how far that came."""
    deadline = time.monotonic() + max_indexing_s if max_indexing_s is not None else math.inf

    def is_late() -> bool:
        return time.monotonic() >= deadline

    done = 0
    while waiting := unindexed(store.database, _UNINDEXED_AT_ONCE):
        for sid in waiting:
            if not index_session(store.database, sid, is_late) or is_late():
                return IndexProgress(done, done + len(waiting))
            done += 1
            if on_progress is not None:
                on_progress(done, done + len(waiting))
    return IndexProgress(done, done)


@dataclass(slots=True)
class _Candidate:
    info: SessionInfo
    sid: int
    score: float


class _Search:
    """One search under way."""

    def __init__(
        self,
        store: PostgresStore,
        query: Query,
        cwd: str | None,
        scope: str | None,
        roles: frozenset[str],
        since_ms: int | None,
    ) -> None:
        self._store = store
        self._db = store.database
        self._query = query
        self._roles = roles
        self._since_ms = since_ms
        self._matcher = Matcher(query)
        self._cwd, self._scope = cwd, scope
        self._filter, self._filter_values = filter_of(cwd, scope, "s.")
        self.has_names = True
        self._is_capped = False
        self._found: list[Row] | None = None

    def is_behind(self) -> bool:
        """Whether words are missing in the index; a single term is looked for in the same trip."""
        missing = [unindexed_statement(1)]
        is_alone = len(self._query.wanted) == 1 and not self._query.needs_scan
        asked = self._find_statements([0]) if is_alone else []
        told = self._db.run_all([*missing, *asked])
        if told[0]:
            return True
        self._found = told[-1] if asked else None
        return False

    # -- candidates ------------------------------------------------------------------------

    def fill(
        self,
        results: SearchResults,
        limit: int | None,
        accept: Callable[[SessionInfo], bool] | None = None,
    ) -> None:
        """Turn the best candidates into hits."""
        best = self._candidates()
        is_all = len(best) < _MOST_SESSIONS and not self._is_capped
        left = best if accept is None else [each for each in best if accept(each.info)]
        wrong = self._take(results, left, limit)
        count = len(left) - wrong
        if accept is not None and not is_all and (limit is None or len(results) < limit):
            is_all = self._take_rest(results, limit, accept, {each.sid for each in best})
            count = len(results)
        results.total = count if is_all else None

    def _take(self, results: SearchResults, candidates: list[_Candidate], limit: int | None) -> int:
        """Add those of the candidates that match, as many as there is room for; how many do not."""
        start = wrong = 0
        while start < len(candidates) and (limit is None or len(results) < limit):
            size = _STEP if limit is None else limit - len(results)
            some = candidates[start : start + size]
            start += len(some)
            said = self._read_texts([candidate.sid for candidate in some])
            for candidate in some:
                match = self._match(candidate.info, said.get(candidate.sid, []))
                if match is None:
                    wrong += 1
                else:
                    name = self._store.profile.name
                    results.append(make_hit(candidate.info, match, candidate.score, name))
        return wrong

    def _take_rest(
        self,
        results: SearchResults,
        limit: int | None,
        accept: Callable[[SessionInfo], bool],
        known: set[int],
    ) -> bool:
        """Look through all sessions for those that are accepted; whether that came to the end."""
        for page in pages(self._store, *filter_of(self._cwd, self._scope)):
            infos = {row[0]: make_info(self._store, row) for row in page if row[0] not in known}
            sids = [sid for sid, info in infos.items() if accept(info)]
            found = [_Candidate(infos[sid], sid, 0.0) for sid in self._that_have_all(sids)]
            self._take(results, found, limit)
            if limit is not None and len(results) >= limit:
                return False
        return True

    def _that_have_all(self, sids: list[int]) -> list[int]:
        """Those of some sessions that have every term, in their order."""
        if self._query.needs_scan:
            return sids
        having: list[int] = []
        condition, values = self._having_all()
        sql = f"SELECT s.sid FROM st_session s WHERE s.sid = ANY (%s) AND {_LISTED} AND {condition}"
        for start in range(0, len(sids), _MOST_ASKED):
            some = sids[start : start + _MOST_ASKED]
            found = {sid for (sid,) in self._db.run(sql, (some, *values))}
            having += [sid for sid in some if sid in found]
        return having

    def _having_all(self) -> tuple[str, list[Any]]:
        """The condition for sessions that have every term, and its values."""
        values: list[Any] = []
        for term in self._query.wanted:
            values += [*self._has_values(term), *self._called_values(term)]
        return " AND ".join([f"({_HAS_IT})"] * len(self._query.wanted)), values

    def _match(self, info: SessionInfo, texts: Iterable[SaidText]) -> SessionMatch | None:
        is_old = self._since_ms is not None and info.modified.timestamp() * 1000 < self._since_ms
        name = texts_of(info.title) if self.has_names and not is_old else []
        if self._query.unwanted:  # then all of them count
            return judge_texts(self._matcher, [*name, *reversed([*texts])])
        return judge_texts(self._matcher, [*texts, *name], is_newest_first=True)

    def _candidates(self) -> list[_Candidate]:
        """Sessions that may match, best first."""
        if self._query.needs_scan:
            rows = self._newest()
        else:
            is_alone = len(self._query.wanted) == 1
            counts = [0] if is_alone else self._count_rows()
            asked = self._find_statements(counts) if self._found is None else []
            rows = self._db.run_all(asked)[-1] if asked else self._found or []
            if is_alone:
                counts = [rows[0][-1]] if rows else self._count_rows()
            self._is_capped = min(counts) >= MOST_ROWS
            if self._is_capped and len(rows) < _STEP:
                known = {row[1] for row in rows}
                rows += [row for row in self._look_through() if row[1] not in known]
        now = clock.now()
        made = []
        for row in rows:
            info = make_info(self._store, row[1:])
            age_days = max(0.0, (now - info.modified).total_seconds() / 86_400)
            score = (row[0] or 0.0) * (1.0 + math.pow(0.5, age_days / _HALF_LIFE_DAYS))
            made.append(_Candidate(info, row[1], score))
        made.sort(key=lambda each: (each.score, each.info.modified, each.info.path), reverse=True)
        return made

    def _newest(self) -> list[Row]:
        """A literal has no words: the newest sessions are looked through."""
        newest = Statement(
            f"SELECT 0.0::float8, {COLUMNS} FROM st_session s WHERE {self._filter} AND {_LISTED} "
            "ORDER BY minute DESC, modified DESC, sid DESC LIMIT %s",
            (*self._filter_values, _MOST_SESSIONS),
        )
        return self._db.run_all([IN_ORDER, newest])[1]

    def _look_through(self) -> list[Row]:
        """The newest sessions that have every term: each is common, so few have to be asked.

        Where the messages that were taken of a common term are of other projects, or never of the
        same session as those of another.
        """
        newest = (
            f"SELECT * FROM st_session s WHERE {self._filter} AND {_LISTED} "
            "ORDER BY minute DESC, modified DESC, sid DESC LIMIT %s"
        )
        has_all, values = self._having_all()
        columns = ", ".join(f"s.{column}" for column in COLUMNS.split(", "))
        sql = f"SELECT 0.0::float8, {columns} FROM ({newest}) s WHERE {has_all}"
        asked = Statement(sql, (*self._filter_values, _MOST_ASKED, *values))
        return self._db.run_all([IN_ORDER, asked])[1]

    def _count_rows(self) -> list[int]:
        """Count the messages that may have each wanted term, up to a few."""
        counts = self._db.run_all(
            [
                Statement(
                    "SELECT count(*) FROM st_said(%s::tsquery, %s, %s, %s)",
                    (*self._said_values(term), MOST_ROWS + 1),
                )
                for term in self._query.wanted
            ]
        )
        return [rows[0][0] for rows in counts]

    def _find_statements(self, counts: list[int]) -> list[Statement]:
        """The statements for sessions that have every wanted term somewhere, with their relevance.

        Behind each row stands how many messages of the first term were taken.
        """
        rare = [at for at, count in enumerate(counts) if count <= MOST_ROWS]
        wanted = self._query.wanted
        ctes: list[str] = []
        values: list[Any] = []
        weights: list[str] = []
        found: list[str] = []
        joins: list[str] = []
        for at, term in enumerate(wanted):
            if at not in rare and (rare or len(wanted) > 1):
                continue
            ctes.append(self._term_cte(at))
            values += self._term_values(term)
            found.append(f"w{at}" if not found else f"JOIN w{at} USING (sid)")
            weights.append(f"w{at}.score")
        if not ctes:  # all terms are common: sessions where one message has all of them
            ctes.append(self._term_cte(0))
            values += self._term_values(_together(wanted))
            found.append("w0")
            weights.append("w0.score")
        elif rare:
            for at, term in enumerate(wanted):
                if at not in rare:
                    joins.append(f"JOIN LATERAL (SELECT WHERE {_HAS_IT}) x{at} ON true")
                    values += [*self._has_values(term), *self._called_values(term)]
        columns = ", ".join(f"s.{column}" for column in COLUMNS.split(", "))
        by_number = _BY_NUMBER.format(found[0])
        taken = f"(SELECT count(*) FROM t{rare[0] if rare else 0})"
        sql = (
            f"WITH {', '.join(ctes)} SELECT ({' + '.join(weights)})::float8, {columns}, {taken} "
            f"FROM {' '.join(found)} JOIN LATERAL ({by_number}) s ON true {' '.join(joins)} "
            f"WHERE {self._filter} AND {_LISTED} ORDER BY 1 DESC, s.modified DESC LIMIT %s"
        )
        values += [*self._filter_values, _MOST_SESSIONS]
        return [Statement("SET LOCAL jit = off"), Statement(sql, values)]

    @staticmethod
    def _term_cte(at: int) -> str:
        """The sessions with a term: how much it says of each, by its messages and its name."""
        return (
            f"t{at} AS MATERIALIZED (SELECT sid FROM st_said(%s::tsquery, %s, %s, %s) sid), "
            f"m{at} AS MATERIALIZED (SELECT sid, count(*) AS n FROM t{at} GROUP BY sid), "
            f"n{at} AS MATERIALIZED (SELECT sid FROM st_called(%s::tsquery, %s) sid WHERE %s), "
            f"r{at} AS MATERIALIZED (SELECT ln(1 + 1e6 / (0.5 + count(*))) AS rarity FROM m{at}), "
            f"w{at} AS MATERIALIZED (SELECT sid, sum(score) AS score FROM ("
            f"SELECT sid, rarity * n * 2.2 / (n + 1.2) AS score FROM m{at}, r{at} UNION ALL "
            f"SELECT sid, rarity * {_NAME_WEIGHT} FROM n{at}, r{at}) u GROUP BY sid)"
        )

    def _term_values(self, term: Term) -> list[Any]:
        said = self._said_values(term)
        return [*said, MOST_ROWS, _spell_query(term), MOST_ROWS, self.has_names]

    def _said_values(self, term: Term) -> list[Any]:
        return [_spell_query(term), sorted(self._roles), self._since_ms]

    def _has_values(self, term: Term) -> list[Any]:
        return [*self._said_values(term), self._since_ms]

    def _called_values(self, term: Term) -> list[Any]:
        return [self.has_names, _spell_query(term)]

    # -- what is shown ---------------------------------------------------------------------

    def _read_texts(self, sids: list[int]) -> dict[int, list[SaidText]]:
        """Of each session the newest texts that may have a term, newest first."""
        if self._query.needs_scan:
            rows = self._db.run(_ALL_LINES, (sids,))
        else:
            terms = self._query.wanted + self._query.unwanted
            asked = [_spell_query(term) for term in terms]
            if len(self._query.wanted) > 1:
                asked.append(_spell_query(_together(self._query.wanted)))
            since = "AND t.said >= %s" if self._since_ms is not None else ""
            rows = self._db.run(
                _LINES.format(since=since),
                (
                    sids,
                    asked,
                    sorted(self._roles),
                    *([] if self._since_ms is None else [self._since_ms]),
                    _ROWS_SHOWN,
                ),
            )
        made: dict[int, list[SaidText]] = {}
        for sid, line in rows:
            said = said_in_line(bytes(line), self._roles, self._since_ms)
            made.setdefault(sid, []).extend(said)
        return made


_HAS_IT = (
    "EXISTS (SELECT FROM st_text t WHERE t.sid = s.sid AND t.words @@ %s::tsquery "
    "AND t.role = ANY (%s) AND t.tenant = (SELECT st_tenant()) "
    "AND (%s::bigint IS NULL OR t.said >= %s)) OR (%s AND s.names @@ %s::tsquery)"
)
"""Whether a session has a term, in whatever message or its name."""

# a fence: the planner expects a tenant to have few sessions, and would read all of them for this
_BY_NUMBER = "SELECT * FROM st_session x WHERE x.sid = {}.sid OFFSET 0"
_LISTED = "s.tenant = (SELECT st_tenant()) AND s.deleted IS NULL AND s.answered"
_LINES = (
    "SELECT e.sid, e.line FROM (SELECT DISTINCT f.sid, f.seq FROM "
    "unnest(%s::bigint[]) AS w(sid), unnest(%s::text[]::tsquery[]) AS q(term), LATERAL ("
    "SELECT t.sid, t.seq FROM st_text t WHERE t.sid = w.sid AND t.words @@ q.term "
    "AND t.role = ANY (%s) AND t.tenant = (SELECT st_tenant()) {since} "
    "ORDER BY t.seq DESC LIMIT %s) f) d "
    "JOIN st_entry e ON e.sid = d.sid AND e.seq = d.seq ORDER BY e.sid, e.seq DESC"
)
_ALL_LINES = (
    "SELECT sid, line FROM st_entry WHERE sid = ANY (%s) AND kind = 'message' "
    "AND tenant = (SELECT st_tenant()) ORDER BY sid, seq DESC"
)


def _spell_query(term: Term) -> str:
    """The words of a term, all of them in one message, as a tsquery; it ignores their order."""
    words = [quote_word(cut_word(word)) for word in term.words]
    cut = [at for at, word in enumerate(term.words) if cut_word(word) != word]
    if term.is_prefix and len(term.words) - 1 not in cut:
        words[-1] += ":*"
    return " & ".join(words)


def _together(terms: Iterable[Term]) -> Term:
    """One term with the words of all; only for the index, which ignores order."""
    words = [word for term in terms for word in term.words]
    return Term(tuple(words))
