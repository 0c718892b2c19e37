"""Sessions in PostgreSQL: what each promise of docs/teams.md costs, beside its floor, in one run.

Owns the tables and the targets; ``postgres_cases`` measures, ``postgres_faults`` breaks things.
Everything runs on a server of its own with PostgreSQL's own settings for the disk.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import alternatives
from benchmarks import postgres_cases as cases
from benchmarks import postgres_faults as faults
from benchmarks.measure import Run, Samples, measure_in_turns
from benchmarks.postgres_ground import DATABASE, TEXT, Ground, far_away, grounded
from benchmarks.world import CHECKOUT, World

NAME = "postgres"
FAULTS = "postgres-faults"
PINS = Path(__file__).with_name("postgres-constraints.txt")
RIVALS = {
    "openai-agents": ("OpenAI Agents SDK `SQLAlchemySession`", "openai-agents[sqlalchemy]"),
    "google-adk": ("Google ADK `DatabaseSessionService`", "google-adk"),
    "langgraph": ("LangGraph `PostgresSaver`", "langgraph-checkpoint-postgres"),
}
_MORE = ("asyncpg", "greenlet", "psycopg[binary]")
_MOST_OF_BEST = 0.25
_AWAY_S = 0.0005
_ASKED = ("open", "list", "search")


@dataclass(frozen=True)
class Amounts:
    """How much of everything."""

    turns: int = 40
    entries: int = 100_000
    searched: int = 1_000_000
    listed: tuple[int, int] = (10_000, 100_000)
    writers: int = 200
    seconds: float = 5.0
    rival_messages: int = 3_000
    faulty: int = 100_000


QUICK = Amounts(
    turns=8,
    entries=5_000,
    searched=10_000,
    listed=(500, 5_000),
    writers=40,
    seconds=1.0,
    rival_messages=60,
    faulty=320,
)


@dataclass(frozen=True)
class Line:
    """One row of the table: what was measured, and what it is held against."""

    name: str
    ours: str
    floor: str
    value: float
    limit: float
    is_least: bool = False
    note: str = ""

    @property
    def is_missed(self) -> bool:
        """Whether it is on the wrong side of its limit."""
        return self.value < self.limit if self.is_least else self.value > self.limit

    def __str__(self) -> str:
        sign = "≥" if self.is_least else "≤"
        verdict = "**missed**" if self.is_missed else "" if math.isinf(self.limit) else "ok"
        verdict = "; ".join(filter(None, (verdict, self.note)))
        limit = "" if math.isinf(self.limit) else sign + _short(self.limit)
        cells = (self.name, self.ours, self.floor, _short(self.value), limit)
        return "| " + " | ".join((*cells, verdict)) + " |"


def measure(world: World, *, is_quick: bool, repetitions: int) -> tuple[str, list[str]]:
    """The tables as Markdown, and the rows that miss a target."""
    amounts = QUICK if is_quick else Amounts()
    lines: list[Line] = []
    with grounded() as ground:
        for measured in (_appending, _writing, _reading, _listing, _searching):
            for line in measured(ground, amounts):
                print(f"postgres: {line}", file=sys.stderr, flush=True)
                lines.append(line)
        costs = cases.costs(ground, 25 * amounts.turns)
        sizes = cases.sizes(ground)
        rivals, failures = _rivals(world, ground, amounts, repetitions)
    missed = [f"{NAME}: {line.name}" for line in lines if line.is_missed]
    return "\n".join([_table(lines, amounts, sizes, costs), rivals]), missed + failures


def _table(
    lines: list[Line], amounts: Amounts, sizes: dict[str, float], costs: dict[str, float]
) -> str:
    head = [
        "Sessions in PostgreSQL, one server and its clients on this machine, times in ms (median",
        "of blocks taken in turns):",
        "",
        "| what | ours | floor | value | limit | |",
        "|---|--:|--:|--:|--:|---|",
    ]
    tail = (
        f"An entry of {len(TEXT)} characters takes {sizes['rows']:.0f} bytes, {sizes['keys']:.0f} "
        f"for its keys, and {sizes['search']:.0f} for the search."
    )
    spent = ", ".join(f"{name} {costs[name]:,.0f}" for name in ("append", "index", *_ASKED))
    work = (
        f"The server's processor spends, in µs: {spent} (`index` is what an entry costs "
        f"for the search; a list of 50, a search among {amounts.searched:,} entries, a session of "
        f"100 opened). Its log grows by {costs['log bytes']:,.0f} bytes an append and "
        f"{costs['index log bytes']:,.0f} for the search."
    )
    return "\n".join([*head, *map(str, lines), "", tail, "", work]) + "\n"


# -- rows ------------------------------------------------------------------------------------------


def _appending(ground: Ground, amounts: Amounts) -> Iterator[Line]:
    near = cases.appends(ground.url, amounts.turns)
    yield _against_insert("append, loopback", near, 2.5)
    bound = cases.appends(ground.member("blue"), amounts.turns, ground.url)
    yield _against_insert("the same by a role bound to a tenant", bound, 2.5)
    hasty = cases.appends(ground.hasty(), amounts.turns)
    yield replace(
        _against_insert("the same with `synchronous_commit=off`", hasty, math.inf),
        note="nothing promised: no disk, no network, only work",
    )
    far = cases.far_appends(ground, amounts.turns, _AWAY_S)
    yield _against_insert(f"append, {far['trip']:.1f} ms away", far, 1.3)
    grown = cases.grown_appends(ground, amounts.entries, amounts.turns)
    yield _timed(
        f"append at {amounts.entries:,} entries, to that at 100",
        grown["long"],
        grown["short"],
        1.1,
    )


def _against_insert(name: str, found: dict[str, float], limit: float) -> Line:
    return _timed(f"{name}, to a bare INSERT", found["us"], found["floor"], limit)


def _writing(ground: Ground, amounts: Amounts) -> Iterator[Line]:
    found = cases.many_writers(ground, amounts.writers, amounts.seconds, 3)
    yield Line(
        f"{amounts.writers} writers on as many sessions, to pgbench",
        f"{found['us']:,.0f}/s",
        f"{found['floor']:,.0f}/s",
        found["us"] / found["floor"],
        0.45,
        is_least=True,
    )
    shared = cases.one_session(ground, 16, 16 * 25 * amounts.turns)
    ours = f"{shared['per_s']:,.0f}/s"
    yield Line("16 writers on one session, per second", ours, "", shared["per_s"], 800, True)
    wrong = shared["errors"] + shared["lost"]
    yield Line("the same, errors and lost entries", f"{wrong:.0f}", "", wrong, 0)


def _reading(ground: Ground, amounts: Amounts) -> Iterator[Line]:
    found = cases.reading(ground, amounts.entries, max(3, amounts.turns // 8))
    count = f"{amounts.entries:,} entries"
    yield _timed(f"open {count}, to the same in a file", found["open"], found["file"], 2.5)
    trips = found["open trips"]
    yield Line(f"open {count}, round trips", f"{trips:.0f}", "", trips, 2)
    trips = found["context trips"]
    yield Line("open + context, compacted, round trips", f"{trips:.0f}", "", trips, 3)
    yield Line(f"fork {count}", f"{found['fork']:,.0f}", "", found["fork"], 1_000)


def _listing(ground: Ground, amounts: Amounts) -> Iterator[Line]:
    few, many = amounts.listed
    found = cases.listing(ground, few, many, amounts.turns)
    for what in ("", ", a project"):
        yield _timed(
            f"list 50 of {many:,}{what}, to {few:,}",
            found[f"many{what}"],
            found[f"few{what}"],
            1.2,
        )


def _searching(ground: Ground, amounts: Amounts) -> Iterator[Line]:
    told, found = cases.searching(ground, amounts.searched, max(3, amounts.turns // 4))
    for name in cases.QUERIES:
        limit = 5 if name == "two Han characters" else 100
        ours = f"{told[name]:.1f}"
        name_of_all = f"search {amounts.searched:,} entries: {name}"
        yield Line(name_of_all, ours, "", told[name], limit, note=f"{found[name]} sessions shown")


def _timed(name: str, ours: float, floor: float, limit: float) -> Line:
    return Line(name, f"{ours:.2f}", f"{floor:.2f}", ours / floor, limit)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


# -- what frameworks bring along -------------------------------------------------------------------


def _rivals(
    world: World, ground: Ground, amounts: Amounts, repetitions: int
) -> tuple[str, list[str]]:
    wanted = [package for _, package in RIVALS.values()]
    python, lacking = alternatives.make_interpreter(
        world.root / "venv-postgres", [*_MORE, *wanted], PINS
    )
    ground.server.execute("CREATE DATABASE rivals")
    given = {"count": amounts.rival_messages, "text": TEXT}
    env = world.us("open", {}).env
    own = [sys.executable, "-m", "benchmarks.postgres_driver"]
    driver = str(Path(__file__).with_name("postgres_rivals.py"))
    with far_away(ground, _AWAY_S) as url:
        runs = {
            "floor": Run([*own, "insert", _json(given, url)], env, cwd=CHECKOUT),
            "us": Run([*own, "append", _json(given, url)], env, cwd=CHECKOUT),
        }
        theirs = _json(given, url.replace(f"/{DATABASE}", "/rivals"))
        for key, (_, package) in RIVALS.items():
            if package not in lacking:
                runs[key] = Run([str(python), driver, key, theirs], env)
        taken = measure_in_turns(runs, repetitions)
    return _rivals_table(taken, amounts.rival_messages, lacking)


def _json(given: dict[str, object], url: str) -> str:
    return json.dumps({**given, "url": url})


def _rivals_table(
    taken: dict[str, Samples], count: int, lacking: dict[str, str]
) -> tuple[str, list[str]]:
    titles = {"floor": "a bare INSERT", "us": "us"} | {key: t for key, (t, _) in RIVALS.items()}
    lines = [
        f"The same {count:,} messages appended one by one, then read back, on that server, as far",
        "away as above:",
        "",
        "| store | µs an append | to a bare INSERT | reading, ms |",
        "|---|--:|--:|--:|",
    ]
    floor = taken["floor"].median_ms or 1.0
    for key, samples in taken.items():
        if (ms := samples.median_ms) is None:
            lines.append(f"| {titles[key]} | failed: {samples.error} | | |")
            continue
        load = samples.info["load_ms"]
        cells = (titles[key], f"{ms / count * 1e3:,.0f}", f"{ms / floor:.2f}", f"{load:,.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    lines += [f"| {package} | not measured: {why} | | |" for package, why in lacking.items()]
    theirs = [ms for key in RIVALS if key in taken and (ms := taken[key].median_ms) is not None]
    ours = taken["us"].median_ms
    if ours is None or not theirs:
        return "\n".join(lines) + "\n", [f"{NAME}: rivals could not be measured"]
    ratio = ours / min(theirs)
    verdict = "ok" if ratio <= _MOST_OF_BEST else "**missed**"
    lines += ["", f"Ours to the best of theirs: {ratio:.2f} (at most {_MOST_OF_BEST}): {verdict}."]
    missed = [f"{NAME}: beside frameworks"] if ratio > _MOST_OF_BEST else []
    return "\n".join(lines) + "\n", missed


# -- faults ----------------------------------------------------------------------------------------


def measure_faults(*, is_quick: bool) -> tuple[str, list[str]]:
    """What is lost and what is there twice under each fault, as Markdown; the faults that harm."""
    count = (QUICK if is_quick else Amounts()).faulty
    writers = f"{faults.WRITERS} writers on {faults.SESSIONS} sessions"
    lines = [
        f"{count:,} appends by {writers} under each fault:",
        "",
        "| fault | how often | appends | lost | twice | errors | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    missed = []
    for name, fault in faults.FAULTS.items():
        print(f"postgres-faults: {name}", file=sys.stderr, flush=True)
        found = faults.endure(fault, count)
        lines.append(f"| {name} | {found} |")
        if found.is_harmed:
            missed.append(f"{FAULTS}: {name}")
    return "\n".join(lines) + "\n", missed
