"""Exports, session facts, earlier prompts and samples for the chat's commands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sessiontree import clock
from sessiontree.session.manager import SessionManager
from sessiontree.text.words import format_time_ago, to_moment
from sessiontree.tui import safe_text
from sessiontree.tui.chat.footer import short_number
from sessiontree.tui.pickers.dialogs import Option
from sessiontree.tui.pickers.session_rows import count_text, short_path

if TYPE_CHECKING:
    from sessiontree.history import HistoryStorage
    from sessiontree.runtime.agent_session import AgentSession, SessionStats
    from sessiontree.scope import Scope
    from sessiontree.tui.chat.screen import ChatSetup


async def export(session: AgentSession, argument: str) -> str:
    """Write the conversation to a new file; return its path. Raises OSError, ValueError."""
    return await session.read(lambda manager: _write_export(manager, argument))


def _write_export(manager: SessionManager, wanted: str) -> str:
    from sessiontree.export import HTML, JSON, MARKDOWN, choose_format
    from sessiontree.export.documents import render_json, render_markdown
    from sessiontree.export.view import view_of

    name = os.path.expanduser(wanted) or f"session-{manager.session_id[:8]}.md"
    path = os.path.join(manager.cwd, name)
    kind = choose_format(name, formats=(MARKDOWN, HTML, JSON))
    view = view_of(manager)
    match kind:
        case "html":
            from sessiontree.export.html import render_html

            pieces = render_html(view)
        case "json":
            pieces = render_json(view)
        case _:
            pieces = render_markdown(view)
    root, extension = os.path.splitext(path)
    number = 1
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            break
        except FileExistsError:
            if wanted:
                raise
            number += 1
            path = f"{root}-{number}{extension}"
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(pieces)
    return path


def describe(session: AgentSession, stats: SessionStats) -> list[tuple[str, str]]:
    """List the facts of a session, each with its name."""
    usage, messages = stats.usage, stats.messages
    share = stats.context_tokens * 100 // max(1, stats.context_window)
    size = f"about {stats.context_tokens:,} of {stats.context_window:,} tokens ({share}%)"
    calls = count_text(messages.tool_calls, "tool call")
    answers = count_text(messages.assistant, "answer")
    tokens = f"{short_number(usage.input)} in, {short_number(usage.output)} out"
    return [
        ("Name", stats.session_name or "(none: /name gives one)"),
        ("Id", stats.session_id),
        _place_of(session, stats),
        ("Project", short_path(session.cwd)),
        ("Model", session.model.ref if session.model else "(none)"),
        ("Thinking", session.thinking_level),
        ("Context", f"{count_text(messages.total, 'message')}, {size}"),
        ("Messages", f"{messages.user:,} yours, {answers}, {calls}"),
        ("Used", f"{tokens}, {short_number(usage.cache_read)} from the cache; ${usage.cost:.2f}"),
    ]


def _place_of(session: AgentSession, stats: SessionStats) -> tuple[str, str]:
    """Where the session is kept: its file, or its address in a store."""
    manager = session.manager
    if not stats.session_file or not manager.store.is_kept:
        return ("File", "(kept nowhere)")
    if manager.address != manager.ref:
        return ("Store", manager.address)
    return ("File", short_path(stats.session_file))


def find_prompts(history: HistoryStorage, text: str) -> list[Option]:
    """Find earlier prompts of all projects that contain these words, newest first."""
    now = clock.now()
    found = history.search(text, 200) if text.strip() else history.recent(200)
    made: dict[str, Option] = {}
    for entry in found:
        age = format_time_ago(to_moment(entry.created_at * 1_000_000_000), now)
        made.setdefault(entry.prompt, Option(entry.prompt, entry.prompt, age))
    return list(made.values())


# -- samples -------------------------------------------------------------------------------------


def create_samples(cwd: str, setup: ChatSetup) -> int:
    """Make the sample sessions in this project; return how many."""
    from sessiontree.samples import create_samples as create
    from sessiontree.samples import find_samples

    found = find_samples(setup.scope.store)
    if found:
        raise ValueError(_word_samples(found[0], cwd, setup.scope))
    return len(create(cwd, setup.scope.store))


def _word_samples(ref: str, cwd: str, scope: Scope) -> str:
    """Say where the samples are, and how to get there from this project."""
    from sessiontree.discovery.paths import same_cwd

    info = scope.store.get_info(ref)
    project = info.cwd if info is not None else ""
    # A folder of sessions lists all its sessions, whatever project they are of.
    is_listed = scope.session_dir is not None or not project or same_cwd(project, cwd)
    where = "" if is_listed else f", in {safe_text.one_line(short_path(project))}"
    way = "/resume opens one" if is_listed else "/resume, then Tab, opens one"
    return f"You already have the samples{where}: {way}, /demo remove removes them"


def remove_samples(setup: ChatSetup) -> int:
    """Move all samples to the trash; return how many."""
    from sessiontree.samples import find_samples

    store = setup.scope.store
    found = find_samples(store)
    for ref in found:
        store.delete(ref)
    return len(found)
