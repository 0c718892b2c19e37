"""The tree picker: a screen to choose the entry from which the conversation continues.

Handles keys, filters, folding and labels, and asks whether to summarize the branch that the user
leaves. It changes only labels, through the function it is given, and resolves exactly once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Input

from sessiontree.clock import now
from sessiontree.errors import SessionTreeError
from sessiontree.tui import safe_text
from sessiontree.tui.background import BackgroundWork, run_in_background
from sessiontree.tui.fuzzy import Query
from sessiontree.tui.pickers.base import LIST_KEYS, QueryPicker
from sessiontree.tui.pickers.dialogs import ChoiceDialog, Option, ReadingPane, TextDialog, draw_keys
from sessiontree.tui.pickers.row_list import Bar, RowList, titled
from sessiontree.tui.pickers.session_rows import count_text
from sessiontree.tui.pickers.tree_lines import draw_entry, draw_row
from sessiontree.tui.pickers.tree_rows import (
    FILTERS,
    Choice,
    Filter,
    TreeModel,
    TreeRow,
    plan_choice,
)
from sessiontree.tui.theme import palette_of

_FILTER_WORDS: dict[Filter, str] = {
    "default": "conversation",
    "no-tools": "no tools",
    "user-only": "prompts only",
    "labeled-only": "labeled only",
    "all": "everything",
}


_KEYS = {
    **LIST_KEYS,
    "ctrl+up": "prompt(-1)",
    "alt+up": "prompt(-1)",
    "ctrl+down": "prompt(1)",
    "alt+down": "prompt(1)",
    "left": "fold",
    "right": "unfold",
    "tab": "filter(1)",
    "shift+tab": "filter(-1)",
    "ctrl+l": "label",
    "ctrl+t": "preview",
    "f1": "help",
}
KEYS: tuple[tuple[str, str], ...] = (
    ("Enter, Esc", "continue from there; cancel"),
    ("typing", "search the conversation"),
    ("Tab, Shift+Tab", f"what is shown: {', '.join(_FILTER_WORDS.values())}"),
    ("Left, Right", "fold and unfold what is below a line"),
    ("Ctrl+Up, Ctrl+Down", "from prompt to prompt"),
    ("Ctrl+L", "label the entry"),
    ("Ctrl+T", "hide or show the whole text of the entry"),
)
"""Keys of the tree picker, for F1."""


@dataclass(frozen=True, slots=True)
class TreeChoice:
    """The chosen entry, and whether to summarize the branch that the user leaves."""

    entry_id: str
    summarize: bool = False
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class TreeSource:
    """The tree that the picker shows, and the one thing it may change."""

    load: Callable[[], Awaitable[TreeModel]]
    set_label: Callable[[str, str | None], Awaitable[None]]


class TreePicker(QueryPicker[TreeChoice | None]):
    """Choose an entry of the session. Dismissed with the choice, or with None."""

    def __init__(
        self,
        source: TreeSource,
        *,
        shown: Filter = "default",
        cursor: str | None = None,
        clock: Callable[[], datetime] = now,
    ) -> None:
        super().__init__()
        self._source = source
        self._clock = clock
        self._model: TreeModel | None = None
        self._shown: Filter = shown
        self._query = Query("")
        self._folded: set[str] = set()
        self._cursor_id = cursor
        self._notice = ""
        self._laying_out: BackgroundWork | None = None

    # -- the screen ------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Bar(self._draw_top, id="top")
        yield from self.compose_query("", _KEYS, "Type to search the conversation")
        with Container(id="body"):
            rows: RowList[TreeRow] = RowList(
                self._draw_row, empty="Reading the session…", id="entries"
            )
            yield rows
            yield EntryPane(self._draw_pane, id="preview")
        yield Bar(self._draw_choice, id="choice")
        yield Bar(self._draw_keys, id="keys")

    def on_mount(self) -> None:
        self._load()

    @work
    async def _load(self) -> None:
        self._model = await self._source.load()
        self._show()

    @property
    def is_busy(self) -> bool:
        return self._model is None or self._laying_out is not None

    def stop_work(self) -> None:
        if self._laying_out is not None:
            self._laying_out.stop()

    @property
    def row_list(self) -> RowList[TreeRow]:
        return self.query_one("#entries", RowList)

    def _show(self) -> None:
        """Lay the tree out again, in a thread: it may have a hundred thousand entries."""
        model = self._model
        if model is None:
            return
        self.stop_work()
        shown, query, folded = self._shown, self._query, frozenset(self._folded)

        def lay_out(made: BackgroundWork) -> list[TreeRow]:
            return model.rows(shown, query, folded, should_stop=lambda: made.is_stopped)

        self._laying_out = run_in_background(self, lay_out, self._take_rows)

    def _take_rows(self, rows: list[TreeRow]) -> None:
        """Keep the cursor on its entry; if that is hidden, move it to the active one."""
        self._laying_out = None
        ids = [row.entry.id for row in rows]
        here = (n for n, row in enumerate(rows) if row.is_here or row.is_above_here)
        cursor = next(here, len(rows) - 1)
        if self._cursor_id in ids:
            cursor = ids.index(self._cursor_id)
        self.row_list.show_rows(rows, cursor, empty=self._word_emptiness())
        self.set_class(not rows, "-empty")
        self._refresh_bars()
        self.run_waiting()

    def _word_emptiness(self) -> str:
        if self._query.error is not None:
            return self._query.error
        if not self._query.is_empty:
            return f"Nothing matches {safe_text.one_line(self._query.text)}"
        if self._model is None or not self._model.entries:
            return "The session is empty"
        if self._shown == "labeled-only":
            return "Nothing is labeled yet · Ctrl+L labels an entry"
        return "No messages yet · Tab shows settings too"

    def _refresh_bars(self) -> None:
        for bar in self.query(Bar):
            bar.refresh()
        self.query_one("#preview").refresh()

    def on_row_list_moved(self) -> None:
        row = self.row_list.current
        if row is not None:
            self._cursor_id = row.entry.id
        self._refresh_bars()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self._query.text:
            self._query = Query(event.value)
            self._notice = ""
            self._show()

    # -- drawing ---------------------------------------------------------------------------------

    def _draw_row(self, row: TreeRow, width: int, is_chosen: bool) -> Text:
        return draw_row(row, width, palette_of(self), self._clock(), is_chosen=is_chosen)

    def _draw_top(self, width: int) -> Text:
        palette = palette_of(self)
        title = Text("Jump to a point in this session", palette.strong)
        notice = Text(safe_text.one_line(self._notice), palette.of("warning"))
        facts = [_FILTER_WORDS[self._shown]]
        if self._model is not None:
            shown = sum(1 + row.folded for row in self.row_list.rows)
            facts.insert(0, f"{shown:,} of {count_text(len(self._model.entries), 'entry')}")
        return titled(title, notice, Text(" · ".join(facts), palette.dim), width)

    def _draw_choice(self, width: int) -> Text:
        choice = self._choice()
        if choice is None:
            return Text()
        palette = palette_of(self)
        style = palette.text if choice.is_move or choice.entry.is_prompt else palette.dim
        key = Text("Enter  ", palette.of("accent"))
        sentence = choice.sentence_for(width - key.cell_len)
        return Text.assemble(key, (sentence, style))

    def _draw_keys(self, width: int) -> Text:
        keys = [("Esc", "cancel"), ("←→", "fold"), ("Tab", "filter"), ("^L", "label")]
        keys += [("^↑↓", "prompts"), ("^T", "preview")]
        return draw_keys(palette_of(self), keys, width, last=("F1", "keys"))

    def _draw_pane(self, width: int, height: int) -> Text:
        row = self.row_list.current
        if row is None:
            return Text()
        lines = draw_entry(row.entry, row.label, width, height, palette_of(self), self._clock())
        return Text("\n").join(lines)

    def _choice(self) -> Choice | None:
        row = self.row_list.current
        if row is None or self._model is None:
            return None
        return plan_choice(self._model, row.entry.id)

    # -- keys ------------------------------------------------------------------------------------

    def action_prompt(self, step: int) -> None:
        """Move to the next prompt in this direction."""
        rows, at = self.row_list.rows, self.row_list.cursor + step
        while 0 <= at < len(rows):
            if rows[at].entry.kind == "user":
                self.row_list.move_to(at)
                return
            at += step

    def action_fold(self) -> None:
        row = self.row_list.current
        if row is None:
            return
        if row.has_children and not row.folded:
            self._folded.add(row.entry.id)
            self._show()

    def action_unfold(self) -> None:
        row = self.row_list.current
        if row is not None and row.folded:
            self._folded.discard(row.entry.id)
            self._show()

    def action_filter(self, step: int) -> None:
        self._shown = FILTERS[(FILTERS.index(self._shown) + step) % len(FILTERS)]
        self._show()

    def action_help(self) -> None:
        self.app.push_screen(ReadingPane("Keys", KEYS))

    def action_preview(self) -> None:
        self.toggle_class("-no-preview")

    @work
    async def action_label(self) -> None:
        row, model = self.row_list.current, self._model
        if row is None or model is None:
            return
        before = row.label.text if row.label else ""
        text = await self.app.push_screen_wait(
            TextDialog("Label of this entry (leave empty to remove it)", before)
        )
        if text is None or text.strip() == before:
            return
        label = text.strip() or None
        try:
            await self._source.set_label(row.entry.id, label)
        except SessionTreeError as error:
            self._notice = f"Not labeled: {error}"
            self._refresh_bars()
            return
        self._model = await self._source.load()
        self._notice = "Labeled" if label else "Label removed"
        self._show()

    @work
    async def action_choose(self) -> None:
        choice = self._choice()
        if choice is None:
            return
        entry_id = choice.entry.id
        if not choice.leaves:
            self.resolve(TreeChoice(entry_id) if choice.is_move or choice.entry.is_prompt else None)
            return
        left = count_text(choice.leaves, "message")
        them = "it" if choice.leaves == 1 else "them"
        answer = await self.app.push_screen_wait(
            ChoiceDialog(
                f"You leave {left} behind. Summarize {them} for the agent?",
                (
                    Option("no", "No summary", "continue as if it had not happened"),
                    Option("summary", "Summary", "the agent learns what was done there"),
                    Option("custom", "Summary with instructions…", "choose what matters"),
                ),
            )
        )
        if answer == "custom":
            wanted = await self.app.push_screen_wait(
                TextDialog("What should the summary focus on?", enter="summarize and continue")
            )
            if wanted is not None:
                self.resolve(TreeChoice(entry_id, True, wanted.strip() or None))
        elif answer is not None:
            self.resolve(TreeChoice(entry_id, answer == "summary"))


class EntryPane(Widget):
    """Draw text for the size of the pane."""

    def __init__(
        self,
        draw: Callable[[int, int], Text],
        *,
        id: str | None = None,  # noqa: A002 - Textual's name
    ) -> None:
        super().__init__(id=id)
        self._draw = draw

    def render(self) -> Text:
        return self._draw(*self.content_size)
