"""The base of all pickers: an input line above a list to choose from.

Every key goes through one queue and takes effect in the order it was pressed: if Enter overtook the
letters typed before it, the user would open the wrong session. A picker resolves exactly once.
Subclasses decide what is listed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import Screen
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Static

from sessiontree.tui.ordered_keys import LineInput
from sessiontree.tui.pickers.row_list import RowList
from sessiontree.tui.theme import begin_at_size

Result = TypeVar("Result")

LIST_KEYS = {
    "escape": "cancel",
    "enter": "choose",
    "up": "move(-1)",
    "ctrl+k": "move(-1)",
    "ctrl+p": "move(-1)",
    "down": "move(1)",
    "ctrl+j": "move(1)",
    "ctrl+n": "move(1)",
    "pageup": "page(-1)",
    "pagedown": "page(1)",
    "ctrl+home": "edge(0)",
    "ctrl+end": "edge(1)",
}
"""The keys of every picker, and their actions."""


class QueryPicker(Screen[Result]):
    """The screen of a picker. Subclasses implement ``action_choose``, which ends in `resolve`."""

    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (100, "-narrow"), (120, "-wide")]  # noqa: RUF012 - Textual's own form
    VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        name: str | None = None,
        id: str | None = None,  # noqa: A002 - Textual's names, which a modal screen hands on
        classes: str | None = None,
    ) -> None:
        super().__init__(name, id, classes)
        self._waiting: list[str] = []
        self._is_resolved = False

    # -- what an heir says -----------------------------------------------------------------------

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """Whether rows are still being made."""

    @property
    @abstractmethod
    def row_list(self) -> RowList[Any]:
        """The list."""

    @abstractmethod
    def action_choose(self) -> object:
        """Choose the row under the cursor."""

    @abstractmethod
    def stop_work(self) -> None:
        """Stop background work whose result is no longer needed."""

    def must_wait(self, action: str) -> bool:
        """Whether the action must wait for rows that are still being made."""
        return self.is_busy and action != "cancel"

    # -- the line and the list -------------------------------------------------------------------

    def compose_query(
        self,
        text: str,
        keys: dict[str, str],
        placeholder: str = "",
        *,
        suggester: Suggester | None = None,
        hint: Widget | None = None,
    ) -> ComposeResult:
        """Make the input line, with a ``hint`` at its end."""
        begin_at_size(self)
        with Horizontal(id="search"):
            yield Static("›", id="prompt")
            yield QueryInput(text, keys, placeholder, suggester)
            if hint is not None:
                yield hint

    def on_mount(self) -> None:
        self.query_one(QueryInput).focus()

    async def on_query_input_pressed(self, event: QueryInput.Pressed) -> None:
        """Run the key, or keep it while the typed text is not applied: it means the new list."""
        event.stop()
        if self.must_wait(event.action):
            self._waiting.append(event.action)
        else:
            await self.run_action(event.action)

    def run_waiting(self) -> None:
        """Run the keys that waited for the rows."""
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            self.call_later(self.run_action, action)

    def action_move(self, step: int) -> None:
        self.row_list.action_cursor(step)

    def action_page(self, direction: int) -> None:
        self.row_list.action_page(direction)

    def action_edge(self, end: int) -> None:
        self.row_list.move_to(len(self.row_list.rows) * end)

    def on_row_list_picked(self) -> None:
        self.action_choose()

    # -- the end ---------------------------------------------------------------------------------

    def action_cancel(self) -> None:
        self.resolve(None)

    def resolve(self, result: Result | None) -> None:
        """Dismiss the picker with this value, once; None means that nothing was chosen."""
        if not self._is_resolved:
            self._is_resolved = True
            self.stop_work()
            self.dismiss(result)


class QueryInput(LineInput):
    """An input that reports its owner's keys by the names of their actions."""

    class Pressed(Message):
        """The user pressed one of the owner's keys."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(
        self,
        text: str,
        keys: Mapping[str, str],
        placeholder: str = "",
        suggester: Suggester | None = None,
    ) -> None:
        super().__init__(text, placeholder=placeholder, suggester=suggester)
        self._keys = keys

    async def on_key(self, event: events.Key) -> None:
        """Report the owner's keys; leave the others to the text."""
        action = self._keys.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            self.post_message(self.Pressed(action))
