"""The editor: several lines of input with history, completion and the keys of a chat.

Handles the keys and posts messages; sends nothing itself. It removes control characters from text
that comes from elsewhere (an earlier prompt, a message of the session, the clipboard).

Every key takes effect in the order it was pressed, before the next one is handled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult

from sessiontree.text.escaping import HAZARDS_IN_BLOCK
from sessiontree.tui.chat.command_list import Command, complete
from sessiontree.tui.chat.pastes import Pastes, is_long
from sessiontree.tui.chat.project_files import ProjectFiles, find_token, spell
from sessiontree.tui.chat.recall import Recall
from sessiontree.tui.ordered_keys import run_bindings
from sessiontree.tui.pickers.row_list import RowList
from sessiontree.tui.safe_text import fit_middle, one_line
from sessiontree.tui.theme import palette_of

_MAX_ROWS = 8
_NAME_WIDTH = 24


def editable(text: str) -> str:
    """Remove control characters from the text; line breaks become ``\\n``, tabs stay."""
    return HAZARDS_IN_BLOCK.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class Editor(TextArea):
    """The input field for prompts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+enter,ctrl+j", "newline", show=False),
        Binding("ctrl+r", "recall", show=False),
        Binding("ctrl+g", "edit_outside", show=False),
        Binding("shift+tab", "next_level", show=False),
    ]

    class Sent(Message):
        """The text was sent; ``is_queued`` if it may wait until the agent is done."""

        def __init__(self, text: str, is_queued: bool) -> None:
            super().__init__()
            self.text = text
            self.is_queued = is_queued

    class Asked(Message):
        """The user pressed a key that is not about the text."""

        def __init__(self, what: str, text: str = "") -> None:
            super().__init__()
            self.what = what
            self.text = text

    def __init__(self, completions: Completions) -> None:
        super().__init__(
            id="editor",
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Ask anything, or type / for commands",
        )
        self.cursor_blink = False
        self.recall = Recall()
        self.files = ProjectFiles()
        """The files that ``@`` completes."""
        self._completions = completions
        self._pastes = Pastes()
        self._closed_for: str | None = None

    # -- text ------------------------------------------------------------------------------------

    @property
    def whole_text(self) -> str:
        """The text with all folded pastes unfolded."""
        return self._pastes.expand(self.text)

    @property
    def selected_text(self) -> str:
        return self._pastes.expand(super().selected_text)

    def get_line(self, line_index: int) -> Text:
        line = super().get_line(line_index)
        for start, end in self._pastes.spans(line.plain):
            line.stylize(palette_of(self).of("accent"), start, end)
        return line

    def put(self, text: str) -> None:
        """Replace the text and put the cursor at its end."""
        self.load_text(editable(text))
        self.move_cursor(self.document.end)

    def add(self, text: str) -> None:
        """Put a text before the present one."""
        mine = self.text
        self.put(f"{text}\n\n{mine}" if mine.strip() else text)

    def empty(self) -> None:
        """Remove the text and what its folded pastes stand for."""
        self.put("")
        self._pastes.clear()

    def put_back(self, text: str) -> None:
        """Put back a text that could not be sent, before what the user typed since."""
        self.put(text + self.text)

    # -- completing ------------------------------------------------------------------------------

    @property
    def file_token(self) -> tuple[int, str] | None:
        """The ``@path`` that ends at the cursor: its first column, and the path so far."""
        row, column = self.cursor_location
        return find_token(self.document.get_line(row)[:column])

    @property
    def choices(self) -> list[Choice]:
        """The possible completions of the text."""
        if self.text == self._closed_for:
            return []
        if commands := complete(self.text):
            return list(map(Choice.of_command, commands))
        token = self.file_token
        return list(map(Choice.of_file, self.files.find(token[1]))) if token is not None else []

    @property
    def is_completing(self) -> bool:
        """Whether the arrows, Tab and Enter act on the list of completions."""
        return bool(self.choices)

    def close_completions(self) -> None:
        """Close the list of completions until the text changes."""
        self._closed_for = self.text

    def _complete(self, *, and_send: bool) -> None:
        """Take the chosen command or file; a command that needs nothing more may be sent."""
        choice = self._completions.choose(self.choices)
        if choice is None:
            return
        if choice.command is None:
            row, column = self.cursor_location
            token = self.file_token
            start = token[0] if token is not None else column
            ended = self.replace(spell(choice.text), (row, start), (row, column))
            self.move_cursor(ended.end_location)
        elif and_send and not choice.command.needs_argument:
            self.put("")
            self.post_message(self.Sent(f"/{choice.command.name}", False))
        else:
            self.put(f"/{choice.command.name} ")

    # -- keys ------------------------------------------------------------------------------------

    async def on_key(self, event: events.Key) -> None:
        """Run a key that is not a letter at once."""
        match event.key:
            case "enter" if self.is_completing:
                self._complete(and_send=True)
            case "enter" | "alt+enter":
                self._send(is_queued=event.key == "alt+enter")
            case "tab" if self._unfold():
                pass
            case "tab":
                self._complete(and_send=False)
            case "escape":
                self.post_message(self.Asked("escape"))
            case _:
                if not event.is_printable:
                    await run_bindings(self, self._bindings, event)
                return
        event.stop()
        event.prevent_default()

    def _send(self, *, is_queued: bool) -> None:
        row, column = self.cursor_location
        if self.document.get_line(row)[:column].endswith("\\"):
            # A backslash continues in a new line, as in a shell: for terminals without Shift+Enter.
            self.replace("\n", (row, column - 1), (row, column))
            return
        if self.text.strip():
            self.post_message(self.Sent(self.whole_text, is_queued))
            self.empty()

    def on_resize(self) -> None:
        """Keep the cursor visible, however small the screen gets."""
        self.scroll_cursor_visible()

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        text = editable(event.text)
        if is_folded := is_long(text):
            text = self._pastes.fold(text)
        if result := self._replace_via_keyboard(text, *self.selection):
            self.move_cursor(result.end_location)
            if is_folded:
                self.post_message(self.Asked("tell_fold", text))

    # -- folded pastes ---------------------------------------------------------------------------

    def edit(self, edit: Edit) -> EditResult:
        """Make an edit; one that would change a part of a mark removes all of it."""
        top, bottom = sorted((edit.from_location, edit.to_location))
        is_insertion = top == bottom
        start = self._outside(top, to_end=is_insertion)
        end = start if is_insertion else self._outside(bottom, to_end=True)
        if (start, end) != (top, bottom):
            edit.from_location, edit.to_location = start, end
        return super().edit(edit)

    def get_cursor_left_location(self) -> tuple[int, int]:
        return self._outside(super().get_cursor_left_location(), to_end=False)

    def get_cursor_right_location(self) -> tuple[int, int]:
        return self._outside(super().get_cursor_right_location(), to_end=True)

    def _outside(self, location: tuple[int, int], *, to_end: bool) -> tuple[int, int]:
        row, column = location
        return row, self._pastes.outside(self.document.get_line(row), column, to_end=to_end)

    def _unfold(self) -> bool:
        """Replace the mark at the cursor by its text; False if there is none."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        span = self._pastes.span_at(line, column)
        if span is None:
            return False
        start, end = span
        whole = self._pastes.expand(line[start:end])
        self.move_cursor(self.replace(whole, (row, start), (row, end)).end_location)
        return True

    def action_newline(self) -> None:
        self._replace_via_keyboard("\n", *self.selection)

    def action_recall(self) -> None:
        self.post_message(self.Asked("recall"))

    def action_edit_outside(self) -> None:
        self.post_message(self.Asked("edit_outside"))

    def action_next_level(self) -> None:
        self.post_message(self.Asked("next_level"))

    def action_cursor_up(self, select: bool = False) -> None:
        if self.is_completing:
            self._completions.action_cursor(-1)
        elif select or self._row > 0 or not self._show(self.recall.older(self.text)):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if self.is_completing:
            self._completions.action_cursor(1)
        elif select or not self._is_last_row or not self._show(self.recall.newer()):
            super().action_cursor_down(select)

    @property
    def _row(self) -> int:
        """The cursor's row on the screen: a wrapped line has several."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    @property
    def _is_last_row(self) -> bool:
        return self._row >= self.wrapped_document.height - 1

    def _show(self, prompt: str | None) -> bool:
        if prompt is None:
            return False
        self.put(prompt)
        return True

    def action_cursor_page_up(self) -> None:
        self.post_message(self.Asked("page_up"))

    def action_cursor_page_down(self) -> None:
        self.post_message(self.Asked("page_down"))

    def action_delete_right(self) -> None:
        if not self.text:
            self.post_message(self.Asked("leave"))
        else:
            super().action_delete_right()


@dataclass(frozen=True, slots=True)
class Choice:
    """A command or a file that a text could become."""

    text: str
    about: str = ""
    command: Command | None = None

    @classmethod
    def of_command(cls, command: Command) -> Choice:
        return cls(f"/{command.name} {command.argument}", command.about, command)

    @classmethod
    def of_file(cls, path: str) -> Choice:
        return cls(path)


class Completions(RowList[Choice]):
    """A list of completions; hidden if there are none."""

    def __init__(self) -> None:
        super().__init__(self._draw_choice, id="completions")

    def on_mount(self) -> None:
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def look(self, found: list[Choice]) -> None:
        """Show these choices."""
        if found == list(self.rows) and self.display == bool(found):
            return
        self.display = bool(found)
        self.styles.height = min(len(found), _MAX_ROWS)
        self.show_rows(found)

    def choose(self, found: list[Choice]) -> Choice | None:
        """Return the chosen one of these, or the first if others are still shown."""
        if self.current is not None and list(self.rows) == found:
            return self.current
        return found[0] if found else None

    def close(self) -> None:
        """Hide the list until the text changes."""
        self.display = False

    def _draw_choice(self, choice: Choice, width: int, is_chosen: bool) -> Text:
        palette = palette_of(self)
        line = Text.assemble(("❯ " if is_chosen else "  ", palette.of("accent")))
        text = choice.text.ljust(_NAME_WIDTH) if choice.command else choice.text
        if choice.command is None:
            text = fit_middle(one_line(text), width - 2)
        line.append(text, palette.strong if is_chosen else palette.text)
        line.append(choice.about, palette.dim)
        line.truncate(max(1, width), overflow="ellipsis")
        return line
