"""Any bytes as a bundle: read to its last member or refused, with bounded memory."""

from __future__ import annotations

import io
import zipfile

import atheris

with atheris.instrument_imports(include=["sessiontree", "zipfile"]):
    from tests.torture.hostile import Bundles

    from sessiontree.export.archive import BundleError, BundleLimits, BundleReader

from tests.torture.fuzzing import fuzz, scratch_folder

_folder = scratch_folder()
_path = _folder / "b.zip"
_limits = BundleLimits(total_bytes=1 << 22, file_bytes=1 << 21)


def try_one(data: bytes) -> None:
    _path.write_bytes(data)
    try:
        with BundleReader(_path, _limits) as bundle:
            for name in bundle.manifest.members:
                assert not name.startswith("/")
                assert ".." not in name.split("/")
                size = sum(map(len, bundle.read(name)))
                assert size <= _limits.file_bytes
    except BundleError:
        pass


def _seeds() -> list[bytes]:
    (_folder / "make").mkdir(exist_ok=True)
    made = Bundles(_folder / "make").seeds
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("manifest.json", b'{"format":"sessiontree-bundle","version":1}')
    return [*made, empty.getvalue()]


if __name__ == "__main__":
    fuzz(try_one, _seeds())
