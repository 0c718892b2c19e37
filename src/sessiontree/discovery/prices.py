"""Estimate what an answer cost where its transcript names no price.

The prices are those of the package ``genai-prices`` (extra ``prices``): public list prices, in the
package's own data. Nothing is downloaded. Without the package, nothing is estimated.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeAlias

import msgspec

from sessiontree.clock import now
from sessiontree.storage import sqlite

_MILLION = 1_000_000
_LOCAL = ("ollama", "lmstudio", "lm-studio", "llama.cpp", "llamacpp", "vllm", "offline")
"""Providers whose models run on the user's own machine, whatever they are called."""

Estimate = Callable[[int, int, int, int, int], float]
"""Dollars for input, output, cache reads, cache writes, and how many of those last an hour."""

_Rate: TypeAlias = list[tuple[int, float]]
"""Dollars for a token in a request of more than so many tokens, the least first."""
_Rates: TypeAlias = tuple[_Rate, _Rate, _Rate, _Rate, _Rate]
"""Those of input, output, cache reads, cache writes, and cache writes that last an hour."""


class _Known(msgspec.Struct):
    """The rates that were asked for, by day and model. To load all prices takes a tenth of a second
    and many megabytes, so these are remembered until the package's data change."""

    data: tuple[int, int]
    rates: dict[str, _Rates | None] = {}
    has_more: bool = False


@cache
def has_prices() -> bool:
    """Whether the prices are installed."""
    return _find_data() is not None


@cache
def find_estimate(model: str, day: str) -> Estimate | None:
    """Return how to estimate the price of ``provider/model`` on a day; None if it is not known."""
    provider, _, name = model.partition("/")
    if not name or provider.lower() in _LOCAL or not has_prices():
        return None
    try:
        moment = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    except ValueError:
        rates = _find_rates(provider, name, now())
        return _make(rates) if rates is not None else None
    known, key = _recall(), f"{day} {model}"
    if key not in known.rates:
        known.rates[key] = _find_rates(provider, name, moment)
        known.has_more = True
    rates = known.rates[key]
    return _make(rates) if rates is not None else None


def keep_found() -> None:
    """Keep the prices that were asked for, for the next process; best effort."""
    if not has_prices() or not _recall().has_more:
        return
    known = _recall()
    known.has_more = False
    path = _memory_path()
    temp = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError, UnicodeEncodeError):
        data = sqlite.seal(msgspec.msgpack.encode(known))
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.replace(temp, path)


@cache
def _recall() -> _Known:
    found = _find_data()
    assert found is not None
    try:
        with open(_memory_path(), "rb") as file:
            known = msgspec.msgpack.decode(sqlite.unseal(file.read()), type=_Known)
        if known.data == found:
            return known
    except (OSError, ValueError, msgspec.MsgspecError, sqlite.DamagedRowError):
        pass  # missing or damaged: it is made again
    return _Known(found)


@cache
def _find_data() -> tuple[int, int] | None:
    """Size and time of the package's list of prices; None without the package."""
    from importlib.util import find_spec

    spec = find_spec("genai_prices")
    if spec is None or spec.origin is None:
        return None
    try:
        data = os.stat(os.path.join(os.path.dirname(spec.origin), "data.py"))
    except OSError:
        data = os.stat(spec.origin)
    return data.st_size, data.st_mtime_ns


def _memory_path() -> str:
    return os.path.join(sqlite.cache_dir(), "prices")


def _make(rates: _Rates) -> Estimate:
    if all(len(rate) == 1 for rate in rates):
        return _make_flat(*(rate[0][1] for rate in rates))
    plain, out, read, write, lasting = rates

    def estimate(fresh: int, answer: int, cached: int, stored: int, stored_1h: int) -> float:
        request = fresh + cached + stored
        return (
            fresh * _rate_of(plain, request)
            + answer * _rate_of(out, request)
            + cached * _rate_of(read, request)
            + (stored - stored_1h) * _rate_of(write, request)
            + stored_1h * _rate_of(lasting, request)
        )

    return estimate


def _make_flat(plain: float, out: float, read: float, write: float, lasting: float) -> Estimate:
    """Estimate with rates that are the same for requests of any length, as nearly all are."""

    def estimate(fresh: int, answer: int, cached: int, stored: int, stored_1h: int) -> float:
        return (
            fresh * plain
            + answer * out
            + cached * read
            + (stored - stored_1h) * write
            + stored_1h * lasting
        )

    return estimate


def _rate_of(rate: _Rate, request_tokens: int) -> float:
    found = 0.0
    for start, price in rate:
        if request_tokens > start:
            found = price
    return found


def _find_rates(provider: str, model: str, moment: datetime) -> _Rates | None:
    prices = _find_prices(provider, model, moment)
    if prices is None:
        return None
    rates = {
        key: _spell_rate(prices[f"{key}_mtok"])
        for key in ("input", "output", "cache_read", "cache_write", "cache_write_1h")
        if prices.get(f"{key}_mtok") is not None
    }
    if "input" not in rates and "output" not in rates:
        return None
    free = _spell_rate(0)
    plain, out = rates.get("input", free), rates.get("output", free)
    read, write = rates.get("cache_read", plain), rates.get("cache_write", plain)
    return plain, out, read, write, rates.get("cache_write_1h", write)


def _spell_rate(price: Any) -> _Rate:
    tiers = getattr(price, "tiers", ())
    base = price.base if tiers else price
    rate = [(-1, float(base or 0) / _MILLION)]
    return rate + [(int(tier.start), float(tier.price) / _MILLION) for tier in tiers]


def _find_prices(provider: str, model: str, moment: datetime) -> dict[str, Any] | None:
    """The list prices of a model: its provider's, else its maker's."""
    from genai_prices import Usage, calc_price

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
