"""``ls``: the sessions of a project, of all projects, or of all agents, newest first."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import agent_option, agents_of, command_like, limit_option, with_scope
from sessiontree.cli.tables import Column
from sessiontree.discovery.copies import put_copies_below
from sessiontree.profiles import short_agent_name
from sessiontree.scope import Scope

_LEAST_TITLE = 48
"""The width of titles below which the other columns say less."""
_STATUS = {
    "interrupted": "interrupted",
    "error": "failed",
    "aborted": "stopped",
    "damaged": "damaged",
    "empty": "empty",
}


@click.command("ls", short_help="List sessions, newest first.")
@click.option(
    "-a", "--all", "all_projects", is_flag=True, help="Include the sessions of all projects."
)
@click.option("--all-agents", is_flag=True, help="Include all agents, in all projects.")
@agent_option
@click.option("--empty", is_flag=True, help="Include sessions without messages.")
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_scope
def ls_command(
    scope: Scope,
    all_projects: bool,
    all_agents: bool,
    agent: str | None,
    empty: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the sessions of this project, newest first.

    \b
    Examples:
      sessiontree ls                      this project's sessions
      sessiontree ls --all -n 50          the 50 newest of all projects
      sessiontree ls --profile pi         pi's sessions of this project
      sessiontree ls --all-agents         every agent's sessions, wherever they are
      sessiontree ls --json | jq '.[].id' for a program
    """
    everywhere = all_projects or all_agents
    agents = agents_of(scope, all_agents=all_agents, agent=agent)
    found = _find(scope, everywhere, agents, limit)
    if _bring_home(scope, found):
        found = _find(scope, everywhere, agents, limit)
    sessions: list[Any] = list(found)
    if empty:
        sessions += found.empty
    sessions.sort(key=lambda info: info.modified, reverse=True)
    families = put_copies_below(sessions)
    kept = families[:limit] if limit else families
    shown = [info for family in kept for info in family]
    if as_json:
        output.write_json([_to_wire(info) for info in shown])
    elif shown:
        _write(shown, [info.id for info in sessions], everywhere or _is_mixed(shown), all_agents)
    else:
        output.write_line("No sessions found")
    total = _count(scope, found, everywhere) - len(found) + len(families)
    _write_rest(scope, found, total - len(kept), everywhere or agent is not None, empty)


def _find(scope: Scope, everywhere: bool, agents: str | None, limit: int) -> Any:
    reached = scope.reaching("all" if everywhere else "project", agents=agents)
    # Files are read to be sorted; a database is asked for no more than is shown.
    with output.Progress("Reading sessions") as progress:
        return reached.list(progress, limit=None if scope.is_in_files else limit or None)


def _count(scope: Scope, found: Any, everywhere: bool) -> int:
    """The number of sessions to list, if it is known."""
    total = found.total
    if total is None and not scope.is_in_files:
        total = scope.reaching("all" if everywhere else "project").list(limit=0).total
    return len(found) if total is None else int(total)


def _bring_home(scope: Scope, found: Any) -> bool:
    """Bring lines to a moved session that another program wrote to its old place."""
    damaged = [info.path for info in found.damaged] + [file.path for file in found.unreadable]
    if not damaged or scope.files is None:
        return False
    from sessiontree.stores.files.strays import gather_strays

    brought = gather_strays(scope.files, damaged)
    for path, home in brought:
        output.write_note(
            f"{tables.short_path(path)} held lines of a session that was moved: "
            f"they are in {tables.short_path(home)}"
        )
    return bool(brought)


def _is_mixed(shown: list[Any]) -> bool:
    """Whether some of these belong to other projects, as a folder of one's own may hold them."""
    return not all(getattr(info, "is_local", True) for info in shown)


def _write(shown: list[Any], all_ids: list[str], with_project: bool, all_agents: bool) -> None:
    short = tables.shorten_ids(all_ids)
    layout = partial(_lay_out, shown, short, with_project=with_project, with_agent=all_agents)
    columns, rows = layout(is_tight=False)
    if not tables.can_fit(columns, rows, _LEAST_TITLE):
        columns, rows = layout(is_tight=True)
    tables.write_table(columns, rows, is_padded_in_pipe=False)


def _lay_out(
    shown: list[Any],
    short: dict[str, str],
    *,
    with_project: bool,
    with_agent: bool,
    is_tight: bool,
) -> tuple[list[Column], list[list[str]]]:
    """The columns and their rows; a tight table says less, so that the titles get the room."""
    with_status = any(_status(info) for info in shown)
    with_count = not is_tight
    columns = [Column("ID", "yellow"), Column("AGE", is_number=is_tight)]
    columns += [Column("MSGS", is_number=True)] * with_count
    columns += [Column("AGENT", "magenta")] * with_agent
    columns.append(Column("TITLE", "bold", is_flexible=True))
    columns += [Column("STATUS", "red")] * with_status
    columns += [Column("PROJECT", "dim", is_flexible=True, keeps_end=True)] * with_project
    projects = _name_projects({info.cwd for info in shown}, is_tight=is_tight)
    rows = []
    for info in shown:
        row = [short[info.id], (tables.short_age if is_tight else tables.age)(info.modified)]
        row += [f"{info.message_count:,}"] * with_count
        row += [short_agent_name(info.agent) if is_tight else info.agent] * with_agent
        is_copy = getattr(info, "copy_of", None) is not None
        row.append("└ " * is_copy + tables.session_name(info))
        row += [_status(info)] * with_status
        row += [projects[info.cwd]] * with_project
        rows.append(row)
    return columns, rows


def _name_projects(folders: set[str | None], *, is_tight: bool) -> dict[str | None, str]:
    """Name projects by their paths; in a tight table by the folder's name where that is unique."""
    paths = {folder: tables.short_path(folder) for folder in folders}
    names = Counter(os.path.basename(path) for path in paths.values())
    return {
        folder: name if is_tight and names[name := os.path.basename(path)] == 1 else path
        for folder, path in paths.items()
    }


def _status(info: Any) -> str:
    if getattr(info, "is_kept", False):
        return "kept"
    return _STATUS.get(getattr(info, "status", ""), "")


def _write_rest(scope: Scope, found: Any, cut: int, everywhere: bool, empty: bool) -> None:
    """Say what the listing left out, and which option shows it."""
    notes = []
    if cut:
        notes.append(f"{cut:,} older (-n 0 shows all)")
    if found.empty_count and not empty:
        notes.append(f"{found.empty_count:,} without messages (--empty)")
    if not everywhere and scope.session_dir is None:
        others = _count_elsewhere(scope)
        if others:
            notes.append(f"{others:,} in other projects (--all)")
    if found.unreadable:
        notes.append(tables.unreadable_files(len(found.unreadable)))
    if notes:
        output.write_note((" · ".join(notes), "dim"))
    for moved in found.moved:
        output.write_note(
            f"Was this project {tables.short_path(moved.cwd)} before? It has "
            f"{tables.plural(moved.session_count, 'session')}: "
            f"sessiontree relink {_quoted(moved.cwd)}"
        )
    if scope.session_dir is not None and not os.path.isdir(scope.session_dir):
        output.write_note((f"{scope.session_dir}: no such folder", "yellow"))
    elif not found and not everywhere:
        _write_first_steps(scope, has_others=bool(notes))


def _write_first_steps(scope: Scope, *, has_others: bool) -> None:
    """If nothing is listed, say what other agents have on this machine, or how to begin."""
    from sessiontree.discovery.sources import count_sessions

    counts = count_sessions(but=scope.profile.name) if scope.is_in_files else []
    if counts:
        found = ", ".join(f"{count:,} of {agent}" for agent, count in counts)
        output.write_note((f"Found: {found} (--all-agents lists them)", "dim"))
    elif not has_others:
        output.write_note((f"{command_like(scope, 'demo')} adds sample sessions", "dim"))


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)


def _count_elsewhere(scope: Scope) -> int:
    """How many session files other projects have, by their names alone."""
    from sessiontree.discovery.paths import session_folders

    if scope.files is None:
        everything = scope.reaching("all").list(limit=0).total
        here = scope.list(limit=0).total
        return max(0, everything - here) if everything is not None and here is not None else 0
    own = set(session_folders(scope.profile, scope.cwd))
    count = 0
    try:
        with os.scandir(scope.profile.sessions_dir) as listing:
            folders = [item.path for item in listing if item.is_dir() and item.path not in own]
        for folder in folders:
            names = os.listdir(folder)
            count += sum(1 for name in names if name.endswith(".jsonl") and name[0] != ".")
    except OSError:
        return count
    return count


def _to_wire(info: Any) -> dict[str, Any]:
    return {
        "id": info.id,
        "path": info.path,
        "agent": info.agent or None,
        "cwd": info.cwd,
        "title": info.title,
        "firstMessage": info.first_message,
        "parentSession": getattr(info, "parent_session", None),
        "created": _iso(info.created),
        "modified": _iso(info.modified),
        "messageCount": info.message_count,
        "size": info.size,
        "status": getattr(info, "status", None),
        "kept": getattr(info, "is_kept", False),
        "copyOf": getattr(info, "copy_of", None),
    }


def _iso(moment: Any) -> str | None:
    if moment is None:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
