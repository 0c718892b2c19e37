"""Keep the search index open to a program that is asked often: a question a keystroke, for hours.

``search`` looks at every session file before it answers, and reads what the index lacks. A server
can't: with thousands of sessions that look takes longer than the answer, and the first index a
minute. So a ``LiveIndex`` looks at the files in a thread of its own, when somebody asks and the
last look was a moment ago, and answers from what the index holds. A question never waits for the
thread, but for the very first one, a moment; ``indexing`` says how many sessions are missing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType

from sessiontree.discovery.adapters import Agents
from sessiontree.discovery.pauses import PAUSE_S, Pauses
from sessiontree.discovery.search import Run, give_up
from sessiontree.discovery.search import index as search_index
from sessiontree.discovery.search.asking import Numbered, Wanted
from sessiontree.discovery.search.hits import IndexProgress, SearchResults
from sessiontree.discovery.search.index import SearchIndex
from sessiontree.discovery.search.query import parse_query
from sessiontree.discovery.search.scan import Matcher, Scanner, roles_for
from sessiontree.discovery.search.times import Since, to_ms
from sessiontree.discovery.selection import Selection, select_sessions
from sessiontree.profiles import Profile
from sessiontree.storage import sqlite
from sessiontree.storage.base import FileStat
from sessiontree.storage.file import FileSessionStorage

LOOK_S = 1.0
"""The age at which a check of the files is repeated before the next question."""
FIRST_S = 1.0
"""The time that questions wait for the first check, which is enough for few files."""
_NONE: Mapping[str, str] = MappingProxyType({})
_FEW, _MOMENT_S = 8, 0.03
_SPARE = 10
"""Sessions to find beyond the limit, to replace those that no longer match."""
_SCAN_S = 1.0
"""Reading for a query that no index of words can answer."""


class LiveIndex:
    """The sessions of these agents (or of one profile). May be used from several threads."""

    def __init__(self, *, profile: str | Profile | None = None, agents: Agents = None) -> None:
        self._profile = profile
        self._agents = agents
        self._storage = FileSessionStorage()
        self._lock = threading.Lock()
        self._looking: threading.Thread | None = None
        self._closing = threading.Event()
        self._pauses = Pauses()
        self._selection: Selection | None = None
        self._numbered: Numbered | None = None
        self._looked_at = float("-inf")
        self._progress = IndexProgress(0, 0)

    def wake(self, pause_s: float = 0.0) -> threading.Thread | None:
        """Have a thread look at the files, unless one does or the last look was just now.

        With ``pause_s`` it begins when there was no question for so long.
        """
        with self._lock:
            is_new = time.monotonic() - self._looked_at < LOOK_S
            if self._looking is None and not is_new and not self._closing.is_set():
                self._looking = threading.Thread(target=self._look, args=(pause_s,), daemon=True)
                self._looking.start()
            return self._looking

    def wait(self, patience_s: float) -> None:
        """Have the thread check the files, and wait for at most this long."""
        looking = self.wake()
        if looking is not None:
            self._pauses.hurry()
            looking.join(patience_s)

    def search(
        self,
        query: str,
        *,
        role: str | None = None,
        since: Since | None = None,
        include_tools: bool = False,
        limit: int = 20,
        among: Container[str] | None = None,
        copies: Mapping[str, str] = _NONE,
        is_typing: bool = False,
    ) -> SearchResults:
        """Find sessions as ``search`` does, as far as the index holds them; ``among`` these paths.

        ``copies`` are the sessions that each of these paths is a copy of: a copy is left out where
        that one is found. With ``is_typing`` the last word may go on.
        """
        if self._looked_at == float("-inf"):
            self.wait(FIRST_S)
        else:
            self._pauses.note_question()
            self.wake(PAUSE_S)
        results = SearchResults()
        parsed = parse_query(query)
        parsed = parsed.with_open_end() if is_typing else parsed
        numbered, selection = self._numbered, self._selection or self._select()
        if not parsed.wanted or not selection.files:
            return results
        scanner = Scanner(Matcher(parsed), roles_for(role, include_tools), to_ms(since))
        wanted = Wanted(role, role is None and include_tools, to_ms(since))
        run = Run(parsed, selection, self._storage, scanner, wanted, None)
        if parsed.needs_scan:
            some = [each for each in selection.files if among is None or each.path in among]
            some.sort(key=lambda stat: stat.mtime_ns, reverse=True)
            run.fill(results, run.scan(some, time.monotonic() + _SCAN_S), limit)
            results.total = None
            return results
        if numbered is not None:
            best = run.ask_for_best(numbered, limit + _SPARE, among, copies)
            if best is not None:
                run.fill(results, best.candidates, limit)
                if not best.others:
                    results.indexing = self._progress
                    return results
                if len(results) == limit and results.total is not None:
                    results.total += best.others
                    results.indexing = self._progress
                    return results
                results = SearchResults()  # of the best some are wrong by now
        found = run.ask_as_it_is()
        if among is not None:
            found = [each for each in found if each.stat.path in among]
        paths = {each.stat.path for each in found}
        found = [each for each in found if copies.get(each.stat.path) not in paths]
        run.fill(results, found, limit)
        results.indexing = self._progress
        return results

    def close(self) -> None:
        """End the thread; what it has indexed is kept."""
        with self._lock:
            self._closing.set()
            self._pauses.hurry()
            looking = self._looking
        if looking is not None:
            looking.join()

    # -- the thread ------------------------------------------------------------------------

    def _look(self, pause_s: float) -> None:
        try:
            if pause_s:
                self._pauses.wait(pause_s)
            before = self._selection
            selection = self._select()
            if before is None or before.files != selection.files:
                self._numbered = None
            with search_index.open_index() as index:
                if index is not None:
                    left = self._update(index, selection)
                    if 0 < len(left) <= _FEW:  # written in this very moment, as a rule
                        time.sleep(_MOMENT_S)
                        left = self._update(index, selection)
                    if not left and self._numbered is None:
                        self._numbered = Numbered.make(index, selection)
                    is_worn_out = index.is_worn_out()
            if index is not None and is_worn_out:
                sqlite.replace(search_index.SCHEMA)
        except sqlite.FAILURES as error:
            give_up(error)
        finally:
            with self._lock:
                self._looked_at = time.monotonic()
                self._looking = None

    def _update(self, index: SearchIndex, selection: Selection) -> Sequence[FileStat]:
        """Index what is stale; what is left."""
        stale = index.find_stale(selection.by_folder)
        if stale:
            self._numbered = None
        self._set_progress(selection, len(stale))
        left = index.update(
            stale,
            selection,
            should_stop=self._closing.is_set,
            on_progress=lambda done, total: self._set_progress(selection, total - done),
        )
        self._set_progress(selection, len(left))
        return left

    def _select(self) -> Selection:
        self._selection = select_sessions(None, self._profile, self._storage, agents=self._agents)
        return self._selection

    def _set_progress(self, selection: Selection, left: int) -> None:
        total = len(selection.files)
        self._progress = IndexProgress(max(0, total - left), total)
