"""``mv``: move a session to another project."""

from __future__ import annotations

import os

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import with_scope
from sessiontree.cli.resolve import find_target, session_argument
from sessiontree.scope import Scope


@click.command("mv", short_help="Move a session to another project folder.")
@session_argument(required=True)
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--force", is_flag=True, help="Move it even if another program has it open.")
@with_scope
def mv_command(scope: Scope, session: str, folder: str, force: bool) -> None:
    """Move a session and its artifacts to the project in FOLDER.

    mv refuses if another program has the session open, because that program's next messages could
    be lost. With --force it moves the session and leaves a link that leads that program to it. It
    also leaves one if the session was written to within a day.

    \b
    Examples:
      sessiontree mv 0199a3f2 ~/src/app
      sessiontree mv 0199a3f2 .
    """
    project = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(project):
        output.fail(f"{project}: no such folder")
    target = find_target(session, scope)
    if scope.files is None:
        _move_in_store(target.path, project, scope)
        return
    from sessiontree.discovery.paths import SESSION_SUFFIX, default_session_dir, same_cwd
    from sessiontree.export.view import open_view
    from sessiontree.storage.file import FileSessionStorage
    from sessiontree.storage.open_elsewhere import may_be_written, was_written_lately
    from sessiontree.stores.files.rerooting import reroot_session

    with open_view(target.path, profile=scope.profile) as view:
        if same_cwd(view.cwd, project):
            output.write_line(f"It is already there: {tables.short_path(project)}")
            return
    use = _find_use(target.path, view.cwd)
    if use and not force:
        output.fail(f"{use} Close it there first, or move it with --force.")
    storage = FileSessionStorage()
    home = scope.session_dir or default_session_dir(scope.profile, project, storage)
    new_path = os.path.join(home, os.path.basename(target.path))
    is_wanted = force or was_written_lately(target.path) or may_be_written(target.path, view.cwd)
    leave_link = is_wanted and target.path.endswith(SESSION_SUFFIX)
    reroot_session(storage, target.path, new_path, project, {}, leave_link=leave_link)
    output.write_line("Moved to ", (tables.short_path(project), "bold"))
    if use:
        output.write_note("Left a link in the old place for the program that has it open")
    elif leave_link:
        output.write_note("Left a link in the old place, in case a program still writes there")
    output.write_line((f"  {tables.short_path(new_path)}", "dim"))


def _find_use(path: str, cwd: str) -> str:
    """A sentence about the program that has a session's file open, or may have; else empty."""
    from sessiontree.storage.open_elsewhere import AGENT_PROGRAMS, find_agents, find_users
    from sessiontree.stores.files.opening import profile_for

    users = find_users(path)
    if users:
        return f"{users[0]} has session {path} open."
    agents = find_agents(AGENT_PROGRAMS.get(profile_for(path, None).name, frozenset()), cwd)
    if agents:
        return f"{agents[0]} works in {tables.short_path(cwd)} and may have session {path} open."
    return ""


def _move_in_store(ref: str, project: str, scope: Scope) -> None:
    """Move a session that no file holds: other programs that have it open keep it."""
    from sessiontree.discovery.paths import same_cwd
    from sessiontree.model.header import get_cwd

    log = scope.store.open(ref)
    try:
        if same_cwd(get_cwd(log.header), project):
            output.write_line(f"It is already there: {tables.short_path(project)}")
            return
        log.move(project, scope.key)
        log.flush()
    finally:
        log.close()
    output.write_line("Moved to ", (tables.short_path(project), "bold"))
