"""Estimate what an answer cost where its transcript names no price.

The prices are those of the package ``genai-prices`` (extra ``prices``): public list prices, in the
package's own data. Nothing is downloaded. Without the package, nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sessiontree.clock import now

_MILLION = 1_000_000
_LOCAL = ("ollama", "lmstudio", "lm-studio", "llama.cpp", "llamacpp", "vllm", "offline")
"""Providers whose models run on the user's own machine, whatever they are called."""

Estimate = Callable[[int, int, int, int, int], float]
"""Dollars for input, output, cache reads, cache writes, and how many of those last an hour."""


class Rate:
    """Dollars for a token, by how many tokens the whole request has."""

    __slots__ = ("_base", "_tiers")

    def __init__(self, price: Any) -> None:
        tiers = getattr(price, "tiers", ())
        base = price.base if tiers else price
        self._base = float(base or 0) / _MILLION
        self._tiers = [(int(tier.start), float(tier.price) / _MILLION) for tier in tiers]

    def __call__(self, request_tokens: int) -> float:
        rate = self._base
        for start, price in self._tiers:
            if request_tokens > start:
                rate = price
        return rate


@cache
def has_prices() -> bool:
    """Whether the prices are installed."""
    from importlib.util import find_spec

    return find_spec("genai_prices") is not None


@cache
def find_estimate(model: str, day: str) -> Estimate | None:
    """Return how to estimate the price of ``provider/model`` on a day; None if it is not known."""
    provider, _, name = model.partition("/")
    if not name or provider.lower() in _LOCAL or not has_prices():
        return None
    prices = _find_prices(provider, name, day)
    if prices is None:
        return None
    return _make(prices)


def _make(prices: dict[str, Any]) -> Estimate | None:
    rates = {
        key: Rate(prices[f"{key}_mtok"])
        for key in ("input", "output", "cache_read", "cache_write", "cache_write_1h")
        if prices.get(f"{key}_mtok") is not None
    }
    if "input" not in rates and "output" not in rates:
        return None
    free = Rate(0)
    plain, out = rates.get("input", free), rates.get("output", free)
    read, write = rates.get("cache_read", plain), rates.get("cache_write", plain)
    lasting = rates.get("cache_write_1h", write)

    def estimate(fresh: int, answer: int, cached: int, stored: int, stored_1h: int) -> float:
        request = fresh + cached + stored
        return (
            fresh * plain(request)
            + answer * out(request)
            + cached * read(request)
            + (stored - stored_1h) * write(request)
            + stored_1h * lasting(request)
        )

    return estimate


def _find_prices(provider: str, model: str, day: str) -> dict[str, Any] | None:
    """The list prices of a model: its provider's, else its maker's."""
    from genai_prices import Usage, calc_price

    try:
        moment = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    except ValueError:
        moment = now()
    # A gateway names the maker in the model: openrouter/anthropic/claude-sonnet-4.5.
    maker, _, bare = model.rpartition("/")
    asked = [(provider, model), (maker, bare), (None, bare)]
    for provider_id, name in asked:
        if provider_id == "":
            continue
        try:
            found = calc_price(
                Usage(), name, provider_id=provider_id, genai_request_timestamp=moment
            )
        except LookupError:
            continue
        return dict(vars(found.model_price))
    return None
