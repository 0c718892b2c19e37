"""Load, read and filter the rows of a session picker, in threads.

Keeps the breadth, the query, the order, and how complete the list is. Draws nothing; calls its
owner whenever rows or facts change.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from textual.message_pump import MessagePump

from sessiontree.discovery.listing import SessionInfo, SessionList
from sessiontree.discovery.search import update_search_index
from sessiontree.tui import safe_text
from sessiontree.tui.background import BackgroundWork, run_in_background, tell_from_thread
from sessiontree.tui.pickers.session_actions import (
    Breadth,
    SessionShelf,
    explain_failure,
    unread_texts,
)
from sessiontree.tui.pickers.session_filter import FilteredRows, SessionFilter
from sessiontree.tui.pickers.session_query import SessionQuery
from sessiontree.tui.pickers.session_rows import (
    SORTS,
    SessionIndex,
    SessionRow,
    Sort,
    effective_sort,
    read_words,
    short_path,
)
from sessiontree.tui.theme import is_line_slow

_TEXT_BATCH = 50
_REFRESH_S = 0.5
_SLOW_REFRESH_S = 3.0
"""Seconds between two filterings while texts are being read."""
_TURN_S = 0.01
"""Seconds that one thread leaves to another, which may be ahead of it in a moment."""
_DRAWING_S = 0.03
"""The same for drawing a screen."""
_MAX_WORDS = 150_000_000
"""Bytes of words to keep for searching, over all sessions."""


@dataclass(frozen=True, slots=True)
class FeedOwner:
    """The owner of a feed: its task, and the methods that the feed calls."""

    pump: MessagePump
    show_rows: Callable[[list[SessionRow], bool], None]
    """Show other rows; keep the cursor on its session if asked to."""
    show_facts: Callable[[], None]
    """Show the feed's facts, which changed."""
    say: Callable[[str], None]
    """Show an error in one line."""


class SessionFeed:
    """The sessions of one picker."""

    def __init__(self, shelf: SessionShelf, query: str, owner: FeedOwner) -> None:
        self.query = SessionQuery(query)
        self.breadth: Breadth = shelf.breadths[0]
        self.instead: str | None = None
        """The query whose rows are shown, where the typed one finds nothing and was misspelled."""
        self.is_fuzzy = False
        """Whether the shown rows have only the letters of what was typed."""
        self.named_only = False
        self._is_looking_wider = True
        self.progress: tuple[int, int] | None = None
        self._shelf = shelf
        self._owner = owner
        self._chosen_sort: Sort | None = None
        self._indexes: dict[Breadth, SessionIndex] = {}
        self._lists: dict[Breadth, SessionList] = {}
        self._loading: dict[Breadth, BackgroundWork] = {}
        self._filtering: BackgroundWork | None = None
        self._turn = threading.Lock()
        self._asked: SessionFilter | None = None
        """The latest filter: only its rows are shown."""
        self._has_part = False
        self._reading: BackgroundWork | None = None
        self._read_for: SessionIndex | None = None
        self._indexing: BackgroundWork | None = None
        self._indexed: set[Breadth] = set()
        self._words: dict[str, bytes] = {}
        self._words_bytes = 0
        self._refreshed_at = 0.0

    # -- what is known ---------------------------------------------------------------------------

    @property
    def sort(self) -> Sort:
        """The present order."""
        return effective_sort(self._chosen_sort, self.query.matcher)

    def infos(self) -> list[SessionInfo]:
        """The known sessions of the breadth."""
        return self._index.infos

    @property
    def total(self) -> int:
        """The number of sessions of the breadth that are known."""
        return len(self._index)

    @property
    def unreadable(self) -> int:
        found = self._lists.get(self.breadth)
        return len(found.unreadable) if found is not None else 0

    @property
    def is_complete(self) -> bool:
        """Whether all sessions of the breadth are listed."""
        return self.breadth in self._lists

    @property
    def is_filtering(self) -> bool:
        """Whether no row of the latest query has arrived yet."""
        return self._filtering is not None and not self._has_part

    @property
    def word_texts(self) -> str:
        """Say that texts are being read, or how many are not searched; empty if all are."""
        if not self.query.has_words or not self.is_complete:
            return ""
        if self._indexing is not None and not self._indexing.is_done:
            return "indexing"
        if self.query.needs_index:
            return ""
        if self._reading is not None and not self._reading.is_done:
            return "reading texts"
        unread = sum(not self._index.has_text(info.path) for info in self._index.infos)
        return f"{unread:,} only by name" if unread else ""

    @property
    def is_busy(self) -> bool:
        """Whether any list, filter or text is still being worked on."""
        works = [*self._loading.values(), self._filtering, self._reading, self._indexing]
        return any(one is not None and not one.is_done and not one.is_stopped for one in works)

    @property
    def _index(self) -> SessionIndex:
        return self._indexes.setdefault(self.breadth, SessionIndex(words=self._words))

    def word_emptiness(self) -> str:
        """Explain why the list is empty, and what to do."""
        if self.query.error is not None:
            return self.query.error
        if not self.is_complete:
            return "Reading sessions…"
        is_project = self.breadth in ("folder", "project")
        hint = " · Tab shows all projects" if is_project else ""
        if self.breadth == "all" and "agents" in self._shelf.breadths:
            hint = " · Tab shows all agents"
        if not self.query.is_empty and self.query.filters.problem is None:
            if self.named_only:
                query = safe_text.one_line(self.query.text)
                return f"Nothing with a name matches {query} · Ctrl+O shows those without{hint}"
            return f"Nothing matches {safe_text.one_line(self.query.text)}{hint}"
        if self.named_only:
            return f"No session has a name · Ctrl+O shows those without{hint}"
        moved = self._lists[self.breadth].moved
        if moved:
            old = safe_text.one_line(short_path(moved[0].cwd))
            return f"No sessions here. If this project was {old}: sessiontree relink {old}"
        # Those of other agents may be many, and are not among these.
        agent = self._shelf.scope.profile.name
        owner = f" of {agent}" if "agents" in self._shelf.breadths else ""
        where = " in this project" if is_project else ""
        return f"No sessions{owner}{where} yet{hint}"

    # -- what is wanted --------------------------------------------------------------------------

    def enter_breadth(self, breadth: Breadth) -> None:
        """List this project's sessions, or all."""
        self._is_looking_wider = False
        self._enter(breadth)

    def start(self, *, is_wide: bool = False) -> None:
        """List this project's sessions; if none is found, those of all projects, then all agents.

        ``is_wide`` begins with the latter, as it does where only these can have any.
        """
        self._is_looking_wider = True
        is_wide = is_wide or self._shelf.is_surely_bare
        wide: Breadth = "agents" if is_wide and self._shelf.expect_others() else "all"
        first = wide if is_wide and self._shelf.candidates is None else self.breadth
        self._enter(self._breadth_for_filters() or first)
        run_in_background(
            self._owner.pump,
            lambda _: self._shelf.look_for_others(),
            lambda _: self._take_others(),
            lambda _: None,
        )

    def _take_others(self) -> None:
        """Go on to all agents if nothing was found before it was known that there are others."""
        self._owner.show_facts()
        found = self._lists.get(self.breadth)
        if self._is_looking_wider and found is not None and not found and not found.moved:
            self._look_wider()
        elif self._is_looking_wider and not self.query.is_empty:
            self.filter()

    def _look_wider(self) -> bool:
        """List the next breadth, since nothing was found in this one; tell if there was one."""
        breadths = self._shelf.breadths
        at = breadths.index(self.breadth) + 1
        if not self._is_looking_wider or at == len(breadths):
            return False
        self._enter(breadths[at])
        return True

    def _enter(self, breadth: Breadth) -> None:
        self.breadth = breadth
        if breadth not in self._lists and breadth not in self._loading:
            self._load(breadth)
        self.filter(keep_cursor=False)

    @property
    def other_breadth(self) -> Breadth:
        """Return the breadth after the present one."""
        breadths = self._shelf.breadths
        return breadths[(breadths.index(self.breadth) + 1) % len(breadths)]

    def next_breadth(self) -> None:
        """List the sessions of the next breadth."""
        if self.other_breadth != self.breadth:
            self.enter_breadth(self.other_breadth)

    def set_query(self, text: str) -> None:
        """Set the query and filter."""
        if text == self.query.text:
            return
        self._set_query(text)
        self._is_looking_wider = False
        breadth = self._breadth_for_filters()
        if breadth is not None:
            self.enter_breadth(breadth)
            return
        self.filter(keep_cursor=False)

    def _set_query(self, text: str) -> None:
        self.query = SessionQuery(text, self.query.models)
        self.instead = None
        self.is_fuzzy = False

    def _breadth_for_filters(self) -> Breadth | None:
        """Where to look for what a filter names, if the present breadth can't have it."""
        filters, breadths = self.query.filters, self._shelf.breadths
        own = self._shelf.scope.profile.name
        if any(agent != own for agent in filters.agents or ()) and self.breadth != "agents":
            return "agents" if self._shelf.expect_others() else None
        is_near = self.breadth in ("folder", "project")
        return "all" if is_near and filters.values_of("dir") and "all" in breadths else None

    def next_sort(self) -> None:
        """Switch to the next order."""
        self._chosen_sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.filter()

    def toggle_named(self) -> None:
        """Switch between sessions with a name and all."""
        self.named_only = not self.named_only
        self.filter()

    def remove(self, path: str) -> None:
        """Take a removed session from the list."""
        for index in self._indexes.values():
            index.remove(path)

    def reload(self) -> None:
        """List again after a change on disk."""
        self._lists.clear()
        for one in self._loading.values():
            one.stop()
        self._load(self.breadth)
        self.filter()

    def stop(self) -> None:
        """Stop all work."""
        for one in (*self._loading.values(), self._filtering, self._reading, self._indexing):
            if one is not None:
                one.stop()

    # -- loading ---------------------------------------------------------------------------------

    def _load(self, breadth: Breadth) -> None:
        """List the newest few sessions first, then all."""
        loop, pump = asyncio.get_running_loop(), self._owner.pump

        def read(made: BackgroundWork) -> SessionList:
            glance = self._shelf.glance(breadth)
            tell_from_thread(pump, loop, made, self._take_glance, breadth, glance)
            if glance:  # two threads take turns in Python: these rows are to be drawn first
                time.sleep(_DRAWING_S)
            last = 0.0

            def progress(done: int, total: int) -> None:
                nonlocal last
                now = loop.time()
                if now - last > 0.1:
                    last = now
                    tell_from_thread(pump, loop, made, self._take_progress, done, total)

            return self._shelf.load(breadth, progress)

        self._loading[breadth] = run_in_background(
            pump,
            read,
            lambda found: self._take_list(breadth, found),
            lambda error: self._take_failure(breadth, error),
        )

    def _take_glance(self, breadth: Breadth, infos: list[SessionInfo]) -> None:
        if breadth not in self._lists and not self._indexes.get(breadth):
            self._indexes[breadth] = SessionIndex(infos, self._words)
            if breadth == self.breadth:
                self.filter()

    def _take_progress(self, done: int, total: int) -> None:
        self.progress = (done, total)
        self._owner.show_facts()

    def _take_list(self, breadth: Breadth, found: SessionList) -> None:
        self._loading.pop(breadth, None)
        self.progress = None
        self._lists[breadth] = found
        self._indexes.setdefault(breadth, SessionIndex(words=self._words)).replace_all(found)
        if breadth == self.breadth and not found and not found.moved and self._look_wider():
            return
        if breadth == self.breadth == "agents" and self._is_looking_wider and not found:
            self._shelf.expect_none_else()
            self._enter(self._shelf.breadths[0])
            return
        if breadth == self.breadth and found and self.query.is_empty:
            self._is_looking_wider = False
        if breadth == self.breadth:
            self.filter()

    def _take_failure(self, breadth: Breadth, error: Exception) -> None:
        known = self._indexes.setdefault(breadth, SessionIndex(words=self._words)).infos
        self._take_list(breadth, SessionList(known))
        self._owner.say(explain_failure(error))

    def _read_texts(self) -> None:
        """Read the sessions' texts, once a query has its first rows."""
        if not self.query.has_words or self.query.needs_index or not self.is_complete:
            return
        index, loop, pump = self._index, asyncio.get_running_loop(), self._owner.pump
        if self._read_for is index and self._reading is not None and not self._reading.is_done:
            return
        missing = unread_texts(index.infos, index.has_text)
        if not missing or self._words_bytes > _MAX_WORDS:
            return
        if self._reading is not None:
            self._reading.stop()
        self._read_for = index

        def read(made: BackgroundWork) -> list[tuple[str, bytes]]:
            batch: list[tuple[str, bytes]] = []
            total = self._words_bytes
            for info in missing:
                # Two threads take turns in Python: what was typed last is to be found first.
                while self.is_filtering and not made.is_stopped:
                    time.sleep(_TURN_S)
                if made.is_stopped or total > _MAX_WORDS:
                    break
                words = read_words(info)
                total += len(words)
                batch.append((info.path, words))
                if len(batch) >= _TEXT_BATCH:
                    tell_from_thread(pump, loop, made, self._take_texts, index, batch)
                    batch = []
            return batch

        self._reading = run_in_background(
            pump,
            read,
            lambda batch: self._take_texts(index, batch, is_last=True),
            lambda error: self._owner.say(explain_failure(error)),
        )

    def _take_texts(
        self, index: SessionIndex, batch: list[tuple[str, bytes]], *, is_last: bool = False
    ) -> None:
        for path, words in batch:
            index.put_words(path, words)
            self._words_bytes += len(words)
        now = time.monotonic()
        # The last ones may be all that another breadth was waiting for.
        pause = _SLOW_REFRESH_S if is_line_slow(os.environ) else _REFRESH_S
        is_due = index is self._index and now - self._refreshed_at > pause
        if (is_last or is_due) and self.query.has_words:
            self._refreshed_at = now
            self.filter()

    # -- filtering -------------------------------------------------------------------------------

    def filter(self, *, keep_cursor: bool = True) -> None:
        """Find the rows for the present query."""
        if self._filtering is not None:
            self._filtering.stop()
        self._has_part = False
        self._owner.show_facts()
        loop, pump, asked = asyncio.get_running_loop(), self._owner.pump, self._make_filter()
        self._asked = asked

        def find(made: BackgroundWork) -> FilteredRows:
            def tell(rows: list[SessionRow], checked: int) -> None:
                tell_from_thread(pump, loop, made, self._take_part, rows, checked, keep_cursor)

            with self._turn:  # of letters typed at once, only the last is looked for
                if asked.query.has_words and not made.is_stopped:
                    time.sleep(_TURN_S)
                return FilteredRows(None) if made.is_stopped else asked.run(made, tell)

        self._filtering = run_in_background(
            pump,
            find,
            lambda found: self._take_rows(asked, found, keep_cursor),
            self._take_filter_failure,
        )

    def _make_filter(self) -> SessionFilter:
        return SessionFilter(
            query=self.query,
            index=self._index,
            scope=self._shelf.reaching(self.breadth),
            sort=self.sort,
            named_only=self.named_only,
            is_complete=self.is_complete,
            is_read=all(self._index.has_text(info.path) for info in self._index.infos),
            can_ask=self._shelf.candidates is None and self.breadth != "folder",
            is_indexed=self.breadth in self._indexed,
        )

    def _take_part(self, rows: list[SessionRow], checked: int, keep_cursor: bool) -> None:
        if rows:
            self._owner.show_rows(rows, keep_cursor or self._has_part)
            self._has_part = True
        if self.is_complete:  # else it shows how far the listing is
            self._take_progress(checked, len(self._index))

    def _take_rows(self, asked: SessionFilter, found: FilteredRows, keep_cursor: bool) -> None:
        if asked is not self._asked:
            return  # its rows were on their way while another filter began
        self._filtering = None
        self.progress = None if self.is_complete else self.progress
        if self._finds_nothing(asked, found) and self._look_wider():
            return
        if found.rows is not None:
            self.instead = found.instead if found.rows else None
            self.is_fuzzy = found.is_fuzzy
            self._owner.show_rows(found.rows, keep_cursor or self._has_part)
        if found.wants_index:
            self._update_index()
        self._read_texts()

    def _finds_nothing(self, asked: SessionFilter, found: FilteredRows) -> bool:
        """Whether it is certain that nothing here has what was typed."""
        works = (self._reading, self._indexing)
        # What counts is what the filter knew, not what has been read since.
        needs_texts = self.query.has_words and not self.query.needs_index
        is_read = asked.is_read or not needs_texts or self._words_bytes > _MAX_WORDS
        is_settled = asked.is_complete and is_read
        is_settled = is_settled and all(one is None or one.is_done for one in works)
        is_unread = found.wants_index and self.query.needs_index
        is_empty = found.rows == [] or found.is_fuzzy or found.instead is not None
        return is_empty and is_settled and not is_unread and not self.query.is_empty

    def _take_filter_failure(self, error: Exception) -> None:
        self._filtering = None
        self._owner.say(explain_failure(error))

    def _update_index(self) -> None:
        """Index what the index does not hold yet, once, and filter again."""
        if self.breadth in self._indexed:
            return
        self._indexed.add(self.breadth)
        scope = self._shelf.reaching(self.breadth)
        loop, pump = asyncio.get_running_loop(), self._owner.pump

        def update(made: BackgroundWork) -> None:
            def progress(done: int, total: int) -> None:
                if done % _TEXT_BATCH == 0:
                    tell_from_thread(pump, loop, made, self._take_progress, done, total)

            update_search_index(
                profile=None if scope.agents else scope.profile,
                agents=scope.agents,
                on_progress=progress,
                should_stop=lambda: made.is_stopped,
            )

        def take(_: Exception | None) -> None:
            self.progress = None if self.is_complete else self.progress
            self.filter()

        self._indexing = run_in_background(pump, update, take, take)
