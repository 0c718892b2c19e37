"""How omp and pi spell the same things."""

from __future__ import annotations

import pytest
from tests.samples import entry, message

from sessiontree import Entry
from sessiontree.model.dialects import (
    detect_dialect,
    extension_key,
    read_model_change,
    spell_model_change,
)


def test_a_model_change_is_spelled_as_the_dialect_reads_it() -> None:
    assert spell_model_change("omp", "openai/gpt-4o", None) == {"model": "openai/gpt-4o"}
    assert spell_model_change("omp", "a/b", "smol") == {"model": "a/b", "role": "smol"}
    assert spell_model_change("pi", "openai/gpt-4o", None) == {
        "provider": "openai",
        "modelId": "gpt-4o",
    }


def test_a_model_id_may_have_slashes() -> None:
    spelled = spell_model_change("pi", "openrouter/meta/llama-3", None)
    assert spelled == {"provider": "openrouter", "modelId": "meta/llama-3"}
    assert read_model_change(spelled) == ("default", "openrouter/meta/llama-3")


@pytest.mark.parametrize(
    ("data", "change"),
    [
        ({"model": "a/b"}, ("default", "a/b")),
        ({"model": "a/b", "role": "slow"}, ("slow", "a/b")),
        ({"provider": "a", "modelId": "b"}, ("default", "a/b")),
        ({"provider": "a", "modelId": "b", "role": "slow"}, ("slow", "a/b")),
        ({"model": "a/b", "role": None}, ("default", "a/b")),
        ({}, None),
        ({"provider": "a"}, None),
        ({"model": 5}, None),
        ({"model": ""}, None),
        ({"model": "", "provider": "a", "modelId": "b"}, ("default", "a/b")),
    ],
)
def test_both_spellings_are_read(data: dict[str, object], change: tuple[str, str] | None) -> None:
    assert read_model_change(data) == change


def test_the_mark_of_an_extension() -> None:
    assert (extension_key("pi"), extension_key("omp")) == ("fromHook", "fromExtension")


@pytest.mark.parametrize(
    ("wire", "dialect"),
    [
        (entry("session_info", "b", "a", name="x"), "pi"),
        (entry("model_change", "b", "a", provider="x", modelId="y"), "pi"),
        (entry("model_change", "b", "a", model="x/y"), "omp"),
        (entry("model_change", "b", "a", model="x/y", provider="x", modelId="y"), None),
        (entry("mode_change", "b", "a", mode="plan"), "omp"),
        (entry("ttsr_injection", "b", "a", injectedRules=[]), "omp"),
        (entry("custom", "b", "a", customType="x"), None),
    ],
)
def test_a_file_shows_its_dialect(wire: dict[str, object], dialect: str | None) -> None:
    entries = [Entry.from_wire(message("a", None)), Entry.from_wire(wire)]
    assert detect_dialect(False, entries) == dialect
    assert detect_dialect(True, entries) == "omp"
