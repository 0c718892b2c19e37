"""A fleet on paper: a million users, a billion entries, replayed with what was measured.

``python -m benchmarks.fleet`` prints the tables of docs/teams.md, the same at each run. The costs
are those of the group ``postgres``; what people do, what machines have and what they cost are
assumptions, each a number below: change them and run it again.
"""

from __future__ import annotations

import heapq
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Measured, ``make bench ARGS="--only '^postgres$'"``: µs of the server's processor, bytes."""

    append_us: float = 190
    index_us: float = 17
    open_us: float = 441
    list_us: float = 187
    search_us: float = 29_665
    log_bytes: float = 2_224 + 785
    row_bytes: float = 519 + 144
    search_bytes: float = 317


@dataclass(frozen=True)
class People:
    """What a million users do."""

    users: int = 1_000_000
    a_day: float = 1e9 / 90
    """Entries of all of them."""
    kept_days: int = 90
    busiest_hour: float = 0.15
    """The share of a day's work in its busiest hour."""
    appends_an_open: int = 50
    appends_a_list: int = 25
    appends_a_search: int = 200
    at_once: float = 0.05
    """The share of users whose programs run in the busiest hour, a connection each."""

    @property
    def appends_per_s(self) -> float:
        """In the busiest hour."""
        return self.a_day * self.busiest_hour / 3_600

    @property
    def entries(self) -> float:
        """How many are kept."""
        return self.a_day * self.kept_days


QUIET = People()
BUSY = People(a_day=1e9, kept_days=7)
"""A billion entries a day: each user's agents write a thousand."""


@dataclass(frozen=True)
class Node:
    """A rented server of the usual kind, and what it costs."""

    cores: int = 8
    memory_gb: int = 64
    disk_gb: int = 4_000
    log_mb_per_s: float = 125
    flush_ms: float = 1.0
    connections: int = 500
    core_hour: float = 0.06
    gb_month: float = 0.12
    copies: int = 2
    """The node and a standby."""


@dataclass(frozen=True)
class Moment:
    """What a node's clients saw."""

    busy: float
    append_ms: tuple[float, float]
    search_ms: tuple[float, float]


def arrivals(
    people: People, nodes: int, seconds: float, dice: random.Random
) -> Iterator[tuple[float, str]]:
    """What reaches one of the nodes, in its order: when, and what."""
    appends = people.appends_per_s / nodes
    rates = {
        "append": appends,
        "index": appends,
        "open": appends / people.appends_an_open,
        "list": appends / people.appends_a_list,
        "search": appends / people.appends_a_search,
    }
    kinds, weights = list(rates), list(rates.values())
    at = 0.0
    while (at := at + dice.expovariate(sum(weights))) < seconds:
        yield at, dice.choices(kinds, weights)[0]


def replay(costs: Costs, people: People, node: Node, nodes: int, seconds: float = 10.0) -> Moment:
    """A while of the busiest hour on one of the nodes: its cores, and its disk behind them."""
    dice = random.Random(20)
    free = [0.0] * node.cores
    disk = Disk(node.flush_ms / 1e3)
    waits: dict[str, list[float]] = {"append": [], "search": []}
    worked = 0.0
    for at, kind in arrivals(people, nodes, seconds, dice):
        mean = getattr(costs, f"{kind}_us") / 1e6
        work = dice.lognormvariate(0, 0.5) * mean / 1.133  # the mean of that distribution
        worked += work
        done = max(at, heapq.heappop(free)) + work
        heapq.heappush(free, done)
        if kind in waits:
            kept = disk.keep(done) if kind == "append" else done
            waits[kind].append((kept - at) * 1e3)
    return Moment(worked / seconds / node.cores, *(_shares(each) for each in waits.values()))


class Disk:
    """Commits that wait for it together: for the flush that runs, then for their own."""

    def __init__(self, flush_s: float) -> None:
        self._flush_s = flush_s
        self._ends = 0.0
        self._is_wanted = False

    def keep(self, at: float) -> float:
        """When a commit of this moment is kept."""
        if self._is_wanted and at >= self._ends:
            self._ends += self._flush_s
            self._is_wanted = False
        if at >= self._ends:
            self._ends = at + self._flush_s
            return self._ends
        self._is_wanted = True
        return self._ends + self._flush_s


def _shares(times: list[float]) -> tuple[float, float]:
    """The median and the slowest of a hundred."""
    cuts = statistics.quantiles(times if len(times) > 1 else [*times, 0.0, 0.0], n=100)
    return cuts[49], cuts[98]


def limits(costs: Costs, people: People, node: Node) -> list[tuple[str, float, str]]:
    """How many nodes each thing asks for by itself, the most first."""
    rate = people.appends_per_s
    per_append = costs.append_us + costs.index_us
    per_append += costs.open_us / people.appends_an_open + costs.list_us / people.appends_a_list
    per_append += costs.search_us / people.appends_a_search
    text_gb = people.entries * costs.search_bytes / 1e9
    rows_gb = people.entries * costs.row_bytes / 1e9
    found = [
        (
            "connections, without a pooler",
            people.users * people.at_once / node.connections,
            f"{people.users * people.at_once:,.0f} programs at once",
        ),
        (
            "memory, for the search",
            text_gb / 2 / node.memory_gb,
            f"{text_gb / 2:,.0f} GB: half of its rows and index, or searches wait for the disk",
        ),
        (
            "disk",
            (text_gb + rows_gb) / node.disk_gb / 0.7,
            f"{text_gb + rows_gb:,.0f} GB, at most 70 % full",
        ),
        (
            "processor",
            rate * per_append / 1e6 / node.cores / 0.6,
            f"{rate * per_append / 1e6:.2f} cores, at most 60 % busy",
        ),
        (
            "the log's bytes",
            rate * costs.log_bytes / 1e6 / node.log_mb_per_s,
            f"{rate * costs.log_bytes / 1e6:.1f} MB a second",
        ),
    ]
    return sorted(found, key=lambda each: -each[1])


def cost_per_million(costs: Costs, people: People, node: Node, nodes: int) -> tuple[float, float]:
    """What a million entries cost for as long as they are kept: their bytes; the machines."""
    months = people.kept_days / 30
    gigabytes = 1e6 * (costs.row_bytes + costs.search_bytes) / 1e9
    kept = gigabytes * months * node.gb_month * node.copies
    machines = nodes * node.copies * node.cores * node.core_hour * 24 * people.kept_days
    return kept, machines / (people.entries / 1e6)


def report() -> str:
    """The tables."""
    costs, node = Costs(), Node()
    lines: list[str] = []
    for people, counts in ((QUIET, (1, 6)), (BUSY, (3, 12, 36))):
        about = f"{people.users:,} users, {people.entries / 1e9:g} billion entries kept"
        about += f" ({people.kept_days} days): {people.appends_per_s:,.0f} appends a second"
        lines += [
            f"**{about} in the busiest hour.**",
            "",
            *_nodes_table(costs, people, node, counts),
        ]
        lines += ["", "| what runs out | nodes it asks for | because of |", "|---|--:|---|"]
        asked = limits(costs, people, node)
        lines += [f"| {name} | {count:,.2f} | {why} |" for name, count, why in asked]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _nodes_table(costs: Costs, people: People, node: Node, counts: Sequence[int]) -> list[str]:
    lines = [
        "| nodes | busy | append, ms (p50, p99) | search, ms (p50, p99) | a million entries |",
        "|--:|--:|--:|--:|--:|",
    ]
    for nodes in counts:
        found = replay(costs, people, node, nodes)
        kept, machines = cost_per_million(costs, people, node, nodes)
        times = f"{_pair(found.append_ms)} | {_pair(found.search_ms)}"
        paid = f"${kept + machines:.2f} (bytes ${kept:.2f})"
        lines.append(f"| {nodes} | {found.busy:.0%} | {times} | {paid} |")
    return lines


def _pair(times: tuple[float, float]) -> str:
    return f"{times[0]:.1f}, {times[1]:.1f}"


if __name__ == "__main__":
    print(report(), end="")
