"""``demo``: sample sessions for newcomers, and their removal in one step."""

from __future__ import annotations

from typing import NoReturn

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import with_scope
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

    found = find_samples(profile=scope.profile, session_dir=scope.session_dir)
    if found:
        _refuse(found[0], scope)
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


def _refuse(sample: str, scope: Scope) -> NoReturn:
    """There is one set of samples: say where, and how to get at them from here."""
    from sessiontree.cli.start import resume_command
    from sessiontree.discovery.heads import read_head
    from sessiontree.discovery.paths import same_cwd
    from sessiontree.storage.file import FileSessionStorage

    head = read_head(FileSessionStorage(), sample)
    where, way = "", ""
    if head is not None:
        is_here = same_cwd(head.cwd, scope.cwd)
        where = " in this project" if is_here else f" in {tables.short_path(head.cwd)}"
        way = f"; open one with: {resume_command(head.session_id, head.cwd, scope)}"
    output.fail(
        f"You already have the samples{where}{way}; to remove them: sessiontree demo --remove"
    )


def _remove(scope: Scope) -> None:
    from sessiontree.samples import find_samples
    from sessiontree.stores.files.trash import move_to_trash

    batch: str | None = None
    found = find_samples(profile=scope.profile, session_dir=scope.session_dir)
    if not found:
        output.write_line("No samples found")
        return
    for path in found:
        batch = move_to_trash(path, profile=scope.profile, batch=batch).batch
    output.write_line(f"Moved {tables.plural(len(found), 'sample')} to the trash")
    output.write_note(("Undo: sessiontree restore", "dim"))
