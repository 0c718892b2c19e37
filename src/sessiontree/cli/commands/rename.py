"""``rename``, ``mv`` and ``relink``: a session's name, its project, and projects that moved."""

from __future__ import annotations

import os

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import Scope, with_scope
from sessiontree.cli.resolve import find_target, session_argument


@click.command("rename", short_help="Name a session.")
@session_argument(required=True)
@click.argument("name", nargs=-1, metavar="NAME...", required=False)
@click.option("--clear", is_flag=True, help="Remove the name.")
@with_scope
def rename_command(scope: Scope, session: str, name: tuple[str, ...], clear: bool) -> None:
    """Name a session, in the form that its own agent reads.

    \b
    Examples:
      sessiontree rename 0199a3f2 Fix the login
      sessiontree rename 0199a3f2 --clear
    """
    wanted = " ".join(" ".join(name).split())
    if bool(wanted) == clear:
        raise click.UsageError("Give either a NAME or --clear.", click.get_current_context())
    target = find_target(session, scope)
    from sessiontree.maintenance.renaming import rename_session
    from sessiontree.storage.file import FileSessionStorage

    warnings: list[object] = []
    shown = rename_session(FileSessionStorage(), target.path, wanted, warnings.append)
    output.write_warnings(warnings)
    if shown:
        output.write_line("Renamed to ", (shown, "bold"))
    else:
        output.write_line("Name cleared")


@click.command("mv", short_help="Move a session to another project folder.")
@session_argument(required=True)
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--force", is_flag=True, help="Move it even if another program has it open.")
@with_scope
def mv_command(scope: Scope, session: str, folder: str, force: bool) -> None:
    """Move a session and its artifacts to the project in FOLDER.

    mv refuses if another program has the session open, because that program's next messages would
    be lost. With --force it moves the session and leaves a link that leads that program to it.

    \b
    Examples:
      sessiontree mv 0199a3f2 ~/src/app
      sessiontree mv 0199a3f2 .
    """
    project = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(project):
        output.fail(f"{project}: no such folder")
    target = find_target(session, scope)
    from sessiontree.discovery.paths import default_session_dir, same_cwd
    from sessiontree.export.view import open_view
    from sessiontree.storage.file import FileSessionStorage
    from sessiontree.storage.open_elsewhere import AGENT_PROGRAMS, find_agents, find_users
    from sessiontree.stores.files.opening import profile_for
    from sessiontree.stores.files.rerooting import reroot_session

    with open_view(target.path, profile=scope.profile) as view:
        if same_cwd(view.cwd, project):
            output.write_line(f"It is already there: {tables.short_path(project)}")
            return
        programs = AGENT_PROGRAMS.get(profile_for(target.path, None).name, frozenset())
        users = find_users(target.path)
        agents = [] if users else find_agents(programs, view.cwd)
    if users and not force:
        output.fail(
            f"{users[0]} has session {target.path} open. "
            "Close it there first, or move it with --force."
        )
    if agents and not force:
        output.fail(
            f"{agents[0]} works in {tables.short_path(view.cwd)} and may have session "
            f"{target.path} open. Close it there first, or move it with --force."
        )
    storage = FileSessionStorage()
    home = scope.session_dir or default_session_dir(scope.profile, project, storage)
    new_path = os.path.join(home, os.path.basename(target.path))
    in_use = bool(users or agents)
    reroot_session(storage, target.path, new_path, project, {}, leave_link=in_use)
    output.write_line("Moved to ", (tables.short_path(project), "bold"))
    if in_use:
        output.write_note("Left a link in the old place for the program that has it open")
    output.write_line((f"  {tables.short_path(new_path)}", "dim"))


@click.command("relink", short_help="Update sessions after their project folder moved.")
@click.argument("old", metavar="OLD_FOLDER")
@click.argument("new", metavar="[NEW_FOLDER]", required=False, type=click.Path(file_okay=False))
@click.option(
    "-y", "--yes", is_flag=True, help="Do it; without this, relink only lists the sessions."
)
@with_scope
def relink_command(scope: Scope, old: str, new: str | None, yes: bool) -> None:
    """Take the sessions of a project along when its folder was moved or renamed.

    NEW_FOLDER is this folder unless given. Folders below OLD_FOLDER go along. Only shows what it
    would do, until --yes.

    \b
    Examples:
      cd ~/src/new-name && sessiontree relink ~/src/old-name
      sessiontree relink ~/src/old ~/src/new --yes
    """
    from sessiontree.stores.files.relinking import relink

    source = os.path.abspath(os.path.expanduser(old))
    target = os.path.abspath(os.path.expanduser(new)) if new else scope.cwd
    if not os.path.isdir(target):
        output.fail(f"{target}: no such folder")
    report = relink(source, target, dry_run=not yes, profile=scope.profile)
    if not report.sessions and not report.skipped:
        output.fail(f"No session belongs to {source}")
    for item in report.sessions:
        output.write_line(
            os.path.basename(item.path), (f"  {tables.short_path(item.cwd)} → ", "dim"),
            tables.short_path(item.new_cwd),
        )  # fmt: skip
    count = tables.plural(len(report.sessions), "session")
    if report.is_dry_run:
        output.write_note(f"{count} would move to {tables.short_path(target)}. Add --yes to move.")
    else:
        output.write_line(f"Relinked {count}")
    for skipped in report.skipped:
        output.write_message((f"Not relinked: {skipped.path}: {skipped.reason}", "yellow"))
    if report.skipped:
        output.fail(f"{tables.plural(len(report.skipped), 'session')} could not be relinked")
