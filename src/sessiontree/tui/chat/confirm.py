"""Asking the user before a tool writes or runs: the question on screen, and what was allowed.

Owns the dialog and the tools that the user has allowed for the rest of a session. A question whose
call is aborted meanwhile goes away by itself and counts as a no.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from sessiontree.tui import escaping
from sessiontree.tui.pickers.dialogs import draw_keys, scroll_body
from sessiontree.tui.theme import palette_of
from sessiontree.tui.transcript.styled_text import highlight

if TYPE_CHECKING:
    from sessiontree.agents.tools.base import Confirmation

Answer = Literal["yes", "always", "no"]


class ToolDialog(ModalScreen[Answer]):
    """Shows what a tool is about to do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,Y", "answer('yes')", show=False),
        Binding("a,A", "answer('always')", show=False),
        Binding("n,N,escape,enter", "answer('no')", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-8)", show=False),
        Binding("pagedown", "scroll(8)", show=False),
    ]

    def __init__(self, question: Confirmation) -> None:
        super().__init__()
        self._question = question
        self._is_answered = False

    def compose(self) -> ComposeResult:
        palette, question = palette_of(self), self._question
        language = "bash" if question.effect == "run" else "diff"
        preview = highlight(escaping.block(question.preview), language, palette)
        tool = escaping.one_line(question.tool_name)
        with Vertical(classes="dialog"):
            yield Static(Text(escaping.one_line(question.title), palette.strong))
            with VerticalScroll(classes="dialog-body", can_focus=False):
                yield Static(preview)
            keys = (("y", "yes"), ("n", "no"), ("a", f"always allow {tool} in this session"))
            yield Static(draw_keys(palette, keys), classes="dialog-keys")

    def action_answer(self, answer: Answer) -> None:
        if not self._is_answered:
            self._is_answered = True
            self.dismiss(answer)

    def on_screen_resume(self) -> None:
        if self._is_answered:
            self.dismiss("no")  # called off while something else was shown above it

    def action_scroll(self, lines: int) -> None:
        scroll_body(self, lines)


class Confirmer:
    """Answers an agent's questions by asking the user."""

    def __init__(self, app: App[object]) -> None:
        self._app = app
        self._allowed: set[str] = set()
        self._open = 0

    @property
    def is_asking(self) -> bool:
        """Whether a question waits for its answer."""
        return self._open > 0

    def forget(self) -> None:
        """Another session: nothing is allowed any more."""
        self._allowed.clear()

    async def confirm(self, question: Confirmation) -> bool:
        """Whether the call may go on."""
        if question.tool_name in self._allowed:
            return True
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def take(answer: Answer | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        dialog = ToolDialog(question)
        self._app.push_screen(dialog, take)
        self._open += 1
        try:
            answer = await answered
        except asyncio.CancelledError:
            dialog.action_answer("no")
            raise
        finally:
            self._open -= 1
        if answer == "always":
            self._allowed.add(question.tool_name)
        return answer in ("yes", "always")
