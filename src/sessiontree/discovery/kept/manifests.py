"""Manifests of kept files: owner, name, time, and the chunks of the content."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from sessiontree.discovery.catalogue.freshness import Stamp
from sessiontree.storage.base import FileStat

Kind = Literal["session", "part", "file", "gone"]
"""A session's own file, a part of one (a subagent's transcript), a file that belongs to one, or
the note that a path is not kept any more."""


class Manifest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One version of one file. Paths are bytes, because a file's name may be no text."""

    agent: str
    path: bytes
    kind: Kind
    kept_ms: int
    stamp: Stamp | None = None
    """The file's size and times when it was read, and a checksum to tell whether it only grew."""
    owner: bytes = b""
    """The path of the session that a part or a file belongs to."""
    chunks: list[bytes] = []
    """The hashes of its content, in order."""
    lengths: list[int] = []
    is_rewritten: bool = False
    """Whether it does not begin with what the version before it held."""

    @property
    def name(self) -> str:
        return os.fsdecode(self.path)

    @property
    def size(self) -> int:
        return sum(self.lengths)

    @property
    def stat(self) -> FileStat:
        """The original's stat, as a listing gave it."""
        stamp = self.stamp
        if stamp is None:
            return FileStat(self.name, self.size, self.kept_ms * 1_000_000, 0)
        times = (stamp.mtime_ns, stamp.inode, stamp.device, stamp.ctime_ns)
        return FileStat(self.name, stamp.size, *times)


encode_manifest = msgspec.json.Encoder().encode
decode_manifest = msgspec.json.Decoder(Manifest).decode
"""JSON in the packs, so that they can be read without this program."""
