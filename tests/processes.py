"""Real processes for tests: run a piece of Python elsewhere, kill it, or take its rights away."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import sessiontree

# The interpreter and this package may lie where only root may read: import first, drop then.
DROP_RIGHTS = """
import os, traceback
import sessiontree.session.manager, sessiontree.discovery.resume, sessiontree.discovery.listing
from sessiontree import *
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""
SOURCE = Path(sessiontree.__file__).parents[1]


def start(code: str, *arguments: object, unprivileged: bool = False) -> subprocess.Popen[str]:
    """A Python process that runs ``code`` with these arguments in ``sys.argv[1:]``.

    ``unprivileged`` takes root's rights away, since nothing is forbidden to root.
    """
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{SOURCE.parent}"}
    return subprocess.Popen(
        [sys.executable, "-c", DROP_RIGHTS + code if unprivileged else code]
        + [os.fspath(item) if isinstance(item, Path) else str(item) for item in arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def run(code: str, *arguments: object, unprivileged: bool = False, timeout_s: float = 60) -> str:
    """What ``code`` printed; a failure is the test's."""
    process = start(code, *arguments, unprivileged=unprivileged)
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 0, errors
    return output


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    """Read what a process prints up to this line."""
    assert process.stdout is not None
    for printed in process.stdout:
        if printed.rstrip("\n") == line:
            return
    process.wait()
    assert process.stderr is not None
    raise AssertionError(f"it ended without saying {line!r}: {process.stderr.read()}")


def make_open_folder() -> Path:
    """A folder that everybody may enter; pytest's own are closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="sessiontree-test-"))
    folder.chmod(0o777)
    return folder
