"""Search a session and the files beside it for passwords and keys. Only reads.

A report names kinds and places, never the secret. ``text.secrets`` defines what a secret looks
like.
"""

from __future__ import annotations

import codecs
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from sessiontree.export.redact import Redactor
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header
from sessiontree.storage.base import SessionStorage, SessionStorageReader, read_chunks
from sessiontree.stores.files.document import SessionDocument
from sessiontree.text.secrets import find_secrets_in_pieces

_CHUNK = 1 << 18
_SHOWN = 5
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def search_entries(header: Header, entries: Iterable[Entry]) -> str | None:
    """Report the secrets in a session's header and entries; None if there are none."""
    redactor = Redactor()
    return _report(redactor.counts, _search(redactor, header, entries))


def _search(redactor: Redactor, header: Header, entries: Iterable[Entry]) -> list[str]:
    """Search for secrets; return where there are some."""
    redactor.redact_value(dict(header))
    where = ["the header"] if redactor.counts.total() else []
    found: list[str] = []
    for entry in entries:
        before = redactor.counts.total()
        redactor.redact_value(entry.decode())
        if redactor.counts.total() > before:
            found.append(redactor.redact_name(entry.id))
    return [*where, _some("entries", found)] if found else where


def search_document(document: SessionDocument) -> str | None:
    """Report a session's secrets by header, entry and damaged line; None if there are none."""
    redactor = Redactor()
    where = _search(redactor, document.header, document.tree.entries)
    lines: list[str] = []
    for text in document.skipped:
        end = text.offset + text.length
        pieces = _decode(document.payloads.reader, text.offset, end)
        kinds = [secret.kind for _, secret in find_secrets_in_pieces(pieces)]
        redactor.counts.update(kinds)
        if kinds:
            lines.append(str(text.line))
    if lines:
        where.append(_some("damaged lines" if len(lines) > 1 else "damaged line", lines))
    return _report(redactor.counts, where)


def search_file(storage: SessionStorage, path: str) -> str | None:
    """Report the secrets of a file of any kind and size by line; None if there are none.

    Raises OSError if the file can't be read or is not a regular file.
    """
    counts: Counter[str] = Counter()
    lines: dict[int, None] = {}
    with contextlib.closing(storage.open_reader(path)) as reader:
        for line, secret in find_secrets_in_pieces(_decode(reader, 0, reader.stat().size)):
            counts[secret.kind] += 1
            if len(lines) <= _SHOWN:
                lines.setdefault(line)
    named = [str(line) for line in lines]
    return _report(counts, [_some("lines" if len(lines) > 1 else "line", named)])


def search_name(folder: str, path: str) -> tuple[str, str | None]:
    """Return a file's path with its secrets replaced, and a report of them (None without any)."""
    redactor = Redactor()
    shown = os.path.join(folder, redactor.redact_path(os.path.relpath(path, folder)))
    return shown, _report(redactor.counts, ["its name"])


def find_regular_files(
    folder: str,
    on_other: Callable[[str], object],
    on_error: Callable[[str, OSError], object],
) -> Iterator[str]:
    """Yield all regular files below a folder, sorted; a missing folder is empty.

    No link is followed, not even the folder itself: it may lead anywhere. ``on_other`` receives
    links, pipes and devices, ``on_error`` the folders that can't be read.
    """
    if os.path.islink(folder):
        on_other(folder)
        return
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as listing:
                items = sorted(listing, key=lambda item: item.name)
            folders = [item.path for item in items if item.is_dir(follow_symlinks=False)]
            files = [item.path for item in items if item.is_file(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            on_error(current, error)
            continue
        yield from files
        known = {*folders, *files}
        for item in items:
            if item.path not in known:
                on_other(item.path)
        waiting += reversed(folders)


def _decode(reader: SessionStorageReader, start: int, end: int) -> Iterator[str]:
    """Decode UTF-8, or UTF-16 after a byte order mark; invalid bytes become U+FFFD."""
    is_wide = reader.read_at(start, 2) in _UTF_16
    decoder = codecs.getincrementaldecoder("utf-16" if is_wide else "utf-8")("replace")
    for chunk in read_chunks(reader, start, end, _CHUNK):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _some(noun: str, names: Iterable[str]) -> str:
    shown = list(names)
    return f"{noun} {', '.join(shown[:_SHOWN])}" + (", …" if len(shown) > _SHOWN else "")


def _report(counts: Counter[str], where: list[str]) -> str | None:
    if not counts:
        return None
    kinds = ", ".join(f"{kind} ({count})" for kind, count in counts.most_common())
    return f"{kinds}; in {' and '.join(where)}"
