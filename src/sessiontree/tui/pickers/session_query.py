"""The query of a session picker: words, filters, and what the search index knows of the words.

Parses with the parser of ``sessiontree search`` and asks its index, in the caller's thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from sessiontree.discovery.adapters import agent_names
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.search import match_index
from sessiontree.discovery.search.filters import (
    DAYS,
    ROLES,
    STATES,
    Filters,
    complete,
    parse_filters,
)
from sessiontree.discovery.search.query import Query as IndexQuery
from sessiontree.discovery.search.query import parse_query
from sessiontree.scope import Scope
from sessiontree.serving.filtered_search import FilteredSearch, ModelReader, local_day
from sessiontree.tui.fuzzy import Query
from sessiontree.tui.pickers.session_rows import Reason, SessionRow, TextMatches

_MOST_HITS = 200
"""Hits to ask of a store that has a search of its own."""
_REMEMBERED_REASONS = 256
_FIELD_OF_ROLE = {"name": "name", "user": "text", "assistant": "text"}


class SessionQuery:
    """A typed query, parsed."""

    def __init__(self, text: str, models: ModelReader | None = None) -> None:
        self.text = text
        self.filters: Filters = parse_filters(text, agent_names())
        self.matcher = Query(self.filters.words)
        self.models = models or ModelReader()

    @property
    def is_empty(self) -> bool:
        """Whether it leaves every session."""
        return self.matcher.is_empty and self.filters.is_empty

    @property
    def has_words(self) -> bool:
        return not self.matcher.is_empty

    @property
    def error(self) -> str | None:
        """The mistake in it, in one line."""
        return self.filters.problem or self.matcher.error

    @property
    def words(self) -> tuple[str, ...]:
        """The words to mark in a preview."""
        return self.matcher.words

    @property
    def needs_index(self) -> bool:
        """Whether the texts that the picker reads don't suffice: they are what both sides said."""
        return self.has_words and (self.filters.role is not None or self.filters.in_tools)

    def accept(self, scope: Scope) -> Callable[[SessionInfo], bool] | None:
        """A test of whether the filters leave a session; None if they leave all."""
        if not self.filters.is_about_sessions:
            return None
        return FilteredSearch(scope, self.filters, local_day(), self.models).accepts

    def find_texts(self, scope: Scope) -> tuple[TextMatches, int]:
        """Ask the index which texts match; also return how many files it does not hold yet."""
        filters = self.filters
        parsed = parse_query(filters.words)
        if scope.files is None:
            return self._ask_store(scope), 0
        found = match_index(
            _with_beginnings(parsed),
            profile=None if scope.agents else scope.profile,
            agents=scope.agents,
            cwd=scope.cwd if scope.reach == "project" else None,
            role=filters.role,
            include_tools=filters.in_tools,
        )

        @lru_cache(_REMEMBERED_REASONS)
        def find_reason(row: SessionRow) -> Reason | None:
            snippet = found.snippet(row.info.path)
            if snippet is None:
                return None
            role, text, marks = snippet
            return Reason(_FIELD_OF_ROLE.get(role, "tool"), text, marks)

        matches = TextMatches(found.found, find_reason, are_alone=self.needs_index)
        return matches, len(found.pending)

    def _ask_store(self, scope: Scope) -> TextMatches:
        hits = scope.search(
            self.filters.words,
            role=self.filters.role,
            include_tools=self.filters.in_tools,
            limit=_MOST_HITS,
        )
        reasons = {hit.path: Reason("text", hit.snippet, hit.marks) for hit in hits}
        return TextMatches(
            reasons, lambda row: reasons.get(row.info.path), are_alone=self.needs_index
        )

    def near_miss(self, scope: Scope) -> str | None:
        """A query that is spelled almost the same and finds something; None without one."""
        if not self.words or self.error is not None:
            return None
        asked = FilteredSearch(scope, self.filters, local_day(), self.models)
        near = asked.near_miss().query
        return None if near is None else self.text.replace(self.filters.words, near)


def _with_beginnings(query: IndexQuery) -> IndexQuery:
    """The query with each word as the beginning of one, since the last is still being typed."""
    wanted = tuple(
        replace(term, is_prefix=True) if term.literal is None and len(term.words) == 1 else term
        for term in query.wanted
    )
    return replace(query, wanted=wanted)


def complete_query(text: str, infos: Sequence[SessionInfo], agents: Sequence[str]) -> str | None:
    """The text with its last word completed to a filter; None if it doesn't begin a filter."""
    folders = dict.fromkeys(
        part for info in infos[:500] if (part := info.cwd.rstrip("/").rpartition("/")[2])
    )
    values = {
        "agent": agents,
        "dir": [*folders],
        "date": DAYS,
        "role": [*dict.fromkeys(ROLES.values())],
        "is": STATES,
        "in": ("tools",),
    }
    if re.search(r'"[^"]*$', text) and text.count('"') % 2:
        return None
    found = complete(text, values)
    return found[0] if found and found[0] != text else None
