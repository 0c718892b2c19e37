"""Search by words and filters such as ``agent:pi date:7d``, with one parser for all.

The picker, ``/search`` and ``sessiontree search`` ask here. Filters are explained in
``discovery.search.filters``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from sessiontree.clock import now_ms
from sessiontree.discovery.adapters import agent_names
from sessiontree.discovery.listing import NO_MESSAGES, SessionInfo
from sessiontree.discovery.search.filters import Filters, parse_filters
from sessiontree.discovery.search.hits import SearchHit, SearchResults
from sessiontree.discovery.search.times import to_datetime
from sessiontree.discovery.sources import Source, find_sources
from sessiontree.errors import SessionTreeError
from sessiontree.scope import Progress, Scope
from sessiontree.text.words import clean_line, to_local

if TYPE_CHECKING:  # loaded when a search found nothing: most find something
    from sessiontree.discovery.search.near_misses import NearMiss


class FilterError(SessionTreeError, ValueError):
    """A filter of a query can't be read; the message says what to write."""


class ModelReader:
    """The models that answered in a session: from the catalogue, where each agent is read once.

    A store, and a folder of no agent, are in none: there the session is read.
    """

    def __init__(self) -> None:
        self._by_path: dict[str, Sequence[str]] = {}
        self._is_read = False

    def read(self, info: SessionInfo, scope: Scope) -> Sequence[str]:
        """The models of a session; none if its file is of no agent."""
        if scope.files is not None and not self._is_read:
            self._is_read = True
            for source in self._sources:
                paid = source.survey_answers()
                for path in paid:
                    whole = source.places.parts.get(path, path)
                    self._by_path[whole] = [*self._by_path.get(whole, ()), *paid.models(path)]
        if info.path not in self._by_path and not (scope.files is not None and scope.agents):
            from sessiontree.stores.usage import read_models

            self._by_path[info.path] = read_models(scope.store_of(info.path), info.path)
        return self._by_path.get(info.path, ())

    @cached_property
    def _sources(self) -> list[Source]:
        return find_sources("all")


class FilteredSearch(msgspec.Struct):
    """A query with its filters, to be asked of a scope."""

    scope: Scope
    filters: Filters
    today: date
    models: ModelReader = msgspec.field(default_factory=ModelReader)

    @classmethod
    def of(cls, query: str, scope: Scope) -> FilteredSearch:
        """Read the query. Raises FilterError."""
        filters = parse_filters(query, agent_names())
        if filters.problem is not None:
            raise FilterError(f'{filters.problem} (in quotes it is text: "key:value")')
        return cls(scope, filters, local_day())

    def accepts(self, info: SessionInfo) -> bool:
        """Whether the filters leave this session."""
        agent = self.scope.agent_of(info)
        read = partial(self.models.read, scope=self.scope)
        return self.filters.accepts(info, agent, self.today, read)

    def search(
        self,
        *,
        role: str | None = None,
        since: datetime | None = None,
        include_tools: bool = False,
        limit: int | None = 20,
        on_progress: Progress | None = None,
        on_part: Callable[[SearchResults], object] | None = None,
    ) -> SearchResults:
        """Find the sessions, best first; with filters alone newest first.

        ``on_part`` is called with the hits after a second, if the index is not complete by then.
        Raises what ``Scope.search`` raises.
        """
        filters, scope = self.filters, self.scope
        if filters.agents is not None and scope.agents is not None:
            scope = replace(scope, agents=filters.agents)
        if not filters.words and filters.is_about_sessions:
            return self._list(scope, since, limit, on_progress)
        return scope.search(
            filters.words,
            role=role or filters.role,
            since=since,
            include_tools=include_tools or filters.in_tools,
            limit=limit,
            on_progress=on_progress,
            accept=self.accepts if filters.is_about_sessions else None,
            on_part=on_part,
        )

    def _list(
        self, scope: Scope, since: datetime | None, limit: int | None, progress: Progress | None
    ) -> SearchResults:
        """List what the filters leave: of a store no more pages than it takes."""
        left: list[SessionInfo] = []
        is_all = True
        for page in scope.pages(progress):
            if limit is not None and len(left) >= limit:
                is_all = False
                break
            left += [info for info in page if self.accepts(info)]
            if since is not None:
                left = [info for info in left if info.modified >= since]
        hits = [_make_hit(info, scope.agent_of(info)) for info in left[:limit]]
        results = SearchResults(hits)
        results.total = len(left) if is_all else None
        return results

    def near_miss(self, *, include_tools: bool = False) -> NearMiss:
        """Say what a query without results may have meant; its ``query`` has results."""
        from sessiontree.discovery.search.near_misses import NearMiss, find_near_miss

        if self.scope.files is None and self.scope.agents is None:
            return NearMiss()  # a store's own search has no list of words
        in_tools = include_tools or self.filters.in_tools
        near = find_near_miss(self.filters.words, in_tools=in_tools)
        if near.query is None:
            return near
        meant = replace(self, filters=replace(self.filters, words=near.query))
        return (
            near
            if meant.search(include_tools=include_tools, limit=1)
            else NearMiss(unknown=near.unknown)
        )


def _make_hit(info: SessionInfo, agent: str) -> SearchHit:
    first = "" if info.first_message == NO_MESSAGES else info.first_message
    return SearchHit(info, "", "user", info.modified, clean_line(first), (), 0.0, agent)


def local_day() -> date:
    """The present day where the user is."""
    moment = to_datetime(now_ms())
    return to_local(moment).date() if moment is not None else date.max
