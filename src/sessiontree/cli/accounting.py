"""``usage``: tokens and money, by session, model, project or day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.scope import Scope, with_scope
from sessiontree.cli.tables import Column
from sessiontree.cli.targets import Target, find_target, open_target, session_argument
from sessiontree.core.context import iter_messages
from sessiontree.core.usage import Usage, model_ref_of, usage_of

_GROUPS = ("session", "model", "project", "day")


@click.command("usage", short_help="Tokens and cost, by session, model or day.")
@session_argument()
@click.option(
    "--by",
    "group",
    metavar="WHAT",
    type=click.Choice(_GROUPS),
    help="Add up by session, model, project or day.",
)
@click.option("-a", "--all", "all_projects", is_flag=True, help="The sessions of all projects.")
@click.option(
    "--since", metavar="DATE", type=click.DateTime(["%Y-%m-%d"]), help="Only from this day on."
)
@click.option("--json", "as_json", is_flag=True, help="A JSON array, for programs.")
@with_scope
def usage_command(
    scope: Scope,
    session: str | None,
    group: str | None,
    all_projects: bool,
    since: datetime | None,
    as_json: bool,
) -> None:
    """Add up what the models' answers used, all branches included: what was paid was paid.

    Of one session by model; of this project, or with --all of all projects, by session.

    \b
    Examples:
      sessiontree usage
      sessiontree usage 0199a3f2
      sessiontree usage --all --by day --since 2026-02-01
      sessiontree usage --all --by model --json
    """
    by = group or ("model" if session else "session")
    start = since.astimezone(UTC) if since else None
    sums: dict[str, Usage] = {}
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    for target, info in _targets(session, scope, all_projects):
        with open_target(target, scope) as view:
            for entry, message in iter_messages(view.tree.entries):
                used = usage_of(message)
                moment = _moment(entry.timestamp)
                if used is None or (start is not None and (moment is None or moment < start)):
                    continue
                key = _key(by, view, message, moment)
                sums[key] = sums.get(key, Usage()) + used
                counts[key] = counts.get(key, 0) + 1
                if by == "session":
                    names[key] = tables.session_name(info) if info else view.name or ""
    rows = _ordered(by, sums)
    if as_json:
        output.write_json(
            [_to_wire(by, key, sums[key], counts[key], names.get(key)) for key in rows]
        )
        return
    if not rows:
        output.write_line("No usage found")
        return
    _write(by, rows, sums, counts, names)
    if not session and not all_projects and scope.session_dir is None:
        output.write_note(("Not shown: other projects: --all", "dim"))


def _targets(session: str | None, scope: Scope, everywhere: bool) -> Iterator[tuple[Target, Any]]:
    if session is not None:
        yield find_target(session, scope, foreign=True), None
        return
    from sessiontree.discovery.listing import list_all_sessions, list_sessions

    found = (
        list_all_sessions(profile=scope.profile)
        if everywhere and scope.session_dir is None
        else list_sessions(scope.cwd, scope.session_dir, profile=scope.profile)
    )
    for info in found:
        yield Target(info.path, info.id), info


def _key(by: str, view: Any, message: Any, moment: datetime | None) -> str:
    match by:
        case "session":
            return str(view.id)
        case "project":
            return str(view.cwd) or "?"
        case "day":
            return f"{moment.astimezone():%Y-%m-%d}" if moment else "?"
        case _:
            return model_ref_of(message) or "unknown"


def _ordered(by: str, sums: dict[str, Usage]) -> list[str]:
    """Days by date, sessions as listed (newest first), the rest by what they cost."""
    if by == "day":
        return sorted(sums, reverse=True)
    if by == "session":
        return list(sums)
    return sorted(sums, key=lambda key: (sums[key].cost, sums[key].total_tokens), reverse=True)


def _write(
    by: str,
    rows: list[str],
    sums: dict[str, Usage],
    counts: dict[str, int],
    names: dict[str, str],
) -> None:
    short = tables.shorten_ids(rows) if by == "session" else {}
    columns = [Column(by.upper(), "yellow", is_flexible=by != "session")]
    if by == "session":
        columns.append(Column("TITLE", "bold", is_flexible=True))
    heads = ("ANSWERS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "COST")
    columns += [Column(head, is_number=True) for head in heads]

    def cells(used: Usage, count: int) -> list[str]:
        numbers = (count, used.input, used.output, used.cache_read, used.cache_write)
        return [*(f"{number:,}" for number in numbers), f"${used.cost:,.2f}"]

    lines = []
    for key in rows:
        label = tables.short_path(key) if by == "project" else short.get(key, key)
        title = [names.get(key, "")] if by == "session" else []
        lines.append([label, *title, *cells(sums[key], counts[key])])
    if len(rows) > 1:
        total = sum((sums[key] for key in rows), Usage())
        blank = [""] if by == "session" else []
        lines.append(["total", *blank, *cells(total, sum(counts.values()))])
    tables.write_table(columns, lines)


def _to_wire(by: str, key: str, used: Usage, count: int, name: str | None) -> dict[str, Any]:
    wire: dict[str, Any] = {by: key}
    if by == "session":
        wire["title"] = name
    return wire | {
        "answers": count,
        "input": used.input,
        "output": used.output,
        "cacheRead": used.cache_read,
        "cacheWrite": used.cache_write,
        "totalTokens": used.total_tokens,
        "cost": used.cost,
    }


def _moment(timestamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(timestamp).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
