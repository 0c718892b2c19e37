"""``convert``: copy a session of any agent into another agent's format."""

from __future__ import annotations

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import with_scope
from sessiontree.cli.resolve import Target, find_target, open_target, session_argument
from sessiontree.profiles import PROFILE_NAMES
from sessiontree.scope import Scope

_TARGETS = (*PROFILE_NAMES, "claude-code", "codex")


@click.command("convert", short_help="Copy a session into another agent's format.")
@session_argument(required=True)
@click.option("--to", "target", metavar="AGENT", required=True, type=click.Choice(_TARGETS),
              help="Copy for this agent: claude-code, codex, pi, omp, sessiontree, …")  # fmt: skip
@click.option("--cwd", metavar="DIR", type=click.Path(file_okay=False),
              help="Put the copy into this project; by default the session's own.")  # fmt: skip
@with_scope
def convert_command(scope: Scope, session: str, target: str, cwd: str | None) -> None:
    """Copy a session of any agent so that another agent can resume it. The session itself doesn't
    change.

    \b
    Examples:
      sessiontree convert 0199a3f2 --to pi
      sessiontree convert 0199a3f2 --to claude-code    # then: claude --resume …
      sessiontree --profile omp convert 0199a3f2 --to sessiontree
    """
    found = find_target(session, scope, foreign=True)
    if target not in PROFILE_NAMES:
        _hand_over(found, scope, target, cwd)
    elif found.agent is not None:
        _import(found, target, cwd)
    else:
        from sessiontree.export.convert import convert_session

        report = convert_session(found.path, target, cwd=cwd, source=scope.store)
        _tell(target, report.session_id, report.path, report.lines())


def _hand_over(found: Target, scope: Scope, target: str, cwd: str | None) -> None:
    """Write it as a session of an agent whose format is not pi's."""
    from sessiontree.export.handover import hand_over, resume_command

    if found.agent == target:
        output.fail(f"This session already belongs to {target}: sessiontree open {found.id}")
    source = found.agent or scope.agent_at(found.path)
    with open_target(found, scope) as view:
        report = hand_over(view, target, source_agent=source, cwd=cwd)
    _tell(target, report.session_id, report.path, report.lines())
    command = resume_command(report)
    if command is not None:
        output.write_line(("  " + command, "dim"))


def _import(found: Target, target: str, cwd: str | None) -> None:
    """Another agent's session: a conversion into our own formats is an import."""
    from sessiontree.importers.imports import import_session

    report = import_session(found.path, agent=found.agent, profile=target, cwd=cwd)
    _tell(target, report.session_id, report.path, report.conversion.lines())


def _tell(target: str, session_id: str, path: str, notes: list[str]) -> None:
    output.write_line("Converted for ", (target, "bold"), f": {session_id}")
    output.write_line((f"  {tables.short_path(path)}", "dim"))
    output.write_notes(notes)
