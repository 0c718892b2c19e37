"""``pull``: copy sessions here from another store."""

from __future__ import annotations

import click

from sessiontree.cli.commands.push import copy_sessions
from sessiontree.cli.options import with_scope
from sessiontree.scope import Scope
from sessiontree.stores import open_store


@click.command("pull", short_help="Copy sessions here from another store.")
@click.argument("url", metavar="URL")
@click.argument("sessions", metavar="[ID]...", nargs=-1)
@click.option("--all", "all_projects", is_flag=True, help="Copy the sessions of all projects.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@with_scope
def pull_command(
    scope: Scope, url: str, sessions: tuple[str, ...], all_projects: bool, as_json: bool
) -> int:
    """Copy this project's sessions, or those with these IDs, here from the store at URL.

    It copies only what is missing here, byte for byte, with blobs. You can stop it at any time
    and run it again.

    \b
    Examples:
      sessiontree pull postgresql://anna@db.example.org/agents
      sessiontree pull postgresql://anna@db.example.org/agents 0199a3f2
    """
    source = open_store(url, profile=scope.profile)
    cwd = None if all_projects else scope.cwd
    return copy_sessions(source, scope.store, sessions, cwd, as_json=as_json)
