"""Read records from other agents' JSONL files, and values of unsure shape from records.

Knows no agent. Nothing here raises on odd data: a field of the wrong type counts as absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from sessiontree.model import codec
from sessiontree.model.ids import format_timestamp, parse_timestamp
from sessiontree.model.lines import parse_jsonl_lenient

WireRecord = dict[str, Any]

# Seconds since 1970 have ten digits until 2286; anything larger counts milliseconds.
_SECONDS_BELOW = 100_000_000_000
_MOST = 1 << 53
_LAST_MS = 253_402_300_799_999  # the end of the year 9999


class RecordList(msgspec.Struct):
    """The records of one file in order, and the lines without a record."""

    records: list[WireRecord] = msgspec.field(default_factory=list)
    skipped: list[tuple[int, str]] = msgspec.field(default_factory=list)


def read_records(data: bytes) -> RecordList:
    """Read every JSON object of a JSONL file; list each other line with the reason."""
    found = RecordList()
    found.records = parse_jsonl_lenient(
        data, on_skip=lambda line, reason: found.skipped.append((line, reason))
    )
    return found


def read_record(line: bytes) -> WireRecord | None:
    """The first JSON object of one line; None without any."""
    if line.startswith(b"{") and line.endswith(b"}"):  # as nearly all do
        try:
            return codec.decode(line)  # type: ignore[no-any-return]
        except ValueError:
            pass
    return next(iter(read_records(line).records), None)


def get_text(values: Mapping[str, Any], key: str) -> str | None:
    """The string under ``key``; None if there is none or it is empty."""
    value = values.get(key)
    return value if isinstance(value, str) and value else None


def get_object(values: Mapping[str, Any], key: str) -> WireRecord:
    """The object under ``key``; an empty one if there is none."""
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def get_list(values: Mapping[str, Any], key: str) -> list[Any]:
    """The array under ``key``; an empty one if there is none."""
    value = values.get(key)
    return value if isinstance(value, list) else []


def get_count(values: Mapping[str, Any], key: str) -> int:
    """The number under ``key`` as a whole number from 0 on; 0 for any other value, or one too
    large."""
    value = values.get(key)
    if type(value) is int:
        return value if 0 <= value < _MOST else 0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    try:
        count = int(value)
    except (ValueError, OverflowError):
        return 0
    return count if 0 <= count < _MOST else 0


def read_time(value: object) -> int | None:
    """Unix milliseconds of an ISO time or a number of seconds or milliseconds; None otherwise."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        scaled = value * 1000 if abs(value) < _SECONDS_BELOW else value
        time_ms = int(scaled) if abs(scaled) <= _LAST_MS else None
    else:
        time_ms = parse_timestamp(value)
    return time_ms if time_ms is not None and 0 <= time_ms <= _LAST_MS else None


def spell_time(time_ms: int) -> str:
    """The ISO time of a moment that ``read_time`` gave."""
    return format_timestamp(time_ms)


def fingerprint(value: object) -> str:
    """A hash of a JSON value, the same however its keys are ordered."""
    from hashlib import sha256  # for reading, not for listing

    return sha256(codec.encode(_sorted(value))).hexdigest()[:24]


class Fingerprints:
    """Name records without an id by their content and how often it occurred before."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def name(self, value: object, scope: str = "") -> str:
        """Return a name that stays the same when the same file, or a longer version, is read again.

        Occurrences are counted within ``scope``.
        """
        made = fingerprint(value)
        self._seen[scope + made] += 1
        return f"{made}#{self._seen[scope + made]}"


def _sorted(value: object, depth: int = 0) -> object:
    # Keys below a depth that no real record reaches stay unsorted: nesting may be hostile.
    if depth > 40:
        return value
    if isinstance(value, dict):
        return {key: _sorted(value[key], depth + 1) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item, depth + 1) for item in value]
    return value


def make_usage(
    input_tokens: int, output_tokens: int, cache_read: int, cache_write: int, cost: float = 0.0
) -> dict[str, Any]:
    """Make a message's ``usage``. Foreign files hold no prices, at most a total cost."""
    return {
        "input": input_tokens,
        "output": output_tokens,
        "cacheRead": cache_read,
        "cacheWrite": cache_write,
        "totalTokens": input_tokens + output_tokens + cache_read + cache_write,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": cost},
    }
