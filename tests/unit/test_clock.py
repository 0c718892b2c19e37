"""Tests of the clock. That nothing else tells the time is a rule of the linter."""

from __future__ import annotations

import pytest

from sessiontree import clock


def test_a_test_that_sets_the_system_s_clock_sets_every_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_771_237_230_123_456_789)
    assert clock.now_ms() == 1_771_237_230_123
    assert clock.now_s() == pytest.approx(1_771_237_230.123456)
    assert clock.now().isoformat() == "2026-02-16T10:20:30.123456+00:00"
