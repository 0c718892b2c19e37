"""Models: what is known of each, and how far it can think.

Owns the table of models (packaged, and the user's) and clamping. Knows nothing of agents or
sessions; a model is named by its reference, ``provider/id``.
"""

from __future__ import annotations

from dataclasses import dataclass

THINKING_LEVELS: tuple[str, ...] = ("off", "minimal", "low", "medium", "high", "xhigh")
"""From none to most."""


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


@dataclass(frozen=True, slots=True)
class Model:
    """One model of one provider."""

    provider: str
    id: str
    name: str = ""
    context_window: int = 128_000
    max_output: int = 8_192
    max_thinking: str = "off"
    """The highest of `THINKING_LEVELS` it can do; ``off`` if it can't think."""
    images: bool = False
    prices: Prices = Prices()

    @property
    def ref(self) -> str:
        """``provider/id``, as session files spell it."""
        return f"{self.provider}/{self.id}"

    @property
    def display_name(self) -> str:
        return self.name or self.id
