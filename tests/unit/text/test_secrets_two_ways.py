"""Secrets are found the fast way, from hint to hint; trying every mark finds the same."""

from __future__ import annotations

import random
import string
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree.export.redact import Redactor
from sessiontree.text.secrets import Secret, find_secrets, find_secrets_in_pieces, search

_LETTERS = string.ascii_letters + string.digits
# Put together at run time, so that no scanner takes this file for a leak.
_DASHES = "-" * 5
_BEGINNINGS = (
    "AKIA|ASIA|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|xoxb-|xoxz-|sk-ant-|sk-|sk-proj-|sk_live_|"
    "rk_test_|AIza|GOCSPX-|GOCSPX.|ya29.|ya29-|npm_|pypi-|hf_|SG.|eyJ|://|http://|s3://me:|H+a.b-://:|"
    "https://hooks.slack.com/services/|bearer|Bearer|BASIC|basic |basıc |BASİC |baſic |"
    f"{_DASHES}BEGIN |{_DASHES}BEGIN PRIVATE KEY{_DASHES}|{_DASHES}END PRIVATE KEY{_DASHES}|"
    f"{_DASHES}BEGIN PGP PRIVATE KEY BLOCK{_DASHES}\n|{_DASHES}END PGP PRIVATE KEY BLOCK{_DASHES}"
)
_WORDS = ("x" * 30 + "_") * 4
_NAMES = (
    "api_key|API-KEY|apikey|secret|secret_access_key|secretkey|access_token|authtoken|token|pwd|"
    "refresh-token|CLIENT_SECRET|client_ſecret|private_key|prıvate_key|passwd|PASSWORD|passphrase|"
    "to\u212aen|monkey|tokens|a_b_c_d_pwd|a_b_c_d_e_pwd|cacheKey|key|"
    f"{_WORDS}secret-access-key"
)
_BETWEEN = (
    '| |  |    |\n|\u2003|\x1c|"|\'|\\|\\"|\\\'|=|:|:=|=>|==|":"|\\": \\"|: \'|\\n|\\t|'
    "\\u001b|\\u20Ac|\\N|\x1b[32m|\x1b[K|[1;31m|m|_|-|.|@|//|,|;|(|é|…|😀|\ud800|ı|İ|ſ"
)


def _generate(letters: str, sizes: list[int]) -> st.SearchStrategy[str]:
    """Random letters drawn from a seed: hypothesis would take long to draw each."""
    return st.builds(
        lambda seed, size: "".join(random.Random(seed).choices(letters, k=size)),
        st.integers(0, 999),
        st.sampled_from(sizes),
    )


_values = st.one_of(
    _generate(_LETTERS, [2, 3, 7, 8, 16, 20, 30, 36, 40, 200, 255, 256, 500, 501, 600]),
    _generate(_LETTERS + "_-", [8, 20, 35, 50, 64, 250, 500]),
    _generate("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", [15, 16, 17]),
    st.sampled_from(["********", "${PASSWORD}", "your-key-1", "os.environ['A1']", "f(1234567)"]),
    st.builds("me:{}@host".format, _generate(_LETTERS, [2, 3, 200, 201])),
    st.builds(
        "{}.{}{}.{}".format,
        _generate(_LETTERS, [8, 16, 22]),
        st.sampled_from(["eyJ", ""]),
        _generate(_LETTERS, [8, 32, 43]),
        _generate(_LETTERS, [7, 8]),
    ),
)
_beginnings = st.sampled_from(_BEGINNINGS.split("|"))
_names = st.sampled_from(_NAMES.split("|"))
_between = st.sampled_from(_BETWEEN.split("|"))
_assigning = st.sampled_from(["=", ": ", ' := "', "'=>'", '\\": \\"', "\\'   :   "])
_tokens = st.builds(str.__add__, _beginnings, _values)
_pieces = st.one_of(
    _between,
    _values,
    _tokens,
    st.builds("{}{}{}".format, _beginnings, _between, _values),
    st.builds("{}{}{}".format, _names, _assigning, _values | _tokens),
    st.builds("{}{}={}{}".format, _names, _between, _between, _values),
    st.sampled_from(["plain words ", "def f(self, key: str = 'x'):", "a_" * 9, " " * 300]),
    st.text(max_size=5),
)
_texts = st.lists(_pieces, max_size=12).map("".join)


def _redact(text: str) -> tuple[str, dict[str, int]]:
    redactor = Redactor()
    return redactor.redact_text(text), dict(redactor.counts)


def _in_the_plain_way() -> mock._patch[bool]:
    return mock.patch.object(search, "_IS_FAST", new=False)


@settings(max_examples=300, deadline=None)
@given(_texts)
@example("Basic abcDEF123456ghiJKL789 and more words")
@example("token://me:hunter2x@host")
@example("password=ghp_" + "a1" * 20)
@example("a_b_c_d_pwd\\'   => abc123def456")
def test_both_ways_find_and_replace_the_same(text: str) -> None:
    fast = find_secrets(text), _redact(text)
    with _in_the_plain_way():
        assert fast == (find_secrets(text), _redact(text))


@settings(max_examples=20, deadline=None)
@given(st.lists(_pieces, min_size=1, max_size=12), st.integers(0, 999))
def test_both_ways_find_the_same_in_pieces(parts: list[str], seed: int) -> None:
    """In stretches shorter than they are, so that many of their ends lie in secrets."""
    chosen = random.Random(seed)
    text = "".join(chosen.choices(parts, k=100))
    cuts = sorted(chosen.choices(range(len(text) + 1), k=20))
    pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
    with mock.patch.object(search, "_STRETCH", 4096), mock.patch.object(search, "_REACH", 3000):
        fast = list(find_secrets_in_pieces(pieces))
        with _in_the_plain_way():
            assert fast == list(find_secrets_in_pieces(pieces))


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("private-key", f"{_DASHES}BEGIN PRIVATE KEY{_DASHES}"),
        ("aws-key-id", "AKIA" + "ABCDEFGHIJKLMNO2"),
        ("aws-key-id", "ASIA" + "ABCDEFGHIJKLMNO2"),
        ("github-token", "ghs_" + "a1" * 15),
        ("github-token", "github_pat_" + "a1" * 20),
        ("gitlab-token", "glpat-" + "a1" * 10),
        ("slack-token", "xoxp-" + "a1" * 5),
        ("slack-webhook", "https://hooks.slack.com/services/" + "T1" * 10),
        ("anthropic-key", "sk-ant-" + "a1" * 10),
        ("openai-key", "sk-" + "a1b2" * 5),
        ("stripe-key", "rk_test_" + "a1" * 8),
        ("google-key", "AIza" + "a1b2c" * 7),
        ("google-oauth", "GOCSPX-" + "a1" * 10),
        ("google-oauth", "ya29." + "a1" * 10),
        ("npm-token", "npm_" + "a1" * 18),
        ("pypi-token", "pypi-" + "a1" * 25),
        ("huggingface-token", "hf_" + "a1" * 15),
        ("sendgrid-key", "SG." + "a1" * 8 + "." + "b2" * 16),
        ("jwt", "eyJ" + "a1" * 4 + ".eyJ" + "b2" * 4 + "." + "c3" * 4),
    ],
)
@pytest.mark.parametrize("before", ["", "a ", "x" * 300 + "\n"])
def test_the_shortest_secret_of_a_kind_is_found_wherever_it_stands(
    kind: str, secret: str, before: str
) -> None:
    place = len(before)
    assert find_secrets(before + secret) == [Secret(kind, place, place + len(secret))]
