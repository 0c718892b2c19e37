"""Secrets are found in nearly every form that people leak them in, and next to nothing else is."""

from __future__ import annotations

import json
import random
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.secret_samples import FORMS, Sample, make_sample, make_samples

from sessiontree.export.redact import Redactor
from sessiontree.text.secrets import RULES, find_secrets

ROOT = Path(__file__).parents[3]
LEAST_RECALL = 0.95
MOST_MISTAKES_PER_MEGABYTE = 1.0


def survives(sample: Sample, redacted: str) -> bool:
    return any(secret in redacted for secret in sample.secrets if len(secret) > 5)


def in_json(text: str) -> str:
    return json.dumps({"output": f"$ cat x\n{text}\n$"})


def in_colour(text: str) -> str:
    return f"\x1b[1m$ cat x\x1b[0m\n{text}\n\x1b[32m$\x1b[0m"


def among_lines(text: str) -> str:
    return f"first line\n{text}\nlast line"


@pytest.mark.parametrize(
    "surround", [str, among_lines, in_colour, in_json], ids=lambda each: each.__name__
)
def test_nearly_all_secrets_are_found(surround: Callable[[str], str]) -> None:
    assert len(FORMS) >= 150
    samples = [sample for seed in range(5) for sample in make_samples(seed)]
    missed = [
        sample.form
        for sample in samples
        if survives(sample, Redactor().redact_text(surround(sample.text)))
    ]
    assert 1 - len(missed) / len(samples) >= LEAST_RECALL, Counter(missed)


def _kinds(rule: int) -> str:
    return f"{rule}-{RULES[rule].kind}"


@pytest.mark.parametrize("rule", range(len(RULES)), ids=_kinds)
def test_a_rule_finds_its_examples_and_leaves_its_counterexamples_alone(rule: int) -> None:
    kind = RULES[rule].kind
    for example in RULES[rule].examples:
        for seed in range(10):
            sample = make_sample(example, seed)
            redacted = Redactor().redact_text(sample.text)
            assert f"[redacted:{kind}]" in redacted, sample.text
            assert not survives(sample, redacted), (sample.text, redacted)
    for counterexample in RULES[rule].counterexamples:
        text = make_sample(counterexample).text
        assert Redactor().redact_text(text) == text


def test_every_kind_has_an_example() -> None:
    assert {rule.kind for rule in RULES if not rule.examples} <= {
        rule.kind for rule in RULES if rule.examples
    } | {"langfuse-key", "databricks-token", "atlassian-token"}


def ordinary_texts() -> Iterator[str]:
    """Our own sources and documents, Python's library, and what commands and programs print."""
    for folder, ending in (("src", "py"), ("docs", "md"), ("benchmarks", "py")):
        for file in sorted((ROOT / folder).rglob(f"*.{ending}")):
            if file.parent.name != "secrets":
                yield file.read_text(encoding="utf-8")
    library = Path(sysconfig.get_paths()["stdlib"])
    for file in sorted(library.glob("*.py")):
        yield file.read_text(encoding="utf-8", errors="replace")
    chosen = random.Random(1)
    for _ in range(4_000):
        yield _make_ordinary(chosen)


def _make_ordinary(chosen: random.Random) -> str:
    word = chosen.choice(
        [
            "token",
            "key",
            "secret",
            "password",
            "auth",
            "user_id",
            "next_page",
            "cache_key",
            "max_tokens",
            "api_version",
        ]
    )
    number, digits = chosen.randrange(10**6), f"{chosen.getrandbits(160):040x}"
    line = chosen.choice(
        (
            "commit {digits}\nAuthor: Bob <bob@example.com>\n",
            "-rw-r--r-- 1 bob staff {number} Nov 18 12:00 {word}_{number}.py\n",
            "tests/test_{word}.py::test_{word}_is_{number} PASSED\n",
            "def get_{word}(self, {word}: str | None = None) -> {number}:\n",
            '"{word}": {number},\n',
            "{word} = config.get_{word}({number})\n",
            "{word}: ${{{{ secrets.{word} }}}}\n",
            "export {word}=${word}\n",
            "the {word} expires after {number} seconds, then ask for a new {word}\n",
            "sha256:{digits}{digits}  image-{number}\n",
            "https://example.com/{word}/{number}?page={number}&{word}={number}\n",
            "\x1b[32m✓\x1b[0m {word} ({number} ms)\n",
            "{word}={word}_{number}\n",
            "2026-11-18T12:00:00.{number}Z INFO {word}: loaded {number} rows\n",
            'import {{ {word} }} from "./{word}-v{number}.js";\n',
        )
    )
    return line.format(word=word, number=number, digits=digits) * chosen.randrange(1, 5)


def test_ordinary_text_is_hardly_ever_taken_for_a_secret() -> None:
    size, mistakes = 0, []
    for text in ordinary_texts():
        size += len(text)
        mistakes += [text[max(0, found.start - 40) : found.end + 5] for found in find_secrets(text)]
    assert size > 3_000_000
    assert len(mistakes) / (size / 1e6) <= MOST_MISTAKES_PER_MEGABYTE, mistakes
