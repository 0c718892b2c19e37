"""``push``: copy sessions from here to another store."""

from __future__ import annotations

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import with_scope
from sessiontree.scope import Scope
from sessiontree.stores import open_store
from sessiontree.stores.base import SessionStore
from sessiontree.stores.transfer import Transfer, find_wanted, transfer

_SHOWN = 10


@click.command("push", short_help="Copy sessions to another store, such as a database.")
@click.argument("url", metavar="URL")
@click.argument("sessions", metavar="[ID]...", nargs=-1)
@click.option("--all", "all_projects", is_flag=True, help="Copy the sessions of all projects.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_scope
def push_command(
    scope: Scope, url: str, sessions: tuple[str, ...], all_projects: bool, as_json: bool
) -> int:
    """Copy this project's sessions, or those with these IDs, to the store at URL.

    It copies only what is missing there, byte for byte, with blobs. You can stop it at any time
    and run it again.

    \b
    Examples:
      sessiontree push postgresql://anna@db.example.org/agents --all
      sessiontree push file:/srv/agent 0199a3f2
    """
    target = open_store(url, profile=scope.profile)
    cwd = None if all_projects else scope.cwd
    return copy_sessions(scope.store, target, sessions, cwd, as_json=as_json)


def copy_sessions(
    source: SessionStore,
    target: SessionStore,
    sessions: tuple[str, ...],
    cwd: str | None,
    *,
    as_json: bool,
) -> int:
    """Copy the sessions and report the result."""
    with output.Progress("Copying sessions") as progress:
        wanted, total = find_wanted(source, sessions, cwd)
        made = transfer(source, target, wanted, progress, total=total)
    if as_json:
        output.write_json(
            {
                "from": source.url,
                "to": target.url,
                "new": made.new,
                "grown": made.grown,
                "same": made.same,
                "entries": made.entries,
                "failed": [{"id": name, "reason": reason} for name, reason in made.failed],
                "stopped": made.is_stopped,
            }
        )
    else:
        _write(made, target)
    return output.FAILURE if made.failed else output.OK


def _write(made: Transfer, target: SessionStore) -> None:
    told = [
        f"{tables.plural(made.new, 'new session')}",
        f"{made.grown} grown",
        f"{made.same} the same",
        tables.plural(made.entries, "entry"),
    ]
    output.write_line((", ".join(told), "bold"), f"  {target.url}")
    for name, reason in made.failed[:_SHOWN]:
        output.write_message((f"Not copied: {name}: {reason}", "yellow"))
    if len(made.failed) > _SHOWN:
        output.write_message((f"and {len(made.failed) - _SHOWN} more", "yellow"))
    if made.is_stopped:
        output.write_message(
            ("Stopped: a store is out of reach. Run the command again to continue.", "yellow")
        )
