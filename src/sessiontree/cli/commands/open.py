"""``open``: start a session's own agent on it, in its project; or continue it here."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import click

from sessiontree.cli import output
from sessiontree.cli.options import command_like, require_files, store_words, with_scope
from sessiontree.cli.resolve import find_target, session_argument
from sessiontree.scope import Scope

if TYPE_CHECKING:
    from sessiontree.discovery.native_agent import NativeCommand


@dataclass(frozen=True, slots=True)
class _Found:
    """A session of any agent on this machine."""

    agent: str
    path: str
    id: str
    cwd: str | None
    is_foreign: bool


@click.command("open", short_help="Open a session in its own agent.")
@session_argument()
@click.option("--here", is_flag=True, help="Continue it in Sessiontree instead.")
@click.option("--print", "print_only", is_flag=True, help="Only print the command.")
@click.option("--json", "as_json", is_flag=True, help="Print the command as JSON.")
@with_scope
def open_command(
    scope: Scope, session: str | None, here: bool, print_only: bool, as_json: bool
) -> None:
    """Start the agent that a session belongs to (pi, omp, Claude Code, Codex and others) on this
    session, in its project. Without ID: the newest session of this project.

    With --here, Sessiontree continues it: sessions of pi, omp and xcsh in their own file, those of
    other agents as a copy.

    \b
    Examples:
      sessiontree open 0199a3f2
      sessiontree open 0199a3f2 --print    # cd ~/code/app && claude --resume 0199a3f2-…
    """
    from sessiontree.discovery.native_agent import native_command

    found = _find(session, scope)
    if here:
        _continue_here(found, scope)
    _require_original(found.path, found.id)
    command = _like(scope, native_command(found.agent, found.path, found.id, found.cwd))
    if as_json:
        output.write_json(_to_json(found, command))
        return
    if print_only:
        output.write_line(command.shell)
        return
    if command.program is None:
        _offer_here(found, command, scope)
    if not output.can_show_screen():
        output.fail(f"{command.title} needs a terminal. The command is: {command.shell}")
    output.write_message((f"Opening in {command.title}: ", "dim"), (command.shell, "bold"))
    output.flush()
    _become(command)


def _require_original(path: str, session_id: str) -> None:
    """End the command for a session that its agent has deleted, if a copy of it is kept."""
    from sessiontree.discovery.kept import is_keeping

    if os.path.lexists(path) or not is_keeping():
        return
    from sessiontree.discovery.kept.reading import open_kept

    if not os.path.isfile(os.path.dirname(path)) and open_kept(path) is not None:
        output.fail(f"It was deleted, and is kept. First: sessiontree keep --restore {session_id}")


def _find(value: str | None, scope: Scope) -> _Found:
    """The session for ``value``: of this profile, of another one, or of any other agent.

    Raises SessionNotFoundError, AmbiguousSessionError, NotASessionError, PersistenceError.
    """
    from sessiontree.cli.choose_session import owner_of
    from sessiontree.importers.foreign_listing import resolve_foreign

    require_files(scope, "open", f"Continue it here: {command_like(scope, '-r', 'ID')}")
    target = find_target(value, scope, foreign=True)
    if target.agent is not None:
        session = resolve_foreign(target.path, target.agent)
        return _Found(target.agent, target.path, session.id, session.cwd, is_foreign=True)
    _require_original(target.path, target.id)
    return _found_own(target.path, owner_of(target.path, scope).name, scope)


def _found_own(path: str, agent: str, scope: Scope) -> _Found:
    from sessiontree.discovery.heads import read_head

    assert scope.files is not None
    head = read_head(scope.files.storage, path)
    if head is None:
        output.fail(f"{path}: its header is damaged. Repair it: sessiontree doctor --repair")
    return _Found(agent, path, head.session_id, head.cwd or None, is_foreign=False)


def _to_json(found: _Found, command: NativeCommand) -> dict[str, object]:
    return {
        "agent": found.agent,
        "id": found.id,
        "path": found.path,
        "cwd": command.cwd,
        "command": list(command.argv),
        "shell": command.shell,
        "installed": command.program is not None,
    }


def _offer_here(found: _Found, command: NativeCommand, scope: Scope) -> NoReturn:
    missing = f"{command.title} is not installed: no {command.argv[0]} in PATH."
    if output.can_show_screen() and output.can_ask():
        output.write_message(missing)
        if output.ask("Continue the session here, in Sessiontree? [y/N]"):
            _continue_here(found, scope)
    output.fail(f"{missing} To continue it in Sessiontree: sessiontree open {found.id} --here")


def _continue_here(found: _Found, scope: Scope) -> NoReturn:
    """Start Sessiontree on the session, or on a copy if another agent's format holds it."""
    from sessiontree.discovery.native_agent import NativeCommand
    from sessiontree.importers.imports import import_session

    if not output.can_show_screen():
        output.fail("The interactive UI needs a terminal.")
    path = found.path
    if found.is_foreign:
        report = import_session(found.path, agent=found.agent, storage=scope.store)
        path = report.path
        output.write_message((f"Continuing in a copy, {report.session_id}", "dim"))
    cwd = found.cwd if found.cwd and os.path.isdir(found.cwd) else None
    output.flush()
    argv = ("sessiontree", "--resume", path)
    _become(_like(scope, NativeCommand("sessiontree", "Sessiontree", argv, cwd)))


def _like(scope: Scope, command: NativeCommand) -> NativeCommand:
    """The command; our own with the store that was named, where images and settings are."""
    program, *rest = command.argv
    if program != "sessiontree":
        return command
    return replace(command, argv=(program, *store_words(scope), *rest))


def _become(command: NativeCommand) -> NoReturn:
    try:
        command.replace_this_process()
    except OSError as error:
        output.fail(f"{command.title} could not be started: {error.strerror or error}")
    sys.exit(output.FAILURE)  # not reached: this process is the agent now
