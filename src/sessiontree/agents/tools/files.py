"""``read``, ``write`` and ``edit``: files of the project as a model sees and changes them.

Owns line windows, images, matching of the text to replace, and previews for confirmation. Paths
are `ProjectFolder`'s business; nothing here opens a path by itself.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sessiontree.agents.tools.base import (
    Parameter,
    PreviewKind,
    Stop,
    ToolCall,
    ToolError,
    ToolOutcome,
    ToolSpec,
    in_thread,
)
from sessiontree.agents.tools.confinement import Fingerprint, ProjectFolder
from sessiontree.agents.tools.limits import (
    MAX_CHARACTERS,
    MAX_IMAGE_BYTES,
    MAX_LINES,
    cut_line,
)
from sessiontree.agents.tools.previews import Replacement, whole_diff

_SNIFF = 8_192
_MAX_EDITED_BYTES = 20_000_000
_MAX_PREVIEWED_BYTES = 1_000_000
_MAX_COUNTED_BYTES = 64_000_000
_BOM = "\ufeff"

_PATH = Parameter("path", "string", "Path of the file, relative to the project folder", True)


@dataclass(frozen=True, slots=True)
class ReadTool:
    """Shows a window of a text file, or an image."""

    folder: ProjectFolder

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            "read",
            f"Read a text file of the project (at most {MAX_LINES} lines or {MAX_CHARACTERS} "
            "characters at a time; use offset and limit for the rest) or an image (png, jpeg, gif, "
            "webp).",
            "read",
            (
                _PATH,
                Parameter("offset", "integer", "First line to show, from 1", minimum=1),
                Parameter("limit", "integer", "How many lines to show", minimum=1),
            ),
        )

    async def run(self, call: ToolCall) -> ToolOutcome:
        path = call.arguments["path"]
        offset = call.arguments.get("offset", 1)
        limit = min(call.arguments.get("limit", MAX_LINES), MAX_LINES)
        return await in_thread(lambda stop: self._read(stop, path, offset, limit))

    def _read(self, stop: Stop, path: str, offset: int, limit: int) -> ToolOutcome:
        with self.folder.open_file(path) as descriptor:
            start = os.pread(descriptor, _SNIFF, 0)
            if (mime := _image_type(start)) is not None:
                return _image(path, descriptor, mime)
            if b"\0" in start:
                raise ToolError(f"{path}: a binary file, which cannot be shown as text")
            return _window(_lines(descriptor, stop), path, offset, limit)


@dataclass(frozen=True, slots=True)
class WriteTool:
    """Creates or replaces a whole file."""

    folder: ProjectFolder

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            "write",
            "Create a file of the project, or replace the whole content of one. Missing folders "
            "are created. To change a part of a file use edit.",
            "write",
            (_PATH, Parameter("content", "string", "The whole content of the file", True)),
        )

    async def run(self, call: ToolCall) -> ToolOutcome:
        path, text = call.arguments["path"], call.arguments["content"]
        content = _encode(text, "content")
        now = await in_thread(lambda _: self._prepare(path, text))
        verb = "Create" if now.fingerprint is None else "Replace"
        await call.ask(
            f"{verb} {_word_place(self.folder, path, now.place)} ({len(content)} bytes)",
            now.preview,
            now.preview_kind,
            subject=now.place,
            folder=os.path.dirname(now.place),
        )
        await in_thread(lambda _: self.folder.replace(path, content, expected=now.fingerprint))
        return ToolOutcome.text(f"{verb}d {path} ({len(content)} bytes)", {"bytes": len(content)})

    def _prepare(self, path: str, text: str) -> _Now:
        """What to show, and the file that is there now, which must be the same when written."""
        place = self.folder.place(path)
        try:
            now, fingerprint = self.folder.read_bytes(path, _MAX_PREVIEWED_BYTES)
        except FileNotFoundError:
            return _Now(place, text, "content", None)
        preview, kind = whole_diff(now.decode("utf-8", "surrogateescape"), text)
        return _Now(place, preview, kind, fingerprint)


@dataclass(frozen=True, slots=True)
class _Now:
    place: str
    preview: str
    preview_kind: PreviewKind
    fingerprint: Fingerprint | None


@dataclass(frozen=True, slots=True)
class EditTool:
    """Replaces one passage of a text file."""

    folder: ProjectFolder

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            "edit",
            "Replace a passage of a text file. oldText must be in the file exactly as given, "
            "white space included, and only once unless replaceAll is true.",
            "write",
            (
                _PATH,
                Parameter("oldText", "string", "The passage as it is now", True),
                Parameter("newText", "string", "What to put in its place", True),
                Parameter("replaceAll", "boolean", "Replace every occurrence"),
            ),
        )

    async def run(self, call: ToolCall) -> ToolOutcome:
        path = call.arguments["path"]
        edit = await in_thread(lambda _: self._prepare(path, call.arguments))
        await call.ask(
            f"Edit {_word_place(self.folder, path, edit.place)} ({_occurrences(edit.count)})",
            edit.preview,
            "diff",
            subject=edit.place,
            folder=os.path.dirname(edit.place),
        )
        await in_thread(
            lambda _: self.folder.replace(path, edit.content, expected=edit.fingerprint)
        )
        return ToolOutcome.text(
            f"Edited {path} ({_occurrences(edit.count)})",
            {"diff": edit.diff, "replacements": edit.count},
        )

    def _prepare(self, path: str, arguments: Any) -> _Edit:
        content, fingerprint = self.folder.read_bytes(path, _MAX_EDITED_BYTES + 1)
        if len(content) > _MAX_EDITED_BYTES:
            raise ToolError(f"{path}: too large to edit ({fingerprint.size} bytes)")
        if b"\0" in content[:_SNIFF]:
            raise ToolError(f"{path}: a binary file, which cannot be edited as text")
        # surrogateescape: bytes that are not UTF-8 come out of the edit as they went in.
        text = content.decode("utf-8", "surrogateescape")
        old, new = arguments["oldText"], arguments["newText"]
        _encode(new, "newText")
        if not old:
            raise ToolError("edit: oldText is empty; use write to create a file")
        if "\r\n" in text and text.count("\r\n") == text.count("\n"):
            old, new = _with_crlf(old), _with_crlf(new)
        if text.startswith(_BOM) and old.startswith(_BOM) and not new.startswith(_BOM):
            new = _BOM + new
        places = list(_find_all(text, old))
        if not places:
            raise ToolError(f"{path}: oldText was not found; read the file again")
        if not arguments.get("replaceAll", False) and text.find(old, places[0] + 1) >= 0:
            raise ToolError(
                f"{path}: oldText is there more than once; give more of the text around it, or "
                "set replaceAll"
            )
        if old == new:
            raise ToolError("edit: oldText and newText are the same")
        edited = text.replace(old, new)
        replacement = Replacement(path, text, places, old, new)
        return _Edit(
            edited.encode("utf-8", "surrogateescape"),
            fingerprint,
            len(places),
            self.folder.place(path),
            replacement.whole(),
            replacement.kept(),
        )


@dataclass(frozen=True, slots=True)
class _Edit:
    content: bytes
    fingerprint: Fingerprint
    count: int
    place: str
    preview: str
    diff: str
    """The part of the preview that the session keeps."""


def _word_place(folder: ProjectFolder, path: str, place: str) -> str:
    """The path, and where it leads if links make that another place."""
    if place == os.path.normpath(os.path.join(folder.root, folder.relative(path))):
        return path
    return f"{path}, which is {os.path.relpath(place, folder.root)}"


def _occurrences(count: int) -> str:
    return "1 replacement" if count == 1 else f"{count} replacements"


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _encode(text: str, name: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(f'"{name}" holds half a character at position {error.start}') from None


def _image_type(start: bytes) -> str | None:
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def _image(path: str, descriptor: int, mime: str) -> ToolOutcome:
    size = os.fstat(descriptor).st_size
    if size > MAX_IMAGE_BYTES:
        raise ToolError(f"{path}: the image is too large ({size} of {MAX_IMAGE_BYTES} bytes)")
    data = base64.b64encode(os.pread(descriptor, MAX_IMAGE_BYTES, 0)).decode("ascii")
    return ToolOutcome(
        [
            {"type": "text", "text": f"{path} ({mime}, {size} bytes)"},
            {"type": "image", "data": data, "mimeType": mime},
        ]
    )


def _lines(descriptor: int, stop: Stop) -> Iterator[tuple[str, bool]]:
    """The file's lines without their ends, cut if very long; and whether more than lines follow.

    A file beyond the count limit ends early with ``("", True)``, so that a huge one costs bounded
    time.
    """
    rest = b""
    seen = 0
    while chunk := os.read(descriptor, 1 << 20):
        stop.check()
        seen += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield _decode_line(line), False
        if len(rest) > MAX_CHARACTERS * 8:
            # One endless line: all that a model could see of it is read.
            rest = rest[: MAX_CHARACTERS * 4]
        if seen > _MAX_COUNTED_BYTES:
            yield "", True
            return
    if rest:
        yield _decode_line(rest), False


def _decode_line(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")


def _window(lines: Iterator[tuple[str, bool]], path: str, offset: int, limit: int) -> ToolOutcome:
    shown: list[str] = []
    size = 0
    total = 0
    endless = False
    full = False
    for line, endless in lines:
        if endless:
            break
        total += 1
        if total < offset or full:
            continue
        line = cut_line(line)
        full = len(shown) == limit or size + len(line) > MAX_CHARACTERS
        if not full:
            shown.append(line)
            size += len(line) + 1
    if total < offset:
        if offset == 1:
            return ToolOutcome.text("(empty file)", {"totalLines": 0})
        raise ToolError(f"{path}: offset {offset} is beyond the end ({total} lines)")
    last = offset + len(shown) - 1
    text = "\n".join(shown)
    if last < total or endless:
        of = f"more than {total}" if endless else str(total)
        text += f"\n\n[Lines {offset}-{last} of {of}. Use offset={last + 1} to continue.]"
    return ToolOutcome.text(text, {"totalLines": total})


def _find_all(text: str, part: str) -> Iterator[int]:
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + len(part))
