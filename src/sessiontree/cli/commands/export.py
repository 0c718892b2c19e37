"""``export``, ``import`` and ``convert``: sessions out of, into and between formats.

Thin: what is written how is in ``sessiontree.export`` and ``sessiontree.importers``.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import Scope, with_scope
from sessiontree.cli.resolve import (
    Target,
    find_target,
    naming_the_repair,
    open_target,
    session_argument,
)
from sessiontree.export import BUNDLE, FORMATS, choose_format
from sessiontree.profiles import PROFILE_NAMES

# -- export ----------------------------------------------------------------------------------------


@click.command("export", short_help="Write a session as Markdown, JSON or a bundle.")
@session_argument()
@click.option("-o", "--output", "file", metavar="FILE", type=click.Path(dir_okay=False),
              help="Write to FILE; .md, .json or .zip selects the format.")  # fmt: skip
@click.option("-f", "--format", "kind", metavar="KIND", type=click.Choice(FORMATS),
              help="markdown (default), json, or bundle (a full .zip).")  # fmt: skip
@click.option("--bundle", is_flag=True, help="Same as --format bundle.")
@click.option("--at", metavar="ENTRY", help="Export the branch that ends at this entry (Markdown).")
@click.option("--redact", is_flag=True, help="Replace likely passwords and keys.")
@click.option("--no-thinking", is_flag=True, help="Leave out the model's thinking (Markdown).")
@click.option("--no-tools", is_flag=True, help="Leave out tool calls and their results (Markdown).")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@with_scope
def export_command(
    scope: Scope,
    session: str | None,
    file: str | None,
    kind: str | None,
    bundle: bool,
    at: str | None,
    redact: bool,
    no_thinking: bool,
    no_tools: bool,
    force: bool,
) -> None:
    """Write a session to standard output or a file: the one with this ID, or this project's newest.

    Markdown shows the active branch, for people. JSON holds all branches, for programs. A bundle
    holds everything; import it elsewhere with "sessiontree import FILE.zip".

    \b
    Examples:
      sessiontree export 0199a3f2 > session.md
      sessiontree export 0199a3f2 -o session.json
      sessiontree export 0199a3f2 --redact -o public.md
      sessiontree export 0199a3f2 --bundle -o session.zip
    """
    file = None if file == "-" else file
    if bundle and kind not in (None, BUNDLE):
        raise click.UsageError("--bundle and --format contradict each other.")
    try:
        chosen = choose_format(file, BUNDLE if bundle else kind)
    except ValueError as error:
        output.fail(str(error), output.USAGE)
    if file is not None and os.path.exists(file) and not force:
        output.fail(f"{file} already exists. Use --force to overwrite it.")
    target = find_target(session, scope, foreign=chosen != BUNDLE)
    from sessiontree.export.redact import Redactor

    redactor = Redactor() if redact else None
    if chosen == BUNDLE:
        _export_bundle(target, scope, file, redactor, force)
    else:
        _export_text(target, scope, file, at, chosen, redactor, no_thinking, no_tools)
    if redactor is not None:
        _report_redaction(redactor)


def _export_text(
    target: Target,
    scope: Scope,
    file: str | None,
    at: str | None,
    chosen: str,
    redactor: Any,
    no_thinking: bool,
    no_tools: bool,
) -> None:
    with open_target(target, scope) as view:
        pieces = _render(view.at(at) if at else view, chosen, redactor, no_thinking, no_tools)
        if file is None:
            output.write_document(pieces, is_json=chosen == "json")
        else:
            _write_file(file, pieces)
            output.write_line("Wrote ", (tables.short_path(os.path.abspath(file)), "bold"))


def _render(
    view: Any, kind: str, redactor: Any, no_thinking: bool, no_tools: bool
) -> Iterator[str]:
    if kind == "json":
        from sessiontree.export.documents import render_json

        return render_json(view, redactor=redactor)
    from sessiontree.export.documents import MarkdownOptions, render_markdown

    options = MarkdownOptions(thinking=not no_thinking, tools=not no_tools)
    return render_markdown(view, options=options, redactor=redactor)


def _write_file(file: str, pieces: Iterable[str]) -> None:
    from sessiontree.storage.file import FileSessionStorage

    # The person named it: if it is a link, what it leads to is meant.
    path = os.path.realpath(file)
    if not os.path.isdir(os.path.dirname(path)):
        output.fail(f"{os.path.dirname(path)}: no such folder")
    if os.path.exists(path) and not os.path.isfile(path):
        output.fail(f"{file} is not a regular file. Leave out -o to write to standard output.")
    chunks = (piece.encode("utf-8", "replace") for piece in pieces)
    FileSessionStorage().write_atomic(path, chunks)


def _report_redaction(redactor: Any) -> None:
    total = sum(redactor.counts.values())
    kinds = ", ".join(f"{kind} ({count})" for kind, count in redactor.counts.most_common())
    if total:
        output.write_message(f"Redacted {tables.plural(total, 'secret')}: {kinds}")
    output.write_message("Read it before you publish it: redaction can miss secrets.")


def _export_bundle(
    target: Target, scope: Scope, file: str | None, redactor: Any, force: bool
) -> None:
    if file is None:
        raise click.UsageError("A bundle needs a file: -o FILE.zip")
    from sessiontree.export.bundle_export import export_bundle

    with naming_the_repair(target, scope):
        report = export_bundle(
            target.path, file, profile=scope.profile, overwrite=force, redactor=redactor
        )
    output.write_line("Wrote ", (tables.short_path(os.path.abspath(file)), "bold"))
    _write_notes(report.notes)


# -- import ----------------------------------------------------------------------------------------


@click.command("import", short_help="Import sessions of Claude Code and Codex, or a bundle.")
@click.argument("sources", nargs=-1, metavar="[ID|FILE]...")
@click.option(
    "-a", "--all", "everything", is_flag=True, help="Import every session of Claude Code and Codex."
)
@click.option("--from", "agent", metavar="AGENT", type=click.Choice(["claude-code", "codex"]),
              help="Import only from claude-code or codex.")  # fmt: skip
@click.option("--cwd", metavar="DIR", type=click.Path(file_okay=False),
              help="Import into this project; by default their own folder.")  # fmt: skip
@with_scope
def import_command(
    scope: Scope, sources: tuple[str, ...], everything: bool, agent: str | None, cwd: str | None
) -> None:
    """Import sessions of Claude Code and Codex, or bundles (.zip).

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
        # No session is called so; a file in this folder may be.
        if not os.path.isfile(source):
            raise
        found = resolve_foreign(os.path.abspath(source), agent)
    # The file says whose it is; a name only guesses.
    report = import_session(
        found.path,
        agent=agent,
        profile=scope.profile,
        cwd=project,
        session_dir=scope.session_dir,
    )
    if report.is_unchanged:
        output.write_line("Already up to date: ", (report.session_id, "bold"))
    else:
        done = "Imported " if report.is_new else "Brought up to date: "
        told = f"  {tables.plural(report.added, 'entry')} added"
        if report.changed:
            told += f", {report.changed:,} changed"
        output.write_line(done, (report.session_id, "bold"), told)
        _write_notes(report.conversion.lines())
    _write_whereabouts(report.path, report.session_id, scope, project)


def _import_all(scope: Scope, agent: Any) -> None:
    from sessiontree.importers.imports import import_all

    with output.Progress("Importing session") as progress:
        report = import_all(
            agent, profile=scope.profile, session_dir=scope.session_dir, on_progress=progress
        )
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

    report = import_bundle(
        source, cwd=project, profile=scope.profile, session_dir=scope.session_dir
    )
    done = "Imported " if report.is_new else "Already here: "
    output.write_line(done, (report.session_id, "bold"))
    _write_notes(report.notes)
    _write_whereabouts(report.session_path, report.session_id, scope, project)


# -- convert ---------------------------------------------------------------------------------------


@click.command("convert", short_help="Copy a session into another profile's format.")
@session_argument(required=True)
@click.option("--to", "target", metavar="PROFILE", required=True, type=click.Choice(PROFILE_NAMES),
              help="Copy for this agent: sessiontree, omp, xcsh or pi.")  # fmt: skip
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
    report = convert_session(found.path, target, cwd=cwd, source_profile=None)
    output.write_line("Converted for ", (target, "bold"), f": {report.session_id}")
    output.write_line((f"  {tables.short_path(report.path)}", "dim"))
    _write_notes(report.lines())


# -- reports -----------------------------------------------------------------------------------


def _write_notes(notes: Iterable[str]) -> None:
    for line in notes:
        output.write_message((f"note: {line}", "dim"))


def _write_whereabouts(path: str, session_id: str, scope: Scope, wanted: str | None) -> None:
    """How to go on with what was brought in; ``wanted`` is the project it was to belong to."""
    from sessiontree.cli.start import resume_command
    from sessiontree.discovery.heads import read_head
    from sessiontree.discovery.paths import same_cwd
    from sessiontree.storage.file import FileSessionStorage

    head = read_head(FileSessionStorage(), path)
    cwd = head.cwd if head is not None else scope.cwd
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
    words = ["sessiontree"]
    if scope.is_profile_named:
        words += ["--profile", scope.profile.name]
    if scope.session_dir is not None:
        words += ["--session-dir", scope.session_dir]
    return shlex.join([*words, "mv", session_id, folder])
