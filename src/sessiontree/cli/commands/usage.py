"""``usage``: tokens and money, by session, model, project, day or agent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from sessiontree import clock
from sessiontree.cli import output, tables
from sessiontree.cli.options import agent_option, agents_of, since_option, with_scope
from sessiontree.cli.resolve import find_target, open_target, session_argument
from sessiontree.cli.tables import Column
from sessiontree.scope import Scope

if TYPE_CHECKING:
    from sessiontree.discovery.usage import Dimension, Sums, UsageRow, UsageTable

_GROUPS = ("session", "model", "project", "day", "agent")
# Tokens read from a provider's cache, and written to it, are the last two.
_HEADS = ("ANSWERS", "INPUT", "OUTPUT", "CACHED", "STORED")
_BAR_WIDTHS = (40, 30, 20, 12, 8)
_BLOCKS = " ▏▎▍▌▋▊▉█"


@click.command("usage", short_help="Show tokens and cost, by session, model, day or agent.")
@session_argument()
@click.option(
    "--by",
    "group",
    metavar="WHAT",
    type=click.Choice(_GROUPS),
    help="Group by session, model, project, day or agent.",
)
@click.option(
    "-a", "--all", "all_projects", is_flag=True, help="Include the sessions of all projects."
)
@click.option("--all-agents", is_flag=True, help="Include all agents, in all projects.")
@agent_option
@since_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_scope
def usage_command(
    scope: Scope,
    session: str | None,
    group: Dimension | None,
    all_projects: bool,
    all_agents: bool,
    agent: str | None,
    since: datetime | None,
    as_json: bool,
) -> None:
    """Show tokens and cost, counting every branch.

    With an ID, one row per model; without, one row per session of this project (--all: of all
    projects; --all-agents: of every agent, one row per agent). Summaries, tools that call a model
    and other recorded calls count too. Messages that forks, resumed sessions and imports share
    count once. CACHED tokens were read from the provider's cache, STORED tokens written to it. A
    cost with ~ is estimated by list prices, where the transcript names none.

    \b
    Examples:
      sessiontree usage
      sessiontree usage 0199a3f2
      sessiontree usage --all-agents --by day --since 2026-02-01
      sessiontree usage --agent claude-code --all --by model --json
    """
    is_wide = all_projects or all_agents
    if session and (is_wide or agent):
        words = "--all" if all_projects else "--all-agents" if all_agents else "--agent"
        raise click.UsageError(f"{words} goes without an ID.", click.get_current_context())
    by: Dimension = group or ("model" if session else "agent" if all_agents else "session")
    if session is None:
        agents = agents_of(scope, all_agents=all_agents, agent=agent)
        with output.Progress("Reading sessions") as progress:
            table = scope.reaching("all" if is_wide else "project", agents=agents).usage(
                since=since, on_progress=progress
            )
    else:
        table = _read_one(session, scope, since)
    rows = table.group(by)
    if as_json:
        output.write_json([_to_wire(row, by) for row in rows])
    elif rows:
        _write(table, rows, by)
    else:
        output.write_line("No usage found")
    is_part = not session and not is_wide and scope.session_dir is None
    _write_notes(table, rows, is_part=is_part and not as_json, is_for_people=not as_json)


def _read_one(value: str, scope: Scope, since: datetime | None) -> UsageTable:
    """Read the usage of one session of any agent."""
    from sessiontree.discovery.families import Kin
    from sessiontree.discovery.usage import PaidSession, UsedSession, count_usage
    from sessiontree.stores.usage import paid_calls

    target = find_target(value, scope, foreign=True)
    now = clock.now()
    with open_target(target, scope) as view:
        agent = target.agent or scope.agent_at(target.path)
        session = UsedSession(view.id, target.path, agent, view.cwd, view.name or "", now, now)
        paid = PaidSession(session, Kin(view.id), [paid_calls(view.tree.entries)])
    return count_usage([paid], since=since)


# -- the table -------------------------------------------------------------------------------------


def _write(table: UsageTable, rows: list[UsageRow], by: str) -> None:
    columns = [Column(by.upper(), "yellow", is_flexible=by != "session", keeps_end=by == "project")]
    if by == "session":
        columns.append(Column("TITLE", "bold", is_flexible=True))
    labels = _labels(rows, by)
    sums = [row.sums for row in rows]
    if len(rows) > 1:
        labels.append(["total", ""][: len(columns)])
        sums.append(table.total)
    # A program finds each number in its place; a person has no use for a column of zeros.
    shown = [
        at
        for at in range(len(_HEADS))
        if not output.is_terminal() or at == 0 or any(_numbers(each)[at] for each in sums)
    ]
    columns += [Column(_HEADS[at], is_number=True) for at in shown]
    columns.append(Column("COST", is_number=True))

    def lines(spell: Callable[[int], str]) -> list[list[str]]:
        return [
            [*label, *(spell(_numbers(each)[at]) for at in shown), _spell_cost(each)]
            for label, each in zip(labels, sums, strict=True)
        ]

    whole, short = lines(tables.whole_number), lines(tables.short_number)
    stiff = [Column(each.head, each.style, each.is_number) for each in columns]
    # Rather shorter numbers than names that are cut.
    fitting = whole if tables.can_fit(stiff, whole) else short
    if not tables.can_fit(stiff, fitting) and tables.can_fit(columns, whole):
        fitting = whole
    if output.is_terminal() and by != "session" and len(rows) > 1:
        wide, values = columns, [row.sums for row in rows]
        columns, drawn = _add_bars(wide, fitting, values)
        if columns is wide and fitting is whole:  # and rather shorter numbers than no chart
            columns, drawn = _add_bars(wide, short, values)
            drawn = drawn if columns is not wide else whole
        fitting = drawn
    tables.write_table(columns, fitting)


def _labels(rows: list[UsageRow], by: str) -> list[list[str]]:
    if by == "session":
        short = tables.shorten_ids(row.key[0] for row in rows)
        return [[short[row.key[0]], _title(row)] for row in rows]
    if by == "project":
        return [[tables.short_path(row.key[0])] for row in rows]
    return [list(row.key) for row in rows]


def _title(row: UsageRow) -> str:
    from sessiontree.text.words import clean_line

    return clean_line(row.session.title) if row.session is not None else ""


def _add_bars(
    columns: list[Column], lines: list[list[str]], sums: list[Sums]
) -> tuple[list[Column], list[list[str]]]:
    """Draw what each row cost beside it, if there is room; tokens, if nothing has a cost."""
    has_cost = any(each.total_cost for each in sums)
    values = [each.total_cost if has_cost else float(each.total_tokens) for each in sums]
    most = max(values)
    if most <= 0:
        return columns, lines
    for width in _BAR_WIDTHS:
        bars = [_bar(value / most, width) for value in values]
        made = [[*line, bar] for line, bar in zip(lines, [*bars, ""], strict=False)]
        wider = [*columns, Column("", "cyan")]
        if tables.can_fit([Column(each.head) for each in wider], made):
            return wider, made
    return columns, lines


def _bar(share: float, width: int) -> str:
    """Draw a bar in eighths of a character; a value above zero gets at least one."""
    eighths = max(round(share * width * 8), int(share > 0))
    full, rest = divmod(eighths, 8)
    return _BLOCKS[8] * full + (_BLOCKS[rest] if rest else "")


def _numbers(sums: Sums) -> tuple[int, ...]:
    return (sums.answers, sums.input, sums.output, sums.cache_read, sums.cache_write)


def _spell_cost(sums: Sums) -> str:
    return f"{'~' if sums.estimated else ''}${sums.total_cost:,.2f}"


def _write_notes(
    table: UsageTable, rows: list[UsageRow], *, is_part: bool, is_for_people: bool
) -> None:
    if table.copies:
        many = tables.plural(table.copies, "copied answer")
        output.write_note((f"{many} (in forks and other copies): counted once", "dim"))
    if is_for_people:
        for note in _price_notes(table):
            output.write_note((note, "dim"))
    notes = ["other projects (--all)"] if is_part else []
    if is_part and not rows:
        notes.append("other agents (--all-agents)")
    if table.unreadable:
        notes.append(tables.unreadable_files(len(table.unreadable)))
    if notes:
        output.write_note(("Not counted: " + " · ".join(notes), "dim"))


def _price_notes(table: UsageTable) -> list[str]:
    from sessiontree.discovery.prices import has_prices

    notes = []
    if table.total.estimated:
        notes.append("~ estimated by list prices: the transcripts name no cost")
    if table.total.unpriced:
        many = tables.short_number(table.total.unpriced)
        if has_prices():
            notes.append(f"{many} tokens of models without a known price cost $0 here")
        else:
            notes.append(f"{many} tokens have no price: pip install 'sessiontree[prices]'")
    return notes


# -- for programs ----------------------------------------------------------------------------------


def _to_wire(row: UsageRow, by: str) -> dict[str, Any]:
    wire: dict[str, Any] = {by: row.key[0]}
    if row.session is not None:
        wire["title"] = _title(row)
        wire["agent"] = row.session.agent
        wire["project"] = row.session.cwd
    wire |= _sum_wire(row.sums)
    if by == "session":
        # For programs that add the rows up: this part is in another row too.
        wire["copied"] = _sum_wire(row.copied)
    return wire


def _sum_wire(sums: Sums) -> dict[str, Any]:
    return {
        "answers": sums.answers,
        "input": sums.input,
        "output": sums.output,
        "cacheRead": sums.cache_read,
        "cacheWrite": sums.cache_write,
        "totalTokens": sums.total_tokens,
        "reasoning": sums.reasoning,
        "cacheWrite1h": sums.cache_write_1h,
        "cost": sums.total_cost,
        "estimatedCost": sums.estimated,
    }
