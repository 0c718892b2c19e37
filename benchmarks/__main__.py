"""``python -m benchmarks``: measure, then write the table.

--quick        small sizes, three repetitions: does it all still work, not how fast
--only REGEX   only the operations whose name matches
--json FILE    the raw numbers as well
--markdown F   where the table goes (default .bench/report.md; it is printed too)
--docs         put the tables into docs/performance.md
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
from pathlib import Path
from typing import Any

from benchmarks import alternatives, floors_table, frameworks, peers, postgres, rivals
from benchmarks.cases import QUICK, Case, Sizes, all_cases
from benchmarks.measure import Run, measure_in_turns, measure_more
from benchmarks.report import Row, find_better, is_close, make_row, to_json, to_markdown
from benchmarks.world import CHECKOUT, World

REPETITIONS = 5
MORE = 2
"""How many times as many follow where five do not tell on which side of its limit a row is."""
TABLES_BEGIN = "<!-- tables: python -m benchmarks --docs -->"
TABLES_END = "<!-- end of tables -->"


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
        _save(options, [to_markdown(rows, command)], to_json(rows, command))
    parts = [to_markdown(rows, command)] if rows else []
    if re.search(options.only, floors_table.NAME):
        parts.append(floors_table.measure(world, sizes, repetitions))
    if re.search(options.only, alternatives.NAME):
        parts.append(alternatives.measure(world, sizes, repetitions))
    missed = [row.name for row in rows if row.failures]
    if re.search(options.only, frameworks.NAME):
        table, failures = frameworks.measure(world, sizes, repetitions)
        parts.append(table)
        missed += failures
    if re.search(options.only, rivals.NAME):
        table, failures = rivals.measure(world, sizes, repetitions)
        parts.append(table)
        missed += failures
    if re.search(options.only, postgres.NAME):
        table, failures = postgres.measure(world, is_quick=options.quick, repetitions=repetitions)
        parts.append(table)
        missed += failures
    if re.search(options.only, postgres.FAULTS):
        table, failures = postgres.measure_faults(is_quick=options.quick)
        parts.append(table)
        missed += failures
    _save(options, parts, to_json(rows, command))
    if options.docs:
        _put_into_docs("\n".join(parts))
    print("\n".join(parts))
    return 1 if options.check and missed else 0


def _save(options: argparse.Namespace, parts: list[str], raw: dict[str, Any]) -> None:
    options.markdown.parent.mkdir(parents=True, exist_ok=True)
    options.markdown.write_text("\n".join(parts))
    if options.json is not None:
        options.json.write_text(json.dumps(raw, indent=1) + "\n")


def _put_into_docs(tables: str) -> None:
    """Replace what stands between the two marks of the document."""
    document = CHECKOUT / "docs" / "performance.md"
    before, _, rest = document.read_text().partition(TABLES_BEGIN)
    _, _, after = rest.partition(TABLES_END)
    document.write_text(f"{before}{TABLES_BEGIN}\n{tables}{TABLES_END}{after}")


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
