"""Start the program: choose a session, then show it on a screen or print one answer.

Afterwards the command that resumes the session is printed. The screen itself is ``tui``'s.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from sessiontree.cli import output
from sessiontree.cli.choose_session import (
    Choice,
    NothingChosen,
    StartOptions,
    choose,
    fail_without_screen,
    open_choice,
    owner_of,
)
from sessiontree.cli.resuming import resume_command, resume_words
from sessiontree.config import Config
from sessiontree.profiles import Profile
from sessiontree.scope import Scope

if TYPE_CHECKING:  # loaded when a session is opened: the picker is there sooner
    from sessiontree.session.manager import SessionManager

__all__ = ["StartOptions", "start_program"]


def start_program(options: StartOptions, scope: Scope, config: Config) -> int:
    """Run the program to its end; its exit code."""
    if options.print_prompt is not None and options.prompt is not None:
        raise click.UsageError("Give the prompt to -p or as an argument, not both.")
    if options.print_prompt is None and options.max_turns is not None:
        raise click.UsageError("--max-turns needs -p.")
    try:
        choice = choose(options, scope)
    except NothingChosen as ended:
        output.write_line(str(ended))
        if ended.is_empty:
            _hint_at_others(scope)
        return output.OK
    if options.print_prompt is None and not output.can_show_screen():
        fail_without_screen(
            "The interactive UI", 'For a one-off answer use: sessiontree -p "PROMPT"'
        )
    prompt = _read_prompt(options.print_prompt)
    manager = open_choice(choice, scope)
    try:
        if options.name is not None:
            manager.set_session_name(_readable(options.name) or "")
        if choice.notice is not None:
            output.write_message((choice.notice, "dim"))
        output.write_warnings(manager.warnings)
        output.flush()
    except BaseException:
        manager.close()
        raise
    if prompt is not None:
        return _print(manager, prompt, choice, scope, config, options)
    return _chat(manager, choice, scope, config, options)


def _print(
    manager: SessionManager,
    prompt: str,
    choice: Choice,
    scope: Scope,
    config: Config,
    options: StartOptions,
) -> int:
    """Answer one prompt on standard output; return the exit code."""
    from sessiontree.cli.print_answer import print_answer

    code = print_answer(
        manager,
        prompt,
        options.model,
        scope,
        choice.work_dir,
        options.max_turns,
        config,
        is_copy=choice.kind == "fork",
    )
    if output.is_terminal(sys.stderr):
        _write_farewell(
            manager.session_file, manager.session_id, manager.cwd, scope, options.resume
        )
    return code


def _chat(
    manager: SessionManager, choice: Choice, scope: Scope, config: Config, options: StartOptions
) -> int:
    """Open the chat on the session; return the exit code."""
    with output.needs_extra("tui", "The interactive UI"):
        from sessiontree.tui.app import run_chat
    left = run_chat(
        manager,
        scope,
        config=config,
        model=options.model,
        work_dir=choice.work_dir,
        initial_prompt=_readable(options.prompt),
        notice=choice.notice,
        spell_resume=partial(spell_resume, scope=scope),
    )
    if left.warning is not None:
        output.write_warnings([left.warning])
    _write_farewell(left.session_file, left.session_id, left.cwd, scope, options.resume)
    return left.exit_code


def spell_resume(ref: str, session_id: str, cwd: str, *, scope: Scope) -> str:
    """The command that resumes a session of this user, of whichever profile it is."""
    profile = owner_of(ref, scope) if scope.files is not None else scope.profile
    return resume_command(session_id, cwd, scope, profile)


def _write_farewell(
    session_file: str | None, session_id: str | None, cwd: str, scope: Scope, asked: str | None
) -> None:
    """Print the command that resumes the session, if there is something to resume."""
    from sessiontree.discovery.paths import draft_path

    if session_file is None or not session_id:
        return
    if scope.files is None:
        if scope.store.exists(session_file):
            command = resume_command(session_id, cwd, scope)
            output.write_message("Resume with: ", (command, "bold"))
        return
    if not os.path.exists(session_file) and not os.path.exists(draft_path(session_file)):
        return
    profile = owner_of(session_file, scope)
    if _leads_to(session_file, session_id, cwd, scope, profile):
        command = resume_command(session_id, cwd, scope, profile)
    else:
        # As it was typed, if this is what was typed: the command is for the same folder.
        is_asked = asked and os.path.abspath(os.path.expanduser(asked)) == session_file
        path = asked if asked and is_asked else session_file
        command = resume_words(path, scope, scope.profile)
    output.write_message("Resume with: ", (command, "bold"))


def _leads_to(session_file: str, session_id: str, cwd: str, scope: Scope, profile: Profile) -> bool:
    """Whether resuming by this id, in the session's own folder, opens this very file."""
    from sessiontree.discovery.paths import session_of_draft
    from sessiontree.discovery.resume import resolve_session
    from sessiontree.errors import SessionTreeError

    kept_in = scope.session_dir or profile.session_dir or profile.sessions_dir
    if not _is_below(session_file, kept_in):
        return False  # no need to look for it among thousands of others
    try:
        found = resolve_session(session_id, cwd, session_dir=scope.session_dir, profile=profile)
    except SessionTreeError:
        return False
    path = session_of_draft(found.path) or found.path
    return os.path.realpath(path) == os.path.realpath(session_file)


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), ""))


def _read_prompt(given: str | None) -> str | None:
    if given != "-":
        if given is not None and not given.strip():
            raise click.UsageError("-p needs a prompt.")
        return _readable(given)
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not text.strip():
        raise click.UsageError("-p - reads the prompt from standard input, which is empty.")
    return text


def _readable(argument: str | None) -> str | None:
    """An argument as text: bytes that are not UTF-8 arrive as half surrogate pairs."""
    if argument is None:
        return None
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _hint_at_others(scope: Scope) -> None:
    from sessiontree.cli.options import command_like

    if _has_sessions_elsewhere(scope):
        way = command_like(scope, "ls", "--all")
        output.write_message((f"{way} lists the sessions of all projects", "dim"))
    else:
        output.write_message((f"{command_like(scope, 'demo')} adds sample sessions", "dim"))


def _has_sessions_elsewhere(scope: Scope) -> bool:
    from sessiontree.discovery.paths import list_session_folders

    files = scope.files
    if files is None:
        return bool(scope.reaching("all").list(limit=1))
    return scope.session_dir is None and bool(list_session_folders(scope.profile, files.storage))
