"""A list to type into and choose from: earlier prompts, search results, prompts, models.

The caller passes the function that finds the options for a text; it runs in a thread. Only the
result for the latest text counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from sessiontree.tui import safe_text
from sessiontree.tui.background import BackgroundWork, run_in_background
from sessiontree.tui.pickers.base import LIST_KEYS, QueryPicker
from sessiontree.tui.pickers.dialogs import Option, draw_keys
from sessiontree.tui.pickers.row_list import RowList
from sessiontree.tui.pickers.session_actions import explain_failure
from sessiontree.tui.theme import palette_of

Find = Callable[[str], Sequence[Option]]

_KEYS = {**LIST_KEYS, "ctrl+r": "move(1)"}


class ListPicker(ModalScreen[str | None], QueryPicker[str | None]):
    """A list picker, dismissed with the value of the chosen option, or with None."""

    def __init__(
        self,
        title: str,
        find: Find,
        *,
        query: str = "",
        nothing: str = "Nothing found",
        enter: str = "choose",
        current: str | None = None,
    ) -> None:
        super().__init__()
        self._title = title
        self._find = find
        self._query = query
        self._nothing = nothing
        self._enter = enter
        self._current = current
        self._finding: BackgroundWork | None = None

    def compose(self) -> ComposeResult:
        palette = palette_of(self)
        with Vertical(classes="dialog list-dialog"):
            yield Static(Text(safe_text.one_line(self._title), palette.strong))
            yield from self.compose_query(safe_text.one_line(self._query), _KEYS)
            rows: RowList[Option] = RowList(self._draw, empty="…", id="options")
            yield rows
            keys = (("Enter", self._enter), ("Esc", "cancel"))
            yield Static(draw_keys(palette, keys), classes="dialog-keys")

    def on_mount(self) -> None:
        self._look(self._query)

    @property
    def is_busy(self) -> bool:
        return self._finding is not None

    def stop_work(self) -> None:
        if self._finding is not None:
            self._finding.stop()

    @property
    def row_list(self) -> RowList[Option]:
        return self.query_one("#options", RowList)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self._query:
            self._look(event.value)

    def _look(self, text: str) -> None:
        self._query = text
        self.stop_work()
        self._finding = run_in_background(self, lambda _: self._find(text), self._take, self._fail)

    def _take(self, options: Sequence[Option]) -> None:
        self._finding = None
        values = [option.value for option in options]
        cursor = values.index(self._current) if self._current in values else 0
        self.row_list.show_rows(options, cursor, empty=self._nothing)
        self.run_waiting()

    def _fail(self, error: Exception) -> None:
        self._finding = None
        self.row_list.show_rows((), empty=safe_text.one_line(explain_failure(error)))

    def _draw(self, option: Option, width: int, is_chosen: bool) -> Text:
        palette = palette_of(self)
        hint = safe_text.fit(safe_text.one_line(option.hint), width // 2)
        line = Text.assemble(("❯ " if is_chosen else "  ", palette.of("accent")))
        room = width - 5 - len(hint)
        label = safe_text.fit(safe_text.one_line(option.label), room)
        line.append(label, palette.strong if is_chosen else palette.text)
        line.append(" " * max(1, width - line.cell_len - Text(hint).cell_len - 1))
        line.append(hint, palette.dim)
        return line

    def action_choose(self) -> None:
        chosen = self.row_list.current
        if chosen is not None:
            self.resolve(chosen.value)
