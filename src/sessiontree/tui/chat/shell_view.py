"""``!command`` in the chat: shown while it runs, recorded when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessiontree.errors import SessionTreeError
from sessiontree.tui.chat.shell import ShellRun

if TYPE_CHECKING:
    from sessiontree.tui.chat.screen import ChatScreen


async def run_shell_command(chat: ChatScreen, command: str, *, is_excluded: bool) -> None:
    """Run a command to its end (or its cancellation) and record it in the session."""
    session, narrator = chat.session, chat.narrator
    block = narrator.conversation.begin_command(command, is_excluded=is_excluded)
    narrator.is_changed = True

    def show(text: str) -> None:
        block.change(text=text)
        narrator.is_changed = True

    run = ShellRun(command, session.cwd, session.manager.artifacts_dir, show)
    result = await run.run()
    outcome = "stopped" if result.is_cancelled else ""
    if result.exit_code:
        outcome = f"exit {result.exit_code}"
    status = "stopped" if result.is_cancelled else "failed" if result.exit_code else "done"
    block.change(text=result.output, outcome=outcome, status=status)
    narrator.is_changed = True
    try:
        await session.record_bash(
            command,
            result.output,
            result.exit_code,
            cancelled=result.is_cancelled,
            truncated=result.full_output_path is not None,
            full_output_path=result.full_output_path,
            exclude_from_context=is_excluded,
        )
    except SessionTreeError as error:
        chat.say(f"Not recorded: {error}", is_bad=True)
