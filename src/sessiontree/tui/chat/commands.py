"""Run the chat's slash commands, with their dialogs and the notices that report the outcome.

A command that fails leaves the screen as it was and shows why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from textual.app import SuspendNotSupported

from sessiontree.errors import SessionTreeError
from sessiontree.logs import get_logger
from sessiontree.model.messages import text_of as content_text
from sessiontree.runtime.models import THINKING_LEVELS
from sessiontree.tui.chat import lookups, models, moves, start_page, themes
from sessiontree.tui.chat.command_list import COMMANDS, KEYS, Command
from sessiontree.tui.chat.confirm import word_permission
from sessiontree.tui.outside import run_outside
from sessiontree.tui.pickers.dialogs import ChoiceDialog, ConfirmDialog, Option, TextDialog
from sessiontree.tui.pickers.list_picker import ListPicker
from sessiontree.tui.pickers.session_rows import count_text, short_path
from sessiontree.tui.text_editor import EditorError, edit_text
from sessiontree.tui.transcript.block_lines import plain_text
from sessiontree.tui.transcript.blocks import Block

if TYPE_CHECKING:
    from sessiontree.tui.chat.screen import ChatScreen

logger = get_logger(__name__)

Handler = Callable[[str], Awaitable[None]]
_ROOMY_HEIGHT = 30
"""Lines from which on the start page shows more sessions."""


class ChatCommands:
    """The commands of one chat."""

    def __init__(self, chat: ChatScreen) -> None:
        self._chat = chat

    async def run(self, command: Command, argument: str) -> None:
        """Run one command and show its error, if any, instead of raising it."""
        handler: Handler = getattr(self, command.name)
        try:
            await handler(argument)
        except Exception as error:
            if not isinstance(error, (SessionTreeError, OSError, ValueError)):
                logger.exception("/%s failed", command.name)
            self._chat.say(_word_error(error), is_bad=True)

    # -- moving ----------------------------------------------------------------------------------

    async def resume(self, argument: str) -> None:
        await moves.resume(self._chat, argument)

    async def new(self, _: str) -> None:
        session = self._chat.session
        await moves.move(self._chat, session.new_session, "New session")

    async def fork(self, _: str) -> None:
        session = self._chat.session
        await moves.move(
            self._chat,
            session.fork,
            lambda: f"Forked. You are now in the copy ({session.session_id[:8]}).",
        )

    async def clone(self, _: str) -> None:
        await moves.clone(self._chat)

    async def tree(self, _: str) -> None:
        await moves.tree(self._chat)

    async def branch(self, _: str) -> None:
        await moves.branch(self._chat)

    async def search(self, argument: str) -> None:
        await moves.search(self._chat, argument)

    # -- naming ----------------------------------------------------------------------------------

    async def name(self, argument: str) -> None:
        chat, session = self._chat, self._chat.session
        name: str | None = argument
        if not argument:
            name = await chat.app.push_screen_wait(
                TextDialog(
                    "Name of this session (leave empty to clear it)", session.session_name or ""
                )
            )
        if name is None:
            return
        await session.set_session_name(" ".join(name.split()))
        await chat.link.refresh_figures()
        shown = session.session_name
        chat.say(f"Renamed to {shown}" if shown else "Name cleared")

    async def label(self, argument: str) -> None:
        """Label the last message of the conversation."""
        block = next((b for b in reversed(self._chat.transcript.blocks) if b.entry_id), None)
        if block is None:
            self._chat.say("Nothing to label yet", is_bad=True)
        elif argument:
            await self._set_label(block, argument)
        else:
            await self.label_block(block)

    async def label_block(self, block: Block | None) -> None:
        """Ask for a label of this block's entry."""
        if block is None or block.entry_id is None:
            return
        entry_id = block.entry_id
        before = await self._chat.session.read(lambda m: m.get_label(entry_id))
        text = await self._chat.app.push_screen_wait(
            TextDialog("Label (leave empty to remove it)", before or "")
        )
        if text is not None:
            await self._set_label(block, text)

    async def _set_label(self, block: Block, text: str) -> None:
        assert block.entry_id is not None
        label = " ".join(text.split()) or None
        await self._chat.session.set_label(block.entry_id, label)
        await self._chat.link.refresh_figures()
        self._chat.say(f"Labeled {label}" if label else "Label removed")

    # -- the agent -------------------------------------------------------------------------------

    async def model(self, argument: str) -> None:
        await models.choose(self._chat, argument)

    async def thinking(self, argument: str) -> None:
        session = self._chat.session
        level: str | None = argument.casefold()
        if not level:
            levels = session.model.thinking_levels if session.model else THINKING_LEVELS
            level = await self._chat.app.push_screen_wait(
                ChoiceDialog(
                    "How much should the model think?",
                    [Option(one, one) for one in levels],
                    session.thinking_level,
                )
            )
        if level is None:
            return
        if level not in THINKING_LEVELS:
            raise ValueError(
                f"Unknown thinking level {level}. Choose from: {', '.join(THINKING_LEVELS)}"
            )
        await self._set_level(level)

    async def _set_level(self, level: str) -> None:
        chosen = await self._chat.session.set_thinking_level(level)
        await self._chat.link.refresh_figures()
        more = f" (this model can't do {level})" if chosen != level else ""
        self._chat.say(f"Thinking: {chosen}{more}")

    async def next_level(self) -> None:
        """Switch to the model's next thinking level; after the last comes the first."""
        session = self._chat.session
        levels = session.model.thinking_levels if session.model else ()
        if len(levels) < 2:
            self._chat.say("This model has only one thinking level")
            return
        at = levels.index(session.thinking_level) if session.thinking_level in levels else -1
        await self._set_level(levels[(at + 1) % len(levels)])

    async def allowed(self, _: str) -> None:
        """List what tools may do without asking, and revoke what the user picks."""
        chat, permissions = self._chat, self._chat.confirmer.permissions
        while given := tuple(permissions):
            options = [Option(str(n), word_permission(one)) for n, one in enumerate(given)]
            options.append(Option("all", "Revoke all"))
            chosen = await chat.app.push_screen_wait(
                ChoiceDialog("Allowed without asking, in this session", options, enter="revoke")
            )
            if chosen is None:
                return
            if chosen == "all":
                permissions.clear()
            else:
                permissions.revoke(given[int(chosen)])
            chat.say("Revoked: you will be asked again")
        chat.say("Nothing is allowed yet: the agent asks before each command and file change")

    async def plan(self, _: str) -> None:
        chat, session = self._chat, self._chat.session
        is_planning = session.mode.name == "plan"
        await session.set_mode("none" if is_planning else "plan")
        await chat.link.refresh_figures()
        chat.say("Left plan mode" if is_planning else "Plan mode: the agent may only read")

    async def compact(self, argument: str) -> None:
        with self._chat.status.busy("Compacting"):
            await self._chat.session.compact(argument or None)
        self._chat.say("Compacted: a summary replaces the older messages")

    # -- out and about ---------------------------------------------------------------------------

    async def session(self, _: str) -> None:
        stats = await self._chat.session.stats()
        await self._show("This session", lookups.describe(self._chat.session, stats))

    async def export(self, argument: str) -> None:
        path = await lookups.export(self._chat.session, argument)
        self._chat.say(f"Written to {short_path(path)}")

    async def copy(self, _: str) -> None:
        blocks = self._chat.transcript.blocks
        answers = [block for block in blocks if block.kind == "answer"]
        self.copy_block(answers[-1] if answers else None)

    def copy_block(self, block: Block | None) -> None:
        """Put a block's text on the clipboard."""
        if block is None:
            self._chat.say("No answer to copy yet", is_bad=True)
            return
        text = plain_text(block)
        self._chat.app.copy_to_clipboard(text)
        self._chat.say(f"Copied {count_text(len(text), 'character')}")

    async def recall(self) -> None:
        """Search earlier prompts, and put one into the editor."""
        history = self._chat.setup.history
        if history is None:
            self._chat.say("Prompt history is off")
            return
        chosen = await self._chat.app.push_screen_wait(
            ListPicker(
                "Earlier prompts",
                lambda text: lookups.find_prompts(history, text),
                nothing="No earlier prompt contains these words",
                enter="edit it",
            )
        )
        if chosen is not None:
            self._chat.editor.put(chosen)

    async def edit_outside(self) -> None:
        """Edit the prompt in the user's own editor; the agent goes on meanwhile."""
        chat = self._chat
        try:
            before = chat.editor.whole_text
            text = await run_outside(chat.app, partial(edit_text, before, chat.setup.config))
        except (EditorError, SuspendNotSupported) as error:
            chat.say(f"The prompt is unchanged: {error}", is_bad=True)
            return
        if text != before:
            chat.editor.put(text)

    async def theme(self, argument: str) -> None:
        await themes.choose(self._chat, argument)

    async def demo(self, argument: str) -> None:
        chat = self._chat
        if argument.casefold() == "remove":
            question = ConfirmDialog("Move all sample sessions to the trash?")
            if await chat.app.push_screen_wait(question):
                count = await asyncio.to_thread(lookups.remove_samples, chat.setup)
                chat.say(f"{count_text(count, 'sample')} moved to the trash")
            return
        made = await asyncio.to_thread(lookups.create_samples, chat.session.cwd, chat.setup)
        chat.say(f"{count_text(made, 'sample session')} added: /resume opens one")

    async def help(self, _: str) -> None:
        names = ((f"/{one.name} {one.argument}".rstrip(), one.about) for one in COMMANDS)
        await self._show("Keys and commands", [*KEYS, ("", ""), *names])

    async def quit(self, _: str) -> None:
        self._chat.app.exit()

    async def _show(self, title: str, facts: Sequence[tuple[str, str]]) -> None:
        from sessiontree.tui.pickers.dialogs import ReadingPane

        await self._chat.app.push_screen_wait(ReadingPane(title, facts))

    def welcome(self) -> None:
        """Show the start page of an empty session; what is found around it follows."""
        chat = self._chat
        project = short_path(chat.session.cwd)
        block = chat.add_start_page(start_page.draw_start(project, None))
        chat.run_worker(self._look_around(block, project), exit_on_error=False)

    async def _look_around(self, block: Block, project: str) -> None:
        chat = self._chat
        scope = replace(chat.setup.scope, cwd=chat.session.cwd)
        around = None
        try:
            around = await asyncio.to_thread(
                start_page.look_around, scope, chat.session.session_file
            )
        except (SessionTreeError, OSError):
            logger.exception("looking for recent sessions failed")
        most = start_page.RECENT if chat.size.height >= _ROOMY_HEIGHT else 3
        block.change(text=start_page.draw_start(project, around, most, is_looking=False))
        chat.narrator.is_changed = True

    @staticmethod
    def text_of(message: Mapping[str, Any]) -> str:
        """The text of a queued message, for the editor."""
        return content_text(message.get("content"), "\n")


def _word_error(error: Exception) -> str:
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}" if error.filename else reason
    return str(error) or type(error).__name__
