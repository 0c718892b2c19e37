"""The page of tokens and money: a year at a glance, by day, model, project and agent.

``UsageReader`` adds up all sessions, which takes a moment with many, and keeps the sum for a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from urllib.parse import urlencode

from sessiontree.discovery.usage import Dimension, Sums, UsageTable
from sessiontree.export.html.markup import attribute, text
from sessiontree.serving.sessions import ServedSessions
from sessiontree.web import plots
from sessiontree.web.frame import Frame
from sessiontree.web.listing import short_project

KEEP_S = 30.0
PERIODS = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "a year", "": "all time"}
METRICS = {"cost": "money", "tokens": "tokens"}
_MOST_ROWS = 12
_BY: tuple[Dimension, ...] = ("day", "model", "project", "agent")

_NO_USAGE = (
    '<div id="nothing"><h2>No usage was recorded</h2><p>Sessions of agents that note tokens or '
    "costs appear here.</p></div>"
)

Within = Sequence[tuple[dict[str, str], Sums]]
"""Sums, and the day, model, project and agent of each."""


class UsageReader:
    """The usage of all sessions. May be used from several threads."""

    def __init__(self, served: ServedSessions) -> None:
        self._served = served
        self._lock = threading.Lock()
        self._table: UsageTable | None = None
        self._read_at = 0.0

    def read(self) -> UsageTable:
        """The table; at most ``KEEP_S`` old."""
        with self._lock:
            if self._table is None or time.monotonic() - self._read_at > KEEP_S:
                self._table = self._served.scope.usage()
                self._read_at = time.monotonic()
            return self._table


@dataclass(frozen=True, slots=True)
class Wish:
    """The reader's choices."""

    period: str = "30"
    metric: str = "cost"

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Wish:
        """Read the choices in an address."""
        period, metric = given.get("days", "30"), given.get("show", "cost")
        return cls(period if period in PERIODS else "30", metric if metric in METRICS else "cost")

    def address(self, **changed: str) -> str:
        """The query of an address for these choices, with changes."""
        return urlencode({"days": self.period, "show": self.metric, **changed})

    def value(self, sums: Sums) -> float:
        """The number that is plotted."""
        return sums.total_cost if self.metric == "cost" else float(sums.total_tokens)

    def spell(self, value: float) -> str:
        """That number in words."""
        return spell_money(value) if self.metric == "cost" else f"{spell_count(value)} tokens"


def draw_usage(frame: Frame, table: UsageTable, wish: Wish, today: date) -> str:
    """The page."""
    days = _by_day(table, wish)
    first = min((day for day, value in days.items() if value), default=today)
    if wish.period:
        first = today - timedelta(days=int(wish.period) - 1)
    within = [*_sums_since(table, first if wish.period else None)]
    total = Sums()
    for _, sums in within:
        total.add(sums)
    if not table.cells:
        return frame.page("Usage", f"<h1>Usage</h1>{_NO_USAGE}", current="usage", classes="plain")
    main = "".join(
        (
            f"<h1>Usage</h1>{_draw_choices(frame, wish)}{_draw_total(total)}",
            f"<h2>{'By week' if (today - first).days >= 120 else 'By day'}</h2>",
            _draw_plot(plots.day_bars(days, first, today, wish.spell)),
            "<h2>The last year</h2>",
            _draw_plot(plots.heat_map(days, today, wish.spell)),
            plots.legend(),
            *(_draw_table(frame, within, each, wish) for each in _BY[1:]),
            _draw_notes(table, total),
        )
    )
    return frame.page("Usage", main, current="usage", scripts=("usage.js",), classes="plain")


def _by_day(table: UsageTable, wish: Wish) -> dict[date, float]:
    found: dict[date, float] = {}
    for row in table.group("day"):
        day = _to_day(row.key[0])
        if day is not None:
            found[day] = wish.value(row.sums)
    return found


def _sums_since(table: UsageTable, first: date | None) -> Iterator[tuple[dict[str, str], Sums]]:
    """The rows by model, project and agent of all days from then on."""
    for row in table.group(*_BY):
        day = _to_day(row.key[0])
        if first is None or (day is not None and day >= first):
            yield dict(zip(map(str, _BY), row.key, strict=True)), row.sums


def _to_day(spelled: str) -> date | None:
    try:
        return date.fromisoformat(spelled)
    except ValueError:
        return None


# -- pieces ------------------------------------------------------------------------------------


def _draw_plot(drawn: str) -> str:
    return f'<div class="plot" tabindex="0">{drawn}</div>'


def _draw_choices(frame: Frame, wish: Wish) -> str:
    periods = _draw_links(
        frame, PERIODS, wish.period, "Period", lambda value: wish.address(days=value)
    )
    metrics = _draw_links(
        frame, METRICS, wish.metric, "Shown", lambda value: wish.address(show=value)
    )
    return f'<div class="segments">{periods}{metrics}</div>'


def _draw_links(
    frame: Frame, names: Mapping[str, str], chosen: str, label: str, address: Callable[[str], str]
) -> str:
    links = "".join(
        f'<a href="{frame.url(f"usage?{address(value)}")}"'
        f"{' aria-current=' + chr(34) + 'true' + chr(34) if value == chosen else ''}>{name}</a>"
        for value, name in names.items()
    )
    return f'<nav class="segment" aria-label="{label}">{links}</nav>'


def _draw_total(total: Sums) -> str:
    facts = [
        (spell_money(total.total_cost), "estimated in part" if total.estimated else "as recorded"),
        (spell_count(total.input + total.cache_read + total.cache_write), "tokens read"),
        (spell_count(total.output), "tokens written"),
        (_cached(total), "of the input from a cache"),
        (f"{total.answers:,}", "answers"),
    ]
    return '<dl class="sums">' + "".join(
        f"<div><dd>{value}</dd><dt>{name}</dt></div>" for value, name in facts
    ) + "</dl>"  # fmt: skip


def _cached(total: Sums) -> str:
    whole = total.input + total.cache_read + total.cache_write
    return f"{total.cache_read / whole:.0%}" if whole else "–"


def _draw_table(frame: Frame, within: Within, by: Dimension, wish: Wish) -> str:
    sums: dict[str, Sums] = {}
    for key, each in within:
        sums.setdefault(key[by], Sums()).add(each)
    ranked = sorted(sums.items(), key=lambda item: wish.value(item[1]), reverse=True)
    most = wish.value(ranked[0][1]) if ranked else 0.0
    rest = Sums()
    for _, each in ranked[_MOST_ROWS:]:
        rest.add(each)
    rows = "".join(
        _draw_row(_link(frame, by, name), each, wish, most) for name, each in ranked[:_MOST_ROWS]
    )
    if len(ranked) > _MOST_ROWS:
        rows += _draw_row(f"{len(ranked) - _MOST_ROWS} more", rest, wish, most)
    heads = ("Input", "Output", "Answers", "Money")
    head = "".join(f'<th scope="col" class="right">{each}</th>' for each in heads)
    return (
        f'<h2>By {by}</h2><div class="table" tabindex="0"><table class="usage"><thead><tr>'
        f'<th scope="col">{by.capitalize()}</th><th scope="col"><span class="hidden">Share</span>'
        f"</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _draw_row(name: str, sums: Sums, wish: Wish, most: float) -> str:
    share = wish.value(sums) / most if most else 0.0
    read = sums.input + sums.cache_read + sums.cache_write
    estimated = ' title="estimated by list prices"' if sums.estimated else ""
    about = "≈ " if sums.estimated else ""
    return (
        f'<tr><th scope="row">{name}</th><td class="share">{plots.share_bar(share)}</td>'
        f'<td class="right">{spell_count(read)}</td>'
        f'<td class="right">{spell_count(sums.output)}</td>'
        f'<td class="right">{sums.answers:,}</td>'
        f'<td class="right"{estimated}>{about}{spell_money(sums.total_cost)}</td></tr>'
    )


def _link(frame: Frame, by: Dimension, name: str) -> str:
    """The name, as a link to its sessions."""
    shown = short_project(name) if by == "project" else name
    query = urlencode({str(by): name})
    return f'<a href="{frame.url(f"?{query}")}" title="{attribute(name)}">{text(shown)}</a>'


def _draw_notes(table: UsageTable, total: Sums) -> str:
    notes = ["Copies of answers in forks, resumed and imported sessions count once."]
    if total.estimated:
        notes.append("≈: where a transcript says no cost, it is estimated by list prices.")
    if total.unpriced:
        notes.append(f"{spell_count(total.unpriced)} tokens are of models without a known price.")
    if table.unreadable:
        notes.append(f"{len(table.unreadable):,} files could not be read.")
    return f'<p class="lead notes">{" ".join(notes)}</p>'


def spell_money(value: float) -> str:
    """Dollars."""
    return f"${value:,.2f}" if value < 1_000 else f"${value:,.0f}"


def spell_count(value: float) -> str:
    """A number in three digits or so."""
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            scaled = value / (1_000 if unit == "k" else limit)
            return f"{scaled:,.1f}{unit}" if scaled < 100 else f"{scaled:,.0f}{unit}"
    return f"{value:,.0f}"
