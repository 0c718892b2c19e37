"""Settings of a program for its live sessions."""

from __future__ import annotations

from dataclasses import dataclass, field

from sessiontree.core.compaction import CompactionSettings


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Defaults for a live session; ``None`` leaves the choice to the table of models."""

    default_model: str | None = None
    """``provider/id`` for sessions that name no model."""
    default_thinking: str | None = None
    """Thinking level for sessions that name none."""
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
