"""Replace the secrets of texts, JSON values and names. Pure; knows nothing of sessions.

``text.secrets`` knows many forms of secrets, but not all: read an export before you publish it.
A value says more than its text: a field called ``password`` holds a secret whatever it looks like,
and a list may hold the words of a command (``["--token", …]``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sessiontree.text.secrets import Secret, find_secrets, is_key, is_password, is_placeholder

_MAX_DEPTH = 100

_HOLDS_SECRET = re.compile(
    r"(?i)(?:[\w.\-]*[_.\-])?(?:api[_-]?key|secret|(?:access|secret|private)[_-]?key|token|passwd|"
    r"password|passphrase|pwd)|(?-i:\w*[a-z](?:ApiKey|Secret|AccessKey|PrivateKey|Token|Password|Pwd))"
)
_MAY_HOLD_SECRET = re.compile(
    r"(?i)(?:[\w.\-]*[_.\-])?(?:pass|credentials?|auth|(?<!public_)key|psk)|(?-i:\w*(?<!ublic)Key)"
)
_HOLDS_PASSWORD = re.compile(r"(?i).*(?:passwd|password|passphrase|pwd|pin)")
_NAMES_OF_VALUES = ("name", "key", "Name", "Key")
_BASE64 = re.compile(r"[A-Za-z0-9+/=_\-\s]*")
_CONTEXT = 240


@dataclass(frozen=True, slots=True)
class Finding:
    """A likely secret, with what stands before and after it."""

    kind: str
    value: str
    before: str = ""
    after: str = ""


Decide = Callable[[Finding], bool]
"""Whether a finding is to be redacted."""


class Redactor:
    """Replaces secrets and keeps count. One for each export.

    ``decide`` is called for each finding, once for each value; what it refuses stays, and
    ``kept`` counts it.
    """

    def __init__(self, decide: Decide | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.kept = 0
        self._decide = decide
        self._decided: dict[str, bool] = {}
        self._names: dict[str, str] = {}
        self._taken: Counter[str] = Counter()

    def redact_text(self, text: str) -> str:
        """The text with every secret replaced by ``[redacted:KIND]``."""
        secrets = find_secrets(text)
        return self._replace(text, secrets) if secrets else text

    def redact_name(self, name: str) -> str:
        """The same for what others refer to: the same name always, and never one for two."""
        if name in self._names:
            return self._names[name]
        secrets = find_secrets(name)
        if not secrets:
            return name
        redacted = self._replace(name, secrets)
        self._taken[redacted] += 1
        if self._taken[redacted] > 1:
            redacted += f"-{self._taken[redacted]}"
        self._names[name] = redacted
        return redacted

    def redact_path(self, path: str) -> str:
        """The same for the path of a file, in characters that every system has in names."""
        return "/".join(self.redact_name(part).replace(":", "-") for part in path.split("/"))

    def redact_value(self, value: Any, depth: int = 0) -> Any:
        """Copy a JSON value and replace the secrets in all its strings and keys.

        A string under a name that says "secret" is one, whatever it looks like. Image data is
        passed over: it is not text. What is nested beyond any reason is replaced whole.
        """
        if depth > _MAX_DEPTH:
            self.counts["too-deep"] += 1
            return "[redacted:too-deep]"
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, list):
            if len(value) > 1 and all(isinstance(item, str) for item in value):
                return self._redact_words(value)
            return [self.redact_value(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self.redact_name(key): self._redact_item(value, key, depth) for key in value}
        return value

    def _redact_item(self, holder: Mapping[str, Any], key: str, depth: int) -> Any:
        value = holder[key]
        if isinstance(value, str):
            if key == "data" and holder.get("type") == "image" and _BASE64.fullmatch(value):
                return value
            if key == "id" or key.endswith("Id"):
                return self.redact_name(value)
            if _is_secret(key, value) or (key == "value" and _is_named_secret(holder, value)):
                return self._hide(value, f"{key}: ")
        elif type(value) is int and value > 999 and _HOLDS_PASSWORD.fullmatch(key):
            return self._hide(value, f"{key}: ")
        return self.redact_value(value, depth + 1)

    def _redact_words(self, words: Sequence[str]) -> list[str]:
        """The words of a command, maybe: ``["--token", …]``. Searched as one line."""
        secrets = find_secrets(" ".join(words))
        redacted: list[str] = []
        start = 0
        for word in words:
            end = start + len(word)
            inside = [
                Secret(secret.kind, max(secret.start, start) - start, min(secret.end, end) - start)
                for secret in secrets
                if secret.start < end and secret.end > start
            ]
            redacted.append(self._replace(word, inside))
            start = end + 1
        return redacted

    def _replace(self, text: str, secrets: Sequence[Secret]) -> str:
        pieces: list[str] = []
        done = 0
        for secret in secrets:
            if not self._is_redacted(text, secret):
                continue
            self.counts[secret.kind] += 1
            pieces += (text[done : secret.start], f"[redacted:{secret.kind}]")
            done = secret.end
        return "".join((*pieces, text[done:]))

    def _is_redacted(self, text: str, secret: Secret) -> bool:
        start, end = secret.start, secret.end
        before, after = text[max(0, start - _CONTEXT) : start], text[end : end + _CONTEXT]
        return self._ask(Finding(secret.kind, text[start:end], before, after))

    def _ask(self, finding: Finding) -> bool:
        if self._decide is None:
            return True
        if finding.value not in self._decided:
            self._decided[finding.value] = self._decide(finding)
        is_redacted = self._decided[finding.value]
        self.kept += not is_redacted
        return is_redacted

    def _hide(self, value: Any, name: str) -> Any:
        if not self._ask(Finding("secret", str(value), name)):
            return value
        self.counts["secret"] += 1
        return "[redacted:secret]"


def _is_secret(name: str, value: str) -> bool:
    """Whether a string under this name hides something."""
    if len(value) < 6 or " " in value or is_placeholder(value):
        return False
    if _HOLDS_SECRET.fullmatch(name):
        return True
    if _MAY_HOLD_SECRET.fullmatch(name):
        return is_key(value) if name[-3:].lower() == "key" else is_password(value)
    return False


def _is_named_secret(holder: Mapping[str, Any], value: str) -> bool:
    """Whether the value of ``{"name": …, "value": …}`` hides something."""
    names = [holder[key] for key in _NAMES_OF_VALUES if isinstance(holder.get(key), str)]
    return any(_is_secret(name, value) for name in names)
