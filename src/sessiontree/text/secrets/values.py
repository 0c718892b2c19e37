"""Tell a secret from what only looks like one: placeholders, words, paths, quantities.

A rule finds the form, these functions judge the value. Pure.
"""

from __future__ import annotations

import base64
import re

_PLACEHOLDER = re.compile(
    r"(?i)(?:x+|\*+|\.+|-+|_+|•+|<.*|%.*%|none|null|nil|true|false|undefined|string|str|"
    r"(?:your|my|the|an?|some|dummy|fake|example|test|change_?me|placeholder|redacted|"
    r"secret|password|passwd|token|hidden|insert|enter|replace|put your unique phrase here)"
    r"(?:[_\-. ].*)?|os\.environ.*|"
    r"process\.env.*|(?:os\.)?getenv.*|env[.:].*|vault:.*|op://.*|ref\+.*|\[redacted.*)"
)
_WORD = r"\d{0,3}(?:[a-z]*|[A-Z]*|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*)\d{0,3}"
_WORDS_ONLY = re.compile(rf"{_WORD}(?:[_\-.:/@ ]{_WORD})*")
_PLACE = re.compile(
    r"[a-z]{2,9}://|(?:\.{1,2}|~)?/[a-z][a-z._\-]{1,20}(?:/|\Z)|[A-Za-z]:[\\/]|(?:[\w.-]+/)+[\w-]+\.\w{1,5}\Z"
)
_QUANTITY = re.compile(r"[\d.,:_\-T]+(?:[a-zA-Z%]{1,4})?(?:/\w{1,6})?|0x[0-9a-fA-F]{1,8}")
_SIGNS = frozenset("!@#$%^&*?+~")


def is_placeholder(value: str) -> bool:
    """Whether a value only stands where a secret would: ``changeme``, ``${TOKEN}``, ``****``."""
    return (
        _PLACEHOLDER.fullmatch(value) is not None
        or value.startswith("$")
        or "${" in value
        or "{{" in value
        or "$(" in value
        or len(set(value)) < 4
    )


def are_words(value: str) -> bool:
    """Words as programs join them, with a number now and then: ``profile_v2``, ``nextToken2``."""
    return _WORDS_ONLY.fullmatch(value) is not None


def is_mixed(value: str) -> bool:
    """Letters, and digits or signs among them: as passwords are, and most words are not."""
    return any(map(str.isalpha, value)) and any(
        character.isdigit() or character in _SIGNS for character in value
    )


def is_elsewhere(value: str) -> bool:
    """A path, an address or a call: it names where the secret is."""
    return "(" in value or _PLACE.match(value) is not None


def is_password(value: str) -> bool:
    """Whether people choose such a value: short, but neither a word nor a number."""
    return is_mixed(value) and not is_placeholder(value) and not is_elsewhere(value)


def is_token(value: str) -> bool:
    """Whether programs make such a value: not words, versions or quantities."""
    return (
        len(value) >= 8
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and not is_placeholder(value)
        and not is_elsewhere(value)
        and not _QUANTITY.fullmatch(value)
        and not are_words(value)
    )


def is_key(value: str) -> bool:
    """The same, longer: names that end in "key" are often those of ordinary things."""
    return len(value) >= 16 and is_token(value) and not value.count(":")


def is_random(value: str) -> bool:
    """Letters and digits mixed. For what follows a beginning that says much already."""
    return (
        any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and "(" not in value
        and not is_placeholder(value)
    )


def is_anything(value: str) -> bool:
    """For what can be nothing else."""
    return bool(value)


def is_given(value: str) -> bool:
    """Anything but a placeholder."""
    return not is_placeholder(value)


def _is_credentials(value: str) -> bool:
    """Base64 of ``user:password``."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False
    return b":" in decoded and decoded.isascii()


def is_basic(value: str) -> bool:
    """Whether this can follow "Basic" in a header."""
    return (len(value) >= 16 and is_random(value)) or _is_credentials(value)


def is_option_value(value: str) -> bool:
    """Whether this can follow ``--password``: a value, not a word of a help text."""
    return is_password(value) and not are_words(value)


def is_short_option_value(value: str) -> bool:
    """Whether this can follow ``-p`` as a password: not a port."""
    return is_password(value) and not value.replace(":", "").isdigit()


def is_joined_password(value: str) -> bool:
    """Whether this can follow ``-p`` without a space: neither a port nor the rest of a word."""
    return (
        is_given(value)
        and not value.replace(":", "").isdigit()
        and not value.startswith(("rotocol", "ort", "lugin"))
    )
