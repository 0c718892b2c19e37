"""Move the chat elsewhere: to another session, another point in the tree, or a copy.

A move that fails or is called off leaves the screen as it was and shows why. After a move that
succeeds, the chat shows the end of the other conversation.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.app import SuspendNotSupported

from sessiontree import clock
from sessiontree.core.tree_entries import Digester, TreeEntry
from sessiontree.discovery.listing import SessionInfo
from sessiontree.errors import SessionNotFoundError, SessionTreeError
from sessiontree.model.entries import Entry
from sessiontree.session.manager import SessionManager
from sessiontree.tui.chat import models
from sessiontree.tui.chat.session_reading import read_tree
from sessiontree.tui.outside import run_outside
from sessiontree.tui.pickers.dialogs import Option
from sessiontree.tui.pickers.elsewhere import ask_where, is_elsewhere, session_name
from sessiontree.tui.pickers.list_picker import ListPicker
from sessiontree.tui.pickers.session_rows import short_path
from sessiontree.tui.pickers.tree_lines import age_of
from sessiontree.tui.pickers.tree_rows import TreeModel

if TYPE_CHECKING:
    from sessiontree.discovery.native_agent import NativeCommand
    from sessiontree.discovery.search.hits import SearchHit
    from sessiontree.scope import Scope
    from sessiontree.tui.chat.screen import ChatScreen

_DIGESTED_AT_ONCE = 2_000
_SHOWN_WARNINGS = 3


async def move(
    chat: ChatScreen, go: Callable[[], Awaitable[bool]], done: str | Callable[[], str]
) -> bool:
    """Open another session, then show ``done``. Returns whether the session changed."""
    session = chat.session
    was_running, project, model = session.is_running, session.cwd, session.model
    chat.narrator.called_off = None
    with chat.status.busy("Opening"):
        try:
            is_moved = await go()
        except (SessionTreeError, OSError) as error:
            if was_running:
                await chat.link.reload()  # the answer that was under way has been stopped
            chat.say(f"Nothing changed: {error}", is_bad=True)
            return False
        if not is_moved:
            chat.say(_word_called_off(chat.narrator.called_off), is_bad=True)
            return False
        chat.confirmer.forget()
        await models.keep_real(chat, model)
        await chat.link.reload()
        if session.cwd != project:
            await chat.load_history()
    if session.cwd != project:
        chat.add_notice(f"The agent and ! commands now work in {short_path(session.cwd)}.")
    if not chat.transcript.blocks:
        chat.commands.welcome()
    chat.say_done(done if isinstance(done, str) else done())
    return True


def _word_called_off(reason: str | None) -> str:
    return f"Nothing changed: it was called off{f' ({reason})' if reason else ''}"


# -- other sessions ------------------------------------------------------------------------------


async def resume(chat: ChatScreen, query: str) -> None:
    """Let the user pick a session, and open it."""
    from sessiontree.tui.pickers.session_actions import SessionShelf
    from sessiontree.tui.pickers.session_picker import SessionPicker

    session = chat.session
    scope = replace(chat.setup.scope, cwd=session.cwd)
    folder = await asyncio.to_thread(_unusual_folder, scope, session.session_file)
    shelf = SessionShelf(scope, folder=folder)
    picked = await chat.app.push_screen_wait(
        SessionPicker(shelf, query=query, open_path=session.session_file)
    )
    if isinstance(picked, str):
        await open_path(chat, picked)
    elif picked is not None:
        await _visit(chat, picked)


def _unusual_folder(scope: Scope, path: str | None) -> str | None:
    """The folder of a session that lies where no listing looks, if it holds others, too."""
    from sessiontree.discovery.paths import list_session_folders, session_folders
    from sessiontree.discovery.recent import list_session_files

    if scope.files is None or scope.session_dir is not None or path is None:
        return None
    folder = os.path.dirname(os.path.abspath(path))
    usual = [*session_folders(scope.profile, scope.cwd)]
    usual += list_session_folders(scope.profile, scope.files.storage)
    if folder in usual or scope.store_of(path) is not scope.store:
        return None
    files = list_session_files(scope.files.storage, folder)
    return folder if any(stat.path != path for stat in files) else None


async def _visit(chat: ChatScreen, command: NativeCommand) -> None:
    """Run another agent in this terminal, and come back when it ends."""
    try:
        arguments = command.arguments()
        run = partial(subprocess.run, arguments, cwd=command.cwd or None, check=False)
        ended = await run_outside(chat.app, run)
    except (SessionTreeError, OSError, SuspendNotSupported) as error:
        chat.say(f"{command.title} could not be started: {error}", is_bad=True)
        return
    code = f" (exit code {ended.returncode})" if ended.returncode else ""
    chat.say(f"Back from {command.title}{code}")


async def open_path(chat: ChatScreen, path: str) -> bool:
    """Open this session file; one of another project there, or as a copy here. Returns success."""
    if path == chat.session.session_file:
        chat.say("This session is already open")
        return True
    try:
        return await _open_path(chat, path)
    except (SessionTreeError, OSError) as error:
        chat.say(f"Nothing changed: {error}", is_bad=True)
        return False


async def _open_path(chat: ChatScreen, path: str) -> bool:
    session = chat.session
    info = await asyncio.to_thread(_get_info, chat.setup.scope, path)
    go = partial(session.switch_session, path)
    if await is_elsewhere(info, session.cwd):
        match await ask_where(chat.app, info, session.cwd):
            case "here":
                go = partial(session.copy_session, path)
            case "there":
                pass
            case _:
                chat.say(await asyncio.to_thread(_word_elsewhere, chat, info))
                return False
    is_there = await move(chat, go, "Resumed session")
    if is_there:
        for warning in await session.read(_warnings_of):
            chat.add_notice(f"Warning: {warning}")
    return is_there


def _warnings_of(manager: SessionManager) -> list[str]:
    """The first warnings about what reading the session had to repair."""
    return [str(warning) for warning in manager.warnings[:_SHOWN_WARNINGS]]


def _word_elsewhere(chat: ChatScreen, info: SessionInfo) -> str:
    """Say where a session is that was not opened, and the command that opens it there."""
    spell = chat.setup.spell_resume
    if spell is None or not os.path.isdir(info.cwd):
        return f'Session "{session_name(info)}" is in another project ({short_path(info.cwd)})'
    return f"Not opened. Open it there: {spell(info.path, info.id, info.cwd)}"


def _get_info(scope: Scope, ref: str) -> SessionInfo:
    """Read the facts of a session. Raises SessionNotFoundError."""
    info = scope.store_of(ref).get_info(ref)
    if info is None:
        raise SessionNotFoundError(ref)
    return info


async def clone(chat: ChatScreen) -> None:
    """Copy the session and stay in this one."""
    session, store = chat.session, chat.setup.scope.store

    def copy(manager: SessionManager) -> bool:
        if not manager.is_persisted:
            return False
        manager.flush()
        try:
            # No manager of its own: it would make the copy this terminal's session.
            store.fork(manager.ref, manager.cwd, scope=manager.scope).close()
        except SessionNotFoundError:
            return False
        return True

    if await session.read(copy):
        chat.say("Copied. You are still in the original; /resume opens the copy")
    else:
        chat.say("Nothing to copy yet: the session is not on disk", is_bad=True)


async def search(chat: ChatScreen, text: str) -> None:
    """Search the sessions of all projects and agents, and open the one that the user picks.

    Then show where the words were said.
    """
    from sessiontree.tui.pickers.session_actions import SessionShelf
    from sessiontree.tui.pickers.session_picker import SessionPicker

    scope = replace(chat.setup.scope, cwd=chat.session.cwd)
    picker = SessionPicker(
        SessionShelf(scope),
        query=text,
        open_path=chat.session.session_file,
        title="Search all sessions",
        is_wide=True,
    )
    picked = await chat.app.push_screen_wait(picker)
    if picked is None:
        return
    if not isinstance(picked, str):
        await _visit(chat, picked)
        return
    finding = asyncio.ensure_future(asyncio.to_thread(_find_hit, scope, picker.query_text, picked))
    is_there = await open_path(chat, picked)
    hit = await finding
    if is_there and hit is not None:
        await _show_hit(chat, hit)


def _find_hit(scope: Scope, query: str, path: str) -> SearchHit | None:
    """Where the words of a query are in one session."""
    from sessiontree.serving.filtered_search import FilteredSearch, FilterError

    try:
        filters = FilteredSearch.of(query, scope).filters
        found = scope.reaching("all", agents="all").search(
            filters.words,
            role=filters.role,
            include_tools=filters.in_tools,
            limit=1,
            accept=lambda info: info.path == path,
        )
    except (FilterError, SessionTreeError, OSError):
        return None
    return found[0] if found else None


async def _show_hit(chat: ChatScreen, hit: SearchHit) -> None:
    """Scroll to the hit in the session that is now open."""
    if not hit.entry_id:
        return  # its name matched: there is no entry to scroll to
    if not await chat.link.reach(hit.entry_id):
        chat.say(f"{chat.status.notice} · the match is on another branch: /tree finds it")
    else:
        chat.transcript.go_to(hit.entry_id, [hit.snippet[a:b] for a, b in hit.marks])


# -- the tree ------------------------------------------------------------------------------------


async def tree(chat: ChatScreen) -> None:
    """Let the user pick an entry, and continue from it in the same session."""
    from sessiontree.tui.pickers.tree_picker import TreePicker, TreeSource

    session = chat.session
    source = TreeSource(lambda: load_tree(chat), session.set_label)
    choice = await chat.app.push_screen_wait(TreePicker(source))
    if choice is None:
        return
    was_running = session.is_running
    word = "Summarizing the branch you leave" if choice.summarize else "Moving"
    with chat.status.busy(word):
        try:
            ended = await session.navigate_tree(
                choice.entry_id, summarize=choice.summarize, instructions=choice.instructions
            )
        except (SessionTreeError, OSError) as error:
            if was_running:
                await chat.link.reload()
            chat.say(f"Nothing changed: {error}", is_bad=True)
            return
        if ended.is_cancelled:
            chat.say(_word_called_off(ended.reason), is_bad=True)
            return
        if ended.is_moved:
            await chat.link.reload()
    if ended.editor_text is not None:
        chat.editor.put(ended.editor_text)
        chat.say("Edit the prompt and send it again")
    elif ended.is_moved:
        chat.say("Continuing from here")


async def load_tree(chat: ChatScreen) -> TreeModel:
    """Read the session's tree in portions, so that its writer never waits for long."""
    session = chat.session
    snapshot = await session.read(read_tree)
    digester = Digester()
    digests: list[TreeEntry] = []
    for start in range(0, len(snapshot.entries), _DIGESTED_AT_ONCE):
        part = snapshot.entries[start : start + _DIGESTED_AT_ONCE]
        digests += await session.read(partial(_digest, digester, part))
    return TreeModel(digests, snapshot.leaf_id, snapshot.labels)


def _digest(digester: Digester, part: list[Entry], _: SessionManager) -> list[TreeEntry]:
    return list(digester.digest_all(part))


async def branch(chat: ChatScreen) -> None:
    """Let the user redo an earlier prompt in a new session that holds what came before it."""
    session = chat.session
    model = await load_tree(chat)
    on_path = [model.by_id[one] for one in model.path]
    prompts = [entry for entry in reversed(on_path) if entry.kind == "user"]
    if not prompts:
        chat.say("No prompt to redo yet", is_bad=True)
        return
    now = clock.now()
    options = [Option(one.id, one.text, age_of(one.timestamp, now)) for one in prompts]

    def find(text: str) -> list[Option]:
        words = text.casefold().split()
        return [one for one in options if all(word in one.label.casefold() for word in words)]

    chosen = await chat.app.push_screen_wait(
        ListPicker("Which prompt do you want to redo?", find, enter="redo")
    )
    if chosen is None:
        return
    texts: list[str] = []

    async def go() -> bool:
        text = await session.branch(chosen)
        if text is not None:
            texts.append(text)
        return text is not None

    if await move(chat, go, "New session: edit the prompt and send it"):
        chat.editor.put(texts[0])
