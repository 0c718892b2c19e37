"""Run pip, and show in a line which package it is at: ``install.py WHAT-FOR PIP-ARGUMENT…``.

On a terminal the line changes in place; elsewhere there is one line a package. What pip complains
of is printed if it fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time

_STEP = re.compile(
    r"(Collecting|Downloading|Using cached|Building|Installing collected)\b[^A-Za-z0-9]*(\S*)"
)


def main(what: str, arguments: list[str]) -> int:
    """Install, and return pip's exit code."""
    command = [sys.executable, "-m", "pip", "install", "--progress-bar", "off", *arguments]
    begun = time.monotonic()
    said: list[str] = []
    seen: set[str] = set()
    if sys.stderr.isatty():
        sys.stderr.write(f"{what}: starting pip")
        sys.stderr.flush()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            found = _STEP.match(line.strip())
            if found is not None:
                _show(what, found[1], found[2], seen)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if pip.returncode:
        sys.stderr.writelines(said[-30:])
        return pip.returncode
    print(f"{what}: ready after {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return 0


def _show(what: str, verb: str, subject: str, seen: set[str]) -> None:
    name = re.split(r"[<>=!~\[;(]", subject)[0]
    if verb == "Collecting":
        if name in seen:
            return
        seen.add(name)
    if verb == "Installing collected":
        line = f"{what}: unpacking {len(seen)} packages"
    else:
        line = f"{what}: {len(seen)} packages so far · {verb.lower()} {name}"
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r\x1b[K{line[: columns - 1]}")
        sys.stderr.flush()
    elif verb == "Installing collected":
        print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
