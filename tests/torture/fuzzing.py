"""What the coverage-guided harnesses share: a corpus to begin with, and the way they are started.

A harness is a module ``fuzz_*.py`` with a function for one input. It runs by itself, for as long
as one likes, and keeps what it learned in the corpus folder::

    python -m tests.torture.fuzz_sessions CORPUS -max_total_time=600
"""

from __future__ import annotations

import hashlib
import logging
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris
from tests.torture.cages import limit_memory


def fuzz(try_one: Callable[[bytes], None], seeds: Iterable[bytes]) -> None:
    """Try inputs until libFuzzer says that it is enough; an exception is a finding."""
    logging.disable(logging.CRITICAL)
    folders = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if folders:
        _sow(Path(folders[0]), seeds)
    # libFuzzer's own limit would count the memory of whoever started this process, too
    atheris.Setup([*sys.argv, "-rss_limit_mb=0"], try_one)
    limit_memory()
    atheris.Fuzz()


def _sow(folder: Path, seeds: Iterable[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    for seed in seeds:
        (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)


def text_of(data: bytes) -> str:
    """Any text, half surrogates among it: the input as UTF-16."""
    return data.decode("utf-16-le", "surrogatepass" if len(data) % 2 == 0 else "replace")


def scratch_folder() -> Path:
    """A folder for harnesses that need files; whoever started them removes it (``TMPDIR``)."""
    return Path(tempfile.mkdtemp(prefix="sessiontree-fuzz-"))
