"""Ids, digests and timestamps, in the spellings of the file format.

The caller passes in time and randomness. ``hashlib`` brings OpenSSL with it, 3.6 MB and some
milliseconds that a session without blobs never needs, so it is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from datetime import UTC, datetime
from functools import lru_cache

from sessiontree.errors import ClockError

ENTRY_ID_LENGTH = 8


def new_entry_id(taken: Container[str], random_bytes: Callable[[int], bytes]) -> str:
    """Make an id of eight hex digits that no entry of the session has."""
    while True:
        made = random_bytes(4).hex()
        if made not in taken:
            return made


def derived_entry_id(taken: Container[str], *parts: object) -> str:
    """Derive an id of eight hex digits from ``parts``, so that every reader makes the same one."""
    return _derive(taken, parts, 0)[0]


class DerivedIds:
    """Derive many ids, as ``derived_entry_id`` does; quick also if the same parts come often.

    A taken id stays taken, so attempts that have failed are not repeated.
    """

    def __init__(self, taken: Container[str]) -> None:
        self._taken = taken
        self._attempts: dict[tuple[object, ...], int] = {}

    def derive(self, *parts: object) -> str:
        made, attempt = _derive(self._taken, parts, self._attempts.get(parts, 0))
        self._attempts[parts] = attempt
        return made


def _derive(taken: Container[str], parts: tuple[object, ...], attempt: int) -> tuple[str, int]:
    """The first id that is free, and the attempt that made it."""
    while True:
        seed = "\x00".join(map(str, (*parts, attempt)))
        made = sha256_hex(seed.encode("utf-8", "surrogatepass"))[:ENTRY_ID_LENGTH]
        if made not in taken:
            return made, attempt
        attempt += 1


def new_session_id(time_ms: int, random_bytes: Callable[[int], bytes]) -> str:
    """Make an id of sixteen hex digits, ordered by time, as omp and xcsh do."""
    return f"{time_ms & 0xFFFFFFFFFFFF:012x}{random_bytes(2).hex()}"


def new_uuid7(time_ms: int, random_bytes: Callable[[int], bytes]) -> str:
    """Make a UUIDv7, as pi does."""
    tail = bytearray(random_bytes(10))
    tail[0] = 0x70 | (tail[0] & 0x0F)
    tail[2] = 0x80 | (tail[2] & 0x3F)
    digits = f"{time_ms & 0xFFFFFFFFFFFF:012x}{tail.hex()}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def format_timestamp(time_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds and Z: ``2026-02-16T10:20:30.000Z``.

    Raises ClockError for a time that has no date in this spelling.
    """
    try:
        return f"{_format_second(time_ms // 1000)}.{time_ms % 1000:03d}Z"
    except (ValueError, OverflowError, OSError):
        raise ClockError(time_ms) from None


@lru_cache(maxsize=16)
def _format_second(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat()[:19]


def parse_timestamp(text: object) -> int | None:
    """Unix milliseconds of an ISO time; None for anything else."""
    return _parse_time(text) if isinstance(text, str) else None


@lru_cache(maxsize=16)  # the time of one line is asked for several times in a row
def _parse_time(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return round(moment.timestamp() * 1000)
    except (OverflowError, ValueError):
        return None


def sha256(data: bytes) -> bytes:
    """The SHA-256 of some bytes."""
    import hashlib

    return hashlib.sha256(data).digest()


def sha256_hex(data: bytes) -> str:
    """The same in hex digits."""
    return sha256(data).hex()


def digest_quickly(data: bytes) -> bytes:
    """A digest for a cache: made without OpenSSL, which takes 2 ms to load."""
    try:
        from _blake2 import blake2b
    except ImportError:  # not every Python has it under this name
        from hashlib import blake2b
    return blake2b(data, digest_size=32).digest()
