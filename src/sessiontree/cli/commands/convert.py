"""``convert``: copy a session into another profile's format."""

from __future__ import annotations

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import with_scope
from sessiontree.cli.resolve import (
    find_target,
    session_argument,
)
from sessiontree.profiles import PROFILE_NAMES
from sessiontree.scope import Scope


@click.command("convert", short_help="Copy a session into another profile's format.")
@session_argument(required=True)
@click.option("--to", "target", metavar="PROFILE", required=True, type=click.Choice(PROFILE_NAMES),
              help="Copy for this agent: sessiontree, omp, xcsh, pi, …")  # fmt: skip
@click.option("--cwd", metavar="DIR", type=click.Path(file_okay=False),
              help="Put the copy into this project; by default the session's own.")  # fmt: skip
@with_scope
def convert_command(scope: Scope, session: str, target: str, cwd: str | None) -> None:
    """Copy a session so that another agent can resume it. The session itself stays as it is.

    \b
    Examples:
      sessiontree convert 0199a3f2 --to pi
      sessiontree --profile omp convert 0199a3f2 --to sessiontree
    """
    from sessiontree.export.convert import convert_session

    found = find_target(session, scope)
    report = convert_session(found.path, target, cwd=cwd, source=scope.store)
    output.write_line("Converted for ", (target, "bold"), f": {report.session_id}")
    output.write_line((f"  {tables.short_path(report.path)}", "dim"))
    output.write_notes(report.lines())
