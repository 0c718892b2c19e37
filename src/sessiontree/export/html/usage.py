"""Tokens and cost of a session by model, and the table that a page shows of them. Pure."""

from __future__ import annotations

from collections import defaultdict

from sessiontree.core.usage import PAID_TYPES, Usage, paid_model_of, usage_of_entry
from sessiontree.export.html import markup
from sessiontree.model.entries import WireEntry

_OTHERS = "tools and summaries"


class UsageTable:
    """Adds up what the entries of all branches used."""

    def __init__(self) -> None:
        self._by_model: defaultdict[str, Usage] = defaultdict(Usage)
        self.total = Usage()

    def add(self, data: WireEntry) -> None:
        """Count an entry."""
        kind = data.get("type")  # of a hostile file, anything
        is_paid = isinstance(kind, str) and kind in PAID_TYPES
        used = usage_of_entry(data) if is_paid else None
        if used is not None and (used.total_tokens or used.cost):
            self._by_model[paid_model_of(data) or _OTHERS] += used
            self.total += used

    def render(self) -> str:
        """The table, dearest model first; a line if nothing was recorded."""
        if not self._by_model:
            return "<p>No usage was recorded.</p>"
        heads = ("Model", "Input", "Output", "Cached", "Stored", "Cost")
        ranked = sorted(
            self._by_model.items(), key=lambda item: (-item[1].cost, -item[1].total_tokens)
        )
        rows = [(markup.text(model), used) for model, used in ranked]
        if len(rows) > 1:
            rows.append(("All", self.total))
        head = "".join(f'<th scope="col">{head}</th>' for head in heads)
        body = "".join(f"<tr>{_cells(name, used)}</tr>" for name, used in rows)
        return (
            f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )


def _cells(name: str, used: Usage) -> str:
    numbers = (used.input, used.output, used.cache_read, used.cache_write)
    cells = "".join(f'<td class="right">{number:,}</td>' for number in numbers)
    return f'<th scope="row">{name}</th>{cells}<td class="right">${used.cost:,.2f}</td>'
