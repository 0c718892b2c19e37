"""``usage``: tokens and money, by session, model, project or day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.copied_answers import Families, SeenAnswers
from sessiontree.cli.options import since_option, with_scope
from sessiontree.cli.resolve import Target, find_target, open_target, session_argument
from sessiontree.cli.tables import Column
from sessiontree.core.usage import PAID_TYPES, Usage, paid_model_of, usage_of_entry
from sessiontree.errors import NotASessionError, PersistenceError, SessionNotFoundError
from sessiontree.scope import Scope
from sessiontree.text.words import to_local

_GROUPS = ("session", "model", "project", "day")
# Tokens read from a provider's cache, and written to it, are the last two.
_HEADS = ("ANSWERS", "INPUT", "OUTPUT", "CACHED", "STORED")
_OTHERS = "tools and summaries"
"""What calls of models are counted for that do not say which model it was."""


@click.command("usage", short_help="Show tokens and cost, by session, model or day.")
@session_argument()
@click.option(
    "--by",
    "group",
    metavar="WHAT",
    type=click.Choice(_GROUPS),
    help="Group by session, model, project or day.",
)
@click.option(
    "-a", "--all", "all_projects", is_flag=True, help="Include the sessions of all projects."
)
@since_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_scope
def usage_command(
    scope: Scope,
    session: str | None,
    group: str | None,
    all_projects: bool,
    since: datetime | None,
    as_json: bool,
) -> None:
    """Show tokens and cost, counting every branch.

    With an ID, one row per model; without, one row per session of this project (--all: of all
    projects). Summaries, tools that call a model and other recorded calls count too. Messages
    copied by forks appear in each session's row but count once in totals. CACHED tokens were read
    from the provider's cache, STORED tokens written to it.

    \b
    Examples:
      sessiontree usage
      sessiontree usage 0199a3f2
      sessiontree usage --all --by day --since 2026-02-01
      sessiontree usage --all --by model --json
    """
    if session and all_projects:
        raise click.UsageError("--all goes without an ID.", click.get_current_context())
    by = group or ("model" if session else "session")
    tally = _Tally(by, since)
    unreadable = 0
    if session is None:
        unreadable = _add_listed(tally, scope, all_projects)
    else:
        with open_target(find_target(session, scope, foreign=True), scope) as view:
            tally.add(view, None, None)
    rows = tally.ordered()
    if as_json:
        output.write_json([_to_wire(tally, key) for key in rows])
    elif rows:
        _write(tally, rows)
    else:
        output.write_line("No usage found")
    if tally.copies:
        many = tables.plural(tally.copies, "copied answer")
        output.write_note((f"{many} (in forks and other copies): counted once", "dim"))
    notes = []
    if rows and not as_json and not session and not all_projects and scope.session_dir is None:
        notes.append("other projects (--all)")
    if unreadable:
        notes.append(tables.unreadable_files(unreadable))
    if notes:
        output.write_note(("Not counted: " + " · ".join(notes), "dim"))


@dataclass(slots=True)
class _Sum:
    """What some answers used."""

    used: Usage = field(default_factory=Usage)
    answers: int = 0

    def add(self, used: Usage, answers: int) -> None:
        self.used += used
        self.answers += answers

    @property
    def numbers(self) -> tuple[int, ...]:
        used = self.used
        return (self.answers, used.input, used.output, used.cache_read, used.cache_write)


class _Tally:
    """Sums by what was asked for. What stands in several sessions was paid for once."""

    def __init__(self, by: str, start: datetime | None) -> None:
        self.by = by
        self.sums: defaultdict[str, _Sum] = defaultdict(_Sum)
        self.copied: defaultdict[str, _Sum] = defaultdict(_Sum)
        self.total = _Sum()
        self.copies = 0
        self.names: dict[str, str] = {}
        self._start = start
        self._moments: dict[str, datetime] = {}

    def add(self, view: Any, info: Any, seen: SeenAnswers | None) -> None:
        """Add up one session."""
        if self.by == "session":
            self.names[view.id] = tables.session_name(info) if info else view.name or ""
            self._moments[view.id] = info.modified if info else datetime.now(UTC)
        for entry in view.tree.entries:
            data = entry.decode() if entry.type in PAID_TYPES else {}
            used = usage_of_entry(data)
            moment = _moment(entry.timestamp)
            if used is None or (self._start and (moment is None or moment < self._start)):
                continue
            key = _key(self.by, view, data, moment)
            answers = int(_is_answer(data))
            before = seen.copy_of(entry, data.get("message", {})) if seen is not None else None
            if before is None:
                self.total.add(used, answers)
            else:
                self.copies += answers
                # A session's own row says what is in it; every other sum is of what was paid.
                if self.by != "session" or before == view.id:
                    continue
                self.copied[key].add(used, answers)
            self.sums[key].add(used, answers)

    def ordered(self) -> list[str]:
        """Days by date, sessions as listed (newest first), the rest by what they cost."""
        if self.by == "day":
            return sorted(self.sums, reverse=True)
        if self.by == "session":
            return sorted(self.sums, key=lambda key: self._moments[key], reverse=True)
        return sorted(self.sums, key=self._weight, reverse=True)

    def _weight(self, key: str) -> tuple[float, int]:
        used = self.sums[key].used
        return used.cost, used.total_tokens


def _add_listed(tally: _Tally, scope: Scope, everywhere: bool) -> int:
    """Add up all sessions, those that are related one after the other; how many files could not
    be read.
    """
    found = scope.reaching("all" if everywhere else "project").list()
    families = Families(found, scope.store)
    seen = SeenAnswers(families)
    unreadable = len(found.unreadable)
    for info in families.sort(found):
        seen.begin(info)
        try:
            opened = open_target(Target(info.path, info.id), scope)
        except (NotASessionError, PersistenceError, SessionNotFoundError):
            unreadable += 1
            continue
        with opened as view:
            tally.add(view, info, seen)
    return unreadable


def _is_answer(data: Any) -> bool:
    return bool(data["type"] == "message" and data["message"].get("role") == "assistant")


def _key(by: str, view: Any, data: Any, moment: datetime | None) -> str:
    match by:
        case "session":
            return str(view.id)
        case "project":
            return str(view.cwd) or "?"
        case "day":
            return f"{to_local(moment):%Y-%m-%d}" if moment else "?"
        case _:
            return paid_model_of(data) or ("unknown" if _is_answer(data) else _OTHERS)


def _write(tally: _Tally, rows: list[str]) -> None:
    by = tally.by
    short = tables.shorten_ids(rows) if by == "session" else {}
    columns = [Column(by.upper(), "yellow", is_flexible=by != "session")]
    if by == "session":
        columns.append(Column("TITLE", "bold", is_flexible=True))
    labels = []
    for key in rows:
        label = tables.short_path(key) if by == "project" else short.get(key, key)
        labels.append([label, tally.names.get(key, "")][: len(columns)])
    sums = [tally.sums[key] for key in rows]
    if len(rows) > 1:
        labels.append(["total", ""][: len(columns)])
        sums.append(tally.total)
    # A program finds each number in its place; a person has no use for a column of zeros.
    shown = [
        at
        for at in range(len(_HEADS))
        if not output.is_terminal() or at == 0 or any(each.numbers[at] for each in sums)
    ]
    columns += [Column(_HEADS[at], is_number=True) for at in shown]
    columns.append(Column("COST", is_number=True))

    def lines(spell: Callable[[int], str]) -> list[list[str]]:
        return [
            [*label, *(spell(each.numbers[at]) for at in shown), f"${each.used.cost:,.2f}"]
            for label, each in zip(labels, sums, strict=True)
        ]

    whole = lines(tables.whole_number)
    fits = tables.can_fit(columns, whole)
    tables.write_table(columns, whole if fits else lines(tables.short_number))


def _to_wire(tally: _Tally, key: str) -> dict[str, Any]:
    wire: dict[str, Any] = {tally.by: key}
    if tally.by == "session":
        wire["title"] = tally.names[key]
    wire |= _sum_wire(tally.sums[key])
    if tally.by == "session":
        # For programs that add the rows up: this part is in another row too.
        wire["copied"] = _sum_wire(tally.copied[key])
    return wire


def _sum_wire(each: _Sum) -> dict[str, Any]:
    used = each.used
    return {
        "answers": each.answers,
        "input": used.input,
        "output": used.output,
        "cacheRead": used.cache_read,
        "cacheWrite": used.cache_write,
        "totalTokens": used.total_tokens,
        "reasoning": used.reasoning,
        "cacheWrite1h": used.cache_write_1h,
        "cost": used.cost,
    }


def _moment(timestamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(timestamp).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
