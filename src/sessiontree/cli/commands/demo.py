"""``demo``: sample sessions for newcomers, and their removal in one step."""

from __future__ import annotations

from typing import NoReturn

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import command_like, with_scope
from sessiontree.scope import Scope


@click.command("demo", short_help="Add or remove sample sessions.")
@click.option("--remove", is_flag=True, help="Move all samples to the trash.")
@with_scope
def demo_command(scope: Scope, remove: bool) -> None:
    """Add three sample sessions to this project: one with branches, one that was compacted, one
    with pictures. Their titles begin with "Sample:". Only one project has them at a time.

    \b
    Examples:
      sessiontree demo
      sessiontree demo --remove
    """
    if remove:
        _remove(scope)
        return
    from sessiontree.samples import create_samples, find_samples

    found = find_samples(scope.store)
    if found:
        _refuse(found[0], scope)
    for session_id, title in create_samples(scope.cwd, scope.store):
        output.write_line((session_id, "yellow"), "  ", (title, "bold"))
    ways = {
        command_like(scope, "show", "ID"): "reads one",
        command_like(scope, "tree", "ID"): "shows its branches",
        command_like(scope, "-r"): "opens one in the program",
        command_like(scope, "demo", "--remove"): "takes them all away",
    }
    width = max(map(len, ways)) + 3
    for command, why in ways.items():
        output.write_note((f"  {command:<{width}}", ""), (why, "dim"))


def _refuse(sample: str, scope: Scope) -> NoReturn:
    """End the command because the samples exist: say where, and how to open one."""
    from sessiontree.cli.resuming import resume_command
    from sessiontree.discovery.paths import same_cwd

    info = scope.store.get_info(sample)
    where, way = "", ""
    if info is not None:
        is_here = same_cwd(info.cwd, scope.cwd)
        where = " in this project" if is_here else f" in {tables.short_path(info.cwd)}"
        way = f"; open one with: {resume_command(info.id, info.cwd, scope)}"
    output.fail(
        f"You already have the samples{where}{way}; to remove them: "
        + command_like(scope, "demo", "--remove")
    )


def _remove(scope: Scope) -> None:
    from sessiontree.samples import find_samples

    batch: str | None = None
    found = find_samples(scope.store)
    if not found:
        output.write_line("No samples found")
        return
    for ref in found:
        item = scope.store.delete(ref, batch=batch)
        assert item is not None
        batch = item.batch
    output.write_line(f"Moved {tables.plural(len(found), 'sample')} to the trash")
    output.write_note((f"Undo: {command_like(scope, 'restore')}", "dim"))
