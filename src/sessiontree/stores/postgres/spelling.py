"""Spell session text so that PostgreSQL's text type can hold it.

PostgreSQL refuses a NUL and half a surrogate pair, and an index refuses a key of many kilobytes;
sessions may hold all of that. Spelling is one to one, so that what is equal stays equal, and short
keys come back as they were. The truth is always in the bytes of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sessiontree.model.ids import sha256_hex

_MARK = "\x1a"
_HOSTILE = re.compile(f"[\x00{_MARK}\ud800-\udfff]")
_SPELLED = re.compile(f"{_MARK}([0-9a-f]{{4}})")
_LONGEST_KEY = 400
_HASHED = f"{_MARK}sha256:"


def spell(text: str) -> str:
    """A text of any length, as a column holds it."""
    if _HOSTILE.search(text) is None:
        return text
    return _HOSTILE.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def unspell(text: str) -> str:
    """The text that ``spell`` was given."""
    if _MARK not in text:
        return text
    return _SPELLED.sub(lambda found: chr(int(found[1], 16)), text)


def spell_key(text: str) -> str:
    """A text that is looked for: a long one is its hash."""
    if len(text) > _LONGEST_KEY:
        return _HASHED + sha256_hex(text.encode("utf-8", "surrogatepass"))
    return spell(text)


def spell_array(texts: Iterable[str | None]) -> str:
    """Texts as an array is written; several times as fast as psycopg, which looks at each."""
    return "{" + ",".join(map(_spell_element, texts)) + "}"


def _spell_element(text: str | None) -> str:
    if text is None:
        return "NULL"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_hashed(key: str) -> bool:
    """Whether the key is a hash, so that only the line holds the text."""
    return key.startswith(_HASHED)


def prefix_end(prefix: str) -> str | None:
    """The first text that sorts behind all with this prefix; None if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[at]) + 1
        if following == 0xD800:
            following = 0xE000
        if following <= 0x10FFFF:
            return prefix[:at] + chr(following)
    return None
