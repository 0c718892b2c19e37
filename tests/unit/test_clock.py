"""Tests of the clock, and that nothing else tells the time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sessiontree
from sessiontree import clock

SOURCE = Path(sessiontree.__file__).parent
READS_THE_CLOCK = {"time.time", "time.time_ns", "datetime.now", "datetime.today", "date.today"}


def test_a_test_that_sets_the_system_s_clock_sets_every_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_771_237_230_123_456_789)
    assert clock.now_ms() == 1_771_237_230_123
    assert clock.now_s() == pytest.approx(1_771_237_230.123456)
    assert clock.now().isoformat() == "2026-02-16T10:20:30.123456+00:00"


def test_no_other_module_tells_the_time() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "clock.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in READS_THE_CLOCK
    ]
    assert found == []
