"""``import``: take in sessions of other agents, and bundles."""

from __future__ import annotations

import os
import shlex
from typing import Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import ForeignAgentName, scope_words, with_scope
from sessiontree.scope import Scope


@click.command("import", short_help="Import sessions of other agents, or a bundle.")
@click.argument("sources", nargs=-1, metavar="[ID|FILE]...")
@click.option(
    "-a", "--all", "everything", is_flag=True, help="Import every session of every other agent."
)
@click.option("--from", "agent", metavar="AGENT", type=ForeignAgentName(),
              help="Import only from this agent, such as claude-code or opencode.")  # fmt: skip
@click.option("--cwd", metavar="DIR", type=click.Path(file_okay=False),
              help="Import into this project; by default their own folder.")  # fmt: skip
@with_scope
def import_command(
    scope: Scope, sources: tuple[str, ...], everything: bool, agent: str | None, cwd: str | None
) -> None:
    """Import sessions of other agents (Claude Code, Codex, OpenCode and others), or bundles (.zip).

    Importing a session again adds its new messages. Import never changes the source.

    \b
    Examples:
      sessiontree ls --all-agents          list what you can import
      sessiontree import 5f2c81d0          one session, by ID
      sessiontree import --all             all of them
      sessiontree import session.zip       a bundle
    """
    if everything == bool(sources):
        raise click.UsageError("Name what to import, or use --all.", click.get_current_context())
    if everything:
        if cwd is not None:
            raise click.UsageError("--cwd needs the IDs of the sessions to import.")
        _import_all(scope, agent)
        return
    project = os.path.abspath(os.path.expanduser(cwd)) if cwd else None
    for source in sources:
        if source.lower().endswith(".zip"):
            _import_bundle(source, scope, project)
        else:
            _import_one(source, scope, agent, project)


def _import_one(source: str, scope: Scope, agent: Any, project: str | None) -> None:
    from sessiontree.errors import SessionNotFoundError
    from sessiontree.importers.foreign_listing import resolve_foreign
    from sessiontree.importers.imports import import_session

    try:
        found = resolve_foreign(source, agent)
    except SessionNotFoundError:
        # no session has this name; a file in this folder may have it
        if not os.path.isfile(source):
            if agent is None:
                _explain_own(source, scope)
            raise
        found = resolve_foreign(os.path.abspath(source), agent)
    # the content says which agent wrote the file; its name only hints at it
    report = import_session(
        found.path,
        agent=agent,
        cwd=project,
        storage=scope.store,
    )
    if report.is_unchanged:
        output.write_line("Already up to date: ", (report.session_id, "bold"))
    else:
        done = "Imported " if report.is_new else "Brought up to date: "
        told = f"  {tables.plural(report.added, 'entry')} added"
        if report.changed:
            told += f", {report.changed:,} changed"
        output.write_line(done, (report.session_id, "bold"), told)
        output.write_notes(report.conversion.lines())
    _write_whereabouts(report.path, report.session_id, scope, project)


def _explain_own(value: str, scope: Scope) -> None:
    """End the command if this is a session that needs no import: of Sessiontree or pi's family."""
    from sessiontree.cli.resuming import resume_words
    from sessiontree.discovery.adapters import OWN_AGENTS
    from sessiontree.discovery.agent_sessions import find_agent_session
    from sessiontree.errors import AmbiguousSessionError, SessionNotFoundError
    from sessiontree.profiles import DEFAULT_PROFILE, get_profile

    try:
        found = find_agent_session(value, OWN_AGENTS)
    except (AmbiguousSessionError, SessionNotFoundError):
        return
    here = resume_words(found.id, scope, get_profile(found.agent))
    there = f", or in {found.agent} with sessiontree open {found.id}"
    output.fail(
        f'"{value}" is a session of {found.agent} and needs no import. '
        f"Continue it with {here}{there if found.agent != DEFAULT_PROFILE else ''}"
    )


def _import_all(scope: Scope, agent: Any) -> None:
    from sessiontree.importers.imports import import_all

    with output.Progress("Importing sessions") as progress:
        report = import_all(agent, storage=scope.store, on_progress=progress)
    new = sum(1 for each in report.imported if each.is_new)
    same = sum(1 for each in report.imported if each.is_unchanged)
    newer = len(report.imported) - new - same
    output.write_line(
        f"Imported {tables.plural(new, 'session')}, "
        f"{newer:,} brought up to date, {same:,} unchanged"
    )
    if report.empty:
        files = tables.plural(report.empty, "file")
        output.write_note((f"Skipped {files} without messages", "dim"))
    for error in (*report.skipped, *report.failed):
        output.write_message((f"Not imported: {error}", "yellow"))
    if report.failed:
        output.fail(f"{tables.plural(len(report.failed), 'session')} could not be imported")


def _import_bundle(source: str, scope: Scope, project: str | None) -> None:
    from sessiontree.export.bundle_import import import_bundle

    report = import_bundle(source, cwd=project, storage=scope.store)
    done = "Imported " if report.is_new else "Already here: "
    output.write_line(done, (report.session_id, "bold"))
    output.write_notes(report.notes)
    _write_whereabouts(report.session_path, report.session_id, scope, project)


def _write_whereabouts(path: str, session_id: str, scope: Scope, wanted: str | None) -> None:
    """Say how to continue what was imported; ``wanted`` is the project that was asked for."""
    from sessiontree.cli.resuming import resume_command
    from sessiontree.discovery.paths import same_cwd

    info = scope.store.get_info(path)
    cwd = info.cwd if info is not None else scope.cwd
    where = tables.short_path(cwd)
    if wanted is not None and not same_cwd(cwd, wanted):
        move = _mv_command(session_id, wanted, scope)
        output.write_message(
            (f"--cwd is for new ones; this one stays in {where}; to move it: {move}", "yellow")
        )
    if os.path.isdir(cwd):
        command = resume_command(session_id, cwd, scope)
        output.write_note((f"Resume with: {command}", "dim"))
    elif wanted is None:
        move = _mv_command(session_id, ".", scope)
        output.write_note((f"There is no {where} here; to move it to this folder: {move}", "dim"))


def _mv_command(session_id: str, folder: str, scope: Scope) -> str:
    return shlex.join(["sessiontree", *scope_words(scope), "mv", session_id, folder])
