"""Provider keys are replaced by their exact values, in whatever spelling and however split."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from sessiontree.runtime.masking import HIDDEN, KeyMask, StreamMask, find_keys

KEY = "sk-live-0123456789abcdef"
ODD = 'a/b+c="d" 0123456789'


@pytest.mark.parametrize(
    "name",
    [
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "MY_GATEWAY_API_KEY", "HF_TOKEN"),
        *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
        *("OLLAMA_API_KEY", "VLLM_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "VERCEL_OIDC_TOKEN"),
    ],
)
def test_a_provider_key_is_known_by_its_variable(name: str) -> None:
    assert find_keys({name: KEY, "PATH": "/bin", "API_KEYS_FILE": "keys.txt"}) == [KEY]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:hunter%2F2s@db/agents",
        "postgresql://db/agents?user=anna&password=hunter%2F2s",
        "postgresql://db/agents?listen=postgresql%3A%2F%2Fanna%3Ahunter%252F2s%40direct%2Fagents",
    ],
)
def test_the_password_of_the_store_is_a_key(url: str) -> None:
    mask = KeyMask(find_keys({"SESSIONTREE_STORE": url, "PGPASSWORD": "hunter/2s"}))
    printed = f"SESSIONTREE_STORE={url}\nPGPASSWORD=hunter/2s\nhunter%2F2s hunter%252F2s"
    assert "hunter" not in mask.text(printed)
    assert "agents" in mask.text(printed)
    assert find_keys({"SESSIONTREE_STORE": "postgresql://anna@db/agents"}) == []


def test_a_short_password_of_the_store_is_hidden_with_its_user() -> None:
    url = "postgresql://anna:blue@db/blue"
    mask = KeyMask(find_keys({"SESSIONTREE_STORE": url}))
    assert mask.text(url) == f"postgresql://{HIDDEN}@db/blue"


def test_every_spelling_of_a_key_is_replaced() -> None:
    mask = KeyMask([KEY, ODD])
    for key in (KEY, ODD):
        for spelled in (key, json.dumps(key)[1:-1], quote(key), quote(key, safe="")):
            assert mask.text(f"bad key <{spelled}>!") == f"bad key <{HIDDEN}>!"


def test_a_key_that_contains_another_leaves_nothing_of_itself() -> None:
    assert KeyMask([KEY, KEY + "-long"]).text(f"{KEY}-long {KEY}") == f"{HIDDEN} {HIDDEN}"


@pytest.mark.parametrize("value", ["", "ollama", "EMPTY", "short", "not-needed", "   "])
def test_what_is_set_for_servers_that_check_no_key_is_no_key(value: str) -> None:
    assert KeyMask([value]).text(f"say {value} twice: {value}") == f"say {value} twice: {value}"


def test_a_value_without_keys_is_the_very_same_object() -> None:
    value = {"a": [1, {"b": "text"}], "c": None}
    assert KeyMask([KEY]).value(value) is value


def test_keys_are_replaced_in_strings_and_names_at_any_depth_of_a_copy() -> None:
    value = {"a": [f"x {KEY}", {KEY: 1, "b": (KEY, 2)}], "n": 3}
    masked = KeyMask([KEY]).value(value)
    assert masked == {"a": [f"x {HIDDEN}", {HIDDEN: 1, "b": [HIDDEN, 2]}], "n": 3}
    assert value["a"] == [f"x {KEY}", {KEY: 1, "b": (KEY, 2)}]


def test_a_value_nested_without_end_is_masked_too() -> None:
    value: list[object] = [KEY]
    for _ in range(50_000):
        value = [value]
    masked = KeyMask([KEY]).value(value)
    while isinstance(masked, list):
        (masked,) = masked
    assert masked == HIDDEN


@pytest.mark.parametrize("size", [1, 2, 7, 23, 24, 100])
def test_a_key_that_comes_in_pieces_is_never_shown(size: int) -> None:
    text = f"it is {KEY}, sk-live is no key, and {KEY}"
    stream = StreamMask(KeyMask([KEY]))
    shown = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    shown.append(stream.finish())
    assert "".join(shown) == f"it is {HIDDEN}, sk-live is no key, and {HIDDEN}"
    assert "sk-live-0" not in "".join(shown)


def test_a_text_that_ends_like_the_beginning_of_a_key_comes_whole_at_the_end() -> None:
    stream = StreamMask(KeyMask([KEY]))
    assert stream.feed("the prefix is sk-li") == "the prefix is "
    assert stream.finish() == "sk-li"
    assert stream.finish() == ""
    assert KeyMask([KEY]).growing("output sk-live-01") == "output "
