"""Ask about each likely secret before redacting it: ``export --redact --review``."""

from __future__ import annotations

import sys

from sessiontree.cli import output
from sessiontree.export.redact import Finding

_CONTEXT = 60
_HELP = "r redact · k keep · a redact all of this kind · o keep all of this kind · q stop"


class Review:
    """Shows a finding in its context and asks; remembers the answer for a whole kind.

    Enter redacts. The end of the input stops the export: nothing is written then.
    """

    def __init__(self) -> None:
        self._by_kind: dict[str, bool] = {}
        self._count = 0

    def __call__(self, finding: Finding) -> bool:
        """Whether to redact it."""
        if finding.kind in self._by_kind:
            return self._by_kind[finding.kind]
        self._count += 1
        if self._count == 1:
            output.write_message((_HELP, "dim"))
        output.write_message(
            (f"{self._count}. {finding.kind}  ", "bold"),
            (_ending(finding.before), "dim"),
            (finding.value, "red bold"),
            (_beginning(finding.after), "dim"),
        )
        while True:
            match _read():
                case "" | "r":
                    return True
                case "k":
                    return False
                case "a" | "o" as answer:
                    self._by_kind[finding.kind] = answer == "a"
                    return self._by_kind[finding.kind]
                case "q" | None:
                    output.fail("Stopped: nothing was written")
                case _:
                    output.write_message((_HELP, "dim"))


def _read() -> str | None:
    """What was typed, in lower case; None at the end of the input."""
    output.write_prompt("   [r]edact? ")
    try:
        answer = sys.stdin.readline()
    except (OSError, UnicodeDecodeError):
        return None
    return answer.strip().casefold() if answer else None


def _ending(text: str) -> str:
    line = text.rpartition("\n")[2]
    return line if len(line) <= _CONTEXT else f"…{line[-_CONTEXT:]}"


def _beginning(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _CONTEXT else f"{line[:_CONTEXT]}…"
