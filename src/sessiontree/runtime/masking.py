"""Mask provider keys: `KeyMask` replaces their exact values wherever they turn up.

A gateway may repeat the key it was given in an error or in an answer, and a tool may print it. What
an agent records and shows goes through here, so the key reaches neither a session file nor a
screen. So with the password of the store, which others read.
Only values that this process knows are masked; guessing at what looks like a secret is the
business of exports and ``doctor --secrets``. Pure but for reading the environment once.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from sessiontree.scope import STORE_VARIABLE

HIDDEN = "[key hidden]"

_KEY_VARIABLE = re.compile(
    r"(?:\w_(?:API_KEY|ADMIN_KEY|AUTH_TOKEN|OAUTH_TOKEN|OIDC_TOKEN)|HF_TOKEN"
    r"|AWS_(?:SECRET_ACCESS_KEY|SESSION_TOKEN|BEARER_TOKEN_\w+)|^PGPASSWORD)$"
)
_PASSWORD = re.compile(
    r"://([^/@\s:]*:([^@\s]*))@|(?:[?&]|^)((?:ssl)?password=([^&\s]*))", re.IGNORECASE
)
_LEAST_LENGTH = 8
# Values for servers that ask for a key and don't check it; masking these would only confuse.
_NO_KEYS = frozenset(
    (
        "anything",
        "not-needed",
        "no-key-required",
        "placeholder",
        "required",
        "undefined",
        "whatever",
    )
)


def find_keys(environ: Mapping[str, str]) -> list[str]:
    """Find the values of all variables that are named like a provider's key, and the store's
    password.

    With the user's name before it, because a password may be too short to be a key.
    """
    keys = [value for name, value in environ.items() if _KEY_VARIABLE.search(name)]
    url = environ.get(STORE_VARIABLE, "")
    for said in (url, unquote(url)):  # a URL may be in a URL
        for found in _PASSWORD.finditer(said):
            whole, password = found[1] or found[3], found[2] or found[4] or ""
            keys += [whole, password, unquote(password)] if password else []
    return list(dict.fromkeys(keys))


class KeyMask:
    """Knows the keys and their usual spellings (in JSON, in a URL), and replaces them."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        spelled = {form for key in keys if _is_key(key) for form in _spellings(key.strip())}
        # A longer one first: it may contain a shorter one.
        self._forms = sorted(spelled, key=lambda form: (-len(form), form))

    @classmethod
    def of_environment(cls, *environs: Mapping[str, str]) -> KeyMask:
        """A mask for the keys in these environments and in the process's own."""
        return cls(key for environ in (os.environ, *environs) for key in find_keys(environ))

    def text(self, text: str) -> str:
        """The text without keys."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        return text

    def growing(self, text: str) -> str:
        """The text without keys, and without an end that may become one as the text grows."""
        masked = self.text(text)
        return masked[: len(masked) - self.count_open(masked)]

    def count_open(self, text: str) -> int:
        """Count the last characters that may be the beginning of a key."""
        longest = 0
        for form in self._forms:
            # From the longest possible beginning down: each that fits is longer than what follows.
            for length in range(min(len(form) - 1, len(text)), longest, -1):
                if text.endswith(form[:length]):
                    longest = length
                    break
        return longest

    def value(self, value: Any) -> Any:
        """A JSON value without keys; the very same object if there is none in it."""
        return _mask_copy(self, value) if self._is_in(value) else value

    def _is_in(self, value: object) -> bool:
        """Whether a key stands anywhere in a value, nested however deep."""
        if not self._forms:
            return False
        pending = [value]
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                if any(form in item for form in self._forms):
                    return True
            elif isinstance(item, Mapping):
                pending.extend(item)
                pending.extend(item.values())
            elif isinstance(item, list | tuple):
                pending.extend(item)
        return False


class StreamMask:
    """Masks a text that comes in pieces: what may be the beginning of a key waits for the rest."""

    def __init__(self, mask: KeyMask) -> None:
        self._mask = mask
        self._held = ""

    def feed(self, text: str) -> str:
        """Add ``text``; return what can be passed on now."""
        masked = self._mask.text(self._held + text)
        end = len(masked) - self._mask.count_open(masked)
        self._held = masked[end:]
        return masked[:end]

    def finish(self) -> str:
        """The text that was still waiting: nothing follows, so it is not a key."""
        held, self._held = self._held, ""
        return held


def _is_key(value: str) -> bool:
    key = value.strip()
    return len(key) >= _LEAST_LENGTH and key.casefold() not in _NO_KEYS


def _spellings(key: str) -> set[str]:
    in_json = json.dumps(key)[1:-1]
    return {key, in_json, in_json.replace("/", "\\/"), quote(key), quote(key, safe="")}


def _mask_copy(mask: KeyMask, value: Any) -> Any:
    """A copy with every string masked. Iterative: a tool's arguments nest as deep as they like."""
    holder: list[Any] = [value]
    pending: list[Any] = [holder]
    while pending:
        place = pending.pop()
        items = list(place.items()) if isinstance(place, dict) else list(enumerate(place))
        if isinstance(place, dict):
            place.clear()
        for key, item in items:
            if isinstance(item, str):
                made: Any = mask.text(item)
            elif isinstance(item, Mapping):
                made = dict(item)
                pending.append(made)
            elif isinstance(item, list | tuple):
                made = list(item)
                pending.append(made)
            else:
                made = item
            place[mask.text(key) if isinstance(key, str) else key] = made
    return holder[0]
