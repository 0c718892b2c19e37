"""Estimated prices: list prices of the model, never of a model that costs nothing."""

from __future__ import annotations

import pytest

from sessiontree.discovery.prices import find_estimate, has_prices

DAY = "2026-11-01"


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
