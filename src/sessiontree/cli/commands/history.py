"""``history``: the prompts that were typed, newest first, or those that match."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import limit_option, with_scope
from sessiontree.cli.tables import Column
from sessiontree.scope import Scope


@click.command("history", short_help="List or search the prompts you typed.")
@click.argument("query", nargs=-1, metavar="[QUERY]")
@click.option("--here", is_flag=True, help="Show only prompts typed in this folder.")
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_scope
def history_command(
    scope: Scope, query: tuple[str, ...], here: bool, limit: int, as_json: bool
) -> None:
    """List the prompts you typed, newest first; with a QUERY, only those that match.

    A prompt matches if it contains every word of the query, also as part of another word.

    \b
    Examples:
      sessiontree history
      sessiontree history parser c++
      sessiontree history --here -n 0
    """
    from sessiontree.history import HistoryStorage

    most = limit + 1 if limit else 1 << 31
    cwd = scope.cwd if here else None
    with HistoryStorage.for_profile(scope.profile) as history:
        found = history.search(" ".join(query), most, cwd)
    shown = found[:limit] if limit else found
    if as_json:
        output.write_json([_to_wire(entry) for entry in shown])
    elif shown:
        _write(shown, with_folder=not here)
    else:
        output.write_line("No prompts found")
    if len(found) > len(shown):
        output.write_note(("More prompts match (-n 0 shows all)", "dim"))


def _write(entries: list[Any], *, with_folder: bool) -> None:
    columns = [Column("AGE"), Column("PROMPT", "bold", is_flexible=True)]
    if with_folder:
        columns.append(Column("FOLDER", "dim", is_flexible=True))
    rows = []
    for entry in entries:
        row = [tables.age(_moment(entry.created_at)), entry.prompt]
        if with_folder:
            row.append(tables.short_path(entry.cwd) if entry.cwd else "")
        rows.append(row)
    tables.write_table(columns, rows)


def _moment(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _to_wire(entry: Any) -> dict[str, Any]:
    return {"prompt": entry.prompt, "createdAt": entry.created_at, "cwd": entry.cwd}
