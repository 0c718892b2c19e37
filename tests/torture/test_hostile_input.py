"""Spoiled files by the hundred thousand: no crash, hang, runaway memory, or step outside."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.torture import cages, workers
from tests.torture.conftest import Budget
from tests.torture.hostile import TARGETS, Target

Figures = Callable[[str, float], None]
_CAGES = 2
_MOST_MEMORY_MB = 700


@pytest.mark.share(5)
@pytest.mark.parametrize("kind", TARGETS, ids=lambda kind: kind.name)
def test_spoiled_input_is_refused_or_read(
    kind: type[Target], tmp_path: Path, rng: random.Random, budget: Budget, figures: Figures
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("not yours")
    cells = []
    for number in range(_CAGES):
        folder = tmp_path / f"cage{number}"
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
