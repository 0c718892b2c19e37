"""``restore``: list the trash, and bring sessions back from it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import command_like, with_scope
from sessiontree.cli.tables import Column
from sessiontree.scope import Scope
from sessiontree.stores.base import TrashedSession


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
        _write_trash(scope.store.list_trash(), as_json)
        return
    for item in _chosen(session, scope):
        ref = scope.store.restore(item.id)
        output.write_line("Restored: ", (tables.trash_name(item), "bold"), f"  {item.session_id}")
        output.write_line((f"  {tables.short_path(scope.address(ref))}", "dim"))


def _chosen(session: str | None, scope: Scope) -> list[TrashedSession]:
    if session is None:
        items = scope.store.list_trash()
        if not items:
            output.fail("The trash is empty")
        return [item for item in items if item.batch == items[0].batch]
    found = [item for item in scope.store.list_trash() if _is_meant(item, session)]
    if not found:
        way = command_like(scope, "restore", "--list")
        output.fail(f'Session "{session}" is not in the trash. See {way}')
    if len(found) > 1:
        _write_trash(found, as_json=False)
        output.fail(
            f'"{session}" is ambiguous: {len(found)} removed sessions match; use the ID IN TRASH.',
            output.USAGE,
        )
    return found


def _is_meant(item: TrashedSession, value: str) -> bool:
    """Whether the session's id, or its id in the trash, begins with the value, or its path equals
    it."""
    begins = item.session_id.startswith(value) or item.id.startswith(value)
    return begins or item.path in (value, os.path.abspath(value))


def _write_trash(items: Sequence[TrashedSession], as_json: bool) -> None:
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
        Column("PROJECT", "dim", is_flexible=True, keeps_end=True),
        Column("ID IN TRASH", "dim"),
    ]
    rows = [
        [
            item.session_id,
            _when(item),
            tables.trash_name(item),
            tables.short_path(item.cwd),
            item.id,
        ]
        for item in items
    ]
    tables.write_table(columns, rows)


def _when(item: TrashedSession) -> str:
    try:
        return tables.age(datetime.fromisoformat(item.removed_at).astimezone(UTC))
    except (ValueError, OverflowError):
        return "?"
