"""``doctor`` and ``gc``: find and repair damage, remove what no session needs."""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter
from datetime import UTC, datetime, timedelta

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import Count, Scope, with_scope
from sessiontree.errors import PersistenceError
from sessiontree.maintenance.checkup import Checkup, Finding, check_profile, repair_findings
from sessiontree.maintenance.gc import Garbage, GarbageReport, find_garbage, remove_garbage
from sessiontree.stores.files.folders import walk_files
from sessiontree.stores.files.trash import TrashItem, delete_forever, list_trash

_SHOWN = 10


# -- doctor ----------------------------------------------------------------------------------------


@click.command("doctor", short_help="Check sessions for damage; repair it.")
@click.option("--repair", is_flag=True, help="Repair what can be repaired, after a backup.")
@click.option("--deep", is_flag=True, help="Read and check every blob, too.")
@click.option(
    "--secrets", is_flag=True, help="Look for passwords and keys in sessions and artifacts, too."
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Show every finding, not just the first of each kind."
)
@click.option("--json", "as_json", is_flag=True, help="Print all findings as JSON.")
@with_scope
def doctor_command(
    scope: Scope, repair: bool, deep: bool, secrets: bool, verbose: bool, as_json: bool
) -> int:
    """Check everything that a profile keeps, and show each problem with its fix.

    Checks every session (damaged lines, lost headers, broken trees), unanswered drafts, leftovers
    of crashes, missing blobs, the catalogue and the prompt history. With --secrets it also looks
    for passwords and keys in sessions and their artifacts. Exits with 1 if it finds damage or a
    secret. Without --repair it changes nothing.

    \b
    Examples:
      sessiontree doctor
      sessiontree doctor --repair
      sessiontree doctor --secrets --profile omp
    """
    with output.Progress("Checking session") as progress:
        checkup = check_profile(
            scope.profile,
            session_dir=scope.session_dir,
            deep=deep,
            secrets=secrets,
            on_progress=progress,
        )
    if repair:
        return _repair(checkup, scope, verbose, as_json)
    if as_json:
        output.write_json(_to_wire(checkup))
    else:
        _write_findings(checkup.findings, verbose)
        _write_summary(checkup)
    has_secrets = any(finding.kind == "secret" for finding in checkup.findings)
    return output.FAILURE if checkup.problems or has_secrets else output.OK


def _write_findings(findings: list[Finding], verbose: bool) -> None:
    """Write the findings by kind, problems first, a few of each kind."""
    counts = Counter(finding.kind for finding in findings)
    kinds = sorted(
        counts, key=lambda kind: not any(f.is_problem for f in findings if f.kind == kind)
    )
    for kind in kinds:
        same = [finding for finding in findings if finding.kind == kind]
        style = "bold red" if same[0].is_problem else "bold"
        output.write_line((_word_kind(kind, counts[kind]), style))
        shown = same if verbose else same[:_SHOWN]
        for finding in shown:
            output.write_line("  ", tables.short_path(finding.path))
            if kind != "not private":  # its heading has said it
                output.write_line((f"    {finding.text}", "dim"))
        if len(shown) < len(same):
            output.write_note((f"  {len(same) - len(shown):,} more (--verbose)", "dim"))


def _word_kind(kind: str, count: int) -> str:
    if kind == "not private":
        subject = "1 file is" if count == 1 else f"{count:,} files are"
        return f"{subject} readable by other users. Fix: sessiontree doctor --repair"
    return f"{kind} ({count})"


def _write_summary(checkup: Checkup) -> None:
    looked = tables.plural(checkup.sessions, "session")
    problems = checkup.problems
    if not problems:
        output.write_line((f"Checked {looked}: no damage found", "green"))
        return
    output.write_line((f"Checked {looked}: {tables.plural(len(problems), 'problem')}", "red"))
    repairable = sum(finding.can_be_repaired for finding in problems)
    if repairable:
        output.write_note(
            f"{repairable} can be repaired (a backup is kept): sessiontree doctor --repair"
        )


def _repair(checkup: Checkup, scope: Scope, verbose: bool, as_json: bool) -> int:
    report = repair_findings(checkup.findings, scope.profile)
    left = [finding for finding in checkup.findings if _stays(finding)]
    if as_json:
        output.write_json(
            {
                "backup": report.backup_dir,
                "repaired": [_finding_wire(finding) for finding in report.repaired],
                "failed": [
                    {**_finding_wire(finding), "reason": reason}
                    for finding, reason in report.failed
                ],
                "left": [_finding_wire(finding) for finding in left],
                "warnings": report.warnings,
            }
        )
    else:
        for finding in report.repaired:
            output.write_line(("repaired ", "green"), tables.short_path(finding.path))
            output.write_line((f"    {finding.text}", "dim"))
        for finding, reason in report.failed:
            output.write_message(("not repaired ", "red"), f"{finding.path}: {reason}")
        for warning in report.warnings:
            output.write_message((f"warning: {warning}", "yellow"))
        if not report.repaired and not report.failed:
            output.write_line("Nothing to repair")
    if report.backup_dir is not None:
        output.write_note(f"Backup: {tables.short_path(report.backup_dir)}")
    if left and not as_json:
        _write_findings(left, verbose)
    is_sound = not report.failed and all(finding.kind == "not searched" for finding in left)
    return output.OK if is_sound else output.FAILURE


def _stays(finding: Finding) -> bool:
    """Whether only the user can act on this: damage without a repair, or a secret."""
    if finding.is_problem:
        return not finding.can_be_repaired
    return finding.kind in ("secret", "not searched")


def _to_wire(checkup: Checkup) -> dict[str, object]:
    return {
        "sessions": checkup.sessions,
        "findings": [_finding_wire(finding) for finding in checkup.findings],
    }


def _finding_wire(finding: Finding) -> dict[str, object]:
    return {
        "kind": finding.kind,
        "path": finding.path,
        "text": finding.text,
        "problem": finding.is_problem,
        "repairable": finding.can_be_repaired,
    }


# -- gc --------------------------------------------------------------------------------------------


@click.command("gc", short_help="Remove files that no session needs.")
@click.option("-y", "--yes", is_flag=True, help="Remove them; without this, gc only lists them.")
@click.option(
    "--trash", "trash_days", metavar="DAYS", type=Count(),
    help="Also delete what has been in the trash for more than DAYS days.",
)  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Show every file, not just the sums.")
@with_scope
def gc_command(scope: Scope, yes: bool, trash_days: int | None, verbose: bool) -> int:
    """List, or with --yes remove, blobs that no session uses and leftovers of crashes.

    gc keeps a blob that is younger than an hour, or that a session, draft, trashed session or
    quarantined file of any profile uses. It knows sessions in folders of their own if they were
    started with --session-dir; otherwise name the folder with --session-dir now.

    \b
    Examples:
      sessiontree gc                 list only
      sessiontree gc --yes           remove
      sessiontree gc --trash 30      include what has been in the trash for 30 days
    """
    folders = [scope.session_dir] if scope.session_dir else []
    trash = list_trash(scope.profile)
    expired = _expired(trash, trash_days)
    report = find_garbage(scope.profile, folders=folders)
    if not report.garbage and not expired:
        output.write_line("Nothing to remove")
    else:
        _write_garbage(report.garbage, verbose)
        _write_trashed(expired)
    _write_kept(report.referenced, report.young, len(trash) - len(expired))
    if not report.garbage and not expired:
        return output.OK
    if not yes:
        size = report.size + sum(size for _, size in expired)
        command = _same_command(scope, trash_days, verbose)
        output.write_note(f"To remove {tables.size_text(size)}: {command}")
        return output.OK
    return _remove(report, expired)


def _remove(report: GarbageReport, expired: list[tuple[TrashItem, int]]) -> int:
    removal = remove_garbage(report)
    count, size, failed = len(removal.removed), removal.size, list(removal.failed)
    for item, item_size in expired:
        try:
            delete_forever(item)
        except PersistenceError as error:
            failed.append(error)
        else:
            count += 1
            size += item_size
    output.write_line(f"Removed {tables.plural(count, 'item')}, {tables.size_text(size)}")
    for reason in failed:
        output.write_message((f"Not removed: {reason}", "yellow"))
    return output.FAILURE if failed else output.OK


def _same_command(scope: Scope, trash_days: int | None, verbose: bool) -> str:
    """The same command with ``--yes``."""
    words = ["sessiontree"]
    if scope.is_profile_named:
        words += ["--profile", scope.profile.name]
    words.append("gc")
    if scope.session_dir is not None:
        words += ["--session-dir", scope.session_dir]
    if trash_days is not None:
        words += ["--trash", str(trash_days)]
    if verbose:
        words.append("--verbose")
    return shlex.join([*words, "--yes"])


def _write_trashed(expired: list[tuple[TrashItem, int]]) -> None:
    for item, size in expired:
        output.write_line(
            "trashed session  ",
            (item.title or item.session_id, "bold"),
            f"  {tables.size_text(size)}",
        )


def _write_garbage(garbage: list[Garbage], verbose: bool) -> None:
    for kind in dict.fromkeys(piece.kind for piece in garbage):
        same = [piece for piece in garbage if piece.kind == kind]
        size = tables.size_text(sum(piece.size for piece in same))
        output.write_line((tables.plural(len(same), kind), "bold"), f"  {size}")
        if verbose:
            for piece in same:
                output.write_line((f"  {tables.short_path(piece.path)}", "dim"))


def _write_kept(referenced: int, young: int, trashed: int) -> None:
    notes = []
    if referenced:
        notes.append(f"{tables.plural(referenced, 'blob')} in use")
    if young:
        notes.append(f"{tables.plural(young, 'blob')} younger than an hour")
    if trashed:
        notes.append(f"{tables.plural(trashed, 'session')} in the trash: --trash DAYS")
    if notes:
        output.write_note(("Kept: " + " · ".join(notes), "dim"))


def _expired(items: list[TrashItem], days: int | None) -> list[tuple[TrashItem, int]]:
    """What has been in the trash for more than these days, each with the bytes it takes."""
    if days is None:
        return []
    limit = datetime.now(UTC) - timedelta(days=days)
    return [(item, _size_of(item)) for item in items if _removed_at(item) <= limit]


def _size_of(item: TrashItem) -> int:
    """The bytes of all that the item holds; what can't be looked at counts as nothing."""
    size = 0
    with contextlib.suppress(OSError, PersistenceError):
        for file in walk_files(item.folder, follow_links=False):
            with contextlib.suppress(OSError):
                size += file.stat(follow_symlinks=False).st_size
    return size


def _removed_at(item: TrashItem) -> datetime:
    try:
        return datetime.fromisoformat(item.removed_at).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.now(UTC)  # when unsure it has just been removed, so it stays
