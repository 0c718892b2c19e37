"""Define the bundle's archive format, and read an untrusted one. Writes nothing.

``BundleReader`` trusts nothing in the archive. It checks in this order, so that a hostile file
can exhaust neither memory nor disk:

1. the size of the zip directory, before Python's reader loads it into memory;
2. every name, kind and declared size, before unpacking anything;
3. size and hash of each member against the manifest, while unpacking it.

The check of a member ends with its last byte, so a caller must not use content before ``read`` has
finished.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from sessiontree.errors import SessionTreeError
from sessiontree.model import codec
from sessiontree.storage.regular import open_for_reading

FORMAT = "sessiontree-bundle"
VERSION = 1
MANIFEST = "manifest.json"
SESSION = "session.jsonl"
BLOBS = "blobs/"
ARTIFACTS = "artifacts/"

_BLOB_NAME = re.compile(r"blobs/[0-9a-f]{64}")
_HASH = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 18
_TAIL_BYTES = (1 << 16) + 22 + 76
_MAX_MANIFEST = 16 << 20
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,  # from a seek to a negative offset that the archive gives
    OverflowError,
    RuntimeError,
    ValueError,
)
"""Exceptions that Python's reader raises on invalid archives."""
_METHODS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
_ENCRYPTED = 0x1
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


class BundleError(SessionTreeError):
    """A bundle that can't be made, or an archive that is not a valid bundle."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        super().__init__(f"{self.path}: {reason}")


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """Limits on an archive.

    ``ratio`` limits unpacked size divided by packed size, and applies only above
    ``ratio_free_bytes``: text compresses well, but not a thousandfold.
    """

    files: int = 20_000
    total_bytes: int = 4 << 30
    file_bytes: int = 2 << 30
    ratio: int = 500
    ratio_free_bytes: int = 16 << 20
    directory_bytes: int = 8 << 20
    name_length: int = 512
    depth: int = 32


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a bundle."""

    name: str
    size: int
    sha256: str

    def to_wire(self) -> dict[str, Any]:
        return {"path": self.name, "size": self.size, "sha256": self.sha256}


@dataclass(slots=True)
class BundleReport:
    """The content of a bundle, or the result of importing it."""

    bundle: str
    session_path: str
    session_id: str
    blobs: int = 0
    artifacts: int = 0
    is_new: bool = True
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Manifest:
    """The bundle's description of itself: session, creation time, and members."""

    session: dict[str, Any] = field(default_factory=dict)
    created: str = ""
    members: dict[str, Member] = field(default_factory=dict)

    def encode(self) -> bytes:
        return codec.encode(
            {
                "format": FORMAT,
                "version": VERSION,
                "created": self.created,
                "session": self.session,
                "files": [member.to_wire() for member in self.members.values()],
            }
        )


class BundleReader:
    """An opened bundle with a checked directory and manifest. Also a context manager."""

    def __init__(self, path: str | os.PathLike[str], limits: BundleLimits | None = None) -> None:
        self.path = os.fspath(path)
        self._limits = limits or BundleLimits()
        # Opened once, so that the file can't be exchanged between check and use.
        self._file = open_for_reading(self.path)
        try:
            self._measure()
            self._archive = self._open()
            self._infos = self._check_directory()
            self.manifest = self._read_manifest()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()
        self._file.close()

    def read(self, name: str) -> Iterator[bytes]:
        """Yield a member's content in pieces; BundleError if it does not match the manifest.

        The error may come after the last piece, so don't use any before the end.
        """
        member = self.manifest.members[name]
        hasher = hashlib.sha256()
        for chunk in self._unpack(self._infos[name], member.size):
            hasher.update(chunk)
            yield chunk
        if hasher.hexdigest() != member.sha256:
            raise self._error(name, "does not have the content that the manifest promises")

    def _error(self, name: str, reason: str) -> BundleError:
        return BundleError(self.path, f"{_shown(name)} {reason}")

    # -- before the archive is opened ------------------------------------------------------

    def _measure(self) -> None:
        """Check the size of the zip directory: opening the archive loads it into memory."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, size - _TAIL_BYTES))
        tail = self._file.read(_TAIL_BYTES)
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + 22 > len(tail):
            raise BundleError(self.path, "not a zip archive")
        count, directory = struct.unpack("<HL", tail[at + 10 : at + 16])
        if tail[max(0, at - 20) : at].startswith(b"PK\x06\x07"):
            # ZIP64: the larger record right before this one replaces it.
            large = tail[max(0, at - 76) : at - 20]
            if not large.startswith(b"PK\x06\x06"):
                raise BundleError(self.path, "not a zip archive")
            count, directory = struct.unpack("<QQ", large[32:48])
        if count > self._limits.files:
            raise BundleError(self.path, f"holds more than {self._limits.files} files")
        if directory > self._limits.directory_bytes:
            raise BundleError(self.path, "has too large a directory")

    def _open(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self._file)
        except _BROKEN as error:
            raise BundleError(self.path, f"not a zip archive ({_shown(str(error))})") from None

    # -- before any content is read --------------------------------------------------------

    def _check_directory(self) -> dict[str, zipfile.ZipInfo]:
        listed = self._archive.infolist()
        limits = self._limits
        if len(listed) > limits.files:
            raise BundleError(self.path, f"holds more than {limits.files} files")
        found: dict[str, zipfile.ZipInfo] = {}
        folded: set[str] = set()
        packed = unpacked = 0
        for info in listed:
            # The name as stored: ``filename`` is cut at a NUL.
            name = info.orig_filename
            self._check_name(name)
            if fold(name) in folded:
                raise self._error(name, "is in the archive twice")
            folded.add(fold(name))
            self._check_kind(info, name)
            packed += info.compress_size
            unpacked += info.file_size
            found[name] = info
        if unpacked > limits.total_bytes:
            raise BundleError(self.path, f"unpacks to more than {limits.total_bytes} bytes")
        if unpacked > limits.ratio_free_bytes and unpacked > packed * limits.ratio:
            raise BundleError(self.path, "is packed too tightly to be a session")
        for name in folded:
            parts = name.split("/")
            for depth in range(1, len(parts)):
                if "/".join(parts[:depth]) in folded:
                    raise self._error(name, "lies in what is a file")
        return found

    def _check_name(self, name: str) -> None:
        if not is_safe_name(name, self._limits):
            raise self._error(name, "is not a safe name")
        is_known = (
            name in (MANIFEST, SESSION)
            or _BLOB_NAME.fullmatch(name) is not None
            or name.startswith(ARTIFACTS)
        )
        if not is_known:
            raise self._error(name, "does not belong in a bundle")

    def _check_kind(self, info: zipfile.ZipInfo, name: str) -> None:
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or info.is_dir():
            raise self._error(name, "is not a plain file")
        if info.flag_bits & _ENCRYPTED:
            raise self._error(name, "is encrypted")
        if info.compress_type not in _METHODS:
            raise self._error(name, "is packed in an unknown way")
        if info.file_size > self._limits.file_bytes:
            raise self._error(name, f"unpacks to more than {self._limits.file_bytes} bytes")

    # -- content ---------------------------------------------------------------------------

    def _unpack(self, info: zipfile.ZipInfo, size: int) -> Iterator[bytes]:
        name = info.orig_filename
        count = 0
        try:
            with self._archive.open(info) as file:
                while chunk := file.read(_CHUNK):
                    count += len(chunk)
                    if count > size:
                        break
                    yield chunk
        except _BROKEN as error:
            raise self._error(name, f"cannot be unpacked ({_shown(str(error))})") from None
        if count != size:
            raise self._error(name, "does not have the size it should have")

    def _read_manifest(self) -> Manifest:
        info = self._infos.get(MANIFEST)
        if info is None:
            raise BundleError(self.path, "not a bundle: it has no manifest")
        if info.file_size > _MAX_MANIFEST:
            raise self._error(MANIFEST, "is too large")
        try:
            wire = codec.decode(b"".join(self._unpack(info, info.file_size)))
        except ValueError:
            wire = None
        if not isinstance(wire, dict) or wire.get("format") != FORMAT:
            raise self._error(MANIFEST, "is not that of a bundle")
        if wire.get("version") != VERSION:
            raise BundleError(self.path, "is a bundle of a version this program does not know")
        session = wire.get("session")
        manifest = Manifest(session if isinstance(session, dict) else {})
        for item in wire["files"] if isinstance(wire.get("files"), list) else []:
            member = _read_member(item)
            if member is None or member.name in manifest.members:
                raise self._error(MANIFEST, "lists its files wrongly")
            manifest.members[member.name] = member
        self._check_members(manifest)
        return manifest

    def _check_members(self, manifest: Manifest) -> None:
        if SESSION not in manifest.members:
            raise BundleError(self.path, "holds no session")
        for name in self._infos.keys() ^ (manifest.members.keys() | {MANIFEST}):
            missing = name not in self._infos
            raise self._error(name, "is missing" if missing else "is not in the manifest")
        for name, member in manifest.members.items():
            if self._infos[name].file_size != member.size:
                raise self._error(name, "does not have the size it should have")
            if _BLOB_NAME.fullmatch(name) and name != BLOBS + member.sha256:
                raise self._error(name, "is not named after its content")


def is_safe_name(name: str, limits: BundleLimits) -> bool:
    """Whether a path is relative, goes down only, and means the same on every system."""
    parts = name.split("/")
    return (
        0 < len(name) <= limits.name_length
        and len(parts) <= limits.depth
        and name.isprintable()
        and not any(char in name for char in '\\:*?"<>|')
        and not any(part in ("", ".", "..") or part[-1] in " ." for part in parts)
        and not any(_RESERVED.fullmatch(part) for part in parts)
        and not any(len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts)
    )


def fold(name: str) -> str:
    """Return the same text for names that some file systems treat as one."""
    return unicodedata.normalize("NFC", name).casefold()


def _read_member(item: object) -> Member | None:
    if not isinstance(item, dict):
        return None
    name, size, digest = item.get("path"), item.get("size"), item.get("sha256")
    if not isinstance(name, str) or not isinstance(digest, str) or not _HASH.fullmatch(digest):
        return None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return None
    return Member(name, size, digest)


def _shown(name: str) -> str:
    """Return a name from an archive as one line that is safe on a terminal."""
    return repr(name if len(name) <= 80 else name[:79] + "…")
