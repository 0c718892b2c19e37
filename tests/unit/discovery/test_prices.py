"""Estimated prices: list prices of the model, never of a model that costs nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sessiontree.discovery import prices
from sessiontree.discovery.prices import find_estimate, has_prices, keep_found

DAY = "2026-11-01"
SONNET = "anthropic/claude-sonnet-4-5"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SESSIONTREE_CACHE_DIR", str(tmp_path / "cache"))
    start_again()
    return tmp_path / "cache" / "prices"


def start_again() -> None:
    """As in another process."""
    for remembered in (prices.find_estimate, prices.has_prices, prices._recall, prices._find_data):
        remembered.cache_clear()


def dollars_of_a_large_request() -> float:
    estimate = find_estimate(SONNET, DAY)
    assert estimate is not None
    return estimate(2_000, 100, 199_000, 50, 20)


def test_the_package_is_there_to_be_tested() -> None:
    assert has_prices()


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        # input, output, cache read, cache write a million: 1,000 of each, half of the last for 1 h
        ("anthropic/claude-haiku-4-5-20251001", (1 + 5 + 0.1 + 1.25 / 2 + 2 / 2) / 1000),
        ("openai/gpt-5-codex", (1.25 + 10 + 0.125 + 1.25) / 1000),
        ("some-gateway/claude-haiku-4.5", (1 + 5 + 0.1 + 1.25 / 2 + 2 / 2) / 1000),
    ],
)
def test_tokens_are_priced_by_kind(model: str, dollars: float) -> None:
    estimate = find_estimate(model, DAY)
    assert estimate is not None
    assert estimate(1000, 1000, 1000, 1000, 500) == pytest.approx(dollars)


def test_large_requests_have_their_own_price() -> None:
    estimate = find_estimate("anthropic/claude-sonnet-4-5", DAY)
    assert estimate is not None
    assert estimate(1_000, 0, 199_000, 0, 0) == pytest.approx(0.003 + 0.0597)
    assert estimate(2_000, 0, 199_000, 0, 0) == pytest.approx(2 * (0.006 + 0.0597))


@pytest.mark.parametrize(
    "model", ["ollama/gpt-5", "offline/claude-sonnet-4-5", "acme/none", "unknown", "", "/", "x/"]
)
def test_what_has_no_price_gets_none(model: str) -> None:
    assert find_estimate(model, DAY) is None


def test_a_day_that_is_not_known_takes_the_price_of_today() -> None:
    assert find_estimate("anthropic/claude-haiku-4-5", "?") is not None


def test_prices_that_were_found_are_remembered_without_the_package(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = dollars_of_a_large_request()
    assert find_estimate("acme/none", DAY) is None
    keep_found()
    assert cache.stat().st_mode & 0o777 == 0o600
    start_again()
    has_prices()
    monkeypatch.setitem(sys.modules, "genai_prices", None)  # importing it fails
    assert dollars_of_a_large_request() == first
    assert find_estimate("acme/none", DAY) is None
    with pytest.raises(ImportError):
        find_estimate("openai/gpt-5-codex", DAY)


@pytest.mark.parametrize("damage", [b"", b"\0" * 40, b"x"])
def test_a_damaged_memory_is_made_again(cache: Path, damage: bytes) -> None:
    first = dollars_of_a_large_request()
    keep_found()
    whole = cache.read_bytes()
    cache.write_bytes(damage + whole[len(damage) :] if damage else damage)
    start_again()
    assert dollars_of_a_large_request() == first
    keep_found()
    assert cache.read_bytes() == whole


def test_other_data_of_the_package_are_read_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = dollars_of_a_large_request()
    keep_found()
    start_again()
    monkeypatch.setattr(prices, "_find_data", lambda: (1, 2))
    assert prices._recall().rates == {}
    assert dollars_of_a_large_request() == first
    monkeypatch.undo()
    start_again()
