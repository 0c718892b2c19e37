"""``keep``: copies of every agent's sessions, since agents delete them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, get_args

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import Count, agent_option, require_files, with_scope
from sessiontree.clock import now_s
from sessiontree.scope import Scope

if TYPE_CHECKING:
    from sessiontree.maintenance.keeping import Expiring, KeepReport, KeepStatus
    from sessiontree.maintenance.schedules import Kind, Plan

_SCHEDULES = ("systemd", "launchd", "cron", "hook")
_MOST_SHOWN = 20


@click.command("keep", short_help="Keep copies of all agents' sessions.")
@agent_option
@click.option(
    "--status", "is_status", is_flag=True, help="Show what is kept, and what agents will delete."
)
@click.option(
    "--restore", "restored", metavar="ID", help="Put a session back where its agent finds it."
)
@click.option(
    "--version",
    "version",
    metavar="N",
    default=0,
    type=Count(),
    help="With --restore: undo the last N times that its agent rewrote the file.",
)
@click.option("--forget", "forgotten", metavar="ID", help="Remove the copy of a session for good.")
@click.option(
    "--install",
    "installed",
    type=click.Choice(_SCHEDULES),
    metavar="HOW",
    help="Run it each hour: systemd, launchd or cron; or hook: after each session of Claude Code.",
)
@click.option("--uninstall", "is_uninstall", is_flag=True, help="Stop running it.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_scope
def keep_command(
    scope: Scope,
    agent: str | None,
    is_status: bool,
    restored: str | None,
    version: int,
    forgotten: str | None,
    installed: Kind | None,
    is_uninstall: bool,
    yes: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Copy new and changed sessions of every agent to Sessiontree's own folder.

    Claude Code deletes sessions after 30 days. Kept sessions stay in ls --all-agents, search,
    show, export, import and usage. The copies are compressed, and only what is new is added.

    \b
    Examples:
      sessiontree keep                     copy what is new
      sessiontree keep --status            what is kept, and what would be deleted next week
      sessiontree keep --restore 5f2c81d0  put a deleted session back
      sessiontree keep --install systemd   run it each hour
    """
    chosen = [bool(each) for each in (is_status, restored, forgotten, installed, is_uninstall)]
    if sum(chosen) > 1:
        raise click.UsageError(
            "Choose one of --status, --restore, --forget, --install, --uninstall."
        )
    if version and not restored:
        raise click.UsageError("--version goes with --restore.")
    require_files(scope, "keep", "A database keeps its sessions by itself.")
    agents = agent or (scope.profile.name if scope.is_profile_named else "all")
    if is_status:
        _show_status(agents, as_json)
    elif restored:
        _restore(restored, version, as_json)
    elif forgotten:
        _forget(forgotten, yes)
    elif installed:
        _install(installed, yes)
    elif is_uninstall:
        _uninstall(yes)
    else:
        _keep(agents, quiet, as_json)


# -- keeping ---------------------------------------------------------------------------------------


def _keep(agents: str, quiet: bool, as_json: bool) -> None:
    from sessiontree.maintenance.keeping import keep_sessions

    with output.Progress("Keeping sessions") as progress:
        report = keep_sessions(agents, on_progress=progress)
    if as_json:
        output.write_json(_report_wire(report))
    elif not quiet:
        _write_report(report)
    for file in report.unreadable:
        output.write_message(
            (f"Not kept: {tables.short_path(file.path)} ({file.reason})", "yellow")
        )
    if report.unreadable:
        sys.exit(output.FAILURE)


def _write_report(report: KeepReport) -> None:
    if not report.changed:
        output.write_line(f"Nothing new: {tables.plural(report.checked, 'file')} kept")
    else:
        parts = [
            f"{count:,} {word}"
            for count, word in (
                (report.new, "new"),
                (report.grown, "grown"),
                (report.rewritten, "rewritten"),
            )
            if count
        ]
        size = tables.size_text(report.written_bytes)
        output.write_line(
            f"Kept {', '.join(parts)} of {tables.plural(report.checked, 'file')}; {size} added"
        )
    if report.expiring:
        many = tables.plural(report.expiring, "session")
        output.write_note(
            (f"{many} would be deleted within a week: sessiontree keep --status", "dim")
        )


def _report_wire(report: KeepReport) -> dict[str, Any]:
    return {
        "checked": report.checked,
        "new": report.new,
        "grown": report.grown,
        "rewritten": report.rewritten,
        "bytesRead": report.read_bytes,
        "bytesAdded": report.written_bytes,
        "expiring": report.expiring,
        "unreadable": [{"path": each.path, "reason": each.reason} for each in report.unreadable],
    }


# -- status ----------------------------------------------------------------------------------------


def _show_status(agents: str, as_json: bool) -> None:
    from sessiontree.maintenance.keeping import read_status
    from sessiontree.maintenance.schedules import find_installed

    status = read_status(agents)
    schedules = find_installed()
    if as_json:
        output.write_json(_status_wire(status, list(schedules)))
        return
    sizes = f"{tables.size_text(status.content_bytes)} in {tables.size_text(status.stored_bytes)}"
    output.write_line(
        (tables.plural(status.sessions, "session"), "bold"),
        f" kept: {sizes} on disk, in {tables.short_path(status.folder)}",
    )
    if status.gone:
        output.write_line(
            f"{status.gone:,} of them are deleted: sessiontree keep --restore ID puts one back"
        )
    if status.versions:
        output.write_line(f"{tables.plural(status.versions, 'earlier version')} of rewritten files")
    if status.unkept:
        output.write_line(
            f"{tables.plural(status.unkept, 'session')} new or changed since: sessiontree keep"
        )
    how = ", ".join(schedules)
    output.write_line(
        f"Runs by itself: {how}"
        if how
        else "Runs only when you start it: sessiontree keep --install HOW"
    )
    _write_expiring(status)


def _write_expiring(status: KeepStatus) -> None:
    if not status.expiring:
        output.write_line("No agent deletes a session within a week")
        return
    kept = sum(1 for each in status.expiring if each.is_kept)
    many = tables.plural(len(status.expiring), "session")
    output.write_line(f"Agents delete {many} within a week; {kept:,} of them kept:")
    rows = [_expiring_cells(each) for each in status.expiring[:_MOST_SHOWN]]
    columns = [
        tables.Column("DELETED"),
        tables.Column("AGENT", "magenta"),
        tables.Column("KEPT"),
        tables.Column("TITLE", "bold", is_flexible=True),
    ]
    tables.write_table(columns, rows, is_padded_in_pipe=False)
    if len(status.expiring) > _MOST_SHOWN:
        output.write_note((f"{len(status.expiring) - _MOST_SHOWN:,} more (--json)", "dim"))


def _expiring_cells(each: Expiring) -> list[str]:
    from sessiontree.text.words import clean_line

    days = (each.deleted_at_s - now_s()) / 86_400
    when = "any time" if days <= 0 else "today" if days < 1 else f"in {days:.0f} d"
    name = clean_line(each.title) or os.path.basename(each.stat.path)
    return [when, each.agent.name, "yes" if each.is_kept else "no", name]


def _status_wire(status: KeepStatus, schedules: list[str]) -> dict[str, Any]:
    return {
        "folder": status.folder,
        "sessions": status.sessions,
        "deleted": status.gone,
        "versions": status.versions,
        "unkept": status.unkept,
        "contentBytes": status.content_bytes,
        "storedBytes": status.stored_bytes,
        "lastKeptMs": status.last_ms,
        "schedules": schedules,
        "expiring": [
            {
                "path": each.stat.path,
                "agent": each.agent.name,
                "deletedAt": each.deleted_at_s,
                "kept": each.is_kept,
            }
            for each in status.expiring
        ],
    }


# -- one session -----------------------------------------------------------------------------------


def _restore(value: str, version: int, as_json: bool) -> None:
    from sessiontree.discovery.agent_sessions import find_agent_session
    from sessiontree.maintenance.kept_restoring import restore_session

    info = find_agent_session(value)
    done = restore_session(info.path, version=version)
    if as_json:
        output.write_json({"id": info.id, "written": done.written, "present": done.present})
        return
    if not done.written:
        output.write_line("Already there: ", (tables.short_path(info.path), "bold"))
        return
    output.write_line("Restored: ", (tables.session_name(info), "bold"), f"  {info.id}")
    for path in done.written[:_MOST_SHOWN]:
        output.write_line((f"  {tables.short_path(path)}", "dim"))
    output.write_note((f"Continue it with: sessiontree open {info.id}", "dim"))


def _forget(value: str, yes: bool) -> None:
    from sessiontree.discovery.agent_sessions import find_agent_session
    from sessiontree.discovery.kept.removal import forget_kept

    info = find_agent_session(value)
    name = tables.session_name(info)
    if (
        info.is_kept
        and not yes
        and not output.ask(f"“{name}” exists nowhere else. Remove it? [y/N]")
    ):
        output.fail(
            f"Not removed. To remove it without a question: sessiontree keep --forget {value} --yes"
        )
    count = forget_kept([info.path])
    if not count:
        output.write_line("No copy of it is kept: ", (name, "bold"))
        return
    output.write_line("Copy removed: ", (name, "bold"), f"  {info.id}")
    if not info.is_kept:
        output.write_note(("The next keep copies it again, as long as the original exists", "dim"))


# -- by itself -------------------------------------------------------------------------------------


def _program() -> list[str]:
    """The command line for a timer, with full paths, since a timer has another PATH.

    A hook runs in the project of the session: -P keeps Python from importing what lies there.
    """
    return [sys.executable, "-P", "-m", "sessiontree", "keep", "--quiet"]


def _install(kind: Kind, yes: bool) -> None:
    from sessiontree.maintenance import schedules

    assert get_args(schedules.Kind) == _SCHEDULES
    plan = schedules.plan_install(kind, _program())
    _agree(plan, yes)
    schedules.install(plan, _program())
    output.write_line("Installed. ", plan.text)


def _uninstall(yes: bool) -> None:
    from sessiontree.maintenance import schedules

    kinds = schedules.find_installed()
    if not kinds:
        output.write_line("It does not run by itself: nothing to remove")
    for kind in kinds:
        plan = schedules.plan_uninstall(kind)
        _agree(plan, yes)
        schedules.uninstall(plan)
        output.write_line("Removed. ", plan.text)


def _agree(plan: Plan, yes: bool) -> None:
    for line in plan.lines():
        output.write_message(line)
    if not yes and not output.ask("Do this? [y/N]"):
        output.fail("Nothing was changed. To agree without a question, add --yes")
