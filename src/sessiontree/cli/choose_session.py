"""Choose the session the program starts on (docs/cli.md#which-session---resume-means).

First everything is decided by looking (``choose``), then the session is opened (``open_choice``),
so that a question answered with no, a missing terminal or a wrong id leaves nothing behind.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import program_word, store_words
from sessiontree.core.gc import pass_over_what_is_loaded
from sessiontree.errors import AmbiguousSessionError, NotASessionError, SessionNotFoundError
from sessiontree.scope import Scope

if TYPE_CHECKING:
    from sessiontree.discovery.listing import SessionInfo
    from sessiontree.discovery.native_agent import NativeCommand
    from sessiontree.discovery.resume import ResolvedSession
    from sessiontree.profiles import Profile
    from sessiontree.session.manager import SessionManager
    from sessiontree.tui.pickers.session_picker import PickedElsewhere


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The options of the command line."""

    prompt: str | None = None
    continue_latest: bool = False
    resume: str | None = None
    fork: str | None = None
    no_session: bool = False
    model: str | None = None
    name: str | None = None
    print_prompt: str | None = None
    max_turns: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The session to start on, and how it comes about; ``notice`` is a line for the user.

    ``work_dir`` is where tools work, if that is not where the session says.
    """

    kind: Literal["new", "open", "fork", "memory"]
    ref: str | None = None
    notice: str | None = None
    work_dir: str | None = None


_LIKE_AN_ID = re.compile(r"[0-9a-f-]{4,}", re.IGNORECASE)
"""The value if it was meant as an ID, not as words to search for."""

WHERE = "Open there / Copy here / Cancel [o/c/N]?"


class NothingChosen(Exception):  # noqa: N818 - an ordinary end
    """There is nothing to choose from, or the person chose nothing. Exit code 0."""

    def __init__(self, message: str, *, is_empty: bool = False) -> None:
        self.is_empty = is_empty
        super().__init__(message)


def choose(options: StartOptions, scope: Scope) -> Choice:
    """The session that the options mean. Opens and changes nothing.

    Raises NothingChosen, SessionNotFoundError, AmbiguousSessionError, and what ends a command.
    """
    _check_conflicts(options)
    if options.no_session:
        return Choice("memory")
    if options.fork is not None:
        return _choose_fork(options.fork, scope)
    if options.resume is not None:
        if options.resume == "":
            return _pick(scope)
        return _choose_resume(options.resume, scope)
    if options.continue_latest:
        return _choose_latest(scope)
    return Choice("new")


def open_choice(choice: Choice, scope: Scope) -> SessionManager:
    """The session itself. Raises NotASessionError, PersistenceError."""
    from sessiontree.session.manager import SessionManager
    from sessiontree.stores.files.folders import remember_session_dir

    if choice.kind == "memory":
        return SessionManager.in_memory(scope.cwd, profile=scope.profile)
    if scope.session_dir is not None:
        remember_session_dir(scope.profile, scope.session_dir)
    store, files = scope.store, scope.files
    if files is not None:
        store = files.like(has_given_profile=True)
    if choice.kind == "new":
        return SessionManager.create(scope.cwd, storage=store)
    assert choice.ref is not None
    if choice.kind == "fork":
        return SessionManager.fork_from(choice.ref, scope.cwd, storage=store)
    if files is not None:
        store = files.like(profile=owner_of(choice.ref, scope), has_given_profile=True)
    return SessionManager.open(choice.ref, storage=store)


def describe(ref: str, scope: Scope) -> str:
    """``"Fix the login" · 2h ago · ~/src/app``: which session this is."""
    from sessiontree.discovery.listing import NO_MESSAGES
    from sessiontree.text.words import make_name

    info = scope.store.get_info(ref)
    if info is None:
        return f'"{os.path.basename(ref)}"'
    prompt = None if info.first_message == NO_MESSAGES else info.first_message
    name = make_name(info.title, prompt, info.id, os.path.basename(ref))
    project = info.cwd or (scope.cwd if _is_in_own_folder(ref, scope) else "")
    shown = tables.short_path(project) if project else "project unknown"
    return f'"{name}" · {tables.age(info.modified)} · {shown}'


def _is_in_own_folder(ref: str, scope: Scope) -> bool:
    from sessiontree.discovery.paths import session_folders

    folder = os.path.dirname(ref)
    if scope.session_dir is not None:
        return folder == scope.session_dir
    return scope.files is not None and folder in session_folders(owner_of(ref, scope), scope.cwd)


def owner_of(path: str, scope: Scope) -> Profile:
    """The profile that a session file is opened with.

    A file may lie in any profile's folder: unless a profile was named, its place decides.
    """
    from sessiontree.stores.files.opening import profile_for

    named = scope.profile if scope.is_profile_named or scope.session_dir else None
    return profile_for(path, named, scope.profile)


def _check_conflicts(options: StartOptions) -> None:
    chosen = [
        spelling
        for spelling, is_given in (
            ("--continue", options.continue_latest),
            ("--resume", options.resume is not None),
            ("--fork", options.fork is not None),
            ("--no-session", options.no_session),
        )
        if is_given
    ]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} can't be combined.")


def _choose_resume(value: str, scope: Scope) -> Choice:
    is_path = "/" in value or "\\" in value or value.endswith(".jsonl")
    if is_path and scope.url is None:
        return _choose_path(os.path.expanduser(value), scope)
    try:
        found = _resolve(value, scope)
    except SessionNotFoundError:
        if _LIKE_AN_ID.fullmatch(value) or not output.can_show_screen():
            raise
        return _pick(scope, value)
    if isinstance(found, Choice):
        return found
    return _resuming(found.path, scope) if found.is_local else _ask_where(value, found, scope)


def _choose_path(value: str, scope: Scope) -> Choice:
    """Choose this file. If it doesn't exist, it becomes a new session, and the program says so."""
    from sessiontree.discovery.paths import draft_path, same_cwd

    path = os.path.abspath(value)
    if os.path.isdir(path):
        output.fail(f"{path} is a folder. Name a session file in it, or use --session-dir.")
    if not os.path.exists(path):
        draft = draft_path(path)
        if os.path.exists(draft):
            return _resuming(draft, scope)
        return Choice("open", path, f"New session at {tables.short_path(path)}")
    if not _is_kept_here(path, scope):
        # A file from somebody else: an agent must not work in a folder only because the file names
        # it.
        cwd = _recorded_cwd(path, scope)
        if cwd and not same_cwd(cwd, scope.cwd):
            notice = f"Resuming {describe(path, scope)}; tools work here, not in {cwd}"
            return Choice("open", path, notice, scope.cwd)
    return _resuming(path, scope)


def _is_kept_here(path: str, scope: Scope) -> bool:
    """Whether a file lies where an agent of this user keeps sessions."""
    from sessiontree.profiles import list_profiles
    from sessiontree.stores.files.folders import known_session_dirs

    folder = os.path.dirname(os.path.realpath(path))
    for profile in (scope.profile, *list_profiles()):
        if (folder + os.sep).startswith(os.path.realpath(profile.agent_dir) + os.sep):
            return True
        if folder in known_session_dirs(profile):
            return True
    return scope.session_dir is not None and folder == os.path.realpath(scope.session_dir)


def _recorded_cwd(path: str, scope: Scope) -> str | None:
    """The folder that an agent would work in, read as opening reads it: damage does not hide it."""
    from sessiontree.model.header import get_cwd, make_header
    from sessiontree.storage.file import FileSessionStorage
    from sessiontree.stores.files.reader import load_document, salvage_document

    storage = FileSessionStorage()
    try:
        document = load_document(storage, path)
        if document is None:
            return None
        document.payloads.reader.close()
        return get_cwd(document.header)
    except NotASessionError:
        header, _, _ = salvage_document(storage, path, make_header("", "", scope.cwd))
        return get_cwd(header)
    except OSError:
        return None  # opening says so


def _choose_fork(value: str, scope: Scope) -> Choice:
    from sessiontree.cli.resolve import find_session

    found = find_session(value, scope)
    return Choice("fork", found.path, f"Forked {describe(found.path, scope)}")


def _ask_where(value: str, found: ResolvedSession, scope: Scope) -> Choice:
    """Ask whether to open another project's session there or copy it here.

    ``value`` is what a command line calls it. Ends the command if the person wants neither, with
    the command that opens it there.
    """
    from sessiontree.cli.resolve import repair_command
    from sessiontree.discovery.heads import read_head

    files = scope.files
    if files is not None and read_head(files.storage, found.path) is None:
        output.fail(
            f'Can\'t tell the project of session "{value}": its header is damaged. '
            f"Repair it: {repair_command(scope)}; or open it: "
            + shlex.join([program_word(), "--resume", found.path])
        )
    project = found.cwd or "which one, its header does not say"
    refusal = f'Session "{value}" is in another project ({project}).'
    if not found.cwd or not os.path.isdir(found.cwd):
        return _fork_or_fail(found.path, scope, refusal)
    which = describe(found.path, scope)
    if output.can_ask():
        output.write_message(which)
        output.write_message(
            ("o", "bold"), f" open it in {tables.short_path(found.cwd)}: the agent works there"
        )
        output.write_message(
            ("c", "bold"), f" copy it into {tables.short_path(scope.cwd)}: the original stays"
        )
    answer = output.ask_word(WHERE)
    if answer in ("o", "open"):
        return Choice("open", found.path, f"Resuming {which}")
    if answer not in ("c", "copy"):
        output.fail(_word_elsewhere(value, found.path, found.cwd, scope))
    return Choice("fork", found.path, f"Forked {which}")


def _word_elsewhere(value: str, ref: str, cwd: str, scope: Scope) -> str:
    """Say where a session is that was not opened, and the command that opens it there."""
    from sessiontree.cli.resuming import resume_command

    command = resume_command(value, cwd, scope, owner_of(ref, scope))
    return f'Session "{value}" is in another project ({cwd}). Open it there: {command}'


def _fork_or_fail(path: str, scope: Scope, refusal: str) -> Choice:
    which = describe(path, scope)
    if output.can_ask():
        output.write_message(which)
    if not output.ask("Fork into current directory? [y/N]"):
        output.fail(refusal)
    return Choice("fork", path, f"Forked {which}")


def _resolve(value: str, scope: Scope) -> ResolvedSession | Choice:
    """Find the session of this id or name; of several, let the person pick one on a terminal."""
    from sessiontree.cli.resolve import find_session

    try:
        return find_session(value, scope)
    except AmbiguousSessionError as error:
        if not output.can_show_screen():
            raise
        return _open_picker(scope, error.candidates)


def _pick(scope: Scope, query: str = "") -> Choice:
    has_screen = output.can_show_screen()
    if not scope.list(limit=1) and not (has_screen and _has_any_session(scope)):
        raise NothingChosen("No sessions found", is_empty=True)
    if not has_screen:
        fail_without_screen(
            "Choosing a session", "Name one with --resume ID (sessiontree ls lists them)."
        )
    return _open_picker(scope, None, query)


def _placed(picked: PickedElsewhere, scope: Scope) -> Choice:
    """Open a session of another project as the person answered in the picker."""
    which = describe(picked.path, scope)
    if picked.where == "there":
        return Choice("open", picked.path, f"Resuming {which}")
    if picked.where == "here":
        return Choice("fork", picked.path, f"Forked {which}")
    session_id, cwd = _read_place(picked.path, scope)
    if not os.path.isdir(cwd):
        return output.fail(_word_gone(session_id, cwd, scope))
    return output.fail(_word_elsewhere(session_id, picked.path, cwd, scope))


def fail_without_screen(what: str, instead: str) -> NoReturn:
    """End the command because ``what`` needs a screen; ``instead`` says what works without one."""
    is_dumb = output.is_terminal(sys.stdin) and output.is_terminal(sys.stdout)
    needed = "a terminal that can draw (TERM is dumb)" if is_dumb else "a terminal"
    output.fail(f"{what} needs {needed}. {instead}", output.USAGE)


def _has_any_session(scope: Scope) -> bool:
    """Whether the picker can show a session after Tab: of another project, or another agent."""
    if scope.files is None:
        return bool(scope.reaching("all").list(limit=1))
    from sessiontree.discovery.adapters import OWN_AGENTS
    from sessiontree.discovery.listing import list_sessions
    from sessiontree.discovery.paths import list_session_folders
    from sessiontree.discovery.recent import get_recent_sessions
    from sessiontree.discovery.sources import find_sources
    from sessiontree.profiles import list_profiles

    storage = scope.files.storage
    # Folder by folder: as a rule the beginning of one file in the first one answers.
    if any(
        recent.head is not None and recent.head.first_prompt is not None
        for profile in (scope.profile, *list_profiles())
        for folder in list_session_folders(profile, storage)
        for recent in get_recent_sessions(folder, 1, storage=storage)
    ) or any(
        list_sessions(scope.cwd, folder, profile=profile, storage=storage)
        for profile in (scope.profile, *list_profiles())
        for folder in list_session_folders(profile, storage)
    ):
        return True
    others = (each for each in find_sources("all") if each.adapter.name not in OWN_AGENTS)
    return any(next(source.places.files(), None) is not None for source in others)


def _open_picker(scope: Scope, candidates: list[SessionInfo] | None, query: str = "") -> Choice:
    """Let the person pick a session; one of another agent may be opened in that, for good.

    Raises NothingChosen.
    """
    from sessiontree.discovery.native_agent import NativeCommand

    with output.needs_extra("tui", "Choosing a session"):
        from sessiontree.tui.pickers.session_picker import pick_session
    pass_over_what_is_loaded()
    picked = pick_session(scope, candidates=candidates, query=query)
    if picked is None:
        raise NothingChosen("No session selected")
    if isinstance(picked, str):
        return _resuming(picked, scope)
    if isinstance(picked, NativeCommand):
        _become(picked)
    return _placed(picked, scope)


def _become(agent: NativeCommand) -> NoReturn:
    """Run another agent in the place of this process."""
    output.write_message((f"Opening in {agent.title}: ", "dim"), (agent.shell, "bold"))
    output.flush()
    try:
        agent.replace_this_process()
    except OSError as error:
        output.fail(f"{agent.title} could not be started: {error.strerror or error}")


def _choose_latest(scope: Scope) -> Choice:
    ref = scope.latest()
    if ref is not None:
        return _resuming(ref, scope)
    moved = scope.files.bring_last(scope.cwd) if scope.files is not None else None
    if moved is None:
        return Choice("new", notice=_nothing_to_continue(scope))
    notice = f"Resuming {describe(moved.new_path, scope)} · moved here from {moved.cwd}"
    return Choice("open", moved.new_path, notice)


def _resuming(ref: str, scope: Scope) -> Choice:
    """Open this session, unless its project's folder no longer exists."""
    session_id, cwd = _read_place(ref, scope)
    if cwd and not os.path.isdir(cwd):
        return _fork_or_fail(ref, scope, _word_gone(session_id, cwd, scope))
    return Choice("open", ref, f"Resuming {describe(ref, scope)}")


def _word_gone(session_id: str, cwd: str, scope: Scope) -> str:
    """Say that a session's folder is gone, and the command that brings the session here."""
    words = [program_word(), *store_words(scope), "mv", session_id, "."]
    return (
        f"The folder of this session no longer exists ({cwd}). "
        f"Move the session here: {shlex.join(words)}"
    )


def _read_place(ref: str, scope: Scope) -> tuple[str, str]:
    """The id and the project of a session; empty if that cannot be told before it is opened."""
    if scope.files is not None:
        from sessiontree.discovery.heads import read_head

        head = read_head(scope.files.storage, ref)
        return (head.session_id, head.cwd) if head is not None else ("", "")
    info = scope.store.get_info(ref)
    return (info.id, info.cwd) if info is not None else ("", "")


def _nothing_to_continue(scope: Scope) -> str:
    """Explain why there is nothing to continue: the project's folder may have been moved."""
    from sessiontree.discovery.moved_projects import find_moved_projects

    notice = "No session to continue here, so this is a new one"
    if scope.session_dir is None and scope.url is None:
        for moved in find_moved_projects(scope.cwd, profile=scope.profile)[:1]:
            count = tables.plural(moved.session_count, "session")
            notice += (
                f". Was this project {tables.short_path(moved.cwd)} before? "
                f"It has {count}: sessiontree relink {shlex.quote(moved.cwd)}"
            )
    return notice
