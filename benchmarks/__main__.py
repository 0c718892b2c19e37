"""``python -m benchmarks``: measure, then write the table.

--quick        small sizes, three repetitions: does it all still work, not how fast
--only REGEX   only the operations whose name matches
--json FILE    the raw numbers as well
--markdown F   where the table goes (default .bench/report.md; it is printed too)
--docs         put what was measured into its place in docs/performance.md
--check        exit 1 when a target was missed
--profile      instead of measuring, show where our time goes
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import alternatives, floors_table, frameworks, peers, postgres, rivals, viewing
from benchmarks.cases import QUICK, Case, Sizes, all_cases
from benchmarks.measure import Run, measure_in_turns, measure_more
from benchmarks.report import Row, find_better, is_close, made_by, make_row, to_json, to_markdown
from benchmarks.world import CHECKOUT, World

REPETITIONS = 5
MORE = 2
"""How many times as many follow where five do not tell on which side of its limit a row is."""
OPERATIONS = "operations"
"""The part of all cases; every other part has the name that --only asks for."""


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    command = shlex.join(["python", "-m", "benchmarks", *(arguments or sys.argv[1:])])
    sizes = QUICK if options.quick else Sizes()
    repetitions = 3 if options.quick else REPETITIONS
    world = World(options.work.resolve())
    chosen = [c for c in all_cases(world, sizes) if re.search(options.only, c.name)]
    try:
        if chosen:
            peers.ensure()
    except peers.PeersMissingError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    if options.profile:
        return _profile(chosen)
    rows: list[Row] = []
    for case in chosen:
        rows.append(_measure(case, repetitions))
        # A run takes long: what is measured so far is on disk when someone stops it.
        _save(options, {OPERATIONS: to_markdown(rows, command)}, to_json(rows, command))
    parts = {OPERATIONS: to_markdown(rows, command)} if rows else {}
    missed = [row.name for row in rows if row.failures]
    for name, measure in _tables(world, sizes, repetitions, is_quick=options.quick):
        if re.search(options.only, name):
            table, failures = measure()
            parts[name] = f"{made_by(command)}\n\n{table}"
            missed += failures
    _save(options, parts, to_json(rows, command))
    if options.docs:
        _put_into_docs(parts)
    print("\n".join(parts.values()))
    return 1 if options.check and missed else 0


Table = tuple[str, list[str]]
"""A table as Markdown, and the rows that miss a target."""


def _tables(
    world: World, sizes: Sizes, repetitions: int, *, is_quick: bool
) -> Iterator[tuple[str, Callable[[], Table]]]:
    """What is measured beside the cases, each under the name that --only asks for."""

    def database() -> Table:
        return postgres.measure(world, is_quick=is_quick, repetitions=repetitions)

    def faults() -> Table:
        return postgres.measure_faults(is_quick=is_quick)

    for module in (floors_table, alternatives, frameworks, rivals, viewing):
        yield module.NAME, partial(module.measure, world, sizes, repetitions)
    yield postgres.NAME, database
    yield postgres.FAULTS, faults


def _save(options: argparse.Namespace, parts: Mapping[str, str], raw: dict[str, Any]) -> None:
    options.markdown.parent.mkdir(parents=True, exist_ok=True)
    options.markdown.write_text("\n".join(parts.values()))
    if options.json is not None:
        options.json.write_text(json.dumps(raw, indent=1) + "\n")


def _put_into_docs(parts: Mapping[str, str]) -> None:
    """Put each part between its marks; what this run did not measure stays as it is."""
    document = CHECKOUT / "docs" / "performance.md"
    text = document.read_text()
    for name, table in parts.items():
        begin, end = f"<!-- table: {name} -->\n", f"<!-- end of table: {name} -->\n"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"benchmarks: {document} has no place for the table {name}")
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}{table}{end}{after}"
    document.write_text(text)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, default=CHECKOUT / ".bench" / "report.md")
    parser.add_argument("--work", type=Path, default=CHECKOUT / ".bench", help="folder for corpora")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--profile", action="store_true")
    return parser.parse_args(arguments)


def _measure(case: Case, repetitions: int) -> Row:
    say(case.name)
    contest = case.build()
    if contest.first is not None:
        measure_in_turns({"first": contest.first}, 1)
    # One unmeasured run of ours: the page cache and the catalogue are then as the case says.
    measure_in_turns({"us": contest.runs["us"]}, 1)
    taken = measure_in_turns(contest.runs, repetitions)
    others = {f"{size:g}": run for size, run in contest.growth.items()}
    measure_in_turns(others, 1)
    grown = measure_in_turns(others, repetitions)
    row = make_row(case, contest, taken, grown)
    if is_close(row):
        rivals = ("us", find_better(case, row))
        runs = {name: run for name, run in contest.runs.items() if name in rivals}
        measure_more(runs, MORE * repetitions, taken)
        measure_more(others, MORE * repetitions, grown)
        row = make_row(case, contest, taken, grown)
    ratio = "" if row.ratio is None else f"ratio {row.ratio:.3f}"
    say(f"  {ratio} {' '.join(row.failures)}")
    return row


def _profile(cases: list[Case]) -> int:
    os.environ["BENCH_PROFILE"] = "1"
    for case in cases:
        contest = case.build()
        if contest.first is not None:
            measure_in_turns({"first": contest.first}, 1)
        ours = contest.runs["us"]
        env = {**ours.env, "BENCH_PROFILE": "1"}
        say(case.name)
        run = Run(ours.command, env, scratch=ours.scratch, before=ours.before, cwd=ours.cwd)
        measure_in_turns({"us": run}, 1)
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
