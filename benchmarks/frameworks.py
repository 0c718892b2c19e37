"""Our adapters beside the stores that agent frameworks bring along, in the same run.

Owns the table and its targets; ``frameworks_driver`` does the work. All frameworks are in the
project's own environment; one that is not installed is said in the table, not left out.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.alternatives import MIN_FREE_BYTES
from benchmarks.cases import Sizes
from benchmarks.measure import Run, Samples, measure_in_turns
from benchmarks.world import CHECKOUT, World

NAME = "frameworks"


@dataclass(frozen=True)
class Rival:
    """A framework's own store, and what we may take of what it takes, where that is promised."""

    title: str
    append: float | None = None
    load: float | None = None
    disk: float | None = None
    has_disk: bool = True
    is_quadratic: bool = False
    """Whether theirs takes room with the square of the turns: then there must be room for it."""


RIVALS = {
    "openai": Rival("OpenAI Agents SDK, `SQLiteSession`", append=0.2, load=0.5, disk=0.7),
    "adk": Rival("Google ADK, `SqliteSessionService`"),
    "strands": Rival("Strands, `FileSessionManager`"),
    "agent-framework": Rival("agent-framework, `FileHistoryProvider`"),
    "pydantic-ai": Rival("pydantic-ai, `InMemoryConversationStore`", has_disk=False),
    "claude": Rival("Claude Agent SDK, `InMemorySessionStore`", has_disk=False),
    "langgraph": Rival("LangGraph, `SqliteSaver`", append=0.05, disk=0.05, is_quadratic=True),
}
_HEAD = (
    "| framework | a turn, µs | theirs | ratio | load, ms | theirs | ratio | MB | theirs | ratio "
    "| closed | |"
)
_BYTES = {"disk": "bytes_in_use", "closed": "bytes"}


@dataclass(frozen=True)
class Figures:
    """One framework's samples."""

    append: dict[str, Samples]
    load: dict[str, Samples]

    def ratio(self, what: str) -> float | None:
        """What we take of what they take: "append", "load", "disk" or "closed"."""
        if what in _BYTES:
            us, theirs = (self.append[who].info.get(_BYTES[what]) for who in ("us", "theirs"))
        else:
            taken = self.append if what == "append" else self.load
            us, theirs = (taken[who].median_ms for who in ("us", "theirs"))
        return us / theirs if us and theirs else None


def measure(world: World, sizes: Sizes, repetitions: int) -> tuple[str, list[str]]:
    """The table as Markdown, and the rows that miss a target."""
    count = max(1, sizes.alternatives // 4)
    found: dict[str, Figures] = {}
    left_out = []
    for name, rival in RIVALS.items():
        if rival.is_quadratic and shutil.disk_usage(world.root).free < MIN_FREE_BYTES:
            left_out.append(f"{rival.title}: not measured, too little free disk for what it writes")
            continue
        print(f"frameworks: {name}", file=sys.stderr, flush=True)
        found[name] = _measure_one(world, name, count, repetitions)
    lines = [
        f"Agent frameworks: {count:,} turns (a question, a call, its result, an answer), then",
        f"{4 * count:,} messages loaded by a fresh process; ratio is ours to the framework's own",
        "store. Theirs waits for the disk at every write, or is in memory; ours survives a killed",
        "process at every write, and a power failure from the next flush on. MB are what the disk",
        "holds while the program runs, with a database's journal; the last ratio is without it.",
        "",
        _HEAD,
        "|---|" + "--:|" * 10 + "---|",
    ]
    missed: list[str] = []
    for name, figures in found.items():
        rival = RIVALS[name]
        failures = _failures(rival, figures)
        missed += [f"{name}: {failure}" for failure in failures]
        lines.append(_line(rival, figures, count, failures))
    lines += ["", *left_out] if left_out else []
    return "\n".join(lines) + "\n", missed


def _measure_one(world: World, name: str, count: int, repetitions: int) -> Figures:
    base = world.root / "frameworks" / name
    env = dict(world.us("open", {}).env)
    appends, loads = {}, {}
    for who in ("us", "theirs"):
        folder = base / who
        appends[who] = Run(
            _command(name, who, "append", count, folder),
            env,
            before=_clearing(folder),
            cwd=CHECKOUT,
        )
        loads[who] = Run(_command(name, who, "load", count, folder), env, cwd=CHECKOUT)
    figures = Figures(measure_in_turns(appends, repetitions), measure_in_turns(loads, repetitions))
    shutil.rmtree(base, ignore_errors=True)
    return figures


def _command(name: str, who: str, op: str, count: int, folder: Path) -> list[str]:
    given = json.dumps({"turns": count, "folder": str(folder)})
    return [sys.executable, "-m", "benchmarks.frameworks_driver", f"{name}/{who}", op, given]


def _clearing(folder: Path) -> Callable[[], None]:
    def clear() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    return clear


def _failures(rival: Rival, figures: Figures) -> list[str]:
    failures = [
        f"{op} failed: {error}"
        for op, taken in (("append", figures.append), ("load", figures.load))
        if (error := taken["us"].error) is not None
    ]
    for what in ("append", "load", "disk"):
        ratio, target = figures.ratio(what), getattr(rival, what)
        if target is not None and ratio is not None and ratio > target:
            failures.append(f"{what} at most {target}")
    return failures


def _line(rival: Rival, figures: Figures, count: int, failures: list[str]) -> str:
    cells = [rival.title]
    for what, taken, factor in (
        ("append", figures.append, 1_000 / count),
        ("load", figures.load, 1),
    ):
        cells += [
            _number(taken["us"].median_ms, factor),
            _number(taken["theirs"].median_ms, factor),
        ]
        cells.append(_ratio(figures.ratio(what)))
    for who in ("us", "theirs") if rival.has_disk else ("us",):
        cells.append(_number(figures.append[who].info.get(_BYTES["disk"]), 1e-6))
    if rival.has_disk:
        cells += [_ratio(figures.ratio(what)) for what in _BYTES]
    else:
        cells += ["", "", ""]
    promised = any((rival.append, rival.load, rival.disk))
    cells.append("**missed:** " + ", ".join(failures) if failures else "ok" if promised else "")
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, factor: float) -> str:
    if value is None:
        return "-"
    made = value * factor
    return f"{made:,.2f}" if made < 10 else f"{made:,.0f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
