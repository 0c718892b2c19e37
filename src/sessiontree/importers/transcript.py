"""Transcript, the result of converting a foreign session, and its builder. Pure.

The builder derives each entry's id from the foreign session and the entry's first record. So
reading the same file again gives the same entries; a file that has grown gives the same entries,
some of them with more content, and new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sessiontree.discovery.adapters.records import read_time, spell_time
from sessiontree.model.entries import WireEntry
from sessiontree.model.ids import DerivedIds


@dataclass(slots=True)
class ConversionReport:
    """The counts of a foreign file's records, by how they were converted.

    ``kept`` counts, by type, records without a counterpart, which became ``custom`` entries;
    ``left_out`` those that only repeat others; ``skipped`` lists the lines without a record.
    """

    records: int = 0
    messages: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a note to the report, once."""
        if text not in self.notes:
            self.notes.append(text)

    def lines(self) -> list[str]:
        """One line for the user for each thing that could not be mapped."""
        said = [f"kept as custom entries: {name} ({count})" for name, count in self.kept.items()]
        said += [f"line {line} left out: {reason}" for line, reason in self.skipped]
        return said + self.notes


@dataclass(slots=True)
class Transcript:
    """One foreign session as entries in the omp dialect, oldest first.

    ``leaf_id`` is the conversation's leaf, not necessarily the last entry. ``is_dated``
    tells whether its records say when it began.
    """

    agent: str
    session_id: str
    started_ms: int
    is_dated: bool = True
    cwd: str | None = None
    title: str | None = None
    title_source: str | None = None
    parent_session: str | None = None
    entries: list[WireEntry] = field(default_factory=list)
    leaf_id: str | None = None
    report: ConversionReport = field(default_factory=ConversionReport)


SAID = frozenset(("message", "custom_message", "compaction"))
"""The entries that are the conversation; the others are notes on it."""


@dataclass(slots=True)
class _PathState:
    """The model and settings in effect at an entry, set by the entries above it."""

    model: str | None = None
    thinking_level: str | None = None


class TranscriptBuilder:
    """Adds entries one by one, each under a parent that was added before it."""

    def __init__(self, agent: str, session_id: str, fallback_ms: int) -> None:
        self.report = ConversionReport()
        self.entries: list[WireEntry] = []
        self.by_id: dict[str, WireEntry] = {}
        self._ids = DerivedIds(self.by_id)
        self._seed = (agent, session_id)
        self._agent = agent
        self._states: dict[str | None, _PathState] = {None: _PathState()}
        self._now_ms = fallback_ms

    def take_time(self, value: object) -> int:
        """Return a record's time in ms; without one, that of the record before it."""
        time_ms = read_time(value)
        if time_ms is not None:
            self._now_ms = time_ms
        return self._now_ms

    def set_time(self, time_ms: int) -> None:
        """Set the time of the entries added next."""
        self._now_ms = time_ms

    def add(
        self,
        kind: str,
        source: Sequence[str],
        parent_id: str | None,
        fields: dict[str, Any],
        *,
        is_place: bool = False,
    ) -> str:
        """Add an entry whose first record is named in ``source``; return its id.

        With ``is_place`` its place is that of the record in the conversation, and has the id
        that a message made of the record would have: more records may show that it is one.
        """
        role = "" if kind in SAID or is_place else kind
        entry_id = self._ids.derive(*self._seed, role, *source)
        entry: WireEntry = {
            "type": kind,
            "id": entry_id,
            "parentId": parent_id,
            "timestamp": spell_time(self._now_ms),
            **fields,
        }
        self.entries.append(entry)
        self.by_id[entry_id] = entry
        self._states[entry_id] = self._states[parent_id]
        return entry_id

    def add_message(
        self, source: Sequence[str], parent_id: str | None, message: dict[str, Any]
    ) -> str:
        """Add a ``message`` entry; the message gets the time of the record."""
        self.report.messages += 1
        return self.add(
            "message", source, parent_id, {"message": {**message, "timestamp": self._now_ms}}
        )

    def add_custom_message(
        self,
        source: Sequence[str],
        parent_id: str | None,
        name: str,
        content: Any,
        display: bool,
        details: dict[str, Any] | None = None,
    ) -> str:
        """Add text that the model saw and the user did not type."""
        fields: dict[str, Any] = {
            "customType": f"{self._agent}.{name}",
            "content": content,
            "display": display,
        }
        if details is not None:
            fields["details"] = details
        return self.add("custom_message", source, parent_id, fields)

    def keep(
        self,
        source: Sequence[str],
        parent_id: str | None,
        name: str,
        data: object,
        *,
        is_place: bool = False,
    ) -> str:
        """Add a ``custom`` entry for a record without a counterpart, and count it in the report."""
        self.report.kept[name] += 1
        fields = {"customType": f"{self._agent}.{name}", "data": data}
        return self.add("custom", source, parent_id, fields, is_place=is_place)

    def model_at(self, entry_id: str | None) -> str | None:
        """The model ("provider/id") in effect at an entry."""
        return self._states[entry_id].model

    def switch_model(self, source: Sequence[str], parent_id: str | None, model: str) -> str | None:
        """Set the model under ``parent_id``, if it is another; return the next parent."""
        state = self._states[parent_id]
        if state.model == model:
            return parent_id
        added = self.add("model_change", source, parent_id, {"model": model})
        self._states[added] = _PathState(model, state.thinking_level)
        return added

    def switch_thinking(
        self, source: Sequence[str], parent_id: str | None, level: str
    ) -> str | None:
        """Set the thinking level under ``parent_id``, if it is another; return the next parent."""
        state = self._states[parent_id]
        if state.thinking_level == level:
            return parent_id
        added = self.add("thinking_level_change", source, parent_id, {"thinkingLevel": level})
        self._states[added] = _PathState(state.model, level)
        return added
