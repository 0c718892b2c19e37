"""Secrets in text: find them, replace them. Pure; knows nothing of sessions but their JSON values.

A session records what an agent read and ran, keys and passwords included. The rules below know the
forms that common services give their tokens, and assignments to names that say "secret". They
are careful rather than complete: whoever publishes an export should still read it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret is in a text, and what kind it looks like."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Rule:
    """A form of secret. A text without any of ``anchors`` is not searched at all."""

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    is_real: Callable[[str], bool] = field(default=bool)
    ignores_case: bool = False


_PLACEHOLDER = re.compile(
    r"(?i)^(?:x+|\*+|\.+|-+|_+|<.*|\$.*|\{\{.*|%.*%|none|null|nil|true|false|undefined|string|str|"
    r"(?:your|my|the|an?|some|dummy|fake|example|test|changeme|change_me|placeholder|redacted|"
    r"secret|password|passwd|token|hidden)(?:[_\-. ].*)?|os\.environ.*|process\.env.*|getenv.*|"
    r"env\..*|\[redacted.*)$"
)


def _is_no_placeholder(value: str) -> bool:
    return _PLACEHOLDER.match(value) is None and len(set(value)) > 3


def _looks_random(value: str) -> bool:
    """Letters and digits mixed, as generated tokens are and words of a program are not."""
    return (
        _is_no_placeholder(value)
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and "(" not in value
    )


def _rule(kind: str, anchors: str, pattern: str, **options: Any) -> _Rule:
    return _Rule(kind, tuple(anchors.split()), re.compile(pattern), **options)


_SECRET_NAME = (
    r"(?:api[_-]?key|apikey|secret(?:[_-]?(?:access)?[_-]?key)?|access[_-]?token|auth[_-]?token|"
    r"refresh[_-]?token|client[_-]?secret|private[_-]?key|token|passwd|password|passphrase|pwd)"
)

# The group "secret", where a pattern has one, is what is replaced; else the whole match is.
_RULES = (
    _rule(
        "private-key",
        "PRIVATE",
        # Whole: anything up to its end. Torn: as far as it looks like a key. Neither crosses the
        # next row of dashes and neither steps back, so many beginnings cost no more than one.
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?:[^-]|-(?!----)){0,50000}+-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:[A-Za-z0-9+/=\s\\:,.]|-(?!-))*+)",
    ),
    _rule("aws-key-id", "AKIA ASIA", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    _rule("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{30,255}\b"),
    _rule("github-token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{40,255}\b"),
    _rule("gitlab-token", "glpat-", r"\bglpat-[A-Za-z0-9_\-]{20,64}"),
    _rule("slack-token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,250}"),
    _rule(
        "slack-webhook", "hooks.slack.com", r"https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"
    ),
    _rule("anthropic-key", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_\-]{20,200}"),
    _rule(
        "openai-key",
        "sk-",
        r"\bsk-(?!ant-)(?:proj-|svcacct-|or-v1-)?[A-Za-z0-9_\-]{20,200}",
        is_real=_looks_random,
    ),
    _rule("stripe-key", "k_live_ k_test_", r"\b[rsp]k_(?:live|test)_[A-Za-z0-9]{16,250}\b"),
    _rule("google-key", "AIza", r"\bAIza[A-Za-z0-9_\-]{35}"),
    _rule(
        "google-oauth",
        "GOCSPX- ya29.",
        r"\b(?:GOCSPX-[A-Za-z0-9_\-]{20,60}|ya29\.[A-Za-z0-9_\-]{20,500})",
    ),
    _rule("npm-token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    _rule("pypi-token", "pypi-", r"\bpypi-[A-Za-z0-9_\-]{50,250}"),
    _rule("huggingface-token", "hf_", r"\bhf_[A-Za-z0-9]{30,60}\b"),
    _rule("sendgrid-key", "SG.", r"\bSG\.[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{32,64}"),
    _rule(
        "jwt",
        "eyJ",
        r"\beyJ[A-Za-z0-9_\-]{8,4000}\.eyJ[A-Za-z0-9_\-]{8,8000}\.[A-Za-z0-9_\-]{8,1000}",
    ),
    _rule(
        "url-password",
        "://",
        r"\b[a-zA-Z][a-zA-Z0-9+.\-]{1,20}://[^\s:/@\"'<>]{0,100}:(?P<secret>[^\s/@\"'<>]{3,200})@",
        is_real=_is_no_placeholder,
    ),
    _rule(
        "authorization",
        "bearer basic",
        r"(?i)\b(?:bearer|basic)\s+(?P<secret>[A-Za-z0-9+/=_.\-~]{16,2000})",
        is_real=_looks_random,
        ignores_case=True,
    ),
    _rule(
        "secret",
        "key token secret passw passphrase pwd",
        rf"(?i)(?<![a-z])(?:[a-z0-9]{{1,30}}[_-]){{0,4}}{_SECRET_NAME}\\?[\"']?\s{{0,3}}(?::=|=>|[=:])\s{{0,3}}"
        r"(?:\\?[\"'](?P<secret>[^\"'\s\\]{8,500})|(?P<bare>[^\s\"'`,;&|<>(){}\[\]\\]{8,500}))",
        is_real=_looks_random,
        ignores_case=True,
    ),
)


def find_secrets(text: str) -> list[Secret]:
    """The secrets of a text, in order, none inside another."""
    found: list[Secret] = []
    folded: str | None = None
    for rule in _RULES:
        if rule.ignores_case and folded is None:
            folded = text.casefold()
        haystack = folded if rule.ignores_case and folded is not None else text
        if any(anchor in haystack for anchor in rule.anchors):
            found += _matches(rule, text)
    found.sort(key=lambda secret: (secret.start, -secret.end))
    return list(_apart(found))


def _matches(rule: _Rule, text: str) -> Iterator[Secret]:
    for match in rule.pattern.finditer(text):
        group: int | str = 0
        for name in ("secret", "bare"):
            if match.groupdict().get(name):
                group = name
        if rule.is_real(match[group]):
            yield Secret(rule.kind, *match.span(group))


def _apart(found: list[Secret]) -> Iterator[Secret]:
    end = -1
    for secret in found:
        if secret.start >= end:
            yield secret
            end = secret.end


class Redactor:
    """Replaces secrets and keeps count. One for each export."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def redact_text(self, text: str) -> str:
        """The text with every secret replaced by ``[redacted:KIND]``."""
        pieces: list[str] = []
        done = 0
        for secret in find_secrets(text):
            self.counts[secret.kind] += 1
            pieces += [text[done : secret.start], f"[redacted:{secret.kind}]"]
            done = secret.end
        return "".join([*pieces, text[done:]]) if pieces else text

    def redact_value(self, value: Any, depth: int = 0) -> Any:
        """A copy of a JSON value with the secrets of all its strings replaced.

        A string under a name that says "secret" is one, whatever it looks like. Image data is
        passed over: it is no text. What is nested beyond any reason is replaced whole.
        """
        if depth > _MAX_DEPTH:
            self.counts["too-deep"] += 1
            return "[redacted:too-deep]"
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, list):
            return [self.redact_value(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {key: self._redact_item(value, key, depth) for key in value}
        return value

    def _redact_item(self, holder: Mapping[str, Any], key: str, depth: int) -> Any:
        value = holder[key]
        if key == "data" and holder.get("type") == "image":
            return value
        if isinstance(value, str) and _NAMES_SECRET.fullmatch(key) and _hides_something(value):
            self.counts["secret"] += 1
            return "[redacted:secret]"
        return self.redact_value(value, depth + 1)


_NAMES_SECRET = re.compile(rf"(?i)(?:[a-z0-9]+[_-])*{_SECRET_NAME}")


def _hides_something(value: str) -> bool:
    return len(value) >= 6 and " " not in value and _is_no_placeholder(value)
