"""Us beside the programs that people use to find and look at sessions, on one home folder.

Owns the tasks, their limits and the table; every contender is a whole process, and each answer is
held against what the folder really holds (``all_agents``).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.all_agents import CHINESE, GROWN, NEW, PHRASE, PRINTED, RARE, AllAgents
from benchmarks.cases import Sizes
from benchmarks.measure import Run, Samples, Trial, measure_in_turns, try_once
from benchmarks.rival_programs import (
    AGENTSVIEW,
    CCUSAGE,
    CLAUDE_CODE_LOG,
    FAST_RESUME,
    QUIET,
    TRANSCRIPTS,
    Rivals,
    serving,
)
from benchmarks.world import World

NAME = "rivals"
_LEAKS = ("CLAUDE_", "CODEX_", "AGENTSVIEW_", "PI_CODING_", "SESSIONTREE_AGENT")
_SHOWN = 50
_ALL_HITS = ("search", "--all-agents", "--json", "-n", str(_SHOWN))
_SETTLE_S = 0.1
"""What was written a moment ago may change again unnoticed; nobody asks that quickly."""
_MB = 1_000_000
_ROOT = Path(__file__).parent.parent

Verdict = Callable[[bytes], str]
"""How right an answer is; begins with "ok" if it is."""


@dataclass
class Task:
    """One row: what everyone does, how right each answer is, and what we may take."""

    name: str
    runs: dict[str, Run] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    max_ms: float | None = None
    max_ratio: tuple[str, float] | None = None
    """At most so many times what this rival takes."""
    max_mb: float | None = None
    note: str = ""


@dataclass
class Outcome:
    """What came of a task."""

    task: Task
    trials: dict[str, Trial]
    taken: dict[str, Samples]

    def ratio(self, rival: str) -> float | None:
        us, theirs = self.taken["us"].best_ms, self.taken.get(rival, Samples()).best_ms
        return us / theirs if us and theirs else None

    def answer(self, name: str) -> str:
        """How right a contender's answer is, or why it has none."""
        error = self.trials[name].error or self.taken[name].error
        verdict = self.task.verdicts.get(name)
        if error is not None:
            return f"fails: {error}"
        return verdict(self.trials[name].output) if verdict is not None else ""

    def failures(self) -> list[str]:
        task, found = self.task, []
        if self.answer("us").partition(" ")[0] not in ("", "ok"):
            found.append(self.answer("us"))
        best, peak = self.taken["us"].best_ms, self.trials["us"].peak_mb
        if task.max_ms is not None and best is not None and best > task.max_ms:
            found.append(f"at most {task.max_ms:,.0f} ms")
        if task.max_ratio is not None:
            rival, most = task.max_ratio
            ratio = self.ratio(rival)
            if ratio is None:
                found.append(f"no {rival} to compare with")
            elif ratio > most:
                found.append(f"at most {most:g} of {rival}")
        if task.max_mb is not None and peak is not None and peak > task.max_mb:
            found.append(f"at most {task.max_mb:g} MB of memory")
        return found


def measure(world: World, sizes: Sizes, repetitions: int) -> tuple[str, list[str]]:
    """The table as Markdown, and what was missed or could not be had."""
    home = AllAgents.ensure(world.corpus, sizes.agents)
    folder = world.root / "rivals"
    folder.mkdir(parents=True, exist_ok=True)
    bench = _Bench(world, home, Rivals.ensure(folder), folder / "state")
    shutil.rmtree(bench.state, ignore_errors=True)
    found = [_measure_one(bench.first_index(), min(repetitions, 3))]
    disk = bench.disk_line()
    with ExitStack() as stack:
        lacking = dict(bench.rivals.lacking)
        if AGENTSVIEW in bench.rivals.commands:
            log = folder / "agentsview.log"
            env = bench.env(AGENTSVIEW)
            error = stack.enter_context(serving(bench.rivals.commands[AGENTSVIEW], env, log))
            if error is not None:
                lacking[AGENTSVIEW] = error
                del bench.rivals.commands[AGENTSVIEW]
        found += [_measure_one(task, repetitions) for task in bench.tasks()]
    home.take_back()
    return _table(home, found, disk, lacking)


def _measure_one(task: Task, repetitions: int) -> Outcome:
    print(f"{NAME}: {task.name}", file=sys.stderr, flush=True)
    # The first run also brings everybody's index up to date.
    trials = {name: try_once(run) for name, run in task.runs.items()}
    sound = {name: run for name, run in task.runs.items() if trials[name].error is None}
    taken = {name: Samples() for name in task.runs} | measure_in_turns(sound, repetitions)
    return Outcome(task, trials, taken)


@dataclass
class _Bench:
    """Where everyone runs, and what everyone is asked."""

    world: World
    home: AllAgents
    rivals: Rivals
    state: Path

    def env(self, name: str) -> dict[str, str]:
        """The one home folder, and each contender's own places to remember things in."""
        own = self.state / name
        kept = {k: v for k, v in self.world.clean_env().items() if not k.startswith(_LEAKS)}
        places = {f"XDG_{k}_HOME": str(own / k.lower()) for k in ("CACHE", "DATA", "STATE")}
        return kept | places | QUIET | {
            "HOME": str(self.home.root),
            "AGENTSVIEW_DATA_DIR": str(own / "data"),
            # What an earlier run kept would be listed and searched by this one.
            "SESSIONTREE_KEEP_DIR": str(own / "kept"),
            "NO_COLOR": "1",
        }  # fmt: skip

    def run(self, name: str, *words: str, before: Callable[[], None] | None = None) -> Run:
        command = self.rivals.commands.get(name, "")
        if name == "us":
            command = str(Path(sys.executable).with_name("sessiontree"))
        return Run([command, *words], self.env(name), whole=True, before=before, cwd=self.state)

    def task(self, name: str, runs: Mapping[str, Run], **more: Any) -> Task:
        """A task of ours and of those rivals that could be had."""
        had = {who: run for who, run in runs.items() if who in ("us", *self.rivals.commands)}
        return Task(name, had, **more)

    def first_index(self) -> Task:
        def forget(name: str) -> None:
            shutil.rmtree(self.state / name, ignore_errors=True)
            (self.state / name).mkdir(parents=True)

        runs = {
            "us": self.run("us", *_ALL_HITS, "--tools", PRINTED),
            FAST_RESUME: self.run(FAST_RESUME, "--rebuild", "--json", "--limit", "1"),
            AGENTSVIEW: self.run(AGENTSVIEW, "sync"),
        }
        fresh = {
            name: Run(run.command, run.env, whole=True, before=partial(forget, name), cwd=run.cwd)
            for name, run in runs.items()
        }
        fresh[AGENTSVIEW] = Run(
            fresh[AGENTSVIEW].command,
            {**fresh[AGENTSVIEW].env, "AGENTSVIEW_NO_DAEMON": "1"},
            whole=True, before=partial(forget, AGENTSVIEW), cwd=self.state,
        )  # fmt: skip
        return self.task(
            "first index",
            fresh,
            verdicts={"us": self._finds(PRINTED)},
            max_ratio=(FAST_RESUME, 3.0),
            max_mb=80,
            note="ours and agentsview's hold tool output too",
        )

    def tasks(self) -> Iterator[Task]:
        yield self._listing()
        for name, word in (("rare word", RARE), ("phrase", PHRASE), ("Chinese", CHINESE)):
            yield self._search(name, word)
        yield self._tools()
        yield self._search("one session grew", GROWN, before=self.home.grow, max_ms=150)
        yield self._search("20 new sessions", NEW, before=self.home.add_new, max_ms=300)
        self.home.take_back()
        yield self._picker("picker, first rows", "paint", max_ms=250)
        yield self._picker("picker, first word typed", "search", max_ms=100)
        yield self._usage()
        yield self._page()
        yield self._keep()

    def _listing(self) -> Task:
        runs = {
            "us": self.run("us", "ls", "--all-agents", "-n", str(_SHOWN)),
            FAST_RESUME: self.run(FAST_RESUME, "--list", "--limit", str(_SHOWN)),
            AGENTSVIEW: self.run(AGENTSVIEW, "session", "list", "--limit", str(_SHOWN)),
        }
        return self.task(f"list {_SHOWN}", runs, max_ms=80, max_mb=80)

    def _search(
        self,
        name: str,
        word: str,
        before: Callable[[], None] | None = None,
        max_ms: float = 90,
    ) -> Task:
        quoted = f'"{word}"' if " " in word else word
        most = str(_SHOWN)
        changing = _settled(before) if before is not None else None
        runs = {
            "us": self.run("us", *_ALL_HITS, quoted, before=changing),
            FAST_RESUME: self.run(FAST_RESUME, "--json", "--limit", most, quoted, before=changing),
        }
        if before is None:  # its server looks for changes in its own time
            runs[AGENTSVIEW] = self.run(
                AGENTSVIEW, "session", "search", "--fts", "--json", "--limit", "500", quoted
            )
        verdicts = dict.fromkeys(runs, self._finds(word))
        return self.task(f"search, {name}", runs, verdicts=verdicts, max_ms=max_ms, max_mb=80)

    def _tools(self) -> Task:
        found = ["session", "search", "--json", "--in", "tool_result", "--limit", "500"]
        runs = {
            "us": self.run("us", *_ALL_HITS, "--tools", PRINTED),
            AGENTSVIEW: self.run(AGENTSVIEW, *found, PRINTED),
        }
        verdicts = dict.fromkeys(runs, self._finds(PRINTED))
        return self.task("search, tool output", runs, verdicts=verdicts, max_ms=120, max_mb=80)

    def _usage(self) -> Task:
        runs = {
            "us": self.run("us", "usage", "--all-agents", "--by", "agent", "--json"),
            CCUSAGE: self.run(CCUSAGE, "daily", "--json", "--offline"),
            AGENTSVIEW: self.run(AGENTSVIEW, "usage", "daily", "--all", "--json", "--offline"),
        }
        verdicts: dict[str, Verdict] = {
            "us": lambda output: self._counts(
                sum(row["totalTokens"] for row in json.loads(output))
            ),
            CCUSAGE: lambda output: self._counts(json.loads(output)["totals"]["totalTokens"]),
            AGENTSVIEW: lambda output: self._counts(_agentsview_tokens(json.loads(output))),
        }
        return self.task(
            "usage of everything", runs, verdicts=verdicts, max_ratio=(CCUSAGE, 1.0), max_mb=80
        )

    def _picker(self, name: str, measure: str, max_ms: float) -> Task:
        """The picker over all sessions, in a terminal, from a folder without any."""
        folder = self.state / "folder"
        folder.mkdir(parents=True, exist_ok=True)
        picker = [str(Path(sys.executable).with_name("sessiontree")), "-r"]
        driver = [sys.executable, "-m", "benchmarks.picking", measure, RARE]
        command = [*driver, str(self.home.truth.sessions), *picker]
        env = self.env("us") | {"PYTHONPATH": str(_ROOT)}
        verdicts: dict[str, Verdict] = {}
        if measure == "search":
            verdicts["us"] = lambda output: self._shows(RARE, json.loads(output)["info"]["shown"])
        runs = {"us": Run(command, env, cwd=folder)}
        return self.task(name, runs, verdicts=verdicts, max_ms=max_ms, max_mb=80)

    def _shows(self, word: str, told: str) -> str:
        """The picker's rows also have words that begin so, as somebody is still typing."""
        count = int(told.partition(" ")[0].replace(",", ""))
        wanted = len(self.home.truth.holders[word])
        return f"ok {count} rows" if count >= wanted else f"not {count} of {wanted}"

    def _page(self) -> Task:
        big = self.home.root / self.home.truth.big
        size = f"{big.stat().st_size / _MB:,.0f} MB transcript as a page"
        out = self.state / "pages"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        ours, theirs = str(out / "us.html"), str(out / "theirs.html")
        runs = {
            "us": self.run("us", "export", str(big), "--force", "-o", ours),
            CLAUDE_CODE_LOG: self.run(CLAUDE_CODE_LOG, str(big), "-o", theirs, "--no-cache"),
            TRANSCRIPTS: self.run(TRANSCRIPTS, "json", str(big), "-o", str(out / "many")),
        }
        verdicts: dict[str, Verdict] = {
            "us": lambda _: _sized(out / "us.html"),
            CLAUDE_CODE_LOG: lambda _: _sized(out / "theirs.html"),
            TRANSCRIPTS: lambda _: _sized(out / "many"),
        }
        return self.task(size, runs, verdicts=verdicts)

    def _keep(self) -> Task:
        return self.task("keep, nothing new", {"us": self.run("us", "keep")}, max_ms=200)

    def disk_line(self) -> str:
        """What everyone's index takes."""
        sizes = {
            name: _bytes_below(self.state / name)
            for name in ("us", FAST_RESUME, AGENTSVIEW)
            if name in ("us", *self.rivals.commands)
        }
        told = ", ".join(f"{name} {size / _MB:,.0f} MB" for name, size in sizes.items())
        return f"On disk after the first index: {told}."

    def _finds(self, word: str) -> Verdict:
        return partial(self._judge, word)

    def _judge(self, word: str, output: bytes) -> str:
        found = set(_ids(json.loads(output)))
        if word in (GROWN, NEW):
            wanted_count = 1 if word == GROWN else 20
            return f"{'ok' if len(found) == wanted_count else 'wrong'} {len(found)}"
        wanted = set(self.home.truth.holders[word])
        right, wrong = len(found & wanted), len(found - wanted)
        is_exact = right == len(wanted) and not wrong
        told = f"{right} of {len(wanted)}" + (f", {wrong} wrong" if wrong else "")
        return f"{'ok' if is_exact else 'not'} {told}"

    def _counts(self, tokens: int) -> str:
        wanted = sum(self.home.truth.tokens.values())
        return "ok exact" if tokens == wanted else f"not {tokens / wanted - 1:+.1%}"


def _settled(change: Callable[[], None]) -> Callable[[], None]:
    def work() -> None:
        change()
        time.sleep(_SETTLE_S)

    return work


def _ids(found: Any) -> Iterator[str]:
    """The ids of the sessions in an answer, without the agent in front."""
    rows = found
    if isinstance(found, dict):
        rows = found.get("sessions") or found.get("matches") or []
    for row in rows:
        yield str(row.get("session_id") or row["id"]).rpartition(":")[2]


def _agentsview_tokens(answer: dict[str, Any]) -> int:
    totals = answer["totals"]
    names = ("inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens")
    return sum(int(totals.get(name, 0)) for name in names)


def _sized(path: Path) -> str:
    return f"ok {_bytes_below(path) / _MB:,.1f} MB"


def _bytes_below(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(
        os.stat(os.path.join(base, name)).st_size
        for base, _, names in os.walk(path)
        for name in names
    )


def _table(
    home: AllAgents, found: list[Outcome], disk: str, lacking: Mapping[str, str]
) -> tuple[str, list[str]]:
    rivals = [FAST_RESUME, AGENTSVIEW, CCUSAGE, CLAUDE_CODE_LOG, TRANSCRIPTS]
    lines = [
        f"Programs that find sessions, on {home.truth.sessions:,} of Claude Code, Codex and pi:",
        "best time of a whole process in ms, and how right its answer is. MB is our peak memory.",
        "",
        "| | us | " + " | ".join(rivals) + " | MB | limit | |",
        "|---|" + "--:|" * (len(rivals) + 3) + "---|",
    ]
    missed = [f"{name}: not to be had ({why})" for name, why in lacking.items()]
    for outcome in found:
        failures = outcome.failures()
        missed += [f"{outcome.task.name}: {failure}" for failure in failures]
        cells = [outcome.task.name, _cell(outcome, "us")]
        cells += [_cell(outcome, name) for name in rivals]
        peak = outcome.trials["us"].peak_mb
        cells += ["" if peak is None else f"{peak:,.0f}", _limit(outcome)]
        verdict = "**missed:** " + ", ".join(failures) if failures else "ok"
        cells.append("; ".join(filter(None, (verdict, outcome.task.note))))
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", disk]
    lines += [f"{name} could not be had: {why}." for name, why in lacking.items()]
    return "\n".join(lines) + "\n", missed


def _cell(outcome: Outcome, name: str) -> str:
    if name not in outcome.task.runs:
        return ""
    answer = outcome.answer(name)
    best = outcome.taken[name].best_ms
    told = answer.removeprefix("ok ").removeprefix("not ")
    return ", ".join(filter(None, ("" if best is None else f"{best:,.0f}", told)))


def _limit(outcome: Outcome) -> str:
    task = outcome.task
    if task.max_ratio is not None:
        rival, most = task.max_ratio
        ratio = outcome.ratio(rival)
        return f"{most:g} × {rival}" + (f" (is {ratio:.2f})" if ratio is not None else "")
    return "" if task.max_ms is None else f"{task.max_ms:,.0f} ms"
