"""Handover notes without a model: requests, calls and files, taken from the conversation.

Owns reading the plain text that a summariser is shown (`core.summaries` writes it) and writing
notes of the same form. Pure. It understands nothing: it picks out requests, calls, errors and the
last answer, and carries earlier notes on.
"""

from __future__ import annotations

import re

_HEADINGS = ("Goal", "Constraints", "Progress", "Decisions", "Next steps", "Critical context")
_TURN_HEADINGS = ("Request", "Done so far", "Needed later")
_LABELS = "User|User ran|Assistant|Assistant calls|Assistant stopped|Tool error"
_LINE = re.compile(rf"^\[({_LABELS})\] (.*?)(?=^\[[A-Z][a-z ]+\] |\Z)", re.MULTILINE | re.DOTALL)
_MAX_ITEM = 200
_MAX_ITEMS = 20
_MAX_TEXT = 600


def is_summary_request(prompt: str) -> bool:
    """Whether this is a request for notes on a conversation."""
    return prompt.startswith("<conversation>\n")


def write_notes(prompt: str) -> str:
    """Notes on the conversation in the prompt, on top of the earlier notes in it if any."""
    said = _by_label(_tagged(prompt, "conversation"))
    if "## Done so far" in prompt:
        return _turn_notes(said)
    earlier = _sections(_tagged(prompt, "previous-notes"))
    requests = [_one_line(text) for text in said["User"]]
    goal = earlier.get("Goal") or (requests[0] if requests else "(not stated)")
    done = [f"- [x] {_one_line(call)}" for call in said["Assistant calls"]]
    open_request = [f"- [ ] {requests[-1]}"] if requests else []
    facts = [f"- Error: {_one_line(error)}" for error in said["Tool error"]]
    if said["Assistant"]:
        facts.append(f"- Last answer: {_one_line(said['Assistant'][-1], _MAX_TEXT)}")
    sections = {
        "Goal": goal,
        "Constraints": earlier.get("Constraints", "- (none)"),
        "Progress": _progress(earlier.get("Progress", ""), done, open_request),
        "Decisions": earlier.get("Decisions", "- (none noted: written by the offline agent)"),
        "Next steps": f"1. {requests[-1]}" if requests else earlier.get("Next steps", "1. (none)"),
        "Critical context": _merged(earlier.get("Critical context", ""), facts) or "- (none)",
    }
    return "\n\n".join(f"## {heading}\n{sections[heading]}" for heading in _HEADINGS)


def _turn_notes(said: dict[str, list[str]]) -> str:
    calls = [f"- {_one_line(call)}" for call in said["Assistant calls"][-_MAX_ITEMS:]]
    last = said["Assistant"][-1:]
    parts = (
        _one_line(said["User"][0], _MAX_TEXT) if said["User"] else "(not stated)",
        "\n".join(calls) or "- (nothing yet)",
        f"- {_one_line(last[0], _MAX_TEXT)}" if last else "- (nothing)",
    )
    pairs = zip(_TURN_HEADINGS, parts, strict=True)
    return "\n\n".join(f"## {heading}\n{text}" for heading, text in pairs)


def _progress(earlier: str, done: list[str], in_progress: list[str]) -> str:
    before = [line for line in earlier.splitlines() if line.startswith("- [x] ")]
    blocked = earlier.partition("### Blocked\n")[2].strip() or "- (none)"
    finished = _last(dict.fromkeys([*before, *done]))
    return "\n".join(
        [
            "### Done",
            *(finished or ["- (nothing noted)"]),
            "### In progress",
            *(in_progress or ["- (nothing noted)"]),
            "### Blocked",
            blocked,
        ]
    )


def _merged(earlier: str, lines: list[str]) -> str:
    before = [line for line in earlier.splitlines() if line.strip() and line != "- (none)"]
    return "\n".join(_last(dict.fromkeys([*before, *lines])))


def _last(lines: dict[str, None]) -> list[str]:
    return list(lines)[-_MAX_ITEMS:]


def _by_label(conversation: str) -> dict[str, list[str]]:
    said: dict[str, list[str]] = {label: [] for label in _LABELS.split("|")}
    for found in _LINE.finditer(conversation):
        said[found[1]].append(found[2].strip())
    return said


def _tagged(prompt: str, tag: str) -> str:
    start = prompt.find(f"<{tag}>\n")
    if start < 0:
        return ""
    start += len(tag) + 3
    end = prompt.find(f"\n</{tag}>", start)
    return prompt[start:end] if end >= 0 else ""


def _sections(notes: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for piece in re.split(r"^## ", notes, flags=re.MULTILINE)[1:]:
        heading, _, text = piece.partition("\n")
        if heading.strip() in _HEADINGS and text.strip():
            made[heading.strip()] = text.strip()
    return made


def _one_line(text: str, limit: int = _MAX_ITEM) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
