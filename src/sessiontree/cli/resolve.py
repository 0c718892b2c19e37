"""Find the session that a command's ``ID`` means: a path, an id prefix, a name, or the newest.

This project comes first, then all others, then (where a command can read them) the sessions of
all other agents, unless a profile was named. More than one match is an error that lists them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sessiontree.cli import output
from sessiontree.cli.options import command_like, scope_words, store_words
from sessiontree.errors import (
    AmbiguousSessionError,
    NotASessionError,
    PersistenceError,
    SessionNotFoundError,
)
from sessiontree.profiles import Profile
from sessiontree.scope import Scope

if TYPE_CHECKING:
    from sessiontree.discovery.listing import SessionInfo
    from sessiontree.discovery.resume import ResolvedSession
    from sessiontree.importers.foreign import ForeignDocument

_MOST_NAMED = 100
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Target:
    """The session found; ``agent`` names the other program it belongs to."""

    path: str
    id: str
    agent: str | None = None
    document: ForeignDocument | None = None
    """The content of its file, if it had to be read to identify it."""


def session_argument(
    *, required: bool = False, many: bool = False
) -> Callable[[_Command], _Command]:
    """The ``ID`` argument of a command."""
    from sessiontree.cli.completion import complete_session

    return click.argument(
        "sessions" if many else "session",
        metavar="ID..." if many else ("ID" if required else "[ID]"),
        required=required,
        nargs=-1 if many else 1,
        shell_complete=complete_session,
    )


def find_target(value: str | None, scope: Scope, *, foreign: bool = False) -> Target:
    """Find the session for ``value``; without a value, the newest of this project.

    Raises SessionNotFoundError, AmbiguousSessionError, NotASessionError, PersistenceError.
    """
    if value is None:
        return _newest(scope)
    try:
        found = _resolve(value, scope)
    except (SessionNotFoundError, NotASessionError) as error:
        other = _find_elsewhere(value, scope) if foreign else None
        if other is None:
            raise _explain(error, value, scope) from None
        return other
    if foreign and not found.id:
        # A path whose first line is not a header of ours: another agent's file, or a damaged one.
        return _find_foreign(value) or Target(found.path, found.id)
    return Target(found.path, found.id)


def find_session(value: str, scope: Scope) -> ResolvedSession:
    """Find our session for ``value``; if only another agent has it, the error says so.

    Raises SessionNotFoundError, AmbiguousSessionError, NotASessionError, PersistenceError.
    """
    try:
        return _resolve(value, scope)
    except SessionNotFoundError as error:
        raise _explain(error, value, scope) from None


def _resolve(value: str, scope: Scope) -> ResolvedSession:
    """Find our session, and add lines that a program wrote to the place it was moved from."""
    try:
        found = _look_up(value, scope)
        is_changed = _gather([found.path], scope)
    except AmbiguousSessionError as error:
        if not _gather([info.path for info in error.candidates], scope):
            raise
        is_changed = True
    return _look_up(value, scope) if is_changed else found


def _gather(sessions: list[str], scope: Scope) -> bool:
    """Bring lines home that are in files called like these sessions, or in these themselves."""
    store = scope.files
    if store is None:
        return False
    places = [*sessions, *(place for path in sessions for place in store.other_places(path))]
    files = [place for place in places if os.path.isfile(place) and not os.path.islink(place)]
    if len(files) <= 1:  # a stray file is one of two
        return False
    from sessiontree.stores.files.strays import gather_strays

    return bool(gather_strays(store, files))


def _look_up(value: str, scope: Scope) -> ResolvedSession:
    is_path = scope.files is not None and _is_path(value)
    asked = os.path.abspath(os.path.expanduser(value)) if is_path else value
    try:
        return scope.resolve(asked)
    except SessionNotFoundError as error:
        raise error if asked == value else SessionNotFoundError(value) from None


def _explain(
    error: SessionNotFoundError | NotASessionError, value: str, scope: Scope
) -> SessionNotFoundError | NotASessionError:
    """The error, with a hint: the only other agent that has the session, or similar names."""
    if isinstance(error, NotASessionError) or scope.session_dir is not None:
        return error
    if not value.strip() or _is_path(value):
        return error
    if scope.url is not None:
        hint = _word_similar_names(value, scope)
        return SessionNotFoundError(value, f"{error} {hint}") if hint else error
    ways = [
        *(
            f"{profile.name} has it: use --profile {profile.name}"
            for profile in _owners(value, scope)
        ),
        *_foreign_ways(value),
    ]
    hint = ways[0] if len(ways) == 1 else _word_similar_names(value, scope) if not ways else ""
    return SessionNotFoundError(value, f"{error} {hint}") if hint else error


def _word_similar_names(value: str, scope: Scope) -> str:
    """Say how to find sessions of any agent whose names contain the value; empty without any."""
    wanted = value.casefold()
    found: Iterable[SessionInfo]
    if scope.files is None:  # a database is not read as a whole
        found = [hit.session for hit in scope.reaching("all").search(value, limit=_MOST_NAMED)]
    else:
        agents = None if scope.is_profile_named else "all"
        with output.Progress("Reading sessions") as progress:
            found = scope.reaching("all", agents=agents).list(progress)
    count = sum(wanted in info.title.casefold() for info in found if info.title)
    if not count:
        return ""
    names = "1 name contains" if count == 1 else f"{count:,} names contain"
    return f"{names} it: {shlex.join(['sessiontree', *store_words(scope), 'search', value])}"


def _owners(value: str, scope: Scope) -> Iterator[Profile]:
    """The other profiles that have this session; one that has several counts for each."""
    from sessiontree.discovery.resume import resolve_session
    from sessiontree.profiles import list_profiles

    others = {profile.sessions_dir: profile for profile in list_profiles()}
    others.pop(scope.profile.sessions_dir, None)
    for profile in others.values():
        try:
            resolve_session(value, scope.cwd, profile=profile)
            yield profile
        except AmbiguousSessionError as error:
            yield from [profile] * len(error.candidates)
        except SessionNotFoundError:
            continue


def _foreign_ways(value: str) -> list[str]:
    from sessiontree.discovery.adapters import get_adapter
    from sessiontree.importers.foreign_listing import resolve_foreign

    try:
        found = [resolve_foreign(value)]
    except SessionNotFoundError:
        found = []
    except AmbiguousSessionError as error:
        found = error.candidates
    command = shlex.join(["sessiontree", "import", value])
    return [f"{get_adapter(session.agent).title} has it: {command}" for session in found]


def _is_path(value: str) -> bool:
    return "/" in value or "\\" in value or value.endswith(".jsonl")


def open_target(target: Target, scope: Scope) -> AbstractContextManager[Any]:
    """Open a read-only view of the session of any agent.

    Raises NotASessionError, PersistenceError, SessionNotFoundError if it is gone by now.
    """
    from sessiontree.export.view import SessionView, read_view

    if target.agent is None:
        with naming_the_repair(target, scope):
            return read_view(scope.store, target.path)
    from sessiontree.importers.foreign import load_foreign

    document = target.document or load_foreign(target.path, agent=target.agent)
    return nullcontext(
        SessionView(
            header={**document.header},
            name=document.title,
            file=target.path,
            tree=document.tree,
            path=document.get_branch(),
        )
    )


@contextmanager
def naming_the_repair(target: Target, scope: Scope) -> Iterator[None]:
    """Add the repair command to the error of a session whose header is damaged."""
    try:
        yield
    except NotASessionError as error:
        if not _is_looked_after(target.path, scope):
            raise
        reason = f"{error.reason} (to recover what it holds: {repair_command(scope)})"
        raise NotASessionError(error.path, reason) from None


def repair_command(scope: Scope) -> str:
    """The command that repairs the sessions of this scope."""
    return shlex.join(["sessiontree", "doctor", "--repair", *scope_words(scope)])


def _is_looked_after(path: str, scope: Scope) -> bool:
    """Whether ``doctor`` checks this file: it lies in the session folder, or in a project's."""
    if scope.files is None:
        return False
    folder = os.path.dirname(path)
    if scope.session_dir is not None:
        return folder == scope.session_dir
    return os.path.dirname(folder) == scope.profile.sessions_dir


def _newest(scope: Scope) -> Target:
    found = scope.list(limit=1)
    if not found:
        way = command_like(scope, "ls", "--all")
        output.fail(f"This project has no sessions. Give the ID of another project's: {way}")
    return Target(found[0].path, found[0].id)


def _find_elsewhere(value: str, scope: Scope) -> Target | None:
    """The session of any other agent, found where listings and searches find it.

    Raises AmbiguousSessionError.
    """
    is_wide = not (_is_path(value) or scope.is_profile_named or scope.session_dir is not None)
    family = _find_in_profiles(value, scope) if is_wide and value.strip() else []
    try:
        foreign = _find_foreign(value)
    except AmbiguousSessionError as error:
        raise AmbiguousSessionError(value, [*family, *error.candidates]) from None
    if foreign is not None and family:
        from sessiontree.importers.foreign_listing import resolve_foreign

        raise AmbiguousSessionError(value, [*family, resolve_foreign(value)])
    if len(family) > 1:
        raise AmbiguousSessionError(value, family)
    if family:
        return Target(family[0].path, family[0].id)
    return foreign or _find_kept(value)


def _find_in_profiles(value: str, scope: Scope) -> list[SessionInfo]:
    """The sessions of the rest of pi's family that this id or name means."""
    from sessiontree.discovery.resume import resolve_session

    found: list[SessionInfo] = []
    for store in scope.others:
        try:
            path = resolve_session(value, scope.cwd, profile=store.profile).path
        except AmbiguousSessionError as error:
            found += error.candidates
        except SessionNotFoundError:
            continue
        else:
            info = store.get_info(path)
            found += [info] if info is not None else []
    return found


def _find_foreign(value: str) -> Target | None:
    try:
        if os.sep in value:
            return _read_foreign(os.path.abspath(os.path.expanduser(value)))
        from sessiontree.importers.foreign_listing import resolve_foreign

        found = resolve_foreign(value)
    except (SessionNotFoundError, NotASessionError, PersistenceError):
        return None
    return Target(found.path, found.id, found.agent)


def _read_foreign(path: str) -> Target:
    """Read a whole file, as who shows or exports it will: so it is known to be a session."""
    from sessiontree.importers.foreign import load_foreign

    document = load_foreign(path)
    return Target(path, document.transcript.session_id, document.agent, document)


def _find_kept(value: str) -> Target | None:
    """A session of pi's family that is gone, and kept."""
    from sessiontree.discovery.agent_sessions import find_agent_session
    from sessiontree.discovery.kept import is_keeping

    if not is_keeping():
        return None
    try:
        found = find_agent_session(value)
    except SessionNotFoundError:
        return None
    return Target(found.path, found.id) if found.is_kept else None
