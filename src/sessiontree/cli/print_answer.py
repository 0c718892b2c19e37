"""``-p``: one prompt, one answer as plain text, no screen.

The answer goes to standard output as it comes; everything else (tools, questions, errors) to
standard error. Tools that write or run ask on the terminal; without one they are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from sessiontree.cli import approval, output
from sessiontree.cli.signals import ending_on_signals
from sessiontree.config import Config, load_config
from sessiontree.scope import Scope

DEFAULT_MAX_TURNS = 100
"""The most calls of the model: enough for long work, and an end to a model that repeats itself."""
LIMIT_REACHED = 3
"""Exit code of an answer that ``--max-turns`` has ended."""

if TYPE_CHECKING:
    from sessiontree.agents import AgentChoice
    from sessiontree.session.manager import SessionManager


def print_answer(
    manager: SessionManager,
    prompt: str,
    model: str | None,
    scope: Scope,
    work_dir: str | None = None,
    max_turns: int | None = None,
    config: Config | None = None,
    *,
    is_copy: bool = False,
) -> int:
    """Ask, print the answer, close the session; the exit code.

    Without a model to ask, a session that is a copy made for this is removed. The model is asked
    ``max_turns`` times at most (DEFAULT_MAX_TURNS if not given).
    """
    from sessiontree.agents import create_session_agent

    confirm = approval.confirm if output.can_ask() else None
    config = config or load_config()
    model_wish = config.text("model")
    leave = manager.discard if is_copy else manager.close
    try:
        choice = create_session_agent(
            manager,
            model,
            cwd=work_dir,
            confirm=confirm,
            default=model_wish,
            attempts=config.number("attempts"),
        )
    except BaseException:
        leave()
        raise
    if choice.is_offline and (model or model_wish or "").partition("/")[0] != "offline":
        leave()
        output.fail(f"{choice.reason}, or try --model offline")
    choice.agent.turns_left = DEFAULT_MAX_TURNS if max_turns is None else max_turns
    with _shortened_logs():
        if manager.is_persisted:
            _remember(prompt, scope)
        return asyncio.run(_run(manager, prompt, choice, config))


@contextlib.contextmanager
def _shortened_logs() -> Iterator[None]:
    """Report at the end what was logged meanwhile, each problem once and in one line.

    If the work fails, its error is all there is to say. SESSIONTREE_DEBUG shows everything. Other
    libraries' loggers too: left alone, Python would print what they say as it is.
    """
    logger = logging.getLogger()
    if os.environ.get("SESSIONTREE_DEBUG"):
        everything = _Everything(logging.WARNING)
        logger.addHandler(everything)
        try:
            yield
        finally:
            logger.removeHandler(everything)
        return
    complaints = _Complaints(logging.WARNING)
    logger.addHandler(complaints)
    try:
        yield
    finally:
        logger.removeHandler(complaints)
    for line in complaints.lines.values():
        output.write_message((f"warning: {output.without_keys(line)}", "yellow"))


class _Everything(logging.Handler):
    """Writes each record at once, with its traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        for line in output.without_keys(self.format(record)).splitlines():
            output.write_message(line)


class _Complaints(logging.Handler):
    """Keeps the first of the records that give the same reason."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.lines: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        line = record.getMessage()
        cause = record.exc_info[1] if record.exc_info else None
        if cause is not None:
            line = f"{line}: {type(cause).__name__}: {cause}"
        self.lines.setdefault(str(cause or (arguments[-1] if arguments else line)), line)


async def _run(manager: SessionManager, prompt: str, choice: AgentChoice, config: Config) -> int:
    from sessiontree.runtime.create import create_agent_session
    from sessiontree.user_hooks import load_hooks

    own = load_hooks(config, choice.agent.cwd or manager.cwd)
    output.write_warnings(own.notices)
    try:
        session = await create_agent_session(
            choice.agent,
            manager=manager,
            model=choice.model,
            settings=config.for_runtime(),
            hooks=own.hooks,
        )
        own.attach(session)
    except BaseException:
        manager.close()
        raise
    writer = _AnswerWriter(session.abort)
    task = asyncio.current_task()
    assert task is not None
    with ending_on_signals(task.cancel) as ending:
        try:
            async with session:
                session.subscribe(writer.hear)
                await session.prompt(prompt)
        except asyncio.CancelledError:
            if ending.number is None:
                raise
            return ending.exit_code
    code = writer.finish()
    if code == output.OK and _is_at_limit(choice):
        return _end_at_limit(manager.is_persisted)
    return code


def _is_at_limit(choice: AgentChoice) -> bool:
    """Whether the agent was stopped by the limit of calls before it was done."""
    last = choice.agent.messages[-1:]
    return choice.agent.turns_left == 0 and bool(last) and last[0].get("role") == "toolResult"


def _end_at_limit(is_kept: bool) -> int:
    output.write_message(
        "Stopped before the end: --max-turns allows no more calls of the model."
        + (' Continue with: sessiontree -c -p "continue"' if is_kept else "")
    )
    return LIMIT_REACHED


class _AnswerWriter:
    """Writes text as it arrives, and ends with a line break and a verdict.

    When the reader has gone, or nothing can be written, ``stop`` ends the run: what was said
    until then stays in the session.
    """

    def __init__(self, stop: Callable[[], Awaitable[None]]) -> None:
        self._stop = stop
        self._last = "\n"
        self._error: str | None = None
        self._is_aborted = False
        self._failure: Exception | None = None

    async def hear(self, event: Any) -> None:
        if self._failure is not None:
            return
        try:
            self._tell(event)
        except (output.ReaderGone, OSError) as error:
            # What a listener raises only gets logged: it is kept for the end.
            self._failure = error
            await self._stop()

    def _tell(self, event: Any) -> None:
        from sessiontree.runtime import events

        match event:
            case events.MessageStart(message) if message.get("role") == "assistant":
                self._end_line()
            case events.MessageUpdate(_, delta) if delta.kind == "text":
                self._write(delta.text)
            case events.MessageEnd(message) if message.get("role") == "assistant":
                self._note_end(message)
            case events.ModelRetry(attempt, attempts, wait_s, reason):
                self._end_line()
                wait = f"attempt {attempt} of {attempts} in {wait_s:.0f} s"
                output.write_message((f"{reason} · {wait}", "dim"))
            case events.ToolStart(_, name, arguments):
                self._end_line()
                if output.is_terminal(sys.stderr):
                    first = next(iter(arguments.values()), "")
                    output.write_message((f"→ {name} {output.fit(str(first), 100)}", "dim"))
            case _:
                pass

    def finish(self) -> int:
        """Return the exit code at the end. Raises the error that kept us from writing."""
        if self._failure is not None:
            raise self._failure
        self._end_line()
        if self._is_aborted:
            return output.INTERRUPTED
        if self._error is not None:
            output.write_message(self._error)
            return output.FAILURE
        return output.OK

    def _note_end(self, message: dict[str, Any]) -> None:
        reason = message.get("stopReason")
        self._is_aborted = reason == "aborted"
        self._error = None
        if reason == "error":
            self._error = str(message.get("errorMessage") or "The model failed without a reason")

    def _write(self, text: str) -> None:
        if text:
            output.write_document([text])
            output.flush()
            self._last = text[-1]

    def _end_line(self) -> None:
        if self._last != "\n":
            output.write_line()
            self._last = "\n"


_HISTORY_PATIENCE_S = 0.3


def _remember(prompt: str, scope: Scope) -> None:
    """Add the prompt to the history; if another program holds that, try on while the model works.

    The answer does not wait for it, and neither does the end of the program.
    """
    from sessiontree.history import HistoryStorage

    history = HistoryStorage.for_profile(scope.profile)
    history.add(output.without_keys(prompt), cwd=scope.cwd)
    history.close(_HISTORY_PATIENCE_S)
