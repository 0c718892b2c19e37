"""The session picker: a screen to find and choose a session, and that screen as a program.

Handles the keys and resolves exactly once, to a path or to None. `session_loading` provides the
rows, `session_rows` filters and draws them, `session_actions` works on the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeAlias

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.suggester import Suggester
from textual.widgets import Input

from sessiontree.clock import now
from sessiontree.discovery.adapters import agent_names, get_adapter
from sessiontree.discovery.listing import SessionInfo
from sessiontree.discovery.native_agent import NativeCommand
from sessiontree.errors import SessionTreeError
from sessiontree.profiles import PROFILE_NAMES
from sessiontree.scope import Scope
from sessiontree.tui import safe_text
from sessiontree.tui.background import run_in_background
from sessiontree.tui.pickers.base import LIST_KEYS, QueryPicker
from sessiontree.tui.pickers.dialogs import (
    ChoiceDialog,
    ConfirmDialog,
    Option,
    ReadingPane,
    TextDialog,
    draw_keys,
)
from sessiontree.tui.pickers.elsewhere import Where, ask_where, is_elsewhere
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
from sessiontree.tui.pickers.session_query import complete_query
from sessiontree.tui.pickers.session_rows import (
    Columns,
    SessionRow,
    count_text,
    draw_session,
    is_one_letter,
)
from sessiontree.tui.theme import ThemedApp, palette_of

_KEYS = {
    **LIST_KEYS,
    "f1": "help",
    "tab": "scope",
    "shift+tab": "scope",
    "ctrl+s": "sort",
    "ctrl+o": "named",
    "ctrl+l": "path",
    "ctrl+t": "preview",
    "ctrl+y": "copy_command",
    "ctrl+r": "rename",
    "ctrl+d": "remove",
    "ctrl+z": "undo",
}
KEYS: tuple[tuple[str, str], ...] = (
    ("Enter, Esc", "resume it; cancel"),
    ("typing", 'search: words, "a phrase", re:pattern'),
    ("agent: dir: date:", "filter: agent:codex, dir:shop, date:7d or 2026-01..2026-03"),
    ("role: model: is:", "filter: role:user, model:opus, is:named, is:interrupted; - excludes"),
    ("in:tools", "search tool calls and their output, too"),
    ("Right", "complete a filter"),
    ("Up, Down, Ctrl+P, Ctrl+N", "move"),
    ("Tab", "this project, all projects, all agents"),
    ("Ctrl+S", "sort: recent, threaded, relevance"),
    ("Ctrl+O", "only sessions with a name"),
    ("Ctrl+L", "show paths"),
    ("Ctrl+T", "hide or show the preview"),
    ("Ctrl+Y", "copy the command that opens it"),
    ("Ctrl+R", "rename"),
    ("Ctrl+D", "move to the trash, after a yes"),
    ("Ctrl+Z", "undo the last of these"),
    ("PageUp, PageDown", "a page up or down; with Ctrl, Home and End go to the ends"),
    ("Ctrl+C", "leave the program"),
)
"""Keys of the session picker, for F1."""
_NAME_IN_QUESTION = 80
"""Columns for a session's name: a first prompt may be a page."""
_NEEDS_ROWS = ("choose", "move", "page", "edge", "rename", "remove", "copy")


Picked: TypeAlias = str | NativeCommand | None
"""The path of the chosen session; the command that opens it in its own agent; None if cancelled."""


class FilterSuggester(Suggester):
    """Completes the last word of a query to a filter."""

    def __init__(self, infos: Callable[[], list[SessionInfo]]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._infos = infos

    async def get_suggestion(self, value: str) -> str | None:
        return complete_query(value, self._infos(), agent_names())


class SessionPicker(QueryPicker[Picked]):
    """Choose a session. Dismissed with what was picked, or with None."""

    def __init__(
        self,
        shelf: SessionShelf,
        *,
        query: str = "",
        open_path: str | None = None,
        clock: Callable[[], datetime] = now,
        title: str = "Resume a session",
        is_wide: bool = False,
    ) -> None:
        """``is_wide`` begins with the sessions of all projects and agents."""
        super().__init__()
        self._shelf = shelf
        self._title = title
        self._is_wide = is_wide
        self._open_path = open_path
        self._clock = clock
        self._feed = SessionFeed(
            shelf, query, FeedOwner(self, self._show_rows, self._show_facts, self._say)
        )
        self._with_path = False
        self._columns = Columns()
        self._notice = ""
        self._undos: list[Undo] = []

    # -- the screen ------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Bar(self._draw_top, id="top")
        yield from self.compose_query(
            self._feed.query.text,
            _KEYS,
            'Type to search: words, "a phrase", agent: dir: date: is:',
            suggester=FilterSuggester(self._feed.infos),
            hint=Bar(self._draw_hint, id="hint"),
        )
        with Container(id="body"):
            empty = self._feed.word_emptiness()
            rows: RowList[SessionRow] = RowList(self._draw_row, empty=empty, id="sessions")
            yield rows
            yield PreviewPane(self._shelf.scope, self._clock)
        yield Bar(self._draw_keys, id="keys")

    def on_mount(self) -> None:
        self._feed.start(is_wide=self._is_wide)

    @property
    def scope(self) -> Scope:
        """The project the sessions are chosen from."""
        return self._shelf.scope

    @property
    def query_text(self) -> str:
        """The typed text."""
        return self._feed.query.text

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
        feed = self._feed
        if not (rows or self.row_list.rows or feed.is_complete or feed.query.error):
            self.run_waiting()  # it says already that sessions are being read
            return
        current = self.row_list.current
        cursor = 0
        if keep_cursor and current is not None and self.row_list.cursor:
            path = current.info.path
            cursor = next((n for n, row in enumerate(rows) if row.info.path == path), 0)
        self._columns = self._measure()
        self.row_list.show_rows(rows, cursor, empty=feed.word_emptiness())
        self.set_class(not rows, "-empty")
        self._show_facts()
        self.run_waiting()

    def _measure(self) -> Columns:
        """Measure the columns for all that is listed, so that typing doesn't move them."""
        infos = self._feed.infos()
        is_mixed = self._feed.breadth == "agents"
        agents = {self._shelf.scope.agent_of(info) for info in infos} if is_mixed else ()
        return Columns.of(infos, agents)

    def _show_facts(self) -> None:
        self.query_one("#top", Bar).refresh()
        self.query_one("#hint", Bar).refresh()
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
            with_project=self._feed.breadth not in ("folder", "project"),
            with_path=self._with_path,
            columns=self._columns,
        )

    def _agent_of(self, row: SessionRow) -> str:
        if self._feed.breadth != "agents":
            return ""
        return self._shelf.scope.agent_of(row.info)

    def _draw_top(self, width: int) -> Text:
        palette = palette_of(self)
        title = "Which session?" if self._shelf.candidates is not None else self._title
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

    def _draw_hint(self, width: int) -> Text:
        """What the search leaves out, and what would add it; or what is shown instead."""
        feed, palette = self._feed, palette_of(self)
        if feed.instead is not None:
            shown = safe_text.fit(
                f"nothing found; showing {safe_text.one_line(feed.instead)}", width
            )
            return Text(shown, palette.of("warning"))
        if feed.is_fuzzy:
            return Text(safe_text.fit("only the letters match", width), palette.of("warning"))
        if not feed.query.has_words or feed.query.filters.in_tools:
            return Text()
        return Text(safe_text.fit("not searched: tool output (in:tools)", width), palette.dim)

    def _draw_keys(self, width: int) -> Text:
        keys = [("Enter", "resume"), ("Esc", "cancel")]
        if len(self._shelf.breadths) > 1:
            words = _BREADTH_WORDS if width >= _ROOMY else _SHORT_BREADTH_WORDS
            keys.append(("Tab", words[self._feed.other_breadth]))
        if self._undos:
            keys.append(("^Z", "undo"))
        keys += [("^R", "rename"), ("^D", "delete"), ("^S", "sort")]
        keys += [("^Y", "copy command"), ("^T", "preview"), ("^O", "named"), ("^L", "path")]
        return draw_keys(palette_of(self), keys, width, last=("F1", "keys"))

    def _say(self, notice: str) -> None:
        self._notice = notice
        self.query_one("#top", Bar).refresh()

    def on_row_list_moved(self) -> None:
        words = tuple(word for word in self._feed.query.words if not is_one_letter(word))
        self.query_one(PreviewPane).show(self.row_list.current, words)

    # -- keys ------------------------------------------------------------------------------------

    def action_scope(self) -> None:
        self._notice = ""
        self._feed.next_breadth()

    def action_sort(self) -> None:
        self._notice = ""
        self._feed.next_sort()

    def action_named(self) -> None:
        self._notice = ""
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
        if current is None:
            return
        if self._shelf.is_foreign(current.info):
            self._ask_how(current)
        else:
            self.resolve(current.info.path)

    # -- sessions of other agents ----------------------------------------------------------------

    @work
    async def _ask_how(self, row: SessionRow) -> None:
        """Open a session of another agent in that agent, or here."""
        info, agent = row.info, self._shelf.scope.agent_of(row.info)
        title, is_read_only = get_adapter(agent).title, agent not in PROFILE_NAMES
        options = []
        command, problem = self._command_of(info)
        if command is not None and command.program is not None:
            options.append(Option("native", f"Open in {title}", command.argv[0]))
        how = "in a copy; the original stays" if is_read_only else "in its own file"
        options.append(Option("here", "Continue here", how))
        if command is not None:
            options.append(Option("copy", "Copy the command", f"{command.shell}  (Ctrl+Y)"))
        options.append(Option("", "Cancel"))
        missing = "" if problem or (command and command.program) else " (not installed)"
        name = safe_text.fit(safe_text.one_line(row.name), _NAME_IN_QUESTION)
        question = f"{name} is a session of {title}{missing}"
        answer = await self.app.push_screen_wait(ChoiceDialog(question, options))
        if answer == "native":
            self.resolve(command)
        elif answer == "copy":
            self.action_copy_command()
        elif answer == "here":
            self._continue_here(info)

    def _command_of(self, info: SessionInfo) -> tuple[NativeCommand | None, str]:
        try:
            return self._shelf.command_of(info), ""
        except SessionTreeError as error:
            return None, str(error)

    def _continue_here(self, info: SessionInfo) -> None:
        self._say("Copying…")
        run_in_background(
            self, lambda _: self._shelf.continue_here(info), self.resolve, self._say_failure
        )

    def action_copy_command(self) -> None:
        """Copy the command that opens the session."""
        current = self.row_list.current
        if current is None:
            return
        command, problem = self._command_of(current.info)
        if command is None:
            self._say(problem)
            return
        self.app.copy_to_clipboard(command.shell)
        self._say(f"Copied: {command.shell}")

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
    "folder": "this folder",
    "project": "this project",
    "all": "all projects",
    "agents": "all agents",
}
_SHORT_BREADTH_WORDS: dict[Breadth, str] = {
    "folder": "folder",
    "project": "project",
    "all": "all",
    "agents": "agents",
}
_ROOMY = 90
"""Columns from which on the key bar uses whole words."""


# -- the picker as a program ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PickedElsewhere:
    """A chosen session of another project, and where to open it: None for neither there nor here.

    There is nothing to ask about a session of this project, which is just its path.
    """

    path: str
    where: Where | None


class PickerApp(ThemedApp["Picked | PickedElsewhere"]):
    """Show the picker, ask about a session of another project, and end with the result."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "leave", priority=True, show=False),
        Binding("ctrl+q", "leave", priority=True, show=False),
    ]

    def __init__(self, make_picker: Callable[[], SessionPicker]) -> None:
        super().__init__()
        self._make_picker = make_picker
        self.was_left = False

    def on_mount(self) -> None:
        self._pick()

    @work
    async def _pick(self) -> None:
        picker = self._make_picker()
        picked = await self.push_screen_wait(picker)
        self.exit(await self._place(picked, picker.scope) if isinstance(picked, str) else picked)

    async def _place(self, path: str, scope: Scope) -> str | PickedElsewhere:
        """Add where to open a session, if it is of another project."""
        try:
            info = await asyncio.to_thread(scope.store_of(path).get_info, path)
        except (SessionTreeError, OSError):
            return path  # opening says so
        if info is None or not await is_elsewhere(info, scope.cwd):
            return path
        return PickedElsewhere(path, await ask_where(self, info, scope.cwd))

    def action_leave(self) -> None:
        self.was_left = True
        self.exit(None)


def pick_session(
    scope: Scope, *, candidates: Sequence[SessionInfo] | None = None, query: str = ""
) -> Picked | PickedElsewhere:
    """Let a person choose a session; return its path or ref, or None on Esc.

    Of another project's session, return also where to open it. If the session is to be opened in
    its own agent, return the command that does so.

    Ctrl+C restores the terminal and ends the program with SystemExit(0).
    """
    shelf = SessionShelf(scope, candidates)
    app = PickerApp(lambda: SessionPicker(shelf, query=query))
    picked = app.run()
    if app.was_left:
        raise SystemExit(0)
    return picked
