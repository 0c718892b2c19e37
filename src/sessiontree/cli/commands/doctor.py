"""``doctor``: find damage in what a profile keeps, and repair it."""

from __future__ import annotations

from collections import Counter

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import require_files, with_scope
from sessiontree.maintenance.checkup import Checkup, Finding, check_profile, repair_findings
from sessiontree.maintenance.store_checkup import check_store
from sessiontree.scope import Scope

_SHOWN = 10


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
    if repair:
        require_files(scope, "doctor --repair", "Without --repair doctor checks any store.")
    with output.Progress("Checking sessions") as progress:
        if scope.files is None:
            checkup = check_store(scope.store, secrets=secrets, on_progress=progress)
        else:
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
    with output.Progress("Repairing") as progress:
        report = repair_findings(checkup.findings, scope.profile, on_progress=progress)
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
