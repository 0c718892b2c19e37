"""A list to type into and choose from: earlier prompts, search results, prompts, models.

Owns the keys and that what was typed last counts. What is found for a text is a function that is
handed in and runs in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from sessiontree.tui import escaping
from sessiontree.tui.background import BackgroundWork, run_in_background
from sessiontree.tui.dialogs import Option, draw_keys
from sessiontree.tui.query_input import QueryInput
from sessiontree.tui.row_list import RowList
from sessiontree.tui.session_shelf import explain_failure
from sessiontree.tui.theme import palette_of

Find = Callable[[str], Sequence[Option]]


_KEYS = {
    "escape": "cancel",
    "enter": "choose",
    "up": "move(-1)",
    "down": "move(1)",
    "ctrl+r": "move(1)",
    "pageup": "page(-1)",
    "pagedown": "page(1)",
}


class ListPicker(ModalScreen[str | None]):
    """Dismissed with the value of the chosen option, or with None."""

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
        self._waiting: list[str] = []
        self._is_resolved = False

    def compose(self) -> ComposeResult:
        palette = palette_of(self)
        with Vertical(classes="dialog list-dialog"):
            yield Static(Text(escaping.one_line(self._title), palette.strong))
            with Horizontal(id="search"):
                yield Static("›", id="prompt")
                yield QueryInput(escaping.one_line(self._query), _KEYS)
            rows: RowList[Option] = RowList(self._draw, empty="…", id="options")
            yield rows
            keys = (("Enter", self._enter), ("Esc", "cancel"))
            yield Static(draw_keys(palette, keys), classes="dialog-keys")

    def on_mount(self) -> None:
        self.query_one(QueryInput).focus()
        self._look(self._query)

    @property
    def is_busy(self) -> bool:
        """Whether what was typed is still being looked for."""
        return self._finding is not None

    @property
    def _list(self) -> RowList[Option]:
        return self.query_one("#options", RowList)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self._query:
            self._look(event.value)

    def _look(self, text: str) -> None:
        self._query = text
        if self._finding is not None:
            self._finding.stop()
        self._finding = run_in_background(self, lambda _: self._find(text), self._take, self._fail)

    def _take(self, options: Sequence[Option]) -> None:
        self._finding = None
        values = [option.value for option in options]
        cursor = values.index(self._current) if self._current in values else 0
        self._list.show_rows(options, cursor, empty=self._nothing)
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            self.call_later(self.run_action, action)

    def _fail(self, error: Exception) -> None:
        self._finding = None
        self._list.show_rows((), empty=escaping.one_line(explain_failure(error)))

    def _draw(self, option: Option, width: int, is_chosen: bool) -> Text:
        palette = palette_of(self)
        hint = escaping.fit(escaping.one_line(option.hint), width // 2)
        line = Text.assemble(("❯ " if is_chosen else "  ", palette.of("accent")))
        room = width - 5 - len(hint)
        label = escaping.fit(escaping.one_line(option.label), room)
        line.append(label, palette.strong if is_chosen else palette.text)
        line.append(" " * max(1, width - line.cell_len - Text(hint).cell_len - 1))
        line.append(hint, palette.dim)
        return line

    async def on_query_input_pressed(self, event: QueryInput.Pressed) -> None:
        """Keys mean the list that what was typed last will give."""
        event.stop()
        if self.is_busy and event.action != "cancel":
            self._waiting.append(event.action)
        else:
            await self.run_action(event.action)

    def action_move(self, step: int) -> None:
        self._list.action_cursor(step)

    def action_page(self, direction: int) -> None:
        self._list.action_page(direction)

    def action_choose(self) -> None:
        chosen = self._list.current
        if chosen is not None:
            self._resolve(chosen.value)

    def on_row_list_picked(self) -> None:
        self.action_choose()

    def action_cancel(self) -> None:
        self._resolve(None)

    def _resolve(self, value: str | None) -> None:
        if not self._is_resolved:
            self._is_resolved = True
            if self._finding is not None:
                self._finding.stop()
            self.dismiss(value)
