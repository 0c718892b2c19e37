"""Make the compacted history in omp's compaction entries readable for any model.

The ``summary`` of such an entry is only a lead-in. The history itself is in ``preserveData``:

- ``snapcompact``: an archive. Its oldest and newest parts are text, the middle is text drawn on
  images (frames). Newer archives also hold the text of all of it.
- ``openaiRemoteCompaction``: the items that the provider's own compaction returned. Messages and
  calls among them are readable; encrypted items only by that provider.
- ``anthropicCompaction``: the summary that the provider wrote, as text.

Pure. Frames that are in the blob store are read with ``fetch``, the newest first, until a request
would carry too much: they can be megabytes each.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sessiontree.core.summaries import message_text
from sessiontree.model import codec
from sessiontree.model.entries import WireEntry
from sessiontree.model.messages import WireMessage, as_text

Block = dict[str, Any]
Fetch = Callable[[str], bytes | None]

MAX_FRAME_DATA = 3_000_000
"""Characters of base64 that the frames of one request may have, as in omp."""

_REF_PREFIX = "blob:sha256:"
_NEWLINE = "\u2588"
"""What a frame prints in place of a line break."""
_INK = str.maketrans("", "", "\x0e\x0f")
"""Without the marks that turn dim ink on and off."""


def no_blobs(_ref: str) -> bytes | None:
    """A ``Fetch`` for entries that have no blob store."""
    return None


def has_history(compaction: WireEntry) -> bool:
    """Whether the entry holds history besides its summary."""
    return _archive_of(compaction) is not None or _remote_of(compaction) is not None


def history_blocks(
    compaction: WireEntry, fetch: Fetch = no_blobs, known: Iterable[str] = ()
) -> list[Block]:
    """Return the history as text and image blocks, oldest first; empty without any.

    ``known`` are texts of messages that follow in the context anyway; they are not repeated.
    """
    archive = _archive_of(compaction)
    if archive is not None:
        return _archive_blocks(archive, fetch)
    remote = _remote_of(compaction)
    return _remote_blocks(*remote, set(known)) if remote is not None else []


def history_text(compaction: WireEntry) -> str:
    """Return all of the history that exists as text; "" without any."""
    archive = _archive_of(compaction)
    if archive is not None:
        whole = as_text(archive.get("text"))
        ends = [as_text(archive.get("textHead")), as_text(archive.get("textTail"))]
        return _plain(whole or _NEWLINE.join(filter(None, ends)))
    remote = _remote_of(compaction)
    if remote is None:
        return ""
    blocks = _remote_blocks(*remote, set())
    return "\n\n".join(block["text"] for block in blocks if block["type"] == "text")


def summary_text(compaction: WireEntry) -> str:
    """Return the summary, or the provider's if the entry has none."""
    summary = as_text(compaction.get("summary"))
    if summary:
        return summary
    native = _record(_preserved(compaction).get("anthropicCompaction"))
    parts = [as_text(native.get("content")), as_text(native.get("filesText"))]
    return "\n\n".join(filter(None, parts))


# --- snapcompact archives -----------------------------------------------------------------------


def _archive_of(compaction: WireEntry) -> Mapping[str, Any] | None:
    archive = _record(_preserved(compaction).get("snapcompact"))
    texts = (archive.get(key) for key in ("text", "textHead", "textTail"))
    return archive if _frames(archive) or any(map(as_text, texts)) else None


def _frames(archive: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    frames = archive.get("frames")
    return [
        frame
        for frame in (frames if isinstance(frames, list) else ())
        if isinstance(frame, dict)
        and as_text(frame.get("data"))
        and isinstance(frame.get("mimeType"), str)
        and all(_is_number(frame.get(key)) for key in ("cols", "rows", "chars"))
    ]


def _archive_blocks(archive: Mapping[str, Any], fetch: Fetch) -> list[Block]:
    """Return text, images, text, with notes in place of missing images."""
    middle = list(_middle_blocks(archive, fetch))
    has_images = any(block["type"] == "image" for block in middle)
    has_gaps = any(block["type"] == "text" for block in middle)
    blocks: list[Block] = []
    head, tail = as_text(archive.get("textHead")), as_text(archive.get("textTail"))
    if head:
        suffix = "\n-------------- imaged middle below\n" if has_images else ""
        blocks.append(_text(_plain(head) + suffix))
    blocks += middle
    if tail:
        prefix = ""
        if has_images:
            prefix = "-------------- imaged middle above\n"
        elif has_gaps or _is_positive(archive.get("truncatedChars")):
            prefix = "\n-------------- middle history omitted above\n"
        if blocks and blocks[-1]["type"] == "text":
            blocks[-1] = _text(blocks[-1]["text"] + prefix + _plain(tail))
        else:
            blocks.append(_text(prefix + _plain(tail)))
    if not blocks:
        # an archive that has lost its frames, but not what was on them
        blocks.append(_text(_plain(as_text(archive.get("text")))))
    return blocks


def _middle_blocks(archive: Mapping[str, Any], fetch: Fetch) -> Iterator[Block]:
    gap = 0
    reason = ""
    pages = _page_texts(archive)
    for (frame, data, why), page in zip(_load_frames(archive, fetch), pages, strict=True):
        if gap and why != reason:
            yield _text(_gap_notice(gap, reason))
            gap = 0
        if data is None:
            gap, reason = gap + 1, why
            continue
        block: Block = {"type": "image", "data": data, "mimeType": frame["mimeType"]}
        if frame.get("detail"):
            block["detail"] = frame["detail"]
        if page:
            block["alt"] = page
        yield block
    if gap:
        yield _text(_gap_notice(gap, reason))


def _load_frames(
    archive: Mapping[str, Any], fetch: Fetch
) -> list[tuple[Mapping[str, Any], str | None, str]]:
    """Each frame with its base64, or with None and the reason. The newest ones fit first."""
    loaded: list[tuple[Mapping[str, Any], str | None, str]] = []
    room = MAX_FRAME_DATA
    for frame in reversed(_frames(archive)):
        data: str | None = frame["data"]
        if data is not None and data.startswith(_REF_PREFIX):
            raw = fetch(data)
            data = base64.b64encode(raw).decode("ascii") if raw is not None else None
        if data is None:
            loaded.append((frame, None, "unavailable"))
        elif len(data) > room:
            loaded.append((frame, None, "too large for one request"))
        else:
            room -= len(data)
            loaded.append((frame, data, ""))
    loaded.reverse()
    return loaded


def _gap_notice(count: int, reason: str) -> str:
    frames = "1 archived image frame" if count == 1 else f"{count:,} archived image frames"
    return f"-------------- {frames} {reason} --------------"


def _page_texts(archive: Mapping[str, Any]) -> list[str]:
    """Return the text on each frame, for models without vision; "" where it is unknown.

    The text of the archive without its two ends, cut as the frames count their characters.
    """
    frames = _frames(archive)
    whole = as_text(archive.get("text"))
    head, tail = as_text(archive.get("textHead")), as_text(archive.get("textTail"))
    if not whole.startswith(head) or not whole[len(head) :].endswith(tail):
        return [""] * len(frames)
    middle = whole[len(head) : len(whole) - len(tail)]
    texts: list[str] = []
    for number, frame in enumerate(frames):
        size = len(middle) if number == len(frames) - 1 else max(0, int(frame["chars"]))
        texts.append(_plain(middle[:size]))
        middle = middle[size:]
    return texts


def _plain(text: str) -> str:
    return text.translate(_INK).replace(_NEWLINE, "\n")


# --- histories that a provider gave back --------------------------------------------------------


def _remote_of(compaction: WireEntry) -> tuple[str, list[Mapping[str, Any]]] | None:
    remote = _record(_preserved(compaction).get("openaiRemoteCompaction"))
    provider, items = as_text(remote.get("provider")), remote.get("replacementHistory")
    if not provider or not isinstance(items, list):
        return None
    return (provider, items) if all(isinstance(item, dict) for item in items) else None


def _remote_blocks(
    provider: str, items: Iterable[Mapping[str, Any]], known: set[str]
) -> list[Block]:
    texts: list[str] = []
    images: list[Block] = []
    is_partial = False
    for item in items:
        message = _message_of(item)
        if message is None:
            is_partial |= bool(item.get("encrypted_content"))
            continue
        text = message_text(message)
        if text and not _is_known(message, known):
            texts.append(text)
            images += _images(message)
    if is_partial:
        texts.insert(
            0, f"[Part of this history was compacted into a form that only {provider} reads]"
        )
    return [*([_text("\n\n".join(texts))] if texts else []), *images]


def _message_of(item: Mapping[str, Any]) -> WireMessage | None:
    """Convert an item of the Responses API to a message; None without readable content."""
    match item.get("type"):
        case "message" | None if isinstance(item.get("role"), str):
            role = "assistant" if item["role"] == "assistant" else "user"
            return {"role": role, "content": _content_of(item.get("content"))}
        case "function_call" | "custom_tool_call":
            arguments = _arguments(item.get("arguments", item.get("input")))
            call = {"type": "toolCall", "name": item.get("name"), "arguments": arguments}
            return {"role": "assistant", "content": [call]}
        case "function_call_output" | "custom_tool_call_output":
            return {"role": "toolResult", "content": _content_of(item.get("output"))}
        case "reasoning":
            parts = item.get("summary")
            thoughts = "\n".join(_part_texts(parts if isinstance(parts, list) else []))
            if not thoughts:
                return None
            return {"role": "assistant", "content": [{"type": "thinking", "thinking": thoughts}]}
        case _:
            return None


def _arguments(value: object) -> object:
    """The arguments of a call, decoded from JSON in a string; if that fails, the string itself."""
    try:
        return codec.decode(value.encode("utf-8")) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _content_of(content: object) -> str | list[Block]:
    if not isinstance(content, list):
        return as_text(content)
    blocks: list[Block] = []
    for part in content:
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("text"), str):
            blocks.append(_text(part["text"]))
        elif part.get("type") == "input_image":
            image = _image_of(as_text(part.get("image_url")))
            if image is not None:
                blocks.append(image)
    return blocks


def _part_texts(parts: Iterable[object]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def _image_of(url: str) -> Block | None:
    kind, mark, data = url.partition(";base64,")
    if not mark or not kind.startswith("data:image/"):
        return None
    return {"type": "image", "data": data, "mimeType": kind.removeprefix("data:")}


def _images(message: WireMessage) -> list[Block]:
    content = message["content"]
    return [block for block in content if block["type"] == "image"] if _is_list(content) else []


def _is_known(message: WireMessage, known: set[str]) -> bool:
    content = message["content"]
    text = content if isinstance(content, str) else "\n".join(_part_texts(content))
    return message["role"] != "toolResult" and text in known


# --- values -------------------------------------------------------------------------------------


def _preserved(compaction: WireEntry) -> Mapping[str, Any]:
    return _record(compaction.get("preserveData"))


def _record(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive(value: object) -> bool:
    return _is_number(value) and value > 0  # type: ignore[operator]


def _text(text: str) -> Block:
    return {"type": "text", "text": text}
