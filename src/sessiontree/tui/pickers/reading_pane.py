"""Facts over the screen, to read and close: what a session holds, what keys there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from sessiontree.tui import escaping
from sessiontree.tui.chat.panels import LinesPanel
from sessiontree.tui.palette import Palette
from sessiontree.tui.pickers.dialogs import draw_keys, scroll_body
from sessiontree.tui.theme import palette_of

Fact = tuple[str, str]
"""A name and what there is to say of it; two empty texts make a gap."""


def draw_facts(facts: Sequence[Fact], width: int, palette: Palette) -> list[Text]:
    """The facts in two columns; what is long goes on below itself."""
    names = max((cell_len(name) for name, _ in facts), default=0) + 2
    names = min(names, max(8, width // 2))
    lines: list[Text] = []
    for name, value in facts:
        pieces = escaping.wrap(escaping.one_line(value), max(8, width - names))
        for number, piece in enumerate(pieces):
            head = escaping.fill(escaping.one_line(name) if number == 0 else "", names)
            lines.append(Text.assemble((head, palette.of("accent")), (piece, palette.text)))
    return lines


class ReadingPane(ModalScreen[None]):
    """Shows facts until a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,space", "close", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown", "scroll(10)", show=False),
    ]

    def __init__(self, title: str, facts: Sequence[Fact]) -> None:
        super().__init__()
        self._title = title
        self._facts = facts

    def compose(self) -> ComposeResult:
        palette = palette_of(self)
        with Vertical(classes="dialog wide-dialog"):
            yield Static(Text(self._title, palette.strong))
            with VerticalScroll(classes="dialog-body", can_focus=False):
                yield LinesPanel(lambda w: draw_facts(self._facts, w, palette_of(self)), id="facts")
            keys = (("Esc", "close"), ("↑↓", "scroll"))
            yield Static(draw_keys(palette, keys), classes="dialog-keys")

    def action_close(self) -> None:
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        scroll_body(self, lines)
