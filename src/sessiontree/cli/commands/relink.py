"""``relink``: update the sessions of a moved project folder."""

from __future__ import annotations

import os

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import require_files, with_scope
from sessiontree.scope import Scope


@click.command("relink", short_help="Update sessions after their project folder moved.")
@click.argument("old", metavar="OLD_FOLDER")
@click.argument("new", metavar="[NEW_FOLDER]", required=False, type=click.Path(file_okay=False))
@click.option(
    "-y", "--yes", is_flag=True, help="Do it; without this, relink only lists the sessions."
)
@with_scope
def relink_command(scope: Scope, old: str, new: str | None, yes: bool) -> None:
    """Update a project's sessions after its folder was moved or renamed.

    NEW_FOLDER is this folder unless given. Sessions of folders below OLD_FOLDER are updated, too.
    Without --yes, relink only shows what it would do.

    \b
    Examples:
      cd ~/src/new-name && sessiontree relink ~/src/old-name
      sessiontree relink ~/src/old ~/src/new --yes
    """
    require_files(scope, "relink", "To move a session: sessiontree mv ID FOLDER")
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
