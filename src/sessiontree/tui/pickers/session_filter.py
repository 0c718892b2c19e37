"""Find the rows of a session picker for one query, in a thread.

A ``SessionFilter`` holds what counted when the query was asked. Typing on, another breadth or a
longer list lead to another filter; they never change this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sessiontree.scope import Scope
from sessiontree.tui.background import BackgroundWork
from sessiontree.tui.pickers.session_query import SessionQuery
from sessiontree.tui.pickers.session_rows import SessionIndex, SessionRow, Sort, explain

_EXPLAINED = 30
"""Rows whose reasons are found before drawing: about a screenful."""

OnPart = Callable[[list[SessionRow], int], object]
"""Receives the rows found so far, and how many sessions were checked."""


@dataclass(frozen=True, slots=True)
class FilteredRows:
    """The rows of a query; None if it was stopped."""

    rows: list[SessionRow] | None
    instead: str | None = None
    """The query whose rows these are, if the asked one found nothing and was misspelled."""
    wants_index: bool = False
    """Whether an up-to-date index could answer better."""
    is_fuzzy: bool = False
    """Whether no row has the words themselves, only their letters."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """One query to one list of sessions."""

    query: SessionQuery
    index: SessionIndex
    scope: Scope
    sort: Sort
    named_only: bool
    is_complete: bool
    """Whether all sessions of the breadth are listed."""
    is_read: bool
    """Whether the list holds the texts of all its sessions."""
    can_ask: bool
    """Whether the search index covers these sessions, and no others."""
    is_indexed: bool
    """Whether this picker has brought that index up to date."""

    def run(self, work: BackgroundWork, on_part: OnPart) -> FilteredRows:
        """Find the rows; if none has the words, those of the query that was probably meant."""
        if self.query.error is not None:
            return FilteredRows([])
        rows, pending = self._find(self.query, work, on_part)
        is_fuzzy = bool(rows) and all(_is_fuzzy(row) for row in rows or ())
        wants_near_miss = (rows == [] or is_fuzzy) and self._may_correct
        instead = None
        if wants_near_miss and self.is_indexed and not work.is_stopped:
            instead = self.query.near_miss(self.scope)
            if instead is not None:
                is_fuzzy = False
                rows, _ = self._find(SessionQuery(instead, self.query.models), work, on_part)
        wants_index = wants_near_miss or (self.can_ask and pending > 0 and self.query.needs_index)
        is_in_files = self.scope.files is not None
        explained = None if rows is None else _explain_first(rows, work)
        return FilteredRows(explained, instead, wants_index and is_in_files, is_fuzzy)

    @property
    def _may_correct(self) -> bool:
        """Whether finding nothing means that nothing has these words as they are spelled."""
        is_certain = self.is_complete and (self.is_read or self.query.needs_index)
        return self.query.has_words and self.can_ask and is_certain

    def _find(
        self, query: SessionQuery, work: BackgroundWork, on_part: OnPart
    ) -> tuple[list[SessionRow] | None, int]:
        """Find a query's rows, and how many files the index does not hold yet."""
        texts, pending = None, 0
        if query.has_words and self.can_ask and (query.needs_index or not self.is_read):
            texts, pending = query.find_texts(self.scope)
            if work.is_stopped:
                return None, 0
        rows = self.index.rows(
            query.matcher,
            self.sort,
            named_only=self.named_only,
            accept=query.accept(self.scope),
            texts=texts,
            should_stop=lambda: work.is_stopped,
            on_part=lambda part, checked: on_part(_explain_first(part, work), checked),
        )
        return rows, pending


def _is_fuzzy(row: SessionRow) -> bool:
    return row.match is not None and row.match.is_fuzzy


def _explain_first(rows: list[SessionRow], work: BackgroundWork) -> list[SessionRow]:
    """Find the reasons of the first rows here, since this thread may read and drawing may not."""
    for row in rows[:_EXPLAINED]:
        if work.is_stopped:  # the next letter is there: these rows will not be shown
            break
        explain(row)
    return rows
