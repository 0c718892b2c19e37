"""Secrets in text: find them, replace them. Pure; knows nothing of sessions but their JSON values.

A session records what an agent read and ran, keys and passwords included. The rules below know the
forms that common services give their tokens, and assignments to names that say "secret". They
are careful rather than complete: whoever publishes an export should still read it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_MAX_DEPTH = 100
_STRETCH = 1 << 20
_REACH = 1 << 16  # no rule needs to see more than this beyond the place where its secret begins
_CONTEXT = 1 << 10  # nor more than this before it


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


def _begun(width: int, letter: str = r"\w") -> str:
    r"""No letter stands before the last ``width`` characters, so that a word began with them.

    The last letter of an escape in JSON (``\n``, ``\u001b``) and that of a terminal's colour do not
    count: files are searched as they are. Asked after the first characters of a token have been
    found, not everywhere before them, this takes a tenth of the time.
    """
    ends_escape = r"(?<!\\[bfnrt])(?<!\\u[0-9A-Fa-f]{4})(?<![\[;0-9][mK])"
    return rf"(?<!{letter}{ends_escape}{'.' * width})"


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
    _rule("aws-key-id", "AKIA ASIA", rf"A[KS]IA{_begun(4)}[A-Z2-7]{{16}}\b"),
    _rule(
        "github-token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"gh[pousr]_{_begun(4)}[A-Za-z0-9]{{30,255}}\b"
    ),
    _rule("github-token", "github_pat_", rf"github_pat_{_begun(11)}[A-Za-z0-9_]{{40,255}}\b"),
    _rule("gitlab-token", "glpat-", rf"glpat-{_begun(6)}[A-Za-z0-9_\-]{{20,64}}"),
    _rule("slack-token", "xox", rf"xox[abeoprs]-{_begun(5)}[A-Za-z0-9\-]{{10,250}}"),
    _rule(
        "slack-webhook", "hooks.slack.com", r"https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"
    ),
    _rule("anthropic-key", "sk-ant-", rf"sk-ant-{_begun(7)}[A-Za-z0-9_\-]{{20,200}}"),
    _rule(
        "openai-key",
        "sk-",
        rf"sk-{_begun(3)}(?!ant-)(?:proj-|svcacct-|or-v1-)?[A-Za-z0-9_\-]{{20,200}}",
        is_real=_looks_random,
    ),
    _rule(
        "stripe-key", "k_live_ k_test_", rf"[rsp]k_(?:live|test)_{_begun(8)}[A-Za-z0-9]{{16,250}}\b"
    ),
    _rule("google-key", "AIza", rf"AIza{_begun(4)}[A-Za-z0-9_\-]{{35}}"),
    _rule(
        "google-oauth",
        "GOCSPX- ya29.",
        rf"GOCSPX-{_begun(7)}[A-Za-z0-9_\-]{{20,60}}|ya29\.{_begun(5)}[A-Za-z0-9_\-]{{20,500}}",
    ),
    _rule("npm-token", "npm_", rf"npm_{_begun(4)}[A-Za-z0-9]{{36}}\b"),
    _rule("pypi-token", "pypi-", rf"pypi-{_begun(5)}[A-Za-z0-9_\-]{{50,250}}"),
    _rule("huggingface-token", "hf_", rf"hf_{_begun(3)}[A-Za-z0-9]{{30,60}}\b"),
    _rule(
        "sendgrid-key", "SG.", rf"SG\.{_begun(3)}[A-Za-z0-9_\-]{{16,32}}\.[A-Za-z0-9_\-]{{32,64}}"
    ),
    _rule(
        "jwt",
        "eyJ",
        rf"eyJ{_begun(3)}[A-Za-z0-9_\-]{{8,4000}}+\.eyJ[A-Za-z0-9_\-]{{8,8000}}+"
        r"\.[A-Za-z0-9_\-]{8,1000}",
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
        rf"(?i)(?:bearer{_begun(6)}|basic{_begun(5)})\s{{1,20}}"
        r"(?P<secret>[A-Za-z0-9+/=_.\-~]{16,2000})",
        is_real=_looks_random,
        ignores_case=True,
    ),
    _rule(
        "secret",
        "key token secret passw passphrase pwd",
        rf"(?i){_begun(0, '[a-z]')}(?:[a-z0-9]{{1,30}}[_-]){{0,4}}{_SECRET_NAME}"
        r"\\?[\"']?\s{0,3}(?::=|=>|[=:])\s{0,3}"
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
        group = _group_of(match)
        if rule.is_real(match[group]):
            yield Secret(rule.kind, *match.span(group))


def _group_of(match: re.Match[str]) -> int | str:
    """What of a match is the secret."""
    group: int | str = 0
    for name in ("secret", "bare"):
        if match.groupdict().get(name):
            group = name
    return group


def _apart(found: list[Secret], end: int = -1) -> Iterator[Secret]:
    for secret in found:
        if secret.start >= end:
            yield secret
            end = secret.end


def find_secrets_in_pieces(pieces: Iterable[str]) -> Iterator[tuple[int, Secret]]:
    """The secrets of a text of any length, each with its line: as ``find_secrets`` finds them.

    Only a stretch of the text is kept at a time, however the pieces cut it.
    """
    search = _Search()
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _STRETCH:
            yield from search.look_at("".join(waiting))
            waiting, size = [], 0
    yield from search.look_at("".join(waiting), is_last=True)


class _Search:
    """How far a text that comes in stretches has been searched.

    A secret counts in the first stretch that shows all of it for certain: one that begins within
    reach of the end is left to the next, which begins with what it needs to be seen again.
    """

    def __init__(self) -> None:
        self._text = ""
        self._offset = 0
        self._resume = [0] * len(_RULES)  # each rule goes on where its last match ended
        self._end = 0
        self._line = 1
        self._counted = 0

    def look_at(self, stretch: str, *, is_last: bool = False) -> Iterator[tuple[int, Secret]]:
        self._text += stretch
        size = len(self._text)
        horizon = size + 1 if is_last else size - _REACH
        folded = self._text.casefold()
        found: list[Secret] = []
        for number, rule in enumerate(_RULES):
            haystack = folded if rule.ignores_case else self._text
            if any(anchor in haystack for anchor in rule.anchors):
                found += self._settle(number, horizon)
            else:
                self._go_on(number, horizon)
        found.sort(key=lambda secret: (secret.start, -secret.end))
        for secret in _apart(found, self._end):
            self._end = secret.end
            yield self._line_of(secret.start), secret
        if not is_last:
            self._drop(max(0, horizon - _CONTEXT))

    def _settle(self, number: int, horizon: int) -> Iterator[Secret]:
        """What a rule finds before the horizon."""
        rule = _RULES[number]
        begin = self._resume[number] - self._offset
        for match in rule.pattern.finditer(self._text, begin):
            group = _group_of(match)
            start, end = match.span(group)
            if start >= horizon:
                self._go_on(number, min(match.start(), horizon))
                return
            self._go_on(number, match.end())
            if rule.is_real(match[group]):
                yield Secret(rule.kind, start + self._offset, end + self._offset)
        self._go_on(number, horizon)

    def _go_on(self, number: int, place: int) -> None:
        self._resume[number] = max(self._resume[number], place + self._offset)

    def _line_of(self, place: int) -> int:
        self._line += self._text.count("\n", self._counted - self._offset, place - self._offset)
        self._counted = place
        return self._line

    def _drop(self, count: int) -> None:
        if self._counted < self._offset + count:
            self._line_of(self._offset + count)
        self._text = self._text[count:]
        self._offset += count


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
