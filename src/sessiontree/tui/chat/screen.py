"""The chat screen: the conversation, the editor, and the keys.

`session_link` connects it to its live session, `event_state` turns the session's events into what
the screen shows, and `commands` runs slash commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static, TextArea

from sessiontree.config import Config
from sessiontree.errors import SessionTreeError
from sessiontree.logs import get_logger
from sessiontree.runtime.agent import AgentBusyError
from sessiontree.runtime.masking import KeyMask
from sessiontree.tui.chat import command_list
from sessiontree.tui.chat.commands import ChatCommands
from sessiontree.tui.chat.confirm import Confirmer
from sessiontree.tui.chat.editor import Completions, Editor
from sessiontree.tui.chat.footer import Footer, FooterFacts
from sessiontree.tui.chat.panels import LinesPanel, draw_queue
from sessiontree.tui.chat.project_files import ProjectFiles, list_files
from sessiontree.tui.chat.session_link import OpenSession, SessionLink
from sessiontree.tui.chat.shell import run_shell_command
from sessiontree.tui.chat.status_line import StatusLine
from sessiontree.tui.chat.stopping import ChatStopping
from sessiontree.tui.chat.todos import Todo, draw_todos
from sessiontree.tui.theme import ThemedApp, palette_of, theme_names
from sessiontree.tui.transcript.widget import Transcript

if TYPE_CHECKING:
    from sessiontree.history import HistoryStorage
    from sessiontree.runtime.agent_session import AgentSession
    from sessiontree.scope import Scope
    from sessiontree.tui.transcript.blocks import Block

logger = get_logger(__name__)

_TICK_S = 1 / 15
_FILES_S = 10.0
"""Seconds for which the list of the project's files counts as new."""


SpellResume: TypeAlias = Callable[[str, str, str], str]
"""Gives the command that resumes a session, from its ref, its ID and its project."""


@dataclass(frozen=True, slots=True)
class ChatSetup:
    """The settings to start a chat with."""

    scope: Scope
    initial_prompt: str | None = None
    notice: str | None = None
    history: HistoryStorage | None = None
    spell_resume: SpellResume | None = None
    config: Config = field(default_factory=lambda: Config(""))


class ChatScreen(Screen[None]):
    """A conversation with an agent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", show=False, priority=True),
        Binding("ctrl+o", "fold_tools", show=False, priority=True),
        Binding("ctrl+t", "fold_thinking", show=False, priority=True),
        Binding("ctrl+up", "enter_transcript", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("escape", "back_to_editor", show=False),
        Binding("c", "copy_block", show=False),
        Binding("l", "label_block", show=False),
    ]

    def __init__(
        self, setup: ChatSetup, open_session: OpenSession, fail: Callable[[Exception], None]
    ) -> None:
        super().__init__()
        self.setup = setup
        self._open_session = open_session
        self._fail = fail
        self.link = SessionLink(self)
        self.narrator = self.link.narrator
        self.confirmer = Confirmer(self.app, self.say)
        self.commands = ChatCommands(self)
        self._todos: list[Todo] = []
        self._stopping = ChatStopping(self)
        self._is_started = False
        self._files_of, self._files_at = "", 0.0
        self.shell: asyncio.Task[None] | None = None
        """The task of the latest command that the user ran."""

    # -- the screen ------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Transcript(id="transcript")
        yield LinesPanel(lambda w: draw_todos(self._todos, w, palette_of(self)), id="todos")
        yield LinesPanel(self._draw_queue, id="queue")
        yield StatusLine(self.narrator, time.monotonic, lambda: self.confirmer.is_asking)
        completions = Completions()
        yield completions
        with Horizontal(id="input"):
            yield Static("›", id="prompt")
            yield Editor(completions)
        yield Footer()

    def on_mount(self) -> None:
        self.editor.focus()
        self._update_panels()
        self.set_interval(_TICK_S, self._tick)
        self._start()

    @property
    def editor(self) -> Editor:
        return self.query_one(Editor)

    @property
    def transcript(self) -> Transcript:
        return self.query_one("#transcript", Transcript)

    @property
    def status(self) -> StatusLine:
        return self.query_one(StatusLine)

    @property
    def session(self) -> AgentSession:
        """The live session. Raises SessionTreeError until it is open."""
        return self.link.session

    @property
    def facts(self) -> FooterFacts:
        return self.query_one(Footer).facts

    @property
    def is_ready(self) -> bool:
        """Whether the session is open and its conversation shown."""
        return self._is_started and not self.status.is_busy

    @work(exit_on_error=False)
    async def _start(self) -> None:
        with self.status.busy("Starting"):
            try:
                await self.link.open(self._open_session, self.confirmer)
            except Exception as error:
                self._fail(error)
                return
            await self.load_history()
        self._greet()
        self._is_started = True
        self._follow()
        if self.setup.initial_prompt:
            self.send(self.setup.initial_prompt, is_queued=False)

    def _greet(self) -> None:
        opened = self.link.opened
        if not self.transcript.blocks:
            self.commands.welcome()
        if opened.is_offline:
            self.add_notice(f"You're talking to the built-in offline agent. {opened.reason}.")
        if self.setup.notice:
            self.say(self.setup.notice)
        for warning in (*self.setup.config.warnings, *opened.hooks.notices):
            self.add_notice(warning)
        wish = self.app.theme_wish if isinstance(self.app, ThemedApp) else "auto"
        if wish not in theme_names():
            self.say(f"Unknown theme {wish}: /theme lists them", is_bad=True)
        fallback = self.session.model_fallback
        if fallback is not None and not opened.is_offline:
            self.narrator.hear(fallback)

    async def load_history(self) -> None:
        """Load this project's earlier prompts for the arrow keys."""
        history = self.setup.history
        if history is None:
            return
        with contextlib.suppress(SessionTreeError):
            recent = await asyncio.to_thread(history.recent, 500, self.session.cwd)
            self.editor.recall.load(entry.prompt for entry in recent)

    # -- what the session shows ------------------------------------------------------------------

    def show_conversation(self, blocks: list[Block], earlier: str) -> None:
        self.transcript.show(blocks, earlier)

    def prepend_conversation(self, blocks: list[Block], earlier: str) -> None:
        self.transcript.prepend(blocks, earlier)

    def show_facts(self, facts: FooterFacts) -> None:
        self.query_one(Footer).show(facts)

    def show_todos(self, todos: list[Todo]) -> None:
        self._todos = todos
        self._update_panels()

    def say(self, text: str, *, is_bad: bool = False) -> None:
        """Show one line above the editor for a while."""
        self.status.say(text, is_bad=is_bad)

    def say_done(self, text: str) -> None:
        """Report in one line what was done, with the notices that it caused."""
        told = self.narrator.notices.copy()
        self.narrator.notices.clear()
        self.say(
            " · ".join([text, *(news for news, _ in told)]), is_bad=any(bad for _, bad in told)
        )

    def add_notice(self, text: str) -> Block:
        """Add a few lines to the conversation that the session does not keep."""
        self.narrator.is_changed = True
        return self.narrator.conversation.add_notice(text)

    def add_start_page(self, text: str) -> Block:
        """Add the start page of an empty session."""
        self.narrator.is_changed = True
        return self.narrator.conversation.add_start_page(text)

    def _draw_queue(self, width: int) -> list[Text]:
        return draw_queue(self.narrator.steering, self.narrator.queued, width, palette_of(self))

    def _update_panels(self) -> None:
        for panel in self.query(LinesPanel):
            panel.update()

    def _tick(self) -> None:
        """Show what changed since the last tick."""
        narrator, link = self.narrator, self.link
        if narrator.needs_reload and link.is_open:
            narrator.needs_reload = False
            self.run_worker(link.reload(), exit_on_error=False)
        if narrator.is_changed:
            narrator.is_changed = False
            self.transcript.sync(narrator.conversation.blocks)
            link.take_todos()
            self._update_panels()
        if link.is_open:
            narrator.notices += [(failure, True) for failure in link.opened.hooks.take_failures()]
        while narrator.notices and not self.status.is_busy:
            text, is_bad = narrator.notices.pop(0)
            self.say(text, is_bad=is_bad)
        if narrator.has_new_figures and link.is_open:
            narrator.has_new_figures = False
            self.run_worker(link.refresh_figures(), exit_on_error=False)
        self.status.tick()

    @work(exit_on_error=False)
    async def _follow(self) -> None:
        """Show what other processes append, as it comes."""
        async for _ in self.link.changes():
            if self.is_ready:
                await self.link.look_for_others()

    async def on_transcript_earlier_wanted(self) -> None:
        await self.link.extend()

    # -- the editor ------------------------------------------------------------------------------

    def on_editor_sent(self, event: Editor.Sent) -> None:
        event.stop()
        self.status.unsay()  # the notice was about the state before this
        self.send(event.text, is_queued=event.is_queued)

    def send(self, text: str, *, is_queued: bool) -> None:
        """Run the text: a slash command, a shell command, or a prompt."""
        parsed = command_list.parse_input(text)
        if isinstance(parsed, command_list.Mistake):
            self.say(parsed.message, is_bad=True)
            self.editor.put_back(text)
            return
        if not self.link.is_open:
            self.say("The session is still being opened")
            self.editor.put_back(text)
            return
        self._remember(text)
        self.transcript.follow()
        match parsed:
            case command_list.Invocation(command, argument):
                self.run_worker(self.commands.run(command, argument), exit_on_error=False)
            case command_list.ShellCommand(command, is_excluded):
                self._run_shell(command, is_excluded=is_excluded)
            case command_list.Prompt(prompt):
                self.run_worker(self._ask(prompt, is_queued), exit_on_error=False)

    def _remember(self, text: str) -> None:
        self.editor.recall.add(text)
        if self.setup.history is not None and self.session.manager.is_persisted:
            kept = KeyMask.of_environment().text(text)
            self.setup.history.add(kept, cwd=self.session.cwd)

    async def _ask(self, prompt: str, is_queued: bool) -> None:
        session = self.session
        try:
            if session.is_running:
                await (session.follow_up(prompt) if is_queued else session.steer(prompt))
            else:
                await session.prompt(prompt)
        except AgentBusyError:
            await session.follow_up(prompt)
        except Exception as error:
            if not isinstance(error, SessionTreeError):
                logger.exception("a prompt failed")
            self.say(f"Not sent: {error}", is_bad=True)
            self.editor.add(prompt)

    def _run_shell(self, command: str, *, is_excluded: bool) -> None:
        if self.is_running_shell:
            self.say("A command is still running: Esc stops it", is_bad=True)
            return
        work_to_do = run_shell_command(self, command, is_excluded=is_excluded)
        self.shell = asyncio.ensure_future(work_to_do)

    @property
    def is_running_shell(self) -> bool:
        return self.shell is not None and not self.shell.done()

    async def on_editor_asked(self, event: Editor.Asked) -> None:
        event.stop()
        match event.what:
            case "escape":
                await self._stopping.escape()
            case "leave":
                self.app.exit()
            case "recall":
                self.run_worker(self.commands.recall(), exit_on_error=False)
            case "edit_outside":
                self.run_worker(self.commands.edit_outside(), exit_on_error=False)
            case "next_level":
                self.run_worker(self.commands.next_level(), exit_on_error=False)
            case "tell_fold":
                self.say(f"{event.text} is sent whole · Tab unfolds it, Backspace removes it")
            case "page_up":
                self.action_page(-1)
            case "page_down":
                self.action_page(1)
            case _:
                pass

    def interrupt(self) -> bool:
        """Handle Ctrl+C; return whether to leave the program."""
        return self._stopping.interrupt()

    # -- completions -----------------------------------------------------------------------------

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        text = self.editor.text
        if text:
            self._stopping.note_typing()
        self.query_one("#prompt", Static).update("$" if text.startswith("!") else "›")
        self._show_completions()

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._show_completions()

    def _show_completions(self) -> None:
        self.query_one(Completions).look(self.editor.choices)
        if self.editor.file_token is not None and self.link.is_open:
            self._list_files()

    @work(exit_on_error=False, group="files")
    async def _list_files(self) -> None:
        """List the project's files, unless that was done just now."""
        cwd, now = self.session.cwd, time.monotonic()
        if self._files_of == cwd and now - self._files_at < _FILES_S:
            return
        self._files_of, self._files_at = cwd, now
        found = await asyncio.to_thread(list_files, cwd)
        if self._files_of == cwd:
            self.editor.files = ProjectFiles(found)
            self._show_completions()

    def close_completions(self) -> None:
        self.editor.close_completions()
        self.query_one(Completions).close()

    # -- the conversation ------------------------------------------------------------------------

    def action_help(self) -> None:
        self.run_worker(self.commands.help(""), exit_on_error=False)

    def action_fold_tools(self) -> None:
        self.say("Everything unfolded" if self.transcript.toggle_tools() else "Folded")

    def action_fold_thinking(self) -> None:
        self.say("Thoughts unfolded" if self.transcript.toggle_thinking() else "Thoughts folded")

    def action_page(self, direction: int) -> None:
        step = direction * max(1, self.transcript.size.height - 2)
        self.transcript.scroll_relative(y=step, animate=False)
        if direction < 0 and self.transcript.scroll_offset.y == 0 and self.link.has_earlier:
            self.transcript.post_message(Transcript.EarlierWanted())

    def action_enter_transcript(self) -> None:
        self.transcript.focus()

    def on_key(self, event: events.Key) -> None:
        """Send letters typed in the conversation to the editor."""
        letter = event.character if event.is_printable else None
        if letter and letter not in "cl " and self.transcript.has_focus:
            event.stop()
            self.editor.focus()
            self.editor.insert(letter)

    def action_back_to_editor(self) -> None:
        self.editor.focus()
        self.transcript.follow()

    def action_copy_block(self) -> None:
        self.commands.copy_block(self.transcript.chosen_block)

    def action_label_block(self) -> None:
        self.run_worker(self.commands.label_block(self.transcript.chosen_block))
