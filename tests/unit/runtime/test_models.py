"""The table of models, clamping, and what stands in for a model that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree.runtime.models import (
    THINKING_LEVELS,
    AmbiguousModelError,
    Model,
    ModelNotFoundError,
    ModelRegistry,
    Prices,
    clamp_thinking,
)

THINKER = Model("acme", "thinker", max_thinking="high")
PLAIN = Model("acme", "plain")
ALWAYS = Model("acme", "always", min_thinking="low", max_thinking="medium")


@pytest.mark.parametrize(
    ("asked", "model", "given"),
    [
        ("medium", THINKER, "medium"),
        ("xhigh", THINKER, "high"),
        ("max", THINKER, "high"),
        ("high", PLAIN, "off"),
        ("off", ALWAYS, "low"),
        ("xhigh", ALWAYS, "medium"),
        ("dreaming", THINKER, "off"),
        ("high", None, "off"),
    ],
)
def test_a_level_is_clamped_to_what_the_model_can_do(
    asked: str, model: Model | None, given: str
) -> None:
    assert clamp_thinking(asked, model) == given


def test_the_packaged_table_is_sound() -> None:
    registry = ModelRegistry.load()
    assert registry.warnings == []
    assert len(registry) > 30
    assert registry.default is not None
    for model in registry:
        assert model.context_window >= 8_000
        assert model.max_thinking in THINKING_LEVELS
        assert model.thinking_levels
        assert registry.get(model.ref) is model


def test_a_users_table_adds_models_and_overrides_packaged_ones(tmp_path: Path) -> None:
    first = next(m for m in ModelRegistry.load() if m.provider == "anthropic")
    (tmp_path / "models.toml").write_text(
        f"""
        default = "mine/tiny"
        default_thinking = "low"
        [[models]]
        provider = "mine"
        id = "tiny"
        context_window = 4096
        prices = {{ input = 1, output = 2.5 }}
        [[models]]
        provider = "{first.provider}"
        id = "{first.id}"
        context_window = 99
        """
    )
    registry = ModelRegistry.load(tmp_path)
    assert registry.warnings == []
    assert registry.default == registry.get("mine/tiny")
    assert registry.default_thinking == "low"
    assert registry.get("mine/tiny").prices == Prices(1.0, 2.5)
    assert registry.get(first.ref).context_window == 99


def test_a_mistake_in_the_users_table_costs_its_own_line_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(
        """
        default_thinking = "very much"
        [[models]]
        provider = "mine"
        [[models]]
        provider = "mine"
        id = "bad"
        context_window = "big"
        [[models]]
        provider = "mine"
        id = "worse"
        context_window = 0
        [[models]]
        provider = "mine"
        id = "odd"
        max_thinking = "dream"
        [[models]]
        provider = "mine"
        id = "dear"
        prices = { input = -1 }
        [[models]]
        provider = "mine"
        id = "good"
        """
    )
    registry = ModelRegistry.load(tmp_path)
    assert "mine/good" in registry
    for name in ("bad", "worse", "odd", "dear"):
        assert f"mine/{name}" not in registry
    levels = "off, minimal, low, medium, high, xhigh"
    where = f"{tmp_path / 'models.toml'}: "
    assert [warning.removeprefix(where) for warning in registry.warnings] == [
        "models[0] (mine): missing required field `id`",
        "models[1] (mine/bad), context_window: Expected `int`, got `str`",
        "models[2] (mine/worse), context_window: Expected `int` >= 1",
        f"models[3] (mine/odd), max_thinking: Expected one of {levels}",
        "models[4] (mine/dear), prices.input: Expected `float` >= 0.0",
        "default_thinking must be one of " + levels,
    ]


@pytest.mark.parametrize(
    ("row", "warning"),
    [
        ('"gpt"', "models[0]: Expected `a table`, got `str`"),
        ('{ provider = "a", id = 7 }', "models[0] (a/7), id: Expected `str`, got `int`"),
        ('{ provider = "", id = "x" }', "models[0] (x), provider: Expected `str` of length >= 1"),
        ('{ provider = "a", id = "b", images = 1 }', "images: Expected `bool`, got `int`"),
        ('{ provider = "a", id = "b", max_output = true }', "max_output: Expected `int`, got"),
        ('{ provider = "a", id = "b", prices = 3 }', "prices: Expected `a table`, got `int`"),
        ('{ provider = "a", id = "b", prices = { output = nan } }', "prices.output: Expected"),
        ('{ provider = "a", id = "b", prices = { output = inf } }', "prices.output: Expected"),
    ],
)
def test_a_warning_names_the_file_the_row_and_the_field(row: str, warning: str) -> None:
    registry = ModelRegistry()
    registry.add_table(f"models = [{row}]", "mine.toml")
    assert len(registry) == 0
    assert [line.startswith("mine.toml: models[0]") for line in registry.warnings] == [True]
    assert warning in registry.warnings[0]


def test_a_provider_s_row_needs_no_more_than_an_id() -> None:
    registry = ModelRegistry()
    registry.add_table('providers = [{ id = "gate", max_output = 5 }, { name = "x" }]', "t.toml")
    assert registry.get("gate/any").max_output == 5
    assert registry.get("gate/any").provider == "gate"
    assert registry.warnings == ["t.toml: providers[1]: missing required field `id`"]


@pytest.mark.parametrize("content", [b"not = [toml", b"\xff\xfe", b'models = "x"'])
def test_a_table_that_can_not_be_read_leaves_the_packaged_one(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "models.toml").write_bytes(content)
    registry = ModelRegistry.load(tmp_path)
    assert len(registry) == len(ModelRegistry.load())
    assert len(registry.warnings) == 1


def test_a_model_that_is_not_there_is_an_error_to_get() -> None:
    with pytest.raises(ModelNotFoundError, match="acme/nothing"):
        ModelRegistry([PLAIN]).get("acme/nothing")


@pytest.mark.parametrize(
    "ref", ["acme/plain-20250514", "acme/plain-2025-05-14", "acme/plain-latest"]
)
def test_a_dated_spelling_is_the_same_model_and_keeps_its_name(ref: str) -> None:
    model = ModelRegistry([PLAIN]).get(ref)
    assert model.ref == ref
    assert model.context_window == PLAIN.context_window


def test_an_open_provider_serves_any_model() -> None:
    registry = ModelRegistry(
        [PLAIN], open_providers={"free": Model("free", "*", context_window=32_000)}
    )
    assert registry.get("free/some/thing:7b").context_window == 32_000
    assert registry.get("free/some/thing:7b").ref == "free/some/thing:7b"
    assert "other/thing" not in registry


def test_a_person_may_name_a_model_by_any_piece_that_is_clear() -> None:
    registry = ModelRegistry([THINKER, PLAIN, ALWAYS])
    assert registry.find("acme/plain") == PLAIN
    assert registry.find("THINKER") == THINKER
    assert registry.find("lway") == ALWAYS
    with pytest.raises(AmbiguousModelError) as error:
        registry.find("acme")
    assert error.value.candidates == ["acme/thinker", "acme/plain", "acme/always"]
    with pytest.raises(ModelNotFoundError):
        registry.find("zebra")


def test_a_model_that_is_gone_is_stood_in_for_visibly() -> None:
    registry = ModelRegistry([THINKER, PLAIN], default="acme/plain")
    assert registry.resolve("acme/thinker").model == THINKER
    assert not registry.resolve("acme/thinker").is_fallback
    gone = registry.resolve("acme/gone", current=THINKER)
    assert (gone.model, gone.wanted, gone.is_fallback) == (THINKER, "acme/gone", True)
    assert registry.resolve("acme/gone").model == PLAIN
    assert registry.resolve(None).model == PLAIN
    assert ModelRegistry().resolve("acme/gone").model is None


def test_a_price_is_for_a_million_tokens() -> None:
    model = Model("acme", "x", prices=Prices(3.0, 15.0, 0.3, 3.75))
    cost = model.cost(1_000_000, 100_000, 1_000_000, 0)
    assert cost == pytest.approx(
        {"input": 3.0, "output": 1.5, "cacheRead": 0.3, "cacheWrite": 0.0, "total": 4.8}
    )
