"""Going elsewhere from the chat: another session, another place in the tree, a copy.

A move that is called off or fails leaves the screen as it was and says why; one that
succeeds shows the other conversation from its end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from sessiontree.errors import SessionTreeError
from sessiontree.model.entries import Entry
from sessiontree.session.manager import SessionManager
from sessiontree.tui import escaping
from sessiontree.tui.chat import models
from sessiontree.tui.chat.session_reading import read_tree
from sessiontree.tui.pickers.dialogs import ChoiceDialog, ConfirmDialog, Option
from sessiontree.tui.pickers.list_picker import ListPicker
from sessiontree.tui.pickers.session_rows import short_path
from sessiontree.tui.pickers.tree_entries import Digester, TreeEntry
from sessiontree.tui.pickers.tree_lines import age_of
from sessiontree.tui.pickers.tree_rows import TreeModel

if TYPE_CHECKING:
    from sessiontree.discovery.search.hits import SearchHit
    from sessiontree.tui.chat.screen import ChatScreen

_DIGESTED_AT_ONCE = 2_000
_SHOWN_WARNINGS = 3


async def move(chat: ChatScreen, go: Callable[[], Awaitable[bool]], done: str) -> bool:
    """Go to another session; whether it came to that."""
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
        chat.add_notice(f"The agent and ! commands work in {short_path(session.cwd)} now.")
    if not chat.transcript.blocks:
        chat.commands.welcome()
    chat.say_done(done)
    return True


def _word_called_off(reason: str | None) -> str:
    return f"Nothing changed: it was called off{f' ({reason})' if reason else ''}"


# -- other sessions ------------------------------------------------------------------------------


async def resume(chat: ChatScreen, query: str) -> None:
    """Choose a session and go there."""
    from sessiontree.tui.pickers.session_actions import SessionShelf
    from sessiontree.tui.pickers.session_picker import SessionPicker

    session, setup = chat.session, chat.setup
    shelf = SessionShelf(session.cwd, setup.profile, setup.session_dir)
    path = await chat.app.push_screen_wait(
        SessionPicker(shelf, query=query, open_path=session.session_file)
    )
    if path is not None:
        await open_path(chat, path)


async def open_path(chat: ChatScreen, path: str) -> bool:
    """Go to the session in this file (of another project there, or as a copy here); whether so."""
    if path == chat.session.session_file:
        chat.say("This session is open already")
        return True
    try:
        return await _open_path(chat, path)
    except (SessionTreeError, OSError) as error:
        chat.say(f"Nothing changed: {error}", is_bad=True)
        return False


async def _open_path(chat: ChatScreen, path: str) -> bool:
    session = chat.session
    name, cwd = await asyncio.to_thread(_describe, path)
    go = partial(session.switch_session, path)
    if cwd and not await asyncio.to_thread(_is_here, cwd, session.cwd):
        match await _ask_where(chat, name, cwd):
            case "here":
                go = partial(session.copy_session, path)
            case "there":
                pass
            case _:
                chat.say(f'Session "{name}" is in another project ({short_path(cwd)})')
                return False
    is_there = await move(chat, go, "Resumed session")
    if is_there:
        for warning in await session.read(_warnings_of):
            chat.add_notice(f"Warning: {warning}")
    return is_there


def _warnings_of(manager: SessionManager) -> list[str]:
    """What reading the session had to repair, the first of it: which file was kept where."""
    return [str(warning) for warning in manager.warnings[:_SHOWN_WARNINGS]]


async def _ask_where(chat: ChatScreen, name: str, cwd: str) -> str | None:
    """Whether to work on another project's session ``there`` or ``here``; None for not at all."""
    here = short_path(chat.session.cwd)
    if not await asyncio.to_thread(os.path.isdir, cwd):
        question = ConfirmDialog(
            "Fork into current directory?",
            f"{name}\nis a session of a folder that is gone:\n{short_path(cwd)}",
            yes="yes, copy it here",
        )
        return "here" if await chat.app.push_screen_wait(question) else None
    return await chat.app.push_screen_wait(
        ChoiceDialog(
            f"{name} is a session of another project",
            [
                Option("there", "Go there", f"the agent then works in {short_path(cwd)}"),
                Option("here", "Fork into current directory", f"a copy, in {here}"),
            ],
        )
    )


def _describe(path: str) -> tuple[str, str]:
    """Name and project of a session file."""
    from sessiontree.discovery.heads import read_head
    from sessiontree.discovery.recent import RecentSessionInfo
    from sessiontree.storage.file import FileSessionStorage

    head = read_head(FileSessionStorage(), path)
    info = RecentSessionInfo(path, datetime.now(UTC), head)
    return info.name, info.cwd


def _is_here(cwd: str, project: str) -> bool:
    from sessiontree.discovery.paths import same_cwd

    return same_cwd(cwd, project)


def _fork_here(chat: ChatScreen, path: str) -> str:
    setup = chat.setup
    forked = SessionManager.fork_from(
        path, chat.session.cwd, setup.session_dir, profile=setup.profile
    )
    forked.close()
    assert forked.session_file is not None
    return forked.session_file


async def clone(chat: ChatScreen) -> None:
    """Copy the session into a new file and stay where we are."""
    from sessiontree.discovery.breadcrumbs import write_breadcrumb

    session = chat.session

    def copy(manager: SessionManager) -> bool:
        file = manager.session_file
        if file is None or not os.path.exists(file):
            return False
        manager.flush()
        _fork_here(chat, file)
        # Copying made the copy this terminal's session; it is still the open one.
        write_breadcrumb(manager.profile, manager.cwd, file)
        return True

    if await session.read(copy):
        chat.say("Copied; you are still in the original. /resume opens the copy")
    else:
        chat.say("Nothing to copy yet: the session is not on disk", is_bad=True)


async def search(chat: ChatScreen, text: str) -> None:
    """Search all sessions, and go to one that was found."""
    from sessiontree.discovery.search import search as search_sessions
    from sessiontree.discovery.search.names import NAME_ROLE

    hits: dict[str, SearchHit] = {}

    def find(query: str) -> list[Option]:
        if not query.strip():
            return []
        found = search_sessions(query, profile=chat.setup.profile, limit=50)
        options = []
        for number, hit in enumerate(found):
            hits[f"{number}"] = hit
            name = escaping.one_line(hit.session.title or hit.session.first_message)
            text = escaping.one_line(hit.snippet)
            found_in = "its name" if hit.role == NAME_ROLE else name
            options.append(Option(f"{number}", text, found_in))
        return options

    chosen = await chat.app.push_screen_wait(
        ListPicker(
            "Search all sessions",
            find,
            query=text,
            nothing="Type words to look for" if not text else "Nothing found",
            enter="open the session",
        )
    )
    if chosen is not None and await open_path(chat, hits[chosen].path):
        await _show_hit(chat, hits[chosen])


async def _show_hit(chat: ChatScreen, hit: SearchHit) -> None:
    """Show where the words were said, in the session that is open now."""
    if not hit.entry_id:
        return  # its name has them: there is no place to go to
    if not await chat.link.reach(hit.entry_id):
        chat.say(f"{chat.status.notice} · it was said on another branch: /tree finds it")
    else:
        chat.transcript.go_to(hit.entry_id, [hit.snippet[a:b] for a, b in hit.marks])


# -- the tree ------------------------------------------------------------------------------------


async def tree(chat: ChatScreen) -> None:
    """Choose an entry and go on from there, in the same session."""
    from sessiontree.tui.pickers.tree_picker import TreePicker, TreeSource

    session = chat.session
    source = TreeSource(lambda: load_tree(chat), session.set_label)
    choice = await chat.app.push_screen_wait(TreePicker(source))
    if choice is None:
        return
    was_running = session.is_running
    word = "Summing up the branch you leave" if choice.summarize else "Moving"
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
        chat.say("Going on from here")


async def load_tree(chat: ChatScreen) -> TreeModel:
    """The session's tree, read in turns so that its writer is never kept waiting for long."""
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
    """Ask an earlier prompt anew in a new session that holds what was before it."""
    session = chat.session
    model = await load_tree(chat)
    on_path = [model.by_id[one] for one in model.path]
    prompts = [entry for entry in reversed(on_path) if entry.kind == "user"]
    if not prompts:
        chat.say("There is no prompt to branch from yet", is_bad=True)
        return
    now = datetime.now(UTC)
    options = [Option(one.id, one.text, age_of(one.timestamp, now)) for one in prompts]

    def find(text: str) -> list[Option]:
        words = text.casefold().split()
        return [one for one in options if all(word in one.label.casefold() for word in words)]

    chosen = await chat.app.push_screen_wait(
        ListPicker("Branch into a new session, from before which prompt?", find, enter="branch")
    )
    if chosen is None:
        return
    texts: list[str] = []

    async def go() -> bool:
        text = await session.branch(chosen)
        if text is not None:
            texts.append(text)
        return text is not None

    if await move(chat, go, "A new session; edit the prompt and send it"):
        chat.editor.put(texts[0])
