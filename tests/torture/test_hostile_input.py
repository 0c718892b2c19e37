"""Spoiled files by the hundred thousand: no crash, hang, runaway memory, or step outside."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.torture import cages, workers
from tests.torture.conftest import Budget
from tests.torture.hostile import SessionInMemory, Target
from tests.torture.onlookers import TARGETS

Figures = Callable[[str, float], None]
_CAGES = 2
_MOST_MEMORY_MB = 700
OTHERS = [kind for kind in TARGETS if kind is not SessionInMemory]


def attack(
    kind: type[Target], yard: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    outside = yard / "outside"
    outside.mkdir()
    (outside / "secret").write_text("not yours")
    cells = []
    for number in range(_CAGES):
        folder = yard / f"cage{number}"
        folder.mkdir()
        cells.append(cages.run(kind(folder), folder, rng.getrandbits(32), budget.seconds))
    for reports in workers.collect(cells):
        failures = [told for key, told in reports if key == "failure"]
        assert not failures, "\n".join(
            f"python -m tests.torture.hostile {kind.name!r} {failure['seed']}\n{failure['error']}"
            for failure in failures
        )
        counts = dict(reports)["counts"]
        for name, count in counts.items():
            if name not in ("slowest ms", "peak MB"):
                figures(name, count)
        assert counts["peak MB"] < _MOST_MEMORY_MB
    assert (outside / "secret").read_text() == "not yours"
    assert [path.name for path in outside.iterdir()] == ["secret"]


@pytest.mark.share(3)
def test_spoiled_sessions_are_refused_or_read_and_gone_on_with(
    yard: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    attack(SessionInMemory, yard, rng, budget, figures)


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.name)
def test_spoiled_files_are_refused_or_read(
    kind: type[Target], yard: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    attack(kind, yard, rng, budget, figures)
