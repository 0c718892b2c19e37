"""Plots: every day has its place, and colours follow what was used."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest

from sessiontree.web import plots

LAST = date(2026, 11, 19)


def spell(value: float) -> str:
    return f"${value:.2f}"


def test_a_year_has_each_day_once_and_ends_today() -> None:
    drawn = plots.heat_map({LAST: 3.0, LAST - timedelta(days=400): 9.0}, LAST, spell)
    days = re.findall(r'data-day="([^"]+)"', drawn)
    assert days[-1] == "2026-11-19"
    assert len(days) == len(set(days))
    assert 365 <= len(days) <= 371
    assert date.fromisoformat(days[0]).weekday() == 0
    assert "Nov 19, 2026: $3.00" in drawn
    assert "1 with usage" in drawn


def test_the_most_expensive_days_are_the_darkest() -> None:
    values = {LAST - timedelta(days=at): float(at + 1) for at in range(100)}
    drawn = plots.heat_map(values, LAST, spell)
    levels = {
        day: int(level) for level, day in re.findall(r'class="level(\d)" data-day="([^"]+)"', drawn)
    }
    assert levels["2026-11-19"] == 1
    assert levels[str(LAST - timedelta(days=99))] == 4
    assert levels[str(LAST - timedelta(days=150))] == 0


@pytest.mark.parametrize(("days", "bars"), [(1, 1), (30, 30), (90, 90), (365, 53)])
def test_bars_are_days_or_weeks(days: int, bars: int) -> None:
    first = LAST - timedelta(days=days - 1)
    values = {first: 1.0, LAST: 2.0}
    drawn = plots.day_bars(values, first, LAST, spell)
    assert drawn.count('class="bar"') == bars
    assert ("By week" in drawn) == (days > 120)


def test_without_usage_nothing_is_divided_by_zero() -> None:
    assert "nothing" in plots.day_bars({}, LAST, LAST, spell)
    assert "0 with usage" in plots.heat_map({}, LAST, spell)
    assert 'width="100.0"' in plots.share_bar(7.0)
