"""Secrets are found in the forms people leak them in, and ordinary text is left alone."""

from __future__ import annotations

import random
import time
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.export.redact import Finding, Redactor
from sessiontree.text.secrets import Secret, find_secrets, find_secrets_in_pieces

# Put together at run time, so that no scanner takes this file for a leak.
_GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
_OPENAI = "sk-" + "proj-a1B2c3D4e5F6g7H8i9J0k1L2m3N4"
_ANTHROPIC = "sk-" + "ant-api03-a1B2c3D4e5F6g7H8i9J0_k1L2m3N4"
_AWS = "AKIA" + "IOSFODNN7EXAMPLE".replace("0", "2").replace("1", "2").replace("8", "2").replace(
    "9", "2"
)
_JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
_KEY_NAME = "RSA PRIVATE KEY"
_KEY = f"-----BEGIN {_KEY_NAME}-----\nMIIEpAIBAAKCAQEA\nabc+/=\n-----END {_KEY_NAME}-----"


@pytest.mark.parametrize(
    ("kind", "text", "secret"),
    [
        ("github-token", f"use {_GITHUB} here", _GITHUB),
        ("openai-key", f'key("{_OPENAI}")', _OPENAI),
        ("anthropic-key", f"x-api-key: {_ANTHROPIC}", _ANTHROPIC),
        ("aws-key-id", f"id {_AWS}.", _AWS),
        ("jwt", f"cookie={_JWT};", _JWT),
        ("private-key", f"cat id_rsa\n{_KEY}\n$", _KEY),
        ("url-password", "postgres://bob:hunter2x@db/x", "hunter2x"),
        ("authorization", "Authorization: Bearer abcDEF123456ghiJKL789", "abcDEF123456ghiJKL789"),
        ("secret", 'password = "c0rrect-horse"', "c0rrect-horse"),
        ("secret", "export DB_PASSWORD=s3cr3tpass9", "s3cr3tpass9"),
        ("secret", "{'client_secret': 'Zx81kk02mmQ'}", "Zx81kk02mmQ"),
        ("secret", '{\\"api_key\\": \\"q1w2e3r4t5y6\\"}', "q1w2e3r4t5y6"),
        (
            "secret",
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfi",
            "wJalrXUtnFEMI/K7MDENG/bPxRfi",
        ),
    ],
)
def test_a_secret_is_replaced_and_the_rest_stays(kind: str, text: str, secret: str) -> None:
    redactor = Redactor()
    assert redactor.redact_text(text) == text.replace(secret, f"[redacted:{kind}]")
    assert redactor.counts == {kind: 1}


@pytest.mark.parametrize("before", ["\\n", "\\t", "\\u001b", "\\u201C", "\x1b[32m", "\x1b[m\x1b[K"])
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (_GITHUB, _GITHUB),
        (_JWT, _JWT),
        ("API_KEY=s3cr3tpass9", "s3cr3tpass9"),
        ("Bearer abcDEF123456ghiJKL789", "abcDEF123456ghiJKL789"),
    ],
)
def test_an_escape_right_before_a_secret_does_not_hide_it(
    before: str, text: str, secret: str
) -> None:
    """In a file that is JSON, or that a command filled with colours, searched as it is."""
    assert secret not in Redactor().redact_text(f'{{"output": "done{before}{text}\\n"}}')


@pytest.mark.parametrize("before", ["x", "n", "_", "9", "ä", "\\x", "\\u12g4"])
def test_the_middle_of_a_word_is_no_token(before: str) -> None:
    assert find_secrets(f"{before}{_GITHUB}") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the token count is 12345678",
        "password = os.environ['DB_PASSWORD']",
        'api_key = "your-api-key-here-123"',
        "password: ********",
        "token = ${GITHUB_TOKEN}",
        "def get_token(self, tokens: int = 4096) -> str:",
        "key: string",
        "sk-learn is a library and so is scikit-learn-contrib-extra",
        "https://example.com:8080/path@v1",
        "git@github.com:owner/repo.git",
        "9b2c4d5e8f1a3b6c7d0e9f8a7b6c5d4e3f2a1b0c",
        "max_tokens=8192, completion_tokens=100000000",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor().redact_text(text) == text


def test_a_key_that_was_cut_off_is_still_hidden() -> None:
    torn = _KEY[:45]
    assert Redactor().redact_text(torn) == "[redacted:private-key]"
    for rest in ("", "\n[output truncated]", '"}', "\n" + _KEY):
        assert "MIIEpAIB" not in Redactor().redact_text(f"cat key\n{torn}{rest}")


def test_a_key_with_remarks_of_any_kind_is_hidden_whole() -> None:
    name = "PGP PRIVATE KEY BLOCK"
    remarks = 'Version: GnuPG v2 (GNU/Linux)\nComment: "a - b" <me@example.org>'
    key = f"-----BEGIN {name}-----\n{remarks}\n\nlQOYBF+abc\n=Ab1d\n-----END {name}-----"
    assert Redactor().redact_text(f"a {key} b") == "a [redacted:private-key] b"


def test_all_strings_of_a_value_are_searched_and_the_value_is_copied() -> None:
    value = {"message": {"content": [{"type": "text", "text": f"a {_GITHUB}"}], "n": 1, "x": None}}
    cleaned = Redactor().redact_value(value)
    assert cleaned == {
        "message": {
            "content": [{"type": "text", "text": "a [redacted:github-token]"}],
            "n": 1,
            "x": None,
        }
    }
    assert _GITHUB in str(value)


def test_a_field_named_for_a_secret_is_hidden_whatever_it_holds() -> None:
    cleaned = Redactor().redact_value({"arguments": {"password": "swordfish", "user": "swordfish"}})
    assert cleaned == {"arguments": {"password": "[redacted:secret]", "user": "swordfish"}}


def test_image_data_is_not_searched() -> None:
    block = {"type": "image", "data": "AIza" + "A" * 35, "mimeType": "image/png"}
    assert Redactor().redact_value(block) == block


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}])
def test_a_value_nested_without_end_is_replaced_not_followed(
    wrap: Callable[[object], object],
) -> None:
    value: object = _GITHUB
    for _ in range(900):
        value = wrap(value)
    assert _GITHUB not in str(Redactor().redact_value(value))


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = Redactor().redact_text(text)
    assert Redactor().redact_text(once) == once


@given(st.lists(st.sampled_from([_GITHUB, _AWS, _JWT, "password=abc123xyz9", "plain", "\n", " "])))
def test_no_known_secret_survives_among_others(parts: list[str]) -> None:
    cleaned = Redactor().redact_text(" ".join(parts))
    assert not any(secret in cleaned for secret in (_GITHUB, _AWS, _JWT, "abc123xyz9"))


@given(st.text(max_size=200))
def test_secrets_are_in_order_and_apart(text: str) -> None:
    found = find_secrets(text + f" {_GITHUB} password=abc123xyz9 " + text)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert all(0 <= s.start < s.end for s in found)


_LEAKS = [_GITHUB, _JWT, _AWS, f"password={_GITHUB}", f"Bearer {_JWT}", f"x{_ANTHROPIC}"]
_LEAKS += ["ftp://bob:hunter2x@db/", _KEY, _KEY[:50], f"DB_API_KEY = '{_OPENAI}'"]


@settings(max_examples=3, deadline=None)
@given(st.lists(st.sampled_from(_LEAKS), min_size=1, max_size=4), st.integers(0, 2**32))
def test_a_text_in_pieces_holds_the_secrets_of_the_whole(leaks: list[str], seed: int) -> None:
    """Wherever it is cut. It is long, since a short one is looked at in one piece."""
    chosen = random.Random(seed)
    words = [" ", "\n", "\n", "", "plain words ", "é… ", "x" * 30, "=" * 9, "\\n", " " * 400]
    text = "".join(chosen.choice(leaks) + chosen.choice(words) for _ in range(16_000))
    cuts = sorted(chosen.sample(range(len(text)), 300))
    pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
    found = list(find_secrets_in_pieces(pieces))
    assert [secret for _, secret in found] == find_secrets(text)
    breaks = [place for place, character in enumerate(text) if character == "\n"]
    assert [line for line, _ in found] == [
        bisect_left(breaks, secret.start) + 1 for _, secret in found
    ]


@pytest.mark.parametrize(
    "leak",
    [
        f"x{_GITHUB}",
        f"password={_GITHUB}",
        f"bearer  {_JWT}",
        "password=abc123xyz9",
        "bearer abcDEF123456ghiJKL789",
        "ftp://bob:hunter2x@db",
    ],
)
def test_a_piece_may_end_anywhere_in_or_before_a_secret(leak: str) -> None:
    """The last 64 K of a megabyte are looked at again, with what follows: around both ends."""
    for end in ((1 << 20) - (1 << 16), 1 << 20):
        for place in range(end - 12, end + 2):
            text = "," * place + leak + "," * ((1 << 20) + 100 - place)
            found = find_secrets_in_pieces([text[: 1 << 20], text[1 << 20 :]])
            assert [secret for _, secret in found] == [
                Secret(secret.kind, secret.start + place, secret.end + place)
                for secret in find_secrets(leak)
            ]


@pytest.mark.parametrize(
    "hostile",
    [
        "-----BEGIN PRIVATE KEY-----" * 20_000,
        "-----BEGIN PRIVATE KEY-----" + "a-" * 100_000,
        "password=" * 20_000,
        "a_" * 50_000 + "key",
        "://" * 50_000,
        "eyJ" + "a" * 100_000,
        "Bearer " * 20_000,
    ],
)
def test_hostile_text_takes_no_more_than_linear_time(hostile: str) -> None:
    # The processor's time, not the clock's: other work on the machine must hardly count. A step for
    # each pair of places would take minutes.
    started = time.process_time()
    Redactor().redact_text(hostile)
    assert time.process_time() - started < 5


def test_keys_are_searched_and_stay_apart() -> None:
    cleaned = Redactor().redact_value({_GITHUB: 1, f"{_GITHUB}x": 2, "plain": {_GITHUB: 3}})
    first, second = "[redacted:github-token]", "[redacted:github-token]-2"
    assert cleaned == {first: 1, second: 2, "plain": {first: 3}}


def test_what_refers_to_an_id_still_does() -> None:
    """Two ids stay two, and are the same wherever they are named."""
    redactor = Redactor()
    cleaned = redactor.redact_value([{"id": _GITHUB}, {"id": _OPENAI, "parentId": _GITHUB}])
    assert cleaned[0]["id"] == cleaned[1]["parentId"] != cleaned[1]["id"]
    assert redactor.counts == {"github-token": 1, "openai-key": 1}


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ({"name": "DB_PASSWORD", "value": "swordfish"}, "swordfish"),
        ({"key": "api_key", "value": "swordfish"}, "swordfish"),
        ({"password": 12345678}, "12345678"),
        ({"dbPassword": "swordfish"}, "swordfish"),
        (["curl", "-u", "bob:swordfish9", "https://x.example"], "swordfish9"),
        (["tool", "--token", "abcDEF123456"], "abcDEF123456"),
        ({"type": "image", "data": "no base64: password=swordfish9"}, "swordfish9"),
    ],
)
def test_a_value_shows_secrets_that_its_texts_do_not(value: object, hidden: str) -> None:
    assert hidden not in str(Redactor().redact_value(value))


@pytest.mark.parametrize(
    "value",
    [
        {"name": "PATH", "value": "/usr/bin:/bin"},
        {"key": "sort_order", "value": "ascending"},
        {"credentials": "include", "tokens": 4096, "token": None, "password": True},
        {"cacheKey": "user:42:profile", "publicKey": "MFkwEwYHKoZIzj0CAQ"},
        ["--password-file", "secrets.txt", "--token"],
    ],
)
def test_an_ordinary_value_is_left_alone(value: object) -> None:
    assert Redactor().redact_value(value) == value


def test_a_reviewer_decides_once_for_each_value() -> None:
    asked: list[Finding] = []

    def decide(finding: Finding) -> bool:
        asked.append(finding)
        return finding.kind == "openai-key"

    redactor = Redactor(decide)
    text = f"one {_GITHUB} two {_OPENAI} three"
    shown = redactor.redact_value({"text": text, "again": text, "password": "c0rrect-horse"})
    assert shown["text"] == shown["again"] == f"one {_GITHUB} two [redacted:openai-key] three"
    assert shown["password"] == "c0rrect-horse"
    assert redactor.counts == {"openai-key": 2}
    assert redactor.kept == 3
    assert [finding.value for finding in asked] == [_GITHUB, _OPENAI, "c0rrect-horse"]
    assert (asked[0].before, asked[0].after) == ("one ", f" two {_OPENAI} three")
    assert asked[2].before == "password: "
