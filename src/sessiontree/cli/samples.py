"""``demo``: sample sessions for newcomers, and their removal in one step."""

from __future__ import annotations

import click

from sessiontree.cli import output, tables
from sessiontree.cli.scope import Scope, with_scope


@click.command("demo", short_help="Add sample sessions to look at, or remove them.")
@click.option("--remove", is_flag=True, help="Move all samples to the trash.")
@with_scope
def demo_command(scope: Scope, remove: bool) -> None:
    """Add three sample sessions to this project: one with branches, one that was compacted, one
    with pictures. Their titles begin with "Sample:".

    \b
    Examples:
      sessiontree demo
      sessiontree demo --remove
    """
    if remove:
        _remove(scope)
        return
    from sessiontree.demo import create_samples, find_samples

    if find_samples(profile=scope.profile, session_dir=scope.session_dir):
        output.fail("The samples are there already; remove them with: sessiontree demo --remove")
    for session_id, title in create_samples(
        scope.cwd, profile=scope.profile, session_dir=scope.session_dir
    ):
        output.write_line((session_id, "yellow"), "  ", (title, "bold"))
    for command, why in (
        ("sessiontree show ID", "reads one"),
        ("sessiontree tree ID", "shows its branches"),
        ("sessiontree -r", "opens one in the program"),
        ("sessiontree demo --remove", "takes them all away"),
    ):
        output.write_note((f"  {command:<28}", ""), (why, "dim"))


def _remove(scope: Scope) -> None:
    from sessiontree.demo import find_samples
    from sessiontree.maintenance.trash import move_to_trash

    batch: str | None = None
    found = find_samples(profile=scope.profile, session_dir=scope.session_dir)
    if not found:
        output.write_line("There are no samples")
        return
    for path in found:
        batch = move_to_trash(path, profile=scope.profile, batch=batch).batch
    output.write_line(f"Moved {tables.plural(len(found), 'sample')} to the trash")
    output.write_note(("Undo: sessiontree restore", "dim"))
