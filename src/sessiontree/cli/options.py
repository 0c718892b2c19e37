"""Options that choose a command's sessions: profile, store, session folder, project.

The options are the same before and after a command's name (``sessiontree --profile pi ls`` and
``sessiontree ls --profile pi``); the inner one wins.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from datetime import datetime, time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sessiontree.cli import output
from sessiontree.profiles import PROFILE_NAMES
from sessiontree.text.words import to_utc

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from sessiontree.scope import Scope

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Count(click.ParamType[int]):
    """A whole number of at least ``least``, without the range that click adds to the help."""

    name = "integer"

    def __init__(self, least: int = 0) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        if number < self._least:
            self.fail(f"{number} is less than {self._least}.", param, ctx)
        return number


class Day(click.ParamType[datetime]):
    """The beginning of a day, spelled as in the filter ``date:``."""

    name = "day"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        from sessiontree.discovery.search.filters import read_days
        from sessiontree.serving.filtered_search import local_day

        if isinstance(value, datetime):
            return value
        try:
            first, _ = read_days(str(value), local_day())
            return to_utc(datetime.combine(first, time.min))
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a day such as 2026-01-31, 7d or yesterday.", param, ctx)


def limit_option(command: _Command) -> _Command:
    """Add ``-n``."""
    return click.option(
        "-n",
        "--limit",
        default=20,
        metavar="N",
        type=Count(),
        help="Show at most N, by default 20; 0 shows all.",
    )(command)


def since_option(command: _Command) -> _Command:
    """Add ``--since``."""
    return click.option(
        "--since",
        metavar="DATE",
        type=Day(),
        help="Only from this day on, such as 2026-01-31 or 7d.",
    )(command)


class AgentName(click.ParamType[str]):
    """The name of an agent whose sessions can be read."""

    name = "agent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from sessiontree.discovery.adapters import UnknownAgentError, get_adapter

        try:
            return get_adapter(str(value)).name
        except UnknownAgentError as error:
            self.fail(f"{error}.", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from sessiontree.discovery.adapters import agent_names

        del ctx, param
        return [CompletionItem(name) for name in agent_names() if name.startswith(incomplete)]


class ForeignAgentName(AgentName):
    """The name of an agent whose sessions can be imported."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from sessiontree.importers.foreign import foreign_agents

        if value not in (known := foreign_agents()):
            choices = ", ".join(known)
            self.fail(f'"{value}" can\'t be imported from; choose one of {choices}.', param, ctx)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from sessiontree.importers.foreign import foreign_agents

        del ctx, param
        return [CompletionItem(name) for name in foreign_agents() if name.startswith(incomplete)]


def agent_option(command: _Command) -> _Command:
    """Add ``--agent``."""
    return click.option(
        "--agent",
        metavar="NAME",
        type=AgentName(),
        help="Use only sessions of this agent, such as claude-code, codex or pi.",
    )(command)


_PROFILE_HELP = "Use this agent's sessions: sessiontree (default), omp, xcsh, pi, …"


def scope_options(command: _Command, profile_help: str = _PROFILE_HELP) -> _Command:
    """Add ``--profile``, ``--session-dir`` and ``--store``."""
    command = click.option(
        "--store",
        metavar="URL",
        help="Use the sessions in this store, such as a database, instead of files.",
    )(command)
    command = click.option(
        "--session-dir",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="Use the sessions in this folder instead of the profile's.",
    )(command)
    return click.option(
        "--profile",
        metavar="NAME",
        type=click.Choice(PROFILE_NAMES),
        help=profile_help,
    )(command)


def with_scope(
    command: Callable[..., Any], profile_help: str = _PROFILE_HELP
) -> Callable[..., Any]:
    """Add the scope's options to a command, which receives them as ``scope``."""

    @functools.wraps(command)
    def scoped(
        *args: Any, profile: str | None, session_dir: str | None, store: str | None, **options: Any
    ) -> Any:
        return command(*args, scope=resolve_scope(profile, session_dir, store), **options)

    return scope_options(scoped, profile_help)


def resolve_scope(profile: str | None, session_dir: str | None, store: str | None) -> Scope:
    """Build the running command's scope: its own options win over those before its name."""
    from sessiontree.scope import choose_scope

    context = click.get_current_context(silent=True)
    while context is not None:
        profile = profile or context.params.get("profile")
        session_dir = session_dir or context.params.get("session_dir")
        store = store or context.params.get("store")
        context = context.parent
    return choose_scope(current_folder(), profile=profile, session_dir=session_dir, url=store)


def scope_words(scope: Scope) -> list[str]:
    """The options that give a command line the same scope."""
    words = ["--profile", scope.profile.name] if scope.is_profile_named else []
    words += store_words(scope)
    if scope.session_dir is not None:
        words += ["--session-dir", scope.session_dir]
    return words


def command_like(scope: Scope, *words: str) -> str:
    """A command line of ours for the same sessions: what to type next, or to undo this one."""
    from shlex import join

    return join(["sessiontree", *scope_words(scope), *words])


def agents_of(scope: Scope, *, all_agents: bool, agent: str | None) -> str | None:
    """The agents that a person asks for; ends the command where there are none to ask for."""
    if (all_agents or agent) and not scope.has_agents:
        asked = "--all-agents" if all_agents else f"--agent {agent}"
        place = scope.session_dir or scope.store.url
        way = "Leave --session-dir out." if scope.session_dir else "Add --store file: for those."
        output.fail(f"{asked} looks at the files of agents, not in {place}. {way}", output.USAGE)
    return "all" if all_agents else agent


def program_word(*, is_here: bool = True) -> str:
    """The word that starts this program: its path, if the shell would not find ``sessiontree``.

    A path below the current folder is given relative to it if the command ``is_here``, which means
    that it does not change to another folder first.
    """
    import sys

    name = "sessiontree"
    own = os.path.abspath(sys.argv[0])
    if os.path.basename(own) != name or any(map(partial(_has_program, name), os.get_exec_path())):
        return name
    near = os.path.relpath(own)
    return near if is_here and not near.startswith("..") else own


def _has_program(name: str, folder: str) -> bool:
    path = os.path.join(folder, name)
    return os.path.isfile(path) and os.access(path, os.X_OK)


def store_words(scope: Scope) -> list[str]:
    """``--store`` and its URL, if a command line needs it to use the same store."""
    return ["--store", scope.store.url] if scope.is_store_named else []


def require_files(scope: Scope, command: str, instead: str) -> None:
    """End a command that works on files only, if the sessions are in none; say what to do."""
    if scope.files is None:
        output.fail(f"{command} works on session files, not on {scope.store.url}. {instead}")


def current_folder() -> str:
    """The folder the program was started in; ends the command if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        output.fail("The current folder no longer exists. Change to another one first.")
