"""What the attacks have done over all recorded runs.

A run leaves its figures in ``.bench/torture.json``. ``python -m tests.torture.record``
(``make torture RECORD=1``) adds their sums as one run to ``record.json``, which is committed, and
writes the table in ``docs/reliability.md`` from it.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHECKOUT = Path(__file__).parents[2]
REPORT = _CHECKOUT / ".bench" / "torture.json"
RECORD = Path(__file__).with_name("record.json")
DOCUMENT = _CHECKOUT / "docs" / "reliability.md"
TABLE_BEGIN = "<!-- table: python -m tests.torture.record -->\n"
TABLE_END = "<!-- end of table -->\n"


@dataclass(frozen=True, slots=True)
class Column:
    """A sum that is kept: what the table calls it, and the figures that belong to it."""

    title: str
    goal: int | None
    holds: Callable[[str, str], bool]


COLUMNS = {
    "kills": Column("kills", 10_000, lambda _, name: name == "kills"),
    "states": Column(
        "power-cut states", 100_000, lambda test, name: "power_cut" in test and name == "states"
    ),
    "hostile": Column(
        "hostile inputs",
        1_000_000,
        lambda test, name: "spoiled" in test or ("breaks_a_reader" in test and name == "inputs"),
    ),
    "faults": Column("failed calls", None, lambda _, name: name == "faults"),
    "interrupts": Column("interrupts", None, lambda _, name: name == "interrupts"),
    "peers": Column("lines of living peers", None, lambda _, name: name == "peer lines"),
}


def note(section: str, figures: Mapping[str, Any]) -> None:
    """Put figures into the report of this run."""
    REPORT.parent.mkdir(exist_ok=True)
    known = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    known.setdefault(section, {}).update(figures)
    REPORT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def sum_up(report: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    """The sums that are kept of a run's figures."""
    return {
        key: sum(
            round(count)
            for test, figures in report.items()
            for name, count in figures.items()
            if column.holds(test, name)
        )
        for key, column in COLUMNS.items()
    }


def make_table(runs: list[dict[str, Any]]) -> str:
    """The recorded runs and their sums, in Markdown."""
    head = ["date", "commit", "seed", "minutes", *(c.title for c in COLUMNS.values()), "failed"]
    rows = [head, ["---"] * 3 + ["--:"] * (len(head) - 3)]
    rows += [
        [
            run["date"],
            f"`{run['commit']}`",
            str(run["seed"]),
            str(run["minutes"]),
            *(f"{run['counts'][key]:,}" for key in COLUMNS),
            str(run["failed"]),
        ]
        for run in runs
    ]
    totals = [f"**{sum(run['counts'][key] for run in runs):,}**" for key in COLUMNS]
    minutes = sum(run["minutes"] for run in runs)
    failed = sum(run["failed"] for run in runs)
    rows.append(["**all**", "", "", f"**{minutes}**", *totals, f"**{failed}**"])
    goals = [f"{column.goal:,}" if column.goal else "" for column in COLUMNS.values()]
    rows.append(["goal", "", "", "", *goals, "0"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def put_into_document(document: str, table: str) -> str:
    """The document with another table."""
    before, begin, rest = document.partition(TABLE_BEGIN)
    _, end, after = rest.partition(TABLE_END)
    if not begin or not end:
        raise ValueError(f"{DOCUMENT.name} has lost the marks around its table")
    return before + begin + "\n" + table + "\n" + end + after


def load_runs() -> list[dict[str, Any]]:
    """The recorded runs, oldest first."""
    runs: list[dict[str, Any]] = json.loads(RECORD.read_text())
    return runs


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=_CHECKOUT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def main() -> int:
    report = json.loads(REPORT.read_text())
    run = report.pop("run")
    is_changed = bool(_git("status", "--porcelain", "--untracked-files=no", "--", "src"))
    entry = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if is_changed else ""),
        "seed": run["seed"],
        "minutes": round(run["seconds"] / 60),
        "failed": run["failed"],
        "failures": run["failures"],
        "counts": sum_up(report),
    }
    runs = [*load_runs(), entry]
    RECORD.write_text("[\n" + ",\n".join(json.dumps(run) for run in runs) + "\n]\n")
    DOCUMENT.write_text(put_into_document(DOCUMENT.read_text(), make_table(runs)))
    print(json.dumps(entry))
    return 0


if __name__ == "__main__":
    sys.exit(main())
