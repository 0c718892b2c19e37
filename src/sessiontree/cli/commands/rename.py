"""``rename``: give a session a name, or remove it."""

from __future__ import annotations

import click

from sessiontree.cli import output
from sessiontree.cli.options import with_scope
from sessiontree.cli.resolve import find_target, session_argument
from sessiontree.scope import Scope


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
    from sessiontree.maintenance.annotations import rename_session

    warnings: list[object] = []
    shown = rename_session(scope.store, target.path, wanted, warnings.append)
    output.write_warnings(warnings)
    if shown:
        output.write_line("Renamed to ", (shown, "bold"))
    else:
        output.write_line("Name cleared")
