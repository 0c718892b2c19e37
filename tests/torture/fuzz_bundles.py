"""Any bytes as a bundle: read to its last member or refused, with bounded memory.

An archive guards its content by checksums, which no fuzzer guesses. So an input is either an
archive as it is or, behind one byte that says so, the members of one: the archive and what its
manifest promises of them are then made here.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile

import atheris

with atheris.instrument_imports(include=["sessiontree", "zipfile"]):
    from tests.torture.hostile import Bundles

    from sessiontree.export.bundle_archive import BundleError, BundleLimits, BundleReader
    from sessiontree.export.bundle_export import import_bundle

from tests.torture.fuzzing import fuzz, scratch_folder

from sessiontree import SessionTreeError

_folder = scratch_folder()
_path = _folder / "b.zip"
os.environ["SESSIONTREE_AGENT_DIR"] = str(_folder / "agent")
_limits = BundleLimits(total_bytes=1 << 22, file_bytes=1 << 21)
_MEMBERS = 0x4D
_BETWEEN = b"\n====\n"


def try_one(data: bytes) -> None:
    _path.write_bytes(_pack(data[1:]) if data[:1] == bytes([_MEMBERS]) else data)
    try:
        with BundleReader(_path, _limits) as bundle:
            for name in bundle.manifest.members:
                assert not name.startswith("/")
                assert ".." not in name.split("/")
                size = sum(map(len, bundle.read(name)))
                assert size <= _limits.file_bytes
    except BundleError:
        return
    try:
        import_bundle(_path, limits=_limits)
    except SessionTreeError:
        pass
    shutil.rmtree(_folder / "agent", ignore_errors=True)


def _pack(data: bytes) -> bytes:
    """An archive of what stands between the marks: its manifest, then one file after the other."""
    promised, *contents = data.split(_BETWEEN)
    names: list[str] = []
    try:
        manifest = json.loads(promised)
        for listed, content in zip(manifest["files"], contents, strict=False):
            listed |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            names.append(str(listed["path"]))
        promised = json.dumps(manifest).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        names = [f"{number}" for number in range(len(contents))]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("manifest.json", promised)
        for name, content in zip(dict.fromkeys(names), contents, strict=False):
            if name and name.isprintable():
                archive.writestr(name, content)
    return packed.getvalue()


def _seeds() -> list[bytes]:
    (_folder / "make").mkdir(exist_ok=True)
    made = Bundles(_folder / "make").seeds
    with zipfile.ZipFile(io.BytesIO(made[0])) as archive:
        listed = json.loads(archive.read("manifest.json"))["files"]
        members = [archive.read("manifest.json"), *(archive.read(one["path"]) for one in listed)]
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("manifest.json", b'{"format":"sessiontree-bundle","version":1}')
    # not the whole archive itself: libFuzzer keeps one of two inputs that take the same road
    return [empty.getvalue(), bytes([_MEMBERS]) + _BETWEEN.join(members)]


if __name__ == "__main__":
    fuzz(try_one, _seeds())
