"""The session picker: a screen to find and choose a session, and that screen as a program.

Handles the keys and resolves exactly once, to a path or to None. `session_loading` provides the
rows, `session_rows` filters and draws them, `session_actions` works on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Input

from sessiontree.discovery.listing import SessionInfo
from sessiontree.scope import Scope
from sessiontree.tui import safe_text
from sessiontree.tui.background import run_in_background
from sessiontree.tui.pickers.base import LIST_KEYS, Clock, QueryPicker, now
from sessiontree.tui.pickers.dialogs import ConfirmDialog, ReadingPane, TextDialog, draw_keys
from sessiontree.tui.pickers.preview_pane import PreviewPane
from sessiontree.tui.pickers.row_list import Bar, RowList, titled
from sessiontree.tui.pickers.session_actions import (
    CHANGE_ERRORS,
    Breadth,
    SessionShelf,
    Undo,
    explain_failure,
)
from sessiontree.tui.pickers.session_loading import FeedOwner, SessionFeed
from sessiontree.tui.pickers.session_rows import SessionRow, count_text, draw_session
from sessiontree.tui.theme import ThemedApp, palette_of

_KEYS = {
    **LIST_KEYS,
    "f1": "help",
    "tab": "scope",
    "shift+tab": "scope",
    "ctrl+s": "sort",
    "ctrl+n": "named",
    "ctrl+p": "path",
    "ctrl+t": "preview",
    "ctrl+r": "rename",
    "ctrl+d": "remove",
    "ctrl+z": "undo",
}
KEYS: tuple[tuple[str, str], ...] = (
    ("Enter, Esc", "resume it; cancel"),
    ("typing", 'search: words, "a phrase", re:pattern'),
    ("Tab", "this project, all projects, all agents"),
    ("Ctrl+S", "sort: recent, threaded, relevance"),
    ("Ctrl+N", "only sessions with a name"),
    ("Ctrl+P", "show paths"),
    ("Ctrl+T", "hide or show the preview"),
    ("Ctrl+R", "rename"),
    ("Ctrl+D", "move to the trash, after a yes"),
    ("Ctrl+Z", "undo the last of these"),
    ("PageUp, PageDown", "a page up or down; with Ctrl, Home and End go to the ends"),
    ("Ctrl+C", "leave the program"),
)
"""Keys of the session picker, for F1."""
_NEEDS_ROWS = ("choose", "move", "page", "edge", "rename", "remove")


class SessionPicker(QueryPicker[str | None]):
    """Choose a session. Dismissed with its path, or with None."""

    def __init__(
        self,
        shelf: SessionShelf,
        *,
        query: str = "",
        open_path: str | None = None,
        clock: Clock = now,
    ) -> None:
        super().__init__()
        self._shelf = shelf
        self._open_path = open_path
        self._clock = clock
        self._feed = SessionFeed(
            shelf, query, FeedOwner(self, self._show_rows, self._show_facts, self._say)
        )
        self._with_path = False
        self._notice = ""
        self._undos: list[Undo] = []

    # -- the screen ------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Bar(self._draw_top, id="top")
        yield from self.compose_query(
            self._feed.query.text, _KEYS, 'Type to search: words, "a phrase", re:pattern'
        )
        with Container(id="body"):
            rows: RowList[SessionRow] = RowList(self._draw_row, id="sessions")
            yield rows
            yield PreviewPane(self._shelf.scope.store_of, self._clock)
        yield Bar(self._draw_keys, id="keys")

    def on_mount(self) -> None:
        self._feed.start()

    @property
    def row_list(self) -> RowList[SessionRow]:
        return self.query_one("#sessions", RowList)

    @property
    def is_busy(self) -> bool:
        return self._feed.is_busy

    def must_wait(self, action: str) -> bool:
        # Rows that are still being read will follow the present ones.
        return self._feed.is_filtering and action.startswith(_NEEDS_ROWS)

    def stop_work(self) -> None:
        self._feed.stop()

    def _show_rows(self, rows: list[SessionRow], keep_cursor: bool) -> None:
        current = self.row_list.current
        cursor = 0
        if keep_cursor and current is not None and self.row_list.cursor:
            path = current.info.path
            cursor = next((n for n, row in enumerate(rows) if row.info.path == path), 0)
        self.row_list.show_rows(rows, cursor, empty=self._feed.word_emptiness())
        self.set_class(not rows, "-empty")
        self._show_facts()
        self.run_waiting()

    def _show_facts(self) -> None:
        self.query_one("#top", Bar).refresh()
        self.query_one("#keys", Bar).refresh()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._notice = ""
        self._feed.set_query(event.value)

    # -- drawing ---------------------------------------------------------------------------------

    def _draw_row(self, row: SessionRow, width: int, is_chosen: bool) -> Text:
        return draw_session(
            row,
            width,
            palette_of(self),
            self._clock(),
            is_chosen=is_chosen,
            is_open=row.info.path == self._open_path,
            agent=self._agent_of(row),
            with_project=self._feed.breadth != "project",
            with_path=self._with_path,
        )

    def _agent_of(self, row: SessionRow) -> str:
        if self._feed.breadth != "agents":
            return ""
        return self._shelf.scope.store_of(row.info.path).profile.name

    def _draw_top(self, width: int) -> Text:
        palette = palette_of(self)
        title = "Which session?" if self._shelf.candidates is not None else "Resume a session"
        notice = Text(safe_text.one_line(self._notice), palette.of("warning"))
        facts = Text(" · ".join(self._facts()), palette.dim)
        return titled(Text(title, palette.strong), notice, facts, width)

    def _facts(self) -> list[str]:
        feed = self._feed
        shown, total = len(self.row_list.rows), feed.total
        facts = [] if self._shelf.candidates is not None else [_BREADTH_WORDS[feed.breadth]]
        if feed.progress is not None:
            facts.append(f"reading {feed.progress[0]:,} of {feed.progress[1]:,}")
        elif not feed.is_complete:
            facts.append("reading…")
        elif shown != total:
            facts.append(f"{shown:,} of {count_text(total, 'session')}")
        else:
            facts.append(count_text(total, "session"))
        if feed.word_texts:
            facts.append(feed.word_texts)
        if feed.unreadable:
            facts.append(f"{feed.unreadable:,} unreadable")
        if feed.named_only:
            facts.append("named only")
        return [*facts, feed.sort]

    def _draw_keys(self, width: int) -> Text:
        keys = [("Enter", "resume"), ("Esc", "cancel")]
        if len(self._shelf.breadths) > 1:
            words = _BREADTH_WORDS if width >= _ROOMY else _SHORT_BREADTH_WORDS
            keys.append(("Tab", words[self._feed.other_breadth]))
        if self._undos:
            keys.append(("^Z", "undo"))
        keys += [("^R", "rename"), ("^D", "delete"), ("^S", "sort")]
        keys += [("^N", "named"), ("^P", "path"), ("^T", "preview")]
        return draw_keys(palette_of(self), keys, width, last=("F1", "keys"))

    def _say(self, notice: str) -> None:
        self._notice = notice
        self.query_one("#top", Bar).refresh()

    def on_row_list_moved(self) -> None:
        self.query_one(PreviewPane).show(self.row_list.current)

    # -- keys ------------------------------------------------------------------------------------

    def action_scope(self) -> None:
        self._feed.next_breadth()

    def action_sort(self) -> None:
        self._feed.next_sort()

    def action_named(self) -> None:
        self._feed.toggle_named()

    def action_path(self) -> None:
        self._with_path = not self._with_path
        self.row_list.refresh()

    def action_preview(self) -> None:
        self.toggle_class("-no-preview")

    def action_help(self) -> None:
        self.app.push_screen(ReadingPane("Keys", KEYS))

    def action_choose(self) -> None:
        current = self.row_list.current
        if current is not None:
            self.resolve(current.info.path)

    # -- changing --------------------------------------------------------------------------------

    @work
    async def action_rename(self) -> None:
        row = self.row_list.current
        if row is None:
            return
        if row.info.path == self._open_path:
            self._say("That session is open: rename it with /name")
            return
        name = await self.app.push_screen_wait(
            TextDialog("Name of the session", row.info.title or "")
        )
        if name is None:
            return
        self._change(lambda: self._shelf.rename(row.info, " ".join(name.split())), "Renamed")

    @work
    async def action_remove(self) -> None:
        row = self.row_list.current
        if row is None:
            return
        if row.info.path == self._open_path:
            self._say("That session is open and stays")
            return
        question = ConfirmDialog(
            "Move this session to the trash?", row.name, yes="move to trash (undo with Ctrl+Z)"
        )
        if await self.app.push_screen_wait(question):
            self._change(
                lambda: self._shelf.remove(row.info), "Moved to the trash, ^Z brings it back"
            )

    def _change(self, change: Callable[[], Undo], notice: str) -> None:
        def done(undo: Undo) -> None:
            self._undos.append(undo)
            if undo.what == "removed":
                self._feed.remove(undo.path)
            self._after_change(notice)

        run_in_background(self, lambda _: change(), done, self._say_failure)

    def action_undo(self) -> None:
        if not self._undos:
            self._say("Nothing to undo")
            return
        undo = self._undos.pop()
        run_in_background(self, lambda _: undo.run(), self._after_change, self._say_failure)

    def _after_change(self, notice: str) -> None:
        self._say(notice)
        self._feed.reload()

    def _say_failure(self, error: Exception) -> None:
        if not isinstance(error, CHANGE_ERRORS):
            self.log.error(error)
        self._say(f"That failed: {explain_failure(error)}")


_BREADTH_WORDS: dict[Breadth, str] = {
    "project": "this project",
    "all": "all projects",
    "agents": "all agents",
}
_SHORT_BREADTH_WORDS: dict[Breadth, str] = {"project": "project", "all": "all", "agents": "agents"}
_ROOMY = 90
"""Columns from which on the key bar uses whole words."""


# -- the picker as a program ---------------------------------------------------------------------


class PickerApp(ThemedApp[str | None]):
    """Show the picker and end with its result."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "leave", priority=True, show=False),
        Binding("ctrl+q", "leave", priority=True, show=False),
    ]

    def __init__(self, make_picker: Callable[[], SessionPicker]) -> None:
        super().__init__()
        self._make_picker = make_picker
        self.was_left = False

    def on_mount(self) -> None:
        self.push_screen(self._make_picker(), self.exit)

    def action_leave(self) -> None:
        self.was_left = True
        self.exit(None)


def pick_session(
    scope: Scope, *, candidates: Sequence[SessionInfo] | None = None, query: str = ""
) -> str | None:
    """Let a person choose a session; return its path or ref, or None on Esc.

    Ctrl+C restores the terminal and ends the program with SystemExit(0).
    """
    shelf = SessionShelf(scope, candidates)
    app = PickerApp(lambda: SessionPicker(shelf, query=query))
    path = app.run()
    if app.was_left:
        raise SystemExit(0)
    return path
