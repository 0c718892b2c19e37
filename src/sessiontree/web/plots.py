"""Plots as SVG: bars by day, the heat map of a year, bars in a table. Pure.

Colours and type are classes of the style sheet, so that a plot follows light and dark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta

from sessiontree.export.html.markup import attribute, text

Spell = Callable[[float], str]

_CELL, _GAP, _TOP, _SIDE = 13, 3, 18, 30
_LEVELS = 4
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def heat_map(values: Mapping[date, float], last: date, spell: Spell) -> str:
    """The 53 weeks that end with this day, a column each, Monday on top."""
    first = last - timedelta(days=364 + last.weekday())
    limits = _limits([value for day, value in values.items() if value > 0 and day >= first])
    cells, months = [], []
    day = first
    month = 0
    while day <= last:
        week, weekday = divmod((day - first).days, 7)
        value = values.get(day, 0.0)
        cells.append(
            f'<rect class="level{_level(value, limits)}" data-day="{day}" '
            f'x="{_SIDE + week * (_CELL + _GAP)}" y="{_TOP + weekday * (_CELL + _GAP)}" '
            f'width="{_CELL}" height="{_CELL}" rx="3"><title>{_spell_day(day)}: '
            f"{text(spell(value)) if value else 'nothing'}</title></rect>"
        )
        if weekday == 0 and day.month != month:
            if month or day.day <= 7:
                x = _SIDE + week * (_CELL + _GAP)
                months.append(f'<text x="{x}" y="11">{_MONTHS[day.month - 1]}</text>')
            month = day.month
        day += timedelta(days=1)
    days = "".join(
        f'<text x="0" y="{_TOP + at * (_CELL + _GAP) + 10}">{name}</text>'
        for at, name in ((0, "Mon"), (2, "Wed"), (4, "Fri"))
    )
    width, height = _SIDE + 53 * (_CELL + _GAP), _TOP + 7 * (_CELL + _GAP)
    busy = sum(1 for day, value in values.items() if value > 0 and first <= day <= last)
    about = f"A year of days until {last}: {busy} with usage"
    return (
        f'<svg class="heat" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{about}">{"".join(months)}{days}{"".join(cells)}</svg>'
    )


def legend() -> str:
    """The legend of a heat map's colours."""
    size = _CELL + _GAP
    cells = "".join(
        f'<rect class="level{level}" x="{level * size}" width="{_CELL}" height="{_CELL}" rx="3"/>'
        for level in range(_LEVELS + 1)
    )
    drawn = f'<svg width="{(_LEVELS + 1) * size}" height="{_CELL}" aria-hidden="true">{cells}</svg>'
    return f'<p class="legend">Less {drawn} More</p>'


def day_bars(values: Mapping[date, float], first: date, last: date, spell: Spell) -> str:
    """A bar for each day, or for each week if there are many days."""
    step = 1 if (last - first).days < 120 else 7
    starts = [first + timedelta(days=at) for at in range(0, (last - first).days + 1, step)]
    sums = [
        sum(values.get(start + timedelta(days=at), 0.0) for at in range(step)) for start in starts
    ]
    most = max(sums, default=0.0) or 1.0
    width, height = 900, 170
    room = width - 10
    wide = room / max(1, len(starts))
    bars = []
    for at, (start, value) in enumerate(zip(starts, sums, strict=True)):
        tall = max(1.5, value / most * (height - 40)) if value else 0
        name = _spell_day(start) if step == 1 else f"week of {_spell_day(start)}"
        bars.append(
            f"<g{f' data-day={chr(34)}{start}{chr(34)}' if step == 1 else ''}>"
            f"<title>{name}: {text(spell(value)) if value else 'nothing'}</title>"
            f'<rect class="back" x="{5 + at * wide:.1f}" y="14" width="{wide:.1f}" '
            f'height="{height - 34}"/><rect class="bar" x="{5 + at * wide + wide * 0.12:.1f}" '
            f'y="{height - 20 - tall:.1f}" width="{wide * 0.76:.1f}" height="{tall:.1f}" '
            f'rx="{min(3, wide * 0.2):.1f}"/></g>'
        )
    marks = _spread(len(starts), 8)
    names = "".join(
        f'<text x="{5 + (at + 0.5) * wide:.1f}" y="{height - 4}" text-anchor="middle">'
        f"{_short_day(starts[at])}</text>"
        for at in marks
    )
    return (
        f'<svg class="bars" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{"By day" if step == 1 else "By week"}, from {first} to {last}; at most '
        f'{attribute(spell(max(sums, default=0.0)))}"><text class="most" x="5" y="10">'
        f"{text(spell(max(sums, default=0.0)))}</text>{''.join(bars)}"
        f'<line x1="5" x2="{width - 5}" y1="{height - 20}" y2="{height - 20}"/>{names}</svg>'
    )


def share_bar(share: float) -> str:
    """A bar in a table."""
    return (
        '<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{max(0.0, min(1.0, share)) * 100:.1f}" height="8"/></svg>'
    )


def _limits(values: Sequence[float]) -> list[float]:
    """The quartiles; values between two of them share a colour."""
    ranked = sorted(values)
    return [ranked[len(ranked) * at // _LEVELS] for at in range(1, _LEVELS)] if ranked else []


def _level(value: float, limits: Sequence[float]) -> int:
    return 0 if value <= 0 else 1 + sum(1 for limit in limits if value > limit)


def _spread(count: int, most: int) -> list[int]:
    """Choose at most ``most`` numbers below ``count``, evenly spread."""
    step = max(1, -(-count // most))
    return list(range(step // 2, count, step))


def _spell_day(day: date) -> str:
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year}"


def _short_day(day: date) -> str:
    return f"{_MONTHS[day.month - 1]} {day.day}"
