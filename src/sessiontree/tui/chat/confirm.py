"""Ask the user before a tool writes or runs, and remember what the user allowed.

The user approves only what was on the screen. The dialog shows all of a command, a diff or a file,
with every invisible character made visible; a yes counts only once the end has been on the screen,
and only as a key that stands alone (`arming`). Letters meant for the editor go there.

If the agent's call is aborted, its question closes and counts as a no. Questions that come at the
same time are asked one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from sessiontree.agents.tools.base import Reach
from sessiontree.agents.tools.permissions import Permission, Permissions
from sessiontree.text import escaping as exactly
from sessiontree.tui import safe_text
from sessiontree.tui.chat.arming import ALONE_S, PAUSE_S, Arming
from sessiontree.tui.palette import Palette
from sessiontree.tui.pickers.dialogs import ChoiceDialog, Option, scroll_body
from sessiontree.tui.pickers.session_rows import short_path
from sessiontree.tui.text_pane import TextPane
from sessiontree.tui.theme import begin_at_size, palette_of
from sessiontree.tui.transcript.block_lines import diff_row
from sessiontree.tui.transcript.long_text import Draw, LongText, Rows, stack
from sessiontree.tui.transcript.styled_text import MAX_HIGHLIGHTED, highlight, wrap_text

if TYPE_CHECKING:
    from sessiontree.agents.tools.base import Confirmation

Answer = Literal["yes", "no"] | Reach

_TAB_WIDTH = 4
_LONG_TITLE = 200
_CHOICES: tuple[tuple[str, str], ...] = (("n", "no"), ("y", "yes"), ("a", "always…"))
_ANSWERS = {"n": "no", "y": "yes", "a": "always"}
_SCROLLING = frozenset(("up", "down", "pageup", "pagedown", "home", "end"))
_STEPS = {"left": -1, "shift+tab": -1, "right": 1, "tab": 1}


class ToolDialog(ModalScreen[Answer]):
    """Show what a tool is about to do, and ask."""

    # Below 24 lines the whole dialog, with its answers, fits only without margins.
    VERTICAL_BREAKPOINTS = [(0, "-short"), (24, "-tall")]  # noqa: RUF012

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "go_to_end(-1)", show=False),
        Binding("end", "go_to_end(1)", show=False),
    ]

    class Drawn(Message):
        """The question is on the screen."""

    def __init__(self, question: Confirmation) -> None:
        super().__init__()
        self._question = question
        self._arming = Arming()
        self._chosen = 0
        self._pending: events.Key | None = None
        """The key of a possible answer, until it is clear that no letter follows it."""
        self._answer: Answer | None = None

    # -- what is shown ---------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        begin_at_size(self)
        title = exactly.exact_line(self._question.title)
        with Vertical(classes="dialog question"):
            yield Static(Text(safe_text.fit(title, _LONG_TITLE), palette_of(self).strong))
            yield TextPane(self._lay_out, classes="dialog-body")
            yield Static(id="more")
            yield Static(id="answers")

    def _lay_out(self, width: int) -> Sequence[Text]:
        return lay_out_question(self._question, width, palette_of(self))

    @property
    def _pane(self) -> TextPane:
        return self.query_one(TextPane)

    @property
    def is_armed(self) -> bool:
        """Whether a key would be an answer now."""
        return self._arming.is_armed(Message().time)

    def on_screen_resume(self) -> None:
        if self._answer is not None:
            self.dismiss(self._answer)  # given, or called off, while something was shown above it
            return
        self._draw_state()
        self.call_after_refresh(self.post_message, self.Drawn())

    def on_screen_suspend(self) -> None:
        self._arming.note_hidden()
        self._pending = None

    def on_tool_dialog_drawn(self, event: Drawn) -> None:
        event.stop()
        self._arming.note_drawn(event.time)
        self._draw_state_later()

    def on_text_pane_seen(self, event: TextPane.Seen) -> None:
        event.stop()
        self._draw_state()

    def _draw_state_later(self) -> None:
        self._draw_state()
        self.set_timer(PAUSE_S * 1.05, self._draw_state)

    def _draw_state(self) -> None:
        palette, pane = palette_of(self), self._pane
        self.query_one("#more", Static).update(draw_rest(pane.lines_below, palette))
        self.query_one("#answers", Static).update(
            draw_answers(self._chosen, palette, is_armed=self.is_armed, is_whole=pane.is_end_seen)
        )

    # -- keys ------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        """Take every key but those that scroll as an answer or as typing."""
        if event.key in _SCROLLING:
            self._pending = None
            return
        event.stop()
        event.prevent_default()
        first, self._pending = self._pending, None
        if first is not None and event.key == "enter":
            self._decide(_ANSWERS[first.key.casefold()])
        elif first is not None:
            self._type(first)
            self._type(event)
        elif not self._arming.is_armed(event.time):
            self._type(event)
        else:
            self._take(event)

    def _take(self, event: events.Key) -> None:
        """Take a key that came after a pause."""
        key = event.key.casefold()
        if key in _ANSWERS:
            self._chosen = list(_ANSWERS).index(key)
            self._pending = event
            self._draw_state()
            self.set_timer(ALONE_S, self._wait_for_keys)
        elif key == "enter":
            self._decide(_ANSWERS[_CHOICES[self._chosen][0]])
        elif key == "escape":
            self._decide("no")
        elif key in _STEPS:
            self._chosen = (self._chosen + _STEPS[key]) % len(_CHOICES)
            self._draw_state()
        else:
            self._type(event)

    def _wait_for_keys(self) -> None:
        """When the time is over, wait for keys pressed within it that are still in the queue."""
        self.app.call_later(self.call_later, self._settle)

    def _settle(self) -> None:
        first, self._pending = self._pending, None
        if first is not None:
            self._decide(_ANSWERS[first.key.casefold()])

    def _type(self, event: events.Key) -> None:
        """Pass a letter that was meant for the editor to the editor."""
        if event.key == "escape":
            return
        self._arming.note_typing(event.time)
        self._draw_state_later()
        self._pass_on(event, events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """Pass pasted text to the editor: it never answers."""
        event.stop()
        self._pending = None
        self._arming.note_typing(event.time)
        self._draw_state_later()
        self._pass_on(None, events.Paste(event.text))

    def _pass_on(self, key: events.Key | None, event: events.Event) -> None:
        if key is not None and not (key.is_printable or key.key == "backspace"):
            return
        stack = self.app.screen_stack
        below = stack[stack.index(self) - 1] if self in stack[1:] else None
        if below is not None and below.focused is not None:
            below.focused.post_message(event)

    # -- answers ---------------------------------------------------------------------------------

    def _decide(self, answer: str) -> None:
        if answer == "no":
            self.action_answer("no")
        elif not self._pane.is_end_seen:
            self.action_page(1)  # the user may approve only after all of it was there to be read
        elif answer == "yes":
            self.action_answer("yes")
        else:
            self.app.push_screen(
                ChoiceDialog("Allow without asking, until this session is left", self._reaches()),
                self._choose_reach,
            )

    def _reaches(self) -> list[Option]:
        question = self._question
        options = [Option("", "Back to the question")]
        options += [
            Option(reach, word_permission(Permission.of(question, reach)))
            for reach in question.reaches
        ]
        return options

    def _choose_reach(self, reach: str | None) -> None:
        for known in self._question.reaches:
            if reach == known and self._answer is None:
                self._answer = known  # dismissed as soon as the choice has gone from above it

    def action_answer(self, answer: Answer) -> None:
        """Answer, once."""
        if self._answer is None:
            self._answer = answer
            self.dismiss(answer)

    def action_scroll(self, lines: int) -> None:
        scroll_body(self, lines)

    def action_page(self, direction: int) -> None:
        scroll_body(self, direction * max(1, self._pane.size.height - 1))

    def action_go_to_end(self, direction: int) -> None:
        y = 0 if direction < 0 else self._pane.max_scroll_y
        self._pane.scroll_to(y=y, animate=False, immediate=True)


class Confirmer:
    """Answer an agent's questions by asking the user."""

    def __init__(self, app: App[object], say: Callable[[str], None] | None = None) -> None:
        """``say`` shows in one line what the user allowed."""
        self.permissions = Permissions()
        self._app = app
        self._say = say
        self._asking = asyncio.Lock()
        self._open = 0

    @property
    def is_asking(self) -> bool:
        """Whether a question waits for its answer."""
        return self._open > 0

    def forget(self) -> None:
        """Forget all permissions, because another session is open."""
        self.permissions.clear()

    async def confirm(self, question: Confirmation) -> bool:
        """Ask whether the call may run."""
        async with self._asking:
            # Check only now: the answer before may have allowed this as well.
            if self.permissions.cover(question):
                return True
            answer = await self._ask(question)
        if answer in ("call", "folder", "session"):
            permission = Permission.of(question, answer)
            self.permissions.give(permission)
            if self._say is not None:
                self._say(f"Allowed without asking: {word_permission(permission)} · /allowed")
            return True
        return answer == "yes"

    async def _ask(self, question: Confirmation) -> Answer | None:
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def take(answer: Answer | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        dialog = ToolDialog(question)
        self._app.push_screen(dialog, take)
        self._open += 1
        try:
            return await answered
        except asyncio.CancelledError:
            dialog.action_answer("no")
            raise
        finally:
            self._open -= 1


# -- words and lines -----------------------------------------------------------------------------


def word_permission(permission: Permission) -> str:
    """Word a permission in one safe line."""
    tool = exactly.exact_line(permission.tool_name)
    folder = exactly.exact_line(short_path(permission.folder))
    match permission.reach:
        case "call":
            return f"{tool}: {exactly.exact_line(permission.subject)}"
        case "folder":
            return f"{tool}: everything in {folder}"
        case "session":
            return f"{tool}: everything in this session"


def lay_out_question(question: Confirmation, width: int, palette: Palette) -> Sequence[Text]:
    """Lay out the whole question in lines of at most ``width`` columns.

    A line that continues a longer one has a mark, so that a wrap never looks like a line break.
    """
    # Tabs first: an escape is wider than the character that it replaces.
    source = question.preview.expandtabs(_TAB_WIDTH)
    text = exactly.exact(source)
    before: list[Text] = []
    title = exactly.exact_line(question.title)
    if cell_len(title) > _LONG_TITLE:
        before = [*wrap_text(Text(title, palette.strong), width, keep_spaces=True), Text()]
    if not text:
        return [*before, Text("(empty)", palette.dim)]
    if len(text) <= MAX_HIGHLIGHTED:
        drawn = highlight(text, _language_of(question), palette)
        place = 0
        for piece, is_escape in exactly.exact_pieces(source):
            if is_escape:
                drawn.stylize(palette.of("error", bold=True), place, place + len(piece))
            place += len(piece)
        lines = [_marked(line, width, palette) for line in drawn.split("\n", allow_blank=True)]
        return [*before, *(row for line in lines for row in line)]
    draw_row = diff_row(palette) if question.preview_kind == "diff" else _plain_row(palette)

    def draw(row: str, begins_line: bool) -> Text:
        return _with_mark(draw_row(row, begins_line), palette, begins_line=begins_line)

    return stack(before, Rows(LongText(max(2, width - 2)).show(text), draw))


def _plain_row(palette: Palette) -> Draw:
    return lambda row, _: Text(row, palette.text)


def _marked(line: Text, width: int, palette: Palette) -> list[Text]:
    pieces = wrap_text(line, max(2, width - 2), keep_spaces=True)
    return [
        _with_mark(piece, palette, begins_line=number == 0) for number, piece in enumerate(pieces)
    ]


def _with_mark(piece: Text, palette: Palette, *, begins_line: bool) -> Text:
    made = Text.assemble(("  " if begins_line else "↪ ", palette.rule))
    made.append_text(piece)
    return made


def _language_of(question: Confirmation) -> str:
    match question.preview_kind:
        case "command":
            return "bash"
        case "diff":
            return "diff"
        case "content":
            return question.subject.rpartition("/")[2].rpartition(".")[2]
        case "text":
            return ""


def draw_rest(lines_below: int, palette: Palette) -> Text:
    """Draw how many lines follow the visible ones."""
    if not lines_below:
        return Text()
    lines = "1 more line" if lines_below == 1 else f"{lines_below:,} more lines"
    return Text.assemble((f"↓ {lines}", palette.of("warning")), ("  PageDown, End", palette.dim))


def draw_answers(chosen: int, palette: Palette, *, is_armed: bool, is_whole: bool) -> Text:
    """Draw the answers with the chosen one marked; dim while keys don't answer yet."""
    if not is_armed:
        return Text("Waiting for a pause in your typing…", palette.dim)
    pieces = []
    for number, (key, word) in enumerate(_CHOICES):
        if number == chosen:
            pieces.append(Text(f" {key} {word} ", palette.cursor))
        elif not is_whole and key != "n":
            pieces.append(Text(f" {key} {word} ", palette.dim))
        else:
            pieces.append(Text.assemble((f" {key}", palette.of("accent")), f" {word} "))
    if not is_whole:
        pieces.append(Text("after the last line", palette.dim))
    return Text(" ").join(pieces)
