"""Decode and encode JSON: fast with msgspec, tolerant with the standard library.

msgspec comes first. It refuses lone surrogate escapes, which JavaScript agents write, invalid
UTF-8, which disks cause, and unusual values such as ``1e999`` and deep nesting; the standard
library's parser reads such text. Knows nothing of sessions.
"""

from __future__ import annotations

import functools
import math
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from json import JSONDecoder

MAX_DEPTH = 1_250
"""Nesting that is read, on every Python and wherever it is read; what is deeper is refused.

The format promises 1,000 levels (docs/format.md#damage); C code has room for less than 1,500
on Python 3.12.
"""

_LONG = 2 * MAX_DEPTH  # a shorter text has no room for brackets enough to be nested too deeply
_T = TypeVar("_T")
_fast_decode = msgspec.json.Decoder().decode
_fast_encode = msgspec.json.Encoder().encode
_fast_encode_lines = msgspec.json.Encoder().encode_lines
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_recursion_lock = threading.Lock()

# Python refuses to turn longer digit strings into an int; JavaScript would read Infinity.
_MAX_INT_DIGITS = 4_000


def decode(text: bytes) -> Any:
    """Decode one JSON text; ValueError if it is not JSON."""
    try:
        value = _fast_decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_slowly(text.decode("utf-8", "replace"))
    if len(text) >= _LONG and _may_be_deep(text):
        _check_depth(value)
    return value


def shortest_suspicious_length() -> int:
    """The shortest text that may pass msgspec although it is nested too deeply.

    Up to Python 3.11 none is: msgspec keeps to the recursion limit. Since then C has its own.
    """
    if sys.version_info >= (3, 12) or sys.getrecursionlimit() > MAX_DEPTH:
        return _LONG
    return sys.maxsize


def is_too_deep(text: bytes) -> bool:
    """Whether ``decode`` refuses a JSON text that another parser has let pass."""
    if not _may_be_deep(text):
        return False
    try:
        decode(text)
    except ValueError:
        return True
    return False


def decode_prefix(text: str, start: int) -> tuple[Any, int]:
    """Decode the JSON value at ``start``; return it and its end. ValueError without one."""
    return _with_deep_stack(lambda: _slow_decoder().raw_decode(text, start), lambda found: found[0])


def encode(value: object) -> bytes:
    """Encode as one compact JSON text without a newline; TypeError for what JSON can't express.

    NaN and the infinities become null, as JavaScript writes them.
    """
    try:
        text = _fast_encode(value)
    except (UnicodeEncodeError, RecursionError, OverflowError):
        return _encode_slowly(value)
    if len(text) >= _LONG and _may_be_deep(text):
        _check_depth(value)
    return text


def encode_lines(values: Sequence[object]) -> bytes | None:
    """Encode each as a line with its newline, all at once; None if `encode` has to take one."""
    try:
        text = _fast_encode_lines(values)
    except (UnicodeEncodeError, RecursionError, OverflowError):
        return None
    return None if len(text) >= _LONG and _may_be_deep(text) else text


def replace_fields(text: bytes, fields: Mapping[str, object], *, gone: Iterable[str] = ()) -> bytes:
    """Set and remove fields of a JSON object; the others keep their spelling."""
    left_out = frozenset(gone)

    def change(found: Mapping[str, object]) -> dict[str, object]:
        return {key: found[key] for key in found if key not in left_out} | dict(fields)

    try:
        return _fast_encode(change(_decode_fields(text)))
    except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError):
        return encode(change(decode(text)))


def replace_nested(text: bytes, key: str, fields: Mapping[str, object]) -> bytes:
    """Set fields of the object at ``key`` of a JSON object; the rest keeps its spelling."""
    try:
        found = _decode_fields(text)
        inner = replace_fields(bytes(found[key]), fields)
        return _fast_encode({**found, key: msgspec.Raw(inner)})
    except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError):
        value = decode(text)
        return encode({**value, key: {**value[key], **fields}})


def copy(value: _T) -> _T:
    """Copy a JSON value deeply, safe at any depth."""
    return decode(encode(value))  # type: ignore[no-any-return]


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) < _MAX_INT_DIGITS else float(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


@functools.cache
def _slow_decoder() -> JSONDecoder:
    from json import JSONDecoder  # few files need it

    return JSONDecoder(parse_int=_parse_int, parse_constant=_refuse_constant)


def _decode_slowly(text: str) -> Any:
    return _with_deep_stack(lambda: _slow_decoder().decode(text), lambda value: value)


def _may_be_deep(text: bytes) -> bool:
    """Whether a text that msgspec has let pass has brackets enough to be nested too deeply.

    Few texts have. Dropping a byte finds it many bytes at a time, which counting it does not.
    """
    if len(text) < shortest_suspicious_length():
        return False
    others = len(text.replace(b"[", b"")) + len(text.replace(b"{", b""))
    return 2 * len(text) - others >= MAX_DEPTH


def _check_depth(value: object) -> None:
    """Raise ValueError for a value nested too deeply.

    How much stack is left differs from call to call, and what a C parser may take of it from one
    Python to the next. What was read once must be readable again, and writable, so the limit is a
    fixed one, well within the stack that is always there.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for holder in level
            if isinstance(holder, (dict, list, tuple))
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
        if not level:
            return
    raise ValueError("nested too deeply")


def _encode_slowly(value: object) -> bytes:
    import json

    def dump() -> bytes:
        try:
            text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        except ValueError:
            json.dumps(value)  # again ValueError if what it holds holds itself
            text = json.dumps(_without_nan(value), separators=(",", ":"), allow_nan=False)
        return text.encode("ascii")

    return _with_deep_stack(dump, lambda _: value)


def _without_nan(value: Any) -> Any:
    """Copy without NaN and infinities, which JSON can't express; iterative."""
    whole = [value]
    waiting: list[Any] = [whole]
    while waiting:
        holder = waiting.pop()
        for key, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if isinstance(item, float) and not math.isfinite(item):
                holder[key] = None
            elif isinstance(item, dict):
                holder[key] = dict(item)
                waiting.append(holder[key])
            elif isinstance(item, (list, tuple)):
                holder[key] = list(item)
                waiting.append(holder[key])
    return whole[0]


def _with_deep_stack(work: Callable[[], _T], value_of: Callable[[_T], object]) -> _T:
    """Run a recursive parser with room for MAX_DEPTH levels above the caller's own frames.

    ValueError when even that is not enough, or when what was read or written (``value_of`` the
    result) is nested deeper than it may be. The limit is raised only for the few texts that need
    it: it guards the C stack, and MAX_DEPTH more levels are well within every platform's.
    """
    try:
        result = work()
    except RecursionError:
        result = _with_raised_limit(work)
    _check_depth(value_of(result))
    return result


def _with_raised_limit(work: Callable[[], _T]) -> _T:
    depth = 0
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the only cheap way to count frames
    while frame is not None:
        depth += 1
        frame = frame.f_back
    with _recursion_lock:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, depth + 3 * MAX_DEPTH))
        try:
            return work()
        except RecursionError:
            raise ValueError("nested too deeply") from None
        finally:
            sys.setrecursionlimit(before)
