"""Small dialogs over a screen: yes or no, a line of text, one of a few choices, facts to read.

Each resolves once, with the answer, or with None/False for Esc. Dialogs know nothing of sessions
and show text through ``safe_text``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from sessiontree.tui import safe_text
from sessiontree.tui.chat.panels import LinesPanel
from sessiontree.tui.ordered_keys import LineInput
from sessiontree.tui.palette import Palette
from sessiontree.tui.pickers.row_list import RowList
from sessiontree.tui.theme import begin_at_size, palette_of


def scroll_body(dialog: Screen[Any], lines: int) -> None:
    """Scroll a dialog's body at once, so that keys before the next drawing add up."""
    for body in dialog.query(".dialog-body"):
        body.scroll_relative(y=lines, animate=False, immediate=True)


class ConfirmDialog(ModalScreen[bool]):
    """A question that only ``y`` answers with yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,Y", "answer(True)", show=False),
        Binding("n,N,escape,enter", "answer(False)", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-8)", show=False),
        Binding("pagedown", "scroll(8)", show=False),
    ]

    def __init__(self, question: str, details: str = "", *, yes: str = "yes") -> None:
        super().__init__()
        self._question = question
        self._details = details
        self._yes = yes

    def compose(self) -> ComposeResult:
        palette = palette_of(self)
        with Vertical(classes="dialog"):
            yield Static(Text(safe_text.one_line(self._question), palette.strong))
            if self._details.strip():
                with VerticalScroll(classes="dialog-body", can_focus=False):
                    yield Static(Text(safe_text.block(self._details), palette.text))
            yield Static(draw_keys(palette, (("y", self._yes), ("n", "no"))), classes="dialog-keys")

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)

    def action_scroll(self, lines: int) -> None:
        scroll_body(self, lines)


class TextDialog(ModalScreen[str | None]):
    """One line of text; Esc gives None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self, question: str, text: str = "", *, enter: str = "save") -> None:
        super().__init__()
        self._question = question
        self._text = text
        self._enter = enter

    def compose(self) -> ComposeResult:
        palette = palette_of(self)
        with Vertical(classes="dialog"):
            yield Static(Text(safe_text.one_line(self._question), palette.strong))
            yield LineInput(safe_text.one_line(self._text), classes="dialog-input")
            keys = (("Enter", self._enter), ("Esc", "cancel"))
            yield Static(draw_keys(palette, keys), classes="dialog-keys")

    def on_mount(self) -> None:
        self.query_one(LineInput).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        self.dismiss(None)


@dataclass(frozen=True, slots=True)
class Option:
    """One of the choices: the value to return, its text, and a hint."""

    value: str
    label: str
    hint: str = ""


class ChoiceDialog(ModalScreen[str | None]):
    """One of a few choices, chosen with the arrows; Esc gives None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("enter", "choose", show=False),
        Binding("up,ctrl+p", "move(-1)", show=False),
        Binding("down,ctrl+n", "move(1)", show=False),
        Binding("pageup", "move(-8)", show=False),
        Binding("pagedown", "move(8)", show=False),
    ]

    def __init__(
        self,
        question: str,
        options: Sequence[Option],
        current: str | None = None,
        *,
        enter: str = "choose",
        preview: Callable[[str], object] | None = None,
    ) -> None:
        """``preview`` is called with each value that the cursor comes to."""
        super().__init__()
        self._enter = enter
        self._preview = preview
        self._question = question
        self._options = list(options)
        self._current = current

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._title_text, id="question")
            options: RowList[Option] = RowList(self._draw, id="options")
            options.styles.height = min(len(self._options), 14)
            yield options
            yield Static(self._keys_text, classes="dialog-keys", id="answer-keys")

    @property
    def _title_text(self) -> Text:
        return Text(safe_text.one_line(self._question), palette_of(self).strong)

    @property
    def _keys_text(self) -> Text:
        return draw_keys(palette_of(self), (("Enter", self._enter), ("Esc", "cancel")))

    def on_mount(self) -> None:
        values = [option.value for option in self._options]
        cursor = values.index(self._current) if self._current in values else 0
        self._list.show_rows(self._options, cursor)

    @property
    def _list(self) -> RowList[Option]:
        return self.query_one("#options", RowList)

    def _draw(self, option: Option, width: int, is_chosen: bool) -> Text:
        palette = palette_of(self)
        line = Text.assemble(("❯ " if is_chosen else "  ", palette.of("accent")))
        label = safe_text.one_line(option.label)
        if option.hint and width >= 40:
            longest = max(len(one.label) for one in self._options)
            label = safe_text.fill(label, min(longest, width // 2))
        line.append(safe_text.fit(label, width - 2), palette.strong if is_chosen else palette.text)
        room = width - line.cell_len - 3
        if option.hint and room > 5:
            line.append("  " + safe_text.fit(safe_text.one_line(option.hint), room), palette.dim)
        return line

    def action_move(self, step: int) -> None:
        self._list.action_cursor(step)

    def action_choose(self) -> None:
        chosen = self._list.current
        self.dismiss(chosen.value if chosen else None)

    def on_row_list_moved(self) -> None:
        chosen = self._list.current
        if self._preview is None or chosen is None or not self.is_current:
            return
        self._preview(chosen.value)
        # A preview of colours changes the dialog's own.
        self.query_one("#question", Static).update(self._title_text)
        self.query_one("#answer-keys", Static).update(self._keys_text)

    def on_row_list_picked(self) -> None:
        self.action_choose()

    def action_cancel(self) -> None:
        self.dismiss(None)


Key = tuple[str, str]
"""A key and, in a word, its action."""


def draw_keys(
    palette: Palette, keys: Sequence[Key], width: int | None = None, last: Key | None = None
) -> Text:
    """Draw as many keys with their actions as fit, always including the ``last`` one."""

    def draw(key: str, action: str) -> Text:
        return Text.assemble((key, palette.of("accent")), (f" {action}", palette.dim))

    pieces = [draw(*key) for key in keys]
    end = [draw(*last)] if last is not None else []
    gap = Text("   ")
    line = gap.join([*pieces, *end])
    if width is None or line.cell_len <= width:
        return line
    gap = Text("  ")
    while pieces and gap.join([*pieces, *end]).cell_len > width:
        pieces.pop()
    return gap.join([*pieces, *end])


Fact = tuple[str, str]
"""A name and its value; two empty texts make a gap."""


def draw_facts(facts: Sequence[Fact], width: int, palette: Palette) -> list[Text]:
    """Draw the facts in two columns; long values wrap in theirs."""
    names = max((cell_len(name) for name, _ in facts), default=0) + 2
    names = min(names, max(8, width // 2))
    lines: list[Text] = []
    for name, value in facts:
        pieces = safe_text.wrap(safe_text.one_line(value), max(8, width - names))
        for number, piece in enumerate(pieces):
            head = safe_text.fill(safe_text.one_line(name) if number == 0 else "", names)
            lines.append(Text.assemble((head, palette.of("accent")), (piece, palette.text)))
    return lines


class ReadingPane(ModalScreen[None]):
    """Show facts until a key closes the pane."""

    VERTICAL_BREAKPOINTS = [(0, "-short"), (22, "-tall")]  # noqa: RUF012

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
        begin_at_size(self)
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
