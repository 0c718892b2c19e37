"""Coverage-guided fuzzing, each harness in a process of its own and for its share of the time."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.torture.conftest import Budget

HARNESSES = sorted(path.stem for path in Path(__file__).parent.glob("fuzz_*.py"))
_ROOT = Path(__file__).parents[2]


@pytest.mark.share(9)
@pytest.mark.parametrize("harness", HARNESSES)
def test_no_input_breaks_a_reader(
    harness: str,
    tmp_path: Path,
    yard: Path,
    budget: Budget,
    figures: Callable[[str, float], None],
) -> None:
    crash = tmp_path / "finding-"
    ended = subprocess.run(
        [
            sys.executable,
            *("-m", f"tests.torture.{harness}", str(tmp_path / "corpus")),
            f"-max_total_time={max(2, round(budget.seconds))}",
            *("-timeout=10", "-max_len=20000", "-print_final_stats=1"),
            f"-artifact_prefix={crash}",
        ],
        cwd=_ROOT,
        env={**os.environ, "TMPDIR": str(yard)},
        capture_output=True,
        timeout=budget.seconds + 120,
        check=False,
    )
    told = ended.stderr.decode("utf-8", "replace") + ended.stdout.decode("utf-8", "replace")
    findings = [base64.b64encode(path.read_bytes()) for path in tmp_path.glob("finding-*")]
    assert ended.returncode == 0, f"{told[-4_000:]}\n{findings}"
    runs = re.search(r"number_of_executed_units: (\d+)", told)
    assert runs is not None, f"atheris did not run: {told[-2_000:]}"
    figures("inputs", int(runs[1]))
    figures("corpus", sum(1 for _ in (tmp_path / "corpus").iterdir()))
