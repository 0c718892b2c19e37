"""``rm``: move sessions to the trash."""

from __future__ import annotations

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import command_like, with_scope
from sessiontree.cli.resolve import find_target, session_argument
from sessiontree.scope import Scope


@click.command("rm", short_help="Move sessions to the trash.")
@session_argument(required=True, many=True)
@with_scope
def rm_command(scope: Scope, sessions: tuple[str, ...]) -> None:
    """Move sessions and their artifacts to the profile's trash.

    "sessiontree restore" undoes the last rm. A program that has the session open keeps it, and
    writes the file again with its next message.

    \b
    Examples:
      sessiontree rm 0199a3f2
      sessiontree rm 0199a3f2 0199a401
    """
    # Find all before removing any: a typo in one ID must not remove half of the list.
    targets = [find_target(value, scope) for value in sessions]
    batch: str | None = None
    for ref in dict.fromkeys(target.path for target in targets):
        item = scope.store.delete(ref, batch=batch)
        assert item is not None
        batch = item.batch
        output.write_line(
            "Moved to the trash: ", (tables.trash_name(item), "bold"), f"  {item.session_id}"
        )
    output.write_note((f"Undo: {command_like(scope, 'restore')}", "dim"))
