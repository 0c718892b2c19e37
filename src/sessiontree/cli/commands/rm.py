"""``rm`` and ``restore``: to the trash and back."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import Scope, with_scope
from sessiontree.cli.resolve import find_target, session_argument
from sessiontree.cli.tables import Column
from sessiontree.stores.files.trash import (
    TrashItem,
    find_in_trash,
    list_trash,
    move_to_trash,
    restore,
)
from sessiontree.text.words import clean_line


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
    for path in dict.fromkeys(target.path for target in targets):
        item = move_to_trash(path, profile=scope.profile, batch=batch)
        batch = item.batch
        output.write_line("Moved to the trash: ", (_name(item), "bold"), f"  {item.session_id}")
    output.write_note(("Undo: sessiontree restore", "dim"))


@click.command("restore", short_help="Bring sessions back from the trash.")
@click.argument("session", required=False, metavar="[ID]")
@click.option("-l", "--list", "list_only", is_flag=True, help="List what is in the trash.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print a JSON array.")
@with_scope
def restore_command(scope: Scope, session: str | None, list_only: bool, as_json: bool) -> None:
    """Bring back the sessions of the last rm, or the one with this ID.

    \b
    Examples:
      sessiontree restore
      sessiontree restore --list
      sessiontree restore 0199a3f2
    """
    if list_only:
        _write_trash(list_trash(scope.profile), as_json)
        return
    for item in _chosen(session, scope):
        path = restore(item)
        output.write_line("Restored: ", (_name(item), "bold"), f"  {item.session_id}")
        output.write_line((f"  {tables.short_path(path)}", "dim"))


def _chosen(session: str | None, scope: Scope) -> list[TrashItem]:
    if session is None:
        items = list_trash(scope.profile)
        if not items:
            output.fail("The trash is empty")
        return [item for item in items if item.batch == items[0].batch]
    found = find_in_trash(session, scope.profile)
    if not found:
        output.fail(f'Session "{session}" is not in the trash. See sessiontree restore --list')
    if len(found) > 1:
        _write_trash(found, as_json=False)
        output.fail(
            f'"{session}" is ambiguous: {len(found)} removed sessions match; use the ID IN TRASH.',
            output.USAGE,
        )
    return found


def _write_trash(items: list[TrashItem], as_json: bool) -> None:
    if as_json:
        output.write_json(
            [
                {
                    "trashId": item.id,
                    "id": item.session_id,
                    "title": item.title,
                    "path": item.path,
                    "cwd": item.cwd,
                    "removedAt": item.removed_at,
                }
                for item in items
            ]
        )
        return
    if not items:
        output.write_line("The trash is empty")
        return
    columns = [
        Column("SESSION", "yellow"),
        Column("REMOVED"),
        Column("TITLE", "bold", is_flexible=True),
        Column("PROJECT", "dim", is_flexible=True),
        Column("ID IN TRASH", "dim"),
    ]
    rows = [
        [item.session_id, _when(item), _name(item), tables.short_path(item.cwd), item.id]
        for item in items
    ]
    tables.write_table(columns, rows)


def _name(item: TrashItem) -> str:
    return clean_line(item.title) or "(no title)"


def _when(item: TrashItem) -> str:
    try:
        return tables.age(datetime.fromisoformat(item.removed_at).astimezone(UTC))
    except (ValueError, OverflowError):
        return "?"
