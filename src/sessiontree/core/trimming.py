"""Turn an entry into its form on disk (docs/format.md#what-is-cut-and-where-the-rest-is).

Pure: the caller stores blobs and hands them back.

``trim`` makes the persisted form of an entry and the blobs that must be stored before it is
written; ``restore`` undoes it. Both walk with a stack of their own: content may be nested deeper
than Python recurses.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from gc import is_tracked
from typing import Any

import msgspec

from sessiontree.model import codec
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.model.ids import sha256_hex
from sessiontree.profiles import Dialect

MAX_UNITS = 500_000
"""UTF-16 units a persisted string may have, as JavaScript counts them."""
NOTICE = "\n\n[Session persistence truncated large content]"
MIN_IMAGE_LENGTH = 1_024
SPILLED = "spilled"
REF_PREFIX = "blob:sha256:"
_REF_START = b'"blob:sha256:'

_TRANSIENT = ("partialJson", "jsonlEvents")
_PLAIN_TYPES = frozenset((str, int, float, bool, type(None)))
_SIGNATURES = frozenset(("thinkingSignature", "thoughtSignature", "textSignature"))
_WITH_IMAGES = ("message", "custom_message")
_WITH_REFS = (*_WITH_IMAGES, "compaction", "branch_summary")
"""Entries whose references are followed: omp has them in ``details`` and ``preserveData`` too."""


class Trimmed(msgspec.Struct, frozen=True, gc=False):
    """The line to write, and the blobs to store before it.

    ``is_whole`` if reading the line restores everything that was in memory.
    """

    line: bytes
    blobs: Sequence[bytes] = ()
    is_whole: bool = True


def trim(data: WireEntry, dialect: Dialect) -> Trimmed:
    """Make the persisted form of an entry."""
    return _trim_line(codec.encode(data), data, dialect)


def trim_all(
    all_data: Sequence[WireEntry], dialect: Dialect
) -> tuple[bytes, Sequence[int]] | list[Trimmed]:
    """Make the persisted forms of entries; if nothing is trimmed, just their lines.

    Each of these has its newline; with them comes how long they are without.
    """
    text = codec.encode_lines(all_data)
    if text is None:
        return [trim(data, dialect) for data in all_data]
    if len(all_data) == 1:
        (data,) = all_data
        size = len(text)
        is_plain = not _has_transient(text) if size < MIN_IMAGE_LENGTH else _is_plain(data)
        if is_plain and size <= MAX_UNITS:
            return text, (size - 1,)
        return [_trim_line(text[:-1], data, dialect)]
    lengths = _measure_lines(text)
    if len(text) <= MAX_UNITS:
        looked_into: Iterable[WireEntry] = all_data
        # a search through short lines costs less than a look into objects, through long ones more
        if len(text) < MIN_IMAGE_LENGTH * len(lengths) and not _has_transient(text):
            looked_into = ()
            if max(lengths) >= MIN_IMAGE_LENGTH:
                pairs = zip(lengths, all_data, strict=True)
                looked_into = [data for length, data in pairs if length >= MIN_IMAGE_LENGTH]
        if all(map(_is_plain, looked_into)):
            return text, lengths
    lines = text.split(b"\n")
    lines.pop()
    return [_trim_line(line, data, dialect) for line, data in zip(lines, all_data, strict=True)]


def _measure_lines(text: bytes) -> list[int]:
    """How long the lines of a text are without their newlines; splitting it would copy it."""
    find, size = text.find, len(text)
    lengths: list[int] = []
    start = 0
    while start < size:
        end = find(b"\n", start)
        lengths.append(end - start)
        start = end + 1
    return lengths


def _has_transient(text: bytes) -> bool:
    """Whether a key of these, or a text that is spelled like one, is in JSON that we have made."""
    return b'"partialJson"' in text or b'"jsonlEvents"' in text


def _trim_line(line: bytes, data: WireEntry, dialect: Dialect) -> Trimmed:
    # A string has no more UTF-16 units than UTF-8 bytes, so there is none to cut in a short line.
    if len(line) <= MAX_UNITS and _is_plain(data):
        return Trimmed(line)
    trimmed: WireEntry = codec.decode(line)
    blobs: list[bytes] = []
    spilled = _trim_in_place(trimmed, dialect, blobs)
    if spilled:
        earlier = trimmed.get(SPILLED)
        trimmed[SPILLED] = {**earlier, **spilled} if isinstance(earlier, dict) else spilled
    return Trimmed(codec.encode(trimmed), blobs, is_whole=not _loses(line, spilled))


def _loses(line: bytes, spilled: dict[str, str]) -> bool:
    """Whether trimming may have removed what ``restore`` does not put back."""
    if spilled and b'"lineCount"' in line:
        return True
    return any(f'"{key}"'.encode() in line for key in _TRANSIENT)


def may_be_edited(entry: Entry, dialect: Dialect) -> bool:
    """Whether a caller may have changed an entry since it was read or written."""
    try:
        line = entry.raw() if entry.is_loaded else None
        if line is None:
            return False
        if _REF_START not in line and codec.encode(entry.data) == line:
            return False  # nearly always, and at half the price of what follows
        return entry.is_edited() and trim(entry.data, dialect).line != entry.raw()
    except Exception:
        return True  # what cannot be written was not read


def _is_plain(entry: WireEntry) -> bool:
    """Whether nothing in the entry can need trimming. True of nearly every entry.

    Values that become objects or arrays only when they are encoded count as not plain.
    """
    plain = _PLAIN_TYPES
    # of an entry with nothing but a message only that can hold anything to trim
    is_message = len(entry) == 5 and "message" in entry and "parentId" in entry
    found: list[Any] = [entry["message"] if is_message and "timestamp" in entry else entry]
    for node in found:
        if type(node) is dict:
            # key by key: a set of them costs a seventh more, and this is done for every entry
            if (
                "partialJson" in node
                or "jsonlEvents" in node
                or "image_url" in node
                or ("data" in node and _may_be_image(node["data"]))
            ):
                return False
            if not is_tracked(node):
                continue  # Python knows that it holds no object and no array
            items: Iterable[Any] = node.values()
        elif type(node) is list:
            items = node
        else:
            return False
        for item in items:
            if type(item) not in plain:
                found.append(item)  # noqa: PERF401 - a call for each node, else
    return True


def _may_be_image(data: object) -> bool:
    """Whether this value of a "data" is one that would become a blob in an image."""
    return isinstance(data, str) and len(data) >= MIN_IMAGE_LENGTH


def _trim_in_place(entry: WireEntry, dialect: Dialect, blobs: list[bytes]) -> dict[str, str]:
    spilled: dict[str, str] = {}
    externalise = dialect != "pi" and entry.get("type") in _WITH_IMAGES
    has_frames = dialect != "pi" and entry.get("type") == "compaction"
    for pointer, node, place in _walk(entry):
        kept: str | None = None
        if isinstance(node, dict):
            for key in _TRANSIENT:
                node.pop(key, None)
            if externalise or (has_frames and place == "frames"):
                _externalise(node, place, blobs)
                if place in _IMAGE_PLACES and _is_image(node, place):
                    kept = "data"  # what is still there is not base64
        if dialect != "pi":
            _cut_strings(pointer, node, blobs, spilled, kept)
    return spilled


def _walk(root: object) -> Iterator[tuple[str, Any, str]]:
    """Every object and array below ``root`` with its JSON pointer, parents first.

    The third value is the name of the array that directly contains it; "" without one.
    """
    stack: list[tuple[str, Any, str]] = [("", root, "")]
    while stack:
        pointer, node, key = stack.pop()
        yield pointer, node, key
        if isinstance(node, dict):
            for name, item in node.items():
                if isinstance(item, dict):
                    stack.append((f"{pointer}/{_escape(name)}", item, ""))
                elif isinstance(item, list):
                    stack.append((f"{pointer}/{_escape(name)}", item, name))
        elif isinstance(node, list):
            for index, item in enumerate(node):
                if isinstance(item, (dict, list)):
                    stack.append((f"{pointer}/{index}", item, key))


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _unescape(name: str) -> str:
    return name.replace("~1", "/").replace("~0", "~")


_IMAGE_PLACES = ("content", "frames")
"""Arrays whose images go to the blob store; those in ``images`` stay, since xcsh leaves them be."""


def _is_image(node: dict[str, Any], place: str) -> bool:
    """Whether this is an image, by the rules of the array that holds it.

    Blocks of content say so; in omp's other arrays the media type does.
    """
    if node.get("type") == "image":
        return True
    kind = node.get("mimeType")
    return place != "content" and isinstance(kind, str) and kind.lower().startswith("image/")


def _externalise(node: dict[str, Any], place: str, blobs: list[bytes]) -> None:
    data = node.get("data")
    if (
        place in _IMAGE_PLACES
        and _is_image(node, place)
        and isinstance(data, str)
        and _may_be_image(data)
    ):
        raw = _from_base64(data)
        if raw is not None:
            node["data"] = _ref(raw)
            blobs.append(raw)
    url = node.get("image_url")
    if isinstance(url, str) and url.startswith("data:") and len(url) >= MIN_IMAGE_LENGTH:
        raw = url.encode("utf-8", "surrogatepass")
        node["image_url"] = _ref(raw)
        blobs.append(raw)


def _from_base64(text: str) -> bytes | None:
    """The bytes, if encoding them again gives exactly this text."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode("ascii") == text else None


def _ref(raw: bytes) -> str:
    return REF_PREFIX + sha256_hex(raw)


def _cut_strings(
    pointer: str, node: Any, blobs: list[bytes], spilled: dict[str, str], kept: str | None
) -> None:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, text in list(items):
        if not isinstance(text, str) or len(text) * 2 <= MAX_UNITS:
            continue
        if key in _SIGNATURES or key == kept:
            continue
        cut = cut_text(text)
        if cut is text:
            continue
        raw = text.encode("utf-8", "surrogatepass")
        blobs.append(raw)
        spilled[f"{pointer}/{_escape(str(key))}"] = _ref(raw)
        node[key] = cut
        if key == "content" and _has_line_count(node):
            node["lineCount"] = _count_lines(cut)


def _count_lines(text: str) -> int:
    return text.count("\n") + 1


def _has_line_count(node: Any) -> bool:
    count = node.get("lineCount") if isinstance(node, dict) else None
    return isinstance(count, (int, float)) and not isinstance(count, bool)


def cut_text(text: str) -> str:
    """At most MAX_UNITS UTF-16 units, the notice included; the same object if it fits."""
    if len(text) <= MAX_UNITS and (
        len(text) * 2 <= MAX_UNITS or text.isascii() or _count_units(text) <= MAX_UNITS
    ):
        return text
    room = MAX_UNITS - len(NOTICE)
    head = text[:room]
    extra = _count_units(head) - room
    while extra > 0:  # each character beyond the BMP is two units
        head = head[: len(head) - (extra + 1) // 2]
        extra = _count_units(head) - room
    if head and "\ud800" <= head[-1] <= "\udbff":
        head = head[:-1]
    return head + NOTICE


def _count_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@dataclass(frozen=True, slots=True)
class MissingBlob:
    """A blob reference that could not be resolved, and its place in the entry."""

    ref: str
    pointer: str


@dataclass(frozen=True, slots=True)
class EditedText:
    """A cut text that was changed since, its place, and the blob of the original."""

    ref: str
    pointer: str


def restore(
    data: WireEntry,
    get_blob: Callable[[str], bytes | None],
    on_missing: Callable[[MissingBlob], object] | None = None,
    on_edited: Callable[[EditedText], object] | None = None,
) -> WireEntry:
    """Put externalised values back, in place.

    A value that is not available stays a reference, and so does a text that somebody has changed
    since it was cut.
    """

    def fetch(ref: str, pointer: str) -> bytes | None:
        raw = get_blob(ref)
        if raw is None and on_missing is not None:
            on_missing(MissingBlob(ref, pointer))
        return raw

    def fetch_text(ref: str, pointer: str) -> str | None:
        raw = fetch(ref, pointer)
        try:
            return raw.decode("utf-8", "surrogatepass") if raw is not None else None
        except UnicodeDecodeError:
            if on_missing is not None:
                on_missing(MissingBlob(ref, pointer))
            return None

    spilled = data.get(SPILLED)
    if isinstance(spilled, dict) and all(map(_is_ref, spilled.values())):
        _restore_spilled(data, spilled, fetch_text, on_edited)
    if data.get("type") in _WITH_REFS:
        for pointer, node, place in _walk(data):
            if isinstance(node, dict):
                _internalise(node, pointer, place, fetch, fetch_text)
    return data


def restore_frames(data: WireEntry, get_blob: Callable[[str], bytes | None]) -> WireEntry:
    """Also put the images of a compaction's archive back in place.

    ``restore`` leaves them: they are megabytes that only a built context needs.
    """
    if data.get("type") != "compaction":
        return data
    for _, node, place in _walk(data):
        if place == "frames" and isinstance(node, dict) and _is_ref(node.get("data")):
            raw = get_blob(node["data"])
            if raw is not None and _is_image(node, place):
                node["data"] = base64.b64encode(raw).decode("ascii")
    return data


def may_need_restore(line: bytes) -> bool:
    """Whether a line holds anything that ``restore`` would look at."""
    return _REF_START in line


def _is_ref(value: object) -> bool:
    return isinstance(value, str) and value.startswith(REF_PREFIX)


Fetch = Callable[[str, str], bytes | None]
FetchText = Callable[[str, str], str | None]


def _restore_spilled(
    data: WireEntry,
    spilled: dict[str, str],
    fetch_text: FetchText,
    on_edited: Callable[[EditedText], object] | None,
) -> None:
    kept = {}
    for pointer, ref in spilled.items():
        found = _find(data, pointer)
        text = fetch_text(ref, pointer) if found is not None else None
        if found is None or text is None:
            kept[pointer] = ref
        elif not _put_back(*found, text):
            kept[pointer] = ref
            if on_edited is not None:
                on_edited(EditedText(ref, pointer))
    if kept:
        data[SPILLED] = kept
    else:
        del data[SPILLED]


def _put_back(node: Any, key: Any, text: str) -> bool:
    """Put ``text`` in the place of its cut form; return whether that form was there."""
    cut = cut_text(text)
    if node[key] != cut:
        return False
    node[key] = text
    if key == "content" and _has_line_count(node) and node["lineCount"] == _count_lines(cut):
        node["lineCount"] = _count_lines(text)
    return True


def _find(root: Any, pointer: str) -> tuple[Any, Any] | None:
    """The container and key that a JSON pointer names, if a string stands there."""
    node: Any = root
    steps = [_unescape(step) for step in pointer.split("/")[1:]]
    if not steps:
        return None
    for depth, step in enumerate(steps):
        key: Any = step
        if isinstance(node, list):
            if not step.isdecimal() or len(step) > 9 or int(step) >= len(node):
                return None
            key = int(step)
        elif not isinstance(node, dict) or step not in node:
            return None
        if depth == len(steps) - 1:
            return (node, key) if isinstance(node[key], str) else None
        node = node[key]
    return None


def _internalise(
    node: dict[str, Any], pointer: str, place: str, fetch: Fetch, fetch_text: FetchText
) -> None:
    key = "data" if place in ("content", "images") and _is_image(node, place) else ""
    if node.get("type") == "image_generation_call":
        key = "result"
    if key and _is_ref(node.get(key)):
        raw = fetch(node[key], f"{pointer}/{key}")
        if raw is not None:
            node[key] = base64.b64encode(raw).decode("ascii")
    url = node.get("image_url")
    if _is_ref(url):
        text = fetch_text(str(url), f"{pointer}/image_url")
        if text is not None:
            node["image_url"] = text
