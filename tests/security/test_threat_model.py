"""The threat model names tests for every threat, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "security.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| threat ")
]


def test_every_threat_has_an_answer_and_a_test() -> None:
    assert len(ROWS) >= 25
    assert all(len(row) == 3 and all(row) and "`" in row[2] for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_the_tests_of_a_threat_are_there(row: list[str]) -> None:
    for named in re.findall("`([^`]*)`", row[2]):
        path, _, test = named.partition("::")
        file = ROOT / path if "/" in path else ROOT / "tests" / "security" / path
        assert file.is_file(), named
        name = rf"{test}\(" if test else "test_"
        assert re.search(rf"^(?:async )?def {name}", file.read_text(), re.MULTILINE), named


def test_every_test_of_this_folder_stands_for_a_threat() -> None:
    named = {name for row in ROWS for name in re.findall(r"`([\w]+\.py)", row[2])}
    here = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    assert here - {Path(__file__).name} <= named
